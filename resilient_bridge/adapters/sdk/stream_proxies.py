"""The proxies of started streams, and the base of all proxies of `wrap`.

Rule: an item is passed on unchanged. A failure after the first item counts for the circuit, and so
does a truncated answer.
"""

from __future__ import annotations

from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import wrapt

from ...calls.ports import NO_LIMITS, limits_of_call
from ...failure import stays_here
from .model_streams import Ending


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, Self

    from ...calls.ports import StreamLimits

    _ObjectProxy = wrapt.ObjectProxy[Any]
else:
    _ObjectProxy = wrapt.ObjectProxy  # takes no subscript before wrapt 2.2


_NOTHING: Final = object()
_TO_THE_END: Final = ("get_final_", "until_done")  # methods of a stream that read all of it


def has(value: object, name: str) -> bool:
    """Return whether a value's class has an attribute: Python looks up special methods there."""
    return hasattr(type(value), name)


class Proxy(_ObjectProxy):
    """A proxy that refuses pickling and copying: the copy would lose its policy and state."""

    def __reduce_ex__(self, *_: object) -> NoReturn:
        stays_here(self.__wrapped__)

    __deepcopy__ = __reduce_ex__  # wrapt has its own errors for these

    def __copy__(self) -> Any:
        stays_here(self.__wrapped__)


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

    def __getattr__(self, name: str) -> Any:
        value: Any = getattr(self.__wrapped__, name)
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

    def _self_report(self, error: Exception) -> None:
        if self._self_on_break is not None:
            stream: Any = getattr(self.__wrapped__, "_raw_stream", self.__wrapped__)
            self._self_on_break(error, getattr(getattr(stream, "response", None), "request", None))

    def _self_ended(self) -> None:
        """Raise and report the error of a truncated answer at the end of the stream."""
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
            return self._self_ending.heard(first)
        try:
            item = await self._self_limits.item(partial(anext, self.__wrapped__))
        except StopAsyncIteration:
            self._self_ended()
            raise
        except Exception as error:
            self._self_report(error)
            raise
        return self._self_ending.heard(item)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> Any:
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
            return self._self_ending.heard(first)
        try:
            item = self._self_limits.next(partial(next, self.__wrapped__))
        except StopIteration:
            self._self_ended()
            raise
        except Exception as error:
            self._self_report(error)
            raise
        return self._self_ending.heard(item)

    def __enter__(self) -> Self:
        return self
