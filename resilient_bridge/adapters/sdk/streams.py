"""The proxies of started streams, the end of a model's answer, and the base of all proxies of `wrap`.

Rule: an item is passed on unchanged. A failure after the first item counts for the circuit, and so
does a truncated answer: a proxy on the way may close a connection without an error. A stream is
truncated only if it has begun an answer in a format that is known here.

An answer of chat completions ends with a `finish_reason`, or with the `[DONE]` that openai's
clients hide. Where `[DONE]` cannot be observed, no stream of them counts as truncated.
"""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import wrapt

from ...calls.ports import NO_LIMITS, keep_permit, limits_of_call
from ...failure import Executed, Failure, error_for, stays_here
from ..sdk_errors import package_of
from .sdks import PACKAGES


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from typing import NoReturn, Self

    from ...calls.ports import StreamLimits
    from ...failure import BridgeError

    _ObjectProxy = wrapt.ObjectProxy[Any]
else:
    _ObjectProxy = wrapt.ObjectProxy  # takes no subscript before wrapt 2.2


_NOTHING: Final = object()
_TO_THE_END: Final = ("get_final_", "until_done")  # methods of a stream that read all of it
_LAST_EVENTS: Final = frozenset(
    {"message_stop", "response.completed", "response.incomplete", "response.failed", "error"}
)
_CLOSES: Final = ("close", "aclose")
_NO_REASONS: Final = (None, "FINISH_REASON_UNSPECIFIED")


def has(value: object, name: str) -> bool:
    """Return whether a value's class has an attribute: Python looks up special methods there."""
    return hasattr(type(value), name)


def name_of(kind: type) -> str:
    """Return the name of a class with its package: "openai.AsyncOpenAI"."""
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"


class Proxy(_ObjectProxy):
    """A proxy that refuses pickling and copying: the copy would lose its policy and state."""

    def __reduce_ex__(self, *_: object) -> NoReturn:
        stays_here(self.__wrapped__)

    __deepcopy__ = __reduce_ex__  # wrapt has its own errors for these

    def __copy__(self) -> Any:
        stays_here(self.__wrapped__)


# ---- the end of a model's answer -----------------------------------------------------------------


class Ending:
    """Records from the items of one stream whether its answers have ended."""

    __slots__ = ("_finished", "_marks", "_started")

    def __init__(self, stream: object = None) -> None:
        """Watch `stream`, which has returned no item yet; None: watch only the items."""
        # By number: a request may ask for several answers at once.
        self._started: set[int] = set()
        self._finished: set[int] = set()
        self._marks = _marks_of(stream)

    def inspected(self, item: Any) -> Any:
        """Return an item of the stream after inspecting it."""
        if package_of(item) in PACKAGES:
            self._look(item)
        return item

    def _look(self, item: Any) -> None:
        kind = getattr(item, "type", None)
        if kind == "chunk":  # an event of openai's `stream()`, around the model's output
            item, kind = getattr(item, "chunk", None), None
        if isinstance(kind, str):
            if kind in _LAST_EVENTS:
                self._finished.add(0)
            elif kind == "message_start" or kind.startswith("response."):
                self._started.add(0)
            return
        choices: Any = self._marks and getattr(item, "choices", None)
        for index, answer in enumerate(choices or getattr(item, "candidates", None) or ()):
            number = getattr(answer, "index", None) or index
            unfinished = getattr(answer, "finish_reason", None) in _NO_REASONS
            (self._started if unfinished else self._finished).add(number)

    def cut(self) -> BridgeError | None:
        """Return the error of a truncated stream, once; None if it is complete or unknown."""
        if self._started <= self._finished or (self._marks is not None and self._marks.are_done):
            return None
        self._started.clear()
        message = "the stream ended before the answer did: what was handed out is a part of it"
        return error_for(Failure.of("CONN_RESET", message, executed=Executed.MAYBE))


