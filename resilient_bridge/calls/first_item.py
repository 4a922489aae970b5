"""A stream up to its first item: until then it can be repeated or replaced like any call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .frame import CURRENT
from .timeout.stream_limits import NO_LIMITS, limits_of_call


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class StartedStream:
    """A stream at its first item, or at its end if it has none."""

    __slots__ = ("attempts", "is_empty", "item", "items", "limits", "returned", "waited")

    def __init__(
        self, items: Any, item: Any, *, is_empty: bool = False, returned: Any = None
    ) -> None:
        attempt = CURRENT.get()
        self.attempts = attempt.number  # for the event at the end of the stream
        self.waited = (attempt.first or attempt).waited
        self.items = items
        self.item = item
        self.limits = NO_LIMITS if is_empty else limits_of_call()
        self.is_empty = is_empty
        self.returned = returned


def starting(function: Callable[..., Any]) -> Callable[..., StartedStream]:
    """Return a function that starts the stream of a function returning an iterable."""

    def start(*args: Any, **kwargs: Any) -> StartedStream:
        items = iter(function(*args, **kwargs))
        try:
            return StartedStream(items, next(items))
        except StopIteration as end:
            return StartedStream(items, None, is_empty=True, returned=end.value)

    return start


def starting_async(function: Callable[..., Any]) -> Callable[..., Awaitable[StartedStream]]:
    """Return a function that starts the stream of an async generator function."""

    async def start(*args: Any, **kwargs: Any) -> StartedStream:
        items = aiter(function(*args, **kwargs))
        try:
            return StartedStream(items, await anext(items))
        except StopAsyncIteration:
            return StartedStream(items, None, is_empty=True)

    return start
