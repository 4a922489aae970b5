"""The items of a stream: the first, up to which it is a call like any other, and the limits of the rest.

Until its first item a stream can be repeated or replaced. Then the rest of its Deadline and
`Timeout.idle`, the most seconds between two items, bound it. Rule: a Deadline covers all waits for
items, the last one included; the reader's time between items is not counted. A Timeout covers an
attempt, and the attempt of a stream ends with its first item. An async stream is cancelled while it
is waited for. A sync one cannot be: no further item is requested once its time is over, and an item
that comes late is handed out.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any, Final

from ..failure import Executed
from ..transports.event_loop import running_loop
from ..world import REAL
from .frame import CURRENT, keep_permit
from .timeout.guard import timed_out, too_late
from .timeout.value import Deadline, Timeout


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..world import World
    from ..world.real import TimerHandle
    from .frame import CallFrame


class StreamLimits:
    """The limits of one stream: the rest of its Deadline, and `idle` seconds for each item.

    `remaining_time` is the rest of a Deadline of `seconds`; inf is no limit. `growing` is the call's
    frame where its deadline may grow.
    """

    __slots__ = ("_deadline_at", "_growing", "_idle", "_remaining_time", "_seconds", "_world")

    def __init__(
        self,
        world: World,
        remaining_time: float,
        seconds: float,
        idle: float,
        growing: CallFrame | None = None,
    ) -> None:
        self._world = world
        self._remaining_time = remaining_time
        self._seconds = seconds
        self._idle = idle
        self._growing = growing
        self._deadline_at = None if growing is None else growing.deadline_at

    def next(self, pull: Callable[[], Any]) -> Any:
        """Return the next item of a sync stream, or the result of reading all of it.

        Raises DeadlineExceededError if its time is over.
        """
        self._check()
        started = self._world.monotonic()
        try:
            return pull()
        finally:
            self._remaining_time -= self._world.monotonic() - started

    async def item(self, pull: Callable[[], Awaitable[Any]]) -> Any:
        """Return the next item.

        Raises DeadlineExceededError at the deadline, AttemptTimeoutError after `idle` seconds
        without one.
        """
        return await self._within(pull, self._idle)

    async def rest(self, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return what reads the stream to its end, before the deadline."""
        return await self._within(read, inf)

    def _grown(self) -> float:
        """Return by how much the deadline has grown since this was asked last, which is added."""
        before, more = self._deadline_at, 0.0
        if self._growing is not None and before is not None:
            self._deadline_at = self._growing.deadline_at
            more = (self._deadline_at or before) - before
            self._remaining_time += more
        return more

    def _check(self) -> None:
        self._grown()
        if self._remaining_time <= 0:
            raise too_late(self._seconds, Executed.MAYBE, None)

    async def _within(self, pull: Callable[[], Awaitable[Any]], idle: float) -> Any:
        self._check()
        remaining = self._remaining_time
        seconds, task = min(remaining, idle), asyncio.current_task()
        if seconds == inf or task is None:
            return await pull()
        is_late, cancelled_before, started = False, task.cancelling(), self._world.monotonic()
        loop = running_loop("Timeout of a stream")
        timer: TimerHandle

        def expire() -> None:
            nonlocal is_late, remaining, seconds, timer
            remaining += self._grown()
            more = min(remaining, idle) - seconds
            if more > 0:
                seconds += more
                timer = self._world.call_later(loop, more, expire)
                return
            is_late = True
            task.cancel()

        timer = self._world.call_later(loop, seconds, expire)
        try:
            return await pull()
        except asyncio.CancelledError as error:
            if not is_late or task.uncancel() > cancelled_before:
                raise  # not caused by this limit
            is_late = False
            if remaining <= idle:
                raise too_late(self._seconds, Executed.MAYBE, error) from error
            raise timed_out(idle, error, " without an item") from error
        finally:
            timer.cancel()
            self._remaining_time -= self._world.monotonic() - started
            # it ended in another way at the same moment
            if is_late and task.cancelling() > cancelled_before:
                task.uncancel()


NO_LIMITS: Final[StreamLimits] = StreamLimits(REAL, inf, 0.0, inf)
"""The limits of a stream whose policy has none."""


def limits_of_call() -> StreamLimits:
    """Return the limits of the stream that the current call has started."""
    attempt = CURRENT.get()
    operation = attempt.operation
    if operation is None or attempt.world.is_disabled:
        return NO_LIMITS
    layers: tuple[object, ...] = operation.plan.layers
    deadline = next((layer for layer in layers if isinstance(layer, Deadline)), None)
    timeout = next((layer for layer in layers if isinstance(layer, Timeout)), None)
    idle = timeout.idle if timeout is not None else None
    remaining = attempt.remaining if deadline is not None else None
    if remaining is None and idle is None:
        return NO_LIMITS
    seconds = 0.0 if deadline is None else deadline.seconds
    return StreamLimits(
        attempt.world,
        inf if remaining is None else remaining,
        seconds,
        inf if idle is None else idle,
        None if deadline is None or attempt.heirs is None else attempt,
    )


class StartedStream:
    """A stream at its first item, or at its end if it has none."""

    __slots__ = ("attempts", "is_empty", "item", "items", "limits", "release", "returned", "waited")

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
        self.release = None if is_empty else keep_permit()

    async def aclose(self) -> None:
        """Close an async stream that nobody will read."""
        close = getattr(self.items, "aclose", None)
        if close is not None:
            await close()


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