class _Marks:
    """A wrapper of an openai stream's decoder that records whether `[DONE]` was an event."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self.are_done = False

    def iter_bytes(self, source: Iterator[bytes]) -> Iterator[Any]:
        for event in self._decoder.iter_bytes(source):
            self.are_done = self.are_done or event.data.startswith("[DONE]")
            yield event

    async def aiter_bytes(self, source: AsyncIterator[bytes]) -> AsyncIterator[Any]:
        async for event in self._decoder.aiter_bytes(source):
            self.are_done = self.are_done or event.data.startswith("[DONE]")
            yield event

    def __getattr__(self, name: str) -> Any:
        return getattr(self._decoder, name)


def _marks_of(stream: object) -> _Marks | None:
    """Wrap the decoder of a stream in `_Marks` and return that.

    None if it has no decoder that can be wrapped.
    """
    # openai's `stream()` wraps one of the plain kind
    stream = getattr(stream, "_raw_stream", stream)
    decoder = getattr(stream, "_decoder", None)
    if package_of(stream) != "openai" or not hasattr(decoder, "iter_bytes"):
        return None
    marks = _Marks(decoder)
    stream._decoder = marks  # type: ignore[attr-defined]  # noqa: SLF001
    return marks


# ---- started streams -----------------------------------------------------------------------------


class _StartedProxy(Proxy):
    """The common part of both kinds of streams, whose first item has arrived."""

    _self_step: str  # the name of its method that returns the next item

    def __init__(
        self,
        stream: Any,
        first: Any,
        limits: StreamLimits = NO_LIMITS,
        ending: Ending | None = None,
    ) -> None:
        super().__init__(stream)
        self._self_first = first
        self._self_limits = limits
        self._self_on_break: Callable[[Exception, object], None] | None = None
        self._self_ending = ending or Ending()
        # what gives the permit of an adaptive limit back; a form of another stream has none
        self._self_release = None if ending is None else keep_permit()

    def __getattr__(self, name: str) -> Any:
        value: Any = getattr(self.__wrapped__, name)
        if name in _CLOSES:
            self._self_over()
        if has(value, self._self_step):  # `text_stream`: the same items in another form
            return type(self)(value, _NOTHING, self._self_limits).watched(
                lambda error, _: self._self_report(error)
            )
        return self._self_to_the_end(value) if name.startswith(_TO_THE_END) else value

    def _self_to_the_end(self, method: Any) -> Any:
        raise NotImplementedError

    def watched(self, on_break: Callable[[Exception, object], None]) -> Self:
        """Report failures after the first item, and the request, to `on_break`; return this stream."""
        self._self_on_break = on_break
        return self

    def _self_over(self) -> None:
        """Give the permit of an adaptive limit back: the stream has ended, or is closed."""
        if self._self_release is not None:
            self._self_release()

    def _self_report(self, error: Exception) -> None:
        self._self_over()
        if self._self_on_break is not None:
            stream: Any = getattr(self.__wrapped__, "_raw_stream", self.__wrapped__)
            self._self_on_break(error, getattr(getattr(stream, "response", None), "request", None))

    def _self_ended(self) -> None:
        """Raise and report the error of a truncated answer at the end of the stream."""
        self._self_over()
        cut = self._self_ending.cut()
        if cut is not None:
            self._self_report(cut)
            raise cut from None


class AsyncItems(_StartedProxy):
    """An async stream whose first item has arrived."""

    _self_step = "__anext__"

    @classmethod
    async def at_first_item(cls, stream: Any) -> Self:
        """Return the stream at its first item, or at its end."""
        ending = Ending(stream)
        try:
            return cls(stream, await anext(stream), limits_of_call(), ending)
        except StopAsyncIteration:
            return cls(stream, _NOTHING)
        except BaseException:
            close = getattr(stream, "close", None) or getattr(stream, "aclose", None)
            if close is not None:
                await close()
            raise

    def _self_to_the_end(self, method: Any) -> Any:
        @wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return await self._self_limits.rest(partial(method, *args, **kwargs))
            except Exception as error:
                self._self_report(error)
                raise

        return call

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        first, self._self_first = self._self_first, _NOTHING
        if first is not _NOTHING:
            return self._self_ending.inspected(first)
        try:
            item = await self._self_limits.item(partial(anext, self.__wrapped__))
        except StopAsyncIteration:
            self._self_ended()
            raise
        except Exception as error:
            self._self_report(error)
            raise
        return self._self_ending.inspected(item)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> Any:
        self._self_over()
        return await self.__wrapped__.__aexit__(*error)


class Items(_StartedProxy):
    """A blocking stream whose first item has arrived."""

    _self_step = "__next__"

    @classmethod
    def at_first_item(cls, stream: Any) -> Self:
        """Return the stream at its first item, or at its end."""
        ending = Ending(stream)
        try:
            return cls(stream, next(stream), limits_of_call(), ending)
        except StopIteration:
            return cls(stream, _NOTHING)
        except BaseException:
            close = getattr(stream, "close", None)
            if close is not None:
                close()
            raise

    def _self_to_the_end(self, method: Any) -> Any:
        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._self_limits.next(partial(method, *args, **kwargs))
            except Exception as error:
                self._self_report(error)
                raise

        return call

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        first, self._self_first = self._self_first, _NOTHING
        if first is not _NOTHING:
            return self._self_ending.inspected(first)
        try:
            item = self._self_limits.next(partial(next, self.__wrapped__))
        except StopIteration:
            self._self_ended()
            raise
        except Exception as error:
            self._self_report(error)
            raise
        return self._self_ending.inspected(item)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> Any:
        self._self_over()
        return self.__wrapped__.__exit__(*error)
