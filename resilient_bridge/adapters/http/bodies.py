"""HTTP bodies: those that can be sent once, inspected bodies of errors, and a bound on the size.

Rule: a later reader of a response gets every byte of it, as if it had not been inspected. What is
read to decide is bounded, as received and decoded; what the user reads is bounded by `max_body`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, Final

from ...failure import BridgeError, Failure, error_for
from .decoding import Decoding, decoded


LOOK: Final = 65_536  # bytes of an error's body that are read to learn what it means
MOST_DECODED: Final = 1_000_000  # bytes that these may have when decoded
READ_ONCE: Final = "a part of its body was sent, and that can be read only once: pass bytes instead"
"""Why no attempt follows one that has read a body of `once`."""

_SAYS_MORE: Final = frozenset({400, 401, 403, 404, 408, 409, 429, 500, 502, 503, 504, 529})


def tells(response: Any) -> bool:
    """Return whether the body can change what the status means: JSON of an ambiguous status."""
    return response.status_code in _SAYS_MORE and "json" in response.headers.get("content-type", "")


def peek(response: Any) -> None:
    """Read the beginning of an error's body into `extensions["rb.body"]`, for `classify`."""
    if tells(response):
        look(response)


async def peek_async(response: Any) -> None:
    if tells(response):
        await look_async(response)


def look(response: Any) -> bytes:
    """Read the beginning of a body that is not read yet, and return it decoded.

    Empty for a compressed body that is broken or too large.
    """
    parts: list[bytes] = []
    size, rest, broken = 0, iter(response.stream), None
    try:
        for part in rest:
            parts.append(part)
            size += len(part)
            if size >= LOOK:
                break
    except Exception as error:  # noqa: BLE001 -- the status is valid; the body's reader gets the error
        broken = error
    except BaseException:
        response.close()
        raise
    response.stream = _body(response, parts, rest, broken=broken)
    return _keep(response, parts)


async def look_async(response: Any) -> bytes:
    parts: list[bytes] = []
    size, rest, broken = 0, aiter(response.stream), None
    try:
        async for part in rest:
            parts.append(part)
            size += len(part)
            if size >= LOOK:
                break
    except Exception as error:  # noqa: BLE001 -- as above
        broken = error
    except BaseException:
        await response.aclose()
        raise
    response.stream = _body(response, parts, rest, broken=broken)
    return _keep(response, parts)


def _keep(response: Any, parts: list[bytes]) -> bytes:
    # None for a compressed body that is broken or too large when decoded: then `classify` uses the
    # status alone.
    body = decoded(
        response.headers.get("content-encoding", "identity"), b"".join(parts), MOST_DECODED
    )
    if body is not None:
        response.extensions["rb.body"] = body
    return body or b""


def bounded(
    response: Any, most: int, request: Any, add_base: Callable[[BridgeError, Any], None]
) -> None:
    """Limit a response's body to `most` bytes, received and decoded.

    Reading more raises PROTO_MESSAGE_TOO_BIG.
    """
    decoding = Decoding(response.headers.get("content-encoding", ""))
    response.stream = _body(response, [], None, bound=_Bound(most, request, add_base, decoding))


def watch_body(response: Any, tell: Callable[[Exception], None]) -> None:
    """Have `tell` called with the error of a body that breaks while it is read."""
    response.stream = _stream_class(_Watched, type(response).__module__)(response.stream, tell)


def hold_body(response: Any, release: Callable[[], None]) -> None:
    """Have `release` called when the body of a response is closed, as it is once it has been read."""
    response.stream = _stream_class(_Held, type(response).__module__)(response.stream, release)


# ---- bodies that can be sent once -------------------------------------------------------------------------------


def once(request: Any) -> None:
    """Replace a body that can be read only once by one that records that it is read."""
    stream = request.stream
    kind = type(stream).__name__
    if kind != "ByteStream" and (kind != "MultipartStream" or not _rewinds(stream)):
        request.stream = _stream_class(_Once, type(request).__module__)(stream)


def _rewinds(stream: Any) -> bool:
    """Whether the files of a multipart body can be read from their beginning again."""
    files = (getattr(field, "file", None) for field in getattr(stream, "fields", ()))
    return all(
        file is None
        or isinstance(file, str | bytes)
        or (hasattr(file, "seekable") and file.seekable())
        for file in files
    )


