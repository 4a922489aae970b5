"""A policy under a `requests.Session`: an adapter to mount, with the promises of HTTPTransport.

Rule: one call here is one request; redirects arrive as separate requests. It returns the responses
of requests' own adapter, and adds only waits and repeats.
"""

from __future__ import annotations

import io
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ...failure import BridgeError, config_error, stays_here
from ...failure.extras import needed
from ...failure.record import allow_proof
from ...failure.teaching import taught
from ..sdk_errors import same_error_for
from .bodies import LOOK, MOST_DECODED
from .decoding import decoded
from .views import Core, RequestView, URLView, says_more


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import requests
    from requests.adapters import BaseAdapter

    from ...calls import Policy
    from ...presets.bridge_policy import BridgePolicy

    _Base = BaseAdapter
else:
    _Base = object  # requests accepts any class, and stays unimported until an adapter is used


_CARRIED: Final = "rb"  # the key in a request's `hooks`, which its redirects inherit


class HTTPAdapter(_Base):
    """An adapter that applies `policy` to every request of a `requests.Session`.

        import requests

        session = requests.Session()
        session.mount("https://", rb.HTTPAdapter())

    It promises what HTTPTransport does, which says which requests are repeated, what is returned,
    to whom state belongs and where credentials do not go; `policy`, `token`, `idempotency_header`
    and `allow_plaintext_credentials` are those of HTTPTransport. Our errors are both a BridgeError
    and a `requests.RequestException`.

    `inner` is the adapter below: your own `requests.adapters.HTTPAdapter` with its pool sizes; its
    `max_retries` must be 0 (ConfigError).
    """

    @taught
    def __init__(
        self,
        policy: Policy | BridgePolicy | None = None,
        inner: BaseAdapter | None = None,
        *,
        token: str | Callable[[], str] | None = None,
        idempotency_header: str | None = "Idempotency-Key",
        allow_plaintext_credentials: bool = False,
    ) -> None:
        """Create an adapter for one session.

        ConfigError names a bad argument, and an inner adapter that repeats by itself.
        """
        if isinstance(inner, HTTPAdapter) or _repeats(inner):
            raise config_error("HTTPAdapter.inner", "an adapter that does not retry already", inner)
        if inner is not None and not hasattr(inner, "send"):
            raise config_error("HTTPAdapter.inner", "an adapter of requests, or None", inner)
        self._below = _RequestsBelow(inner)
        self._core = Core(
            "HTTPAdapter",
            policy,
            self._below,
            _look,
            token=token,
            idempotency_header=idempotency_header,
            allow_plaintext_credentials=allow_plaintext_credentials,
        )

    def send(  # noqa: PLR0917 -- the signature of requests
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send a prepared request, again if the policy allows it, and return the last response."""
        options = {"stream": stream, "verify": verify, "cert": cert, "proxies": proxies}
        hooks: dict[str, Any] = request.hooks
        carried: dict[str, Any] = hooks.setdefault(_CARRIED, {})
        body = request.body
        watched = _watched(request)
        parts = urlsplit(request.url or "")
        url = URLView(parts.scheme, parts.hostname or "", parts.port, parts.query, parts.path)
        view = RequestView(request, url, carried, stream=watched, options=options)
        if timeout is not None:
            carried["timeout"] = _phases(timeout)
        try:
            return self._core.handle_request(view)  # type: ignore[no-any-return]
        except BridgeError as error:
            raise _of_requests(error, request) from error.__cause__
        finally:
            carried.pop("timeout", None)
            request.body = body

    def close(self) -> None:
        """Close the inner adapter with its connections."""
        self._below.close()

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """Return the policy."""
        return f"HTTPAdapter({self._core!r})"


class _RequestsBelow:
    """The adapter of requests, as the inner transport of the core: each call sends one request."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def handle_request(self, view: RequestView) -> Any:
        request = view.native
        if self.inner is None:
            self.inner = needed("requests.adapters", "HTTPAdapter").HTTPAdapter(max_retries=0)
        if view.stream is None and _can_rewind(request):
            request.body.seek(request._body_position)  # noqa: SLF001 -- where requests keeps it
        timeout = view.extensions.get("timeout")
        if timeout is not None:
            timeout = (timeout.get("connect"), timeout.get("read"))
        try:
            return self.inner.send(request, timeout=timeout, **view.options)
        except Exception as error:
            allow_proof(error)
            raise

    def close(self) -> None:
        if self.inner is not None:
            self.inner.close()


def _repeats(inner: Any) -> bool:
    retries = getattr(inner, "max_retries", None)
    total = getattr(retries, "total", retries)
    return isinstance(total, int) and not isinstance(total, bool) and total > 0


def _phases(timeout: Any) -> dict[str, float | None]:
    """Return the timeouts of requests under httpx's names."""
    if isinstance(timeout, tuple):
        connect, read = timeout  # pyright: ignore[reportUnknownVariableType]
    elif hasattr(timeout, "connect_timeout"):  # urllib3's
        connect, read = timeout.connect_timeout, timeout.read_timeout
    else:
        connect = read = timeout
    return {"connect": _seconds(connect), "read": _seconds(read)}


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _of_requests(error: BridgeError, request: Any) -> Any:
    exceptions = import_module("requests.exceptions")
    base = exceptions.Timeout if isinstance(error, TimeoutError) else exceptions.RequestException
    made = same_error_for(error, base)
    made.request, made.response = request, None
    return made


# ---- bodies --------------------------------------------------------------------------------------------------------


class _WatchedBody:
    """A body that can be read once, and records whether it was."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self.is_started = False

    def __iter__(self) -> Iterator[Any]:
        self.is_started = True
        return iter(self._body)


class _WatchedFile(_WatchedBody):
    """A watched body with a `read` method, which urllib3 prefers to iteration."""

    def read(self, size: int = -1) -> Any:
        self.is_started = True
        return self._body.read(size)


def _watched(request: Any) -> Any:
    """Replace a body that can be read once by a watched one and return that, else None."""
    body = request.body
    if body is None or isinstance(body, str | bytes | bytearray) or _can_rewind(request):
        return None
    watched = request.body = (_WatchedFile if hasattr(body, "read") else _WatchedBody)(body)
    return watched


def _can_rewind(request: Any) -> bool:
    position = getattr(request, "_body_position", None)
    return (
        isinstance(position, int)
        and not isinstance(position, bool)
        and hasattr(request.body, "seek")
    )


class _Again:
    """A raw response whose whole body has been received, and is read by its reader from the beginning."""

    def __init__(self, raw: Any, data: bytes) -> None:
        self._raw = raw
        self._body = import_module("urllib3.response").HTTPResponse(
            io.BytesIO(data), headers=raw.headers, status=raw.status, preload_content=False
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def stream(self, *args: Any, **options: Any) -> Iterator[bytes]:
        return self._body.stream(*args, **options)  # type: ignore[no-any-return]

    def read(self, *args: Any, **options: Any) -> bytes:
        return self._body.read(*args, **options)  # type: ignore[no-any-return]


class _Broken:
    """A raw response whose body broke while it was inspected: each read raises that error."""

    def __init__(self, raw: Any, error: Exception) -> None:
        self._raw = raw
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        raise self._error

    def read(self, *_: Any, **__: Any) -> bytes:
        raise self._error


def _look(response: Any) -> None:
    """Read the body of an error that says more than its status, if it is known to be short.

    `classify` then finds it.
    """
    if not says_more(response):
        return
    raw, encoding = response.raw, response.headers.get("content-encoding", "identity")
    try:
        if encoding != "identity":
            data = raw.read(LOOK, decode_content=False)
            response.raw = _Again(raw, data)
            if decoded(encoding, data, MOST_DECODED) is None:
                return  # the status decides
        _ = response.content
    except Exception as error:  # noqa: BLE001 -- the status is valid
        with suppress(AttributeError):
            response.raw, response._content_consumed = _Broken(raw, error.__cause__ or error), False  # type: ignore[arg-type] # noqa: SLF001
            response._content = False  # noqa: SLF001
