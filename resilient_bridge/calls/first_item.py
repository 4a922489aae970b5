"""A stream that has come to its first item: as far as a stream is a call, and can be repeated or replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .frame import CURRENT
from .timeout.stream_limits import NO_LIMITS, limits_of_call


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class StartedStream:
    """A stream at its first item, or at its end without one."""

    __slots__ = ("attempts", "is_empty", "item", "items", "limits", "returned", "waited")

    def __init__(self, items: Any, item: Any, *, is_empty: bool = False, returned: Any = None) -> None:
        attempt = CURRENT.get()
        self.attempts = attempt.number  # for the event that tells of the stream's end
        self.waited = (attempt.first or attempt).waited
        self.items = items
        self.item = item
        self.limits = NO_LIMITS if is_empty else limits_of_call()
        self.is_empty = is_empty
        self.returned = returned


def starting(function: Callable[..., Any]) -> Callable[..., StartedStream]:
    """Return a function that begins the stream of a generator function, or of any that returns something to iterate over."""

    def start(*args: Any, **kwargs: Any) -> StartedStream:
        items = iter(function(*args, **kwargs))
        try:
            return StartedStream(items, next(items))
        except StopIteration as end:
            return StartedStream(items, None, is_empty=True, returned=end.value)

    return start


def starting_async(function: Callable[..., Any]) -> Callable[..., Awaitable[StartedStream]]:
    """Return a function that begins the stream of an async generator function."""

    async def start(*args: Any, **kwargs: Any) -> StartedStream:
        items = aiter(function(*args, **kwargs))
        try:
            return StartedStream(items, await anext(items))
        except StopAsyncIteration:
            return StartedStream(items, None, is_empty=True)

    return start