# ---- the two kinds of body ---------------------------------------------------------------------------------------


def _body(
    response: Any,
    parts: list[bytes],
    rest: Any,
    *,
    bound: _Bound | None = None,
    broken: Exception | None = None,
) -> Any:
    return _stream_class(_Body, type(response).__module__)(
        response.stream, parts, rest, bound, broken
    )


@cache
def _stream_class(body: type[Any], module: str) -> type[Any]:
    """Return a subclass of `body` with the stream base classes of this module's library."""
    library = import_module(module.partition(".")[0])
    return type(body.__name__, (body, library.AsyncByteStream, library.SyncByteStream), {})


class _Bound:
    """How many bytes may still be read, both as received and decoded."""

    def __init__(
        self,
        most: int,
        request: Any,
        add_base: Callable[[BridgeError, Any], None],
        decoding: Decoding,
    ) -> None:
        self._most = self._allowance = self._decoded_allowance = most
        self._request = request
        self._add_base = add_base
        self._decoding: Decoding | None = decoding or None

    def count(self, part: bytes) -> None:
        """Count a part, and raise if it exceeds the bound, before the client decodes it."""
        self._allowance -= len(part)
        if self._allowance < 0:
            raise self._error("bytes")
        if self._decoding is not None and self._is_bomb(part):
            raise self._error("bytes once decoded")

    def _is_bomb(self, part: bytes) -> bool:
        assert self._decoding is not None  # noqa: S101 -- the caller has checked it
        try:
            for piece in self._decoding.pieces(part):
                self._decoded_allowance -= len(piece)
                if self._decoded_allowance < 0:
                    return True
        except Exception:  # noqa: BLE001 -- a broken body: the client raises its own error when it decodes this part
            self._decoding = None
        return False

    def _error(self, what: str) -> BridgeError:
        text = f"body of the response: wanted at most {self._most} {what}, got more"
        error = error_for(Failure.of("PROTO_MESSAGE_TOO_BIG", text))
        self._add_base(error, self._request)
        return error


class _Around:
    """Base class of our bodies: closing one closes the client library's body inside it."""

    _stream: Any

    def close(self) -> None:
        self._stream.close()

    async def aclose(self) -> None:
        await self._stream.aclose()


class _Body(_Around):
    """A body of which some parts have been read; `bound` counts the bytes of the rest.

    `broken` is the error that ended the inspection. It is raised after the parts, as it would be
    without the inspection.
    """

    def __init__(
        self,
        stream: Any,
        parts: list[bytes],
        rest: Any,
        bound: _Bound | None,
        broken: Exception | None,
    ) -> None:
        self._stream = stream
        self._parts = parts
        self._rest = stream if rest is None else rest
        self._bound = bound
        self._broken = broken

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts
        if self._broken is not None:
            raise self._broken
        for part in self._rest:
            if self._bound is not None:
                self._bound.count(part)
            yield part

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part
        if self._broken is not None:
            raise self._broken
        async for part in self._rest:
            if self._bound is not None:
                self._bound.count(part)
            yield part


class _Watched(_Around):
    """A body that reports the error of its reader."""

    def __init__(self, stream: Any, tell: Callable[[Exception], None]) -> None:
        self._stream = stream
        self._tell = tell

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._stream
        except Exception as error:
            self._tell(error)
            raise

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._stream:
                yield part
        except Exception as error:
            self._tell(error)
            raise


class _Held(_Around):
    """A body whose end gives a permit back."""

    def __init__(self, stream: Any, release: Callable[[], None]) -> None:
        self._stream = stream
        self._release = release

    def __iter__(self) -> Iterator[bytes]:
        yield from self._stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    def close(self) -> None:
        self._release()
        super().close()

    async def aclose(self) -> None:
        self._release()
        await super().aclose()


class _Once(_Around):
    """A body that records whether it has been read from."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.is_started = False

    def __iter__(self) -> Iterator[bytes]:
        self.is_started = True
        yield from self._stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.is_started = True
        async for part in self._stream:
            yield part
