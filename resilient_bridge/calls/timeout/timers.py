"""One timer for all calls of one duration: those that began first run out of time first.

`asyncio.timeout` makes a timer a call and costs as much as everything else a policy does; this
costs an entry in a dict. Rule: what asyncio.timeout promises about cancellation holds here too. An
expiry is a `task.cancel()` that is taken back with `uncancel()`, and only a CancelledError that is
nobody else's becomes a timeout.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task, get_running_loop
from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from ...locks import new_lock
from ...transports.event_loop import no_loop
from ...world import REAL


if TYPE_CHECKING:
    from ...world import World
    from ...world.real import TimerHandle
    from ..frame import CallFrame


class _Queue:
    """The running calls of one loop, in order of expiry, and at most one timer for them."""

    __slots__ = (
        "entries",
        "expired",
        "has_our_clock",
        "is_armed",
        "loop",
        "seconds",
        "timer",
        "world",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, world: World, seconds: float) -> None:
        # Weak: a decorated function lives as long as its module, and must not keep alive every loop
        # that ran it.
        self.loop = ref(loop)
        self.world = world
        self.seconds = seconds
        # A loop may be simulated, or cache its clock. Most have the clock that timed the attempt's
        # start.
        self.has_our_clock = world is REAL and type(loop).time is asyncio.BaseEventLoop.time
        # What is needed to end a call: when, which task, and how often that task had been cancelled
        # before.
        self.entries: dict[CallFrame, tuple[float, asyncio.Task[object], int]] = {}
        self.expired: dict[CallFrame, tuple[asyncio.Task[object], int]] = {}
        self.is_armed = False
        self.timer: ref[TimerHandle] | None = None  # weak: it holds its loop

    def arm(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        """Set the timer for the first entry."""
        when, _, _ = next(iter(self.entries.values()))
        self.timer = ref(self.world.call_later(loop, max(0.0, when - now), self._expire))
        self.is_armed = True

    def rearm(self) -> None:
        """Set the timer for the first entry that is left, or none: an idle timer would move a test's clock."""
        if self.timer is not None and (timer := self.timer()) is not None:
            timer.cancel()
        self.is_armed = False
        if self.entries and (loop := self.loop()) is not None:
            self.arm(loop, self.world.time_of(loop))

    def _expire(self) -> None:
        loop = self.loop()
        self.is_armed = False
        if loop is None:
            return
        entries, now = self.entries, self.world.time_of(loop)
        # One pass: searching for the first entry repeatedly would pass all deleted ones before it.
        for attempt, (when, task, cancelled_before) in list(entries.items()):
            if when > now:
                break
            del entries[attempt]
            self.expired[attempt] = task, cancelled_before
            task.cancel()
        if entries:
            self.arm(loop, now)


class Timers:
    """The calls that run within one duration, of all loops and environments."""

    __slots__ = ("_lock", "_queue", "_queues", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = (
            new_lock()
        )  # loops of other threads come and go; only who looks for a queue takes it
        self._queue: _Queue | None = None
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Queue]] = (
            WeakKeyDictionary()
        )

    def enter(self, attempt: CallFrame, world: World = REAL) -> None:
        """Start: cancel the running task after `seconds` of that world, unless it has left."""
        try:
            loop = get_running_loop()
        except RuntimeError:
            raise no_loop("Timeout or Deadline") from None
        task = current_task(loop)
        if task is None:
            message = "a Timeout or Deadline of an async function needs a running task"
            raise RuntimeError(message)
        queue = self._queue
        if queue is None or queue.loop() is not loop or queue.world is not world:
            queue = self._queue = self._queue_of(loop, world)
        now = attempt.started if queue.has_our_clock else queue.world.time_of(loop)
        queue.entries[attempt] = now + self.seconds, task, task.cancelling()
        if not queue.is_armed:
            queue.arm(loop, now)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> bool:
        """End the attempt; return whether `error` is the timer's own cancellation."""
        queue = self._queue
        if queue is not None and queue.entries.pop(attempt, None) is not None:
            if not queue.has_our_clock and queue.world.limits_move_clock:
                queue.rearm()
            return False
        for each in self._all():
            if each.entries.pop(attempt, None) is not None:
                if each.world.limits_move_clock:
                    each.rearm()
                return False
            if (expired := each.expired.pop(attempt, None)) is not None:
                task, cancelled_before = expired
                return task.uncancel() <= cancelled_before and isinstance(
                    error, asyncio.CancelledError
                )
        return False  # never entered

    def close(self) -> None:
        """Cancel the timer: no further call will enter."""
        for queue in self._all():
            timer = None if queue.timer is None else queue.timer()
            if timer is not None:
                timer.cancel()

    def _all(self) -> list[_Queue]:
        with self._lock:
            return [queue for queues in self._queues.values() for queue in queues]

    def _queue_of(self, loop: asyncio.AbstractEventLoop, world: World) -> _Queue:
        with self._lock:
            queues = self._queues.setdefault(loop, [])
            for queue in queues:
                if queue.world is world:
                    return queue
            queue = _Queue(loop, world, self.seconds)
            # Of tests' environments only the last can still be in use with nothing running in it.
            queues[:] = [old for old in queues if old.entries or old.expired or old.world is REAL]
            queues.append(queue)
            return queue


@lru_cache(maxsize=256)
def timers_of(layer: str, seconds: float) -> Timers:  # noqa: ARG001 -- half of the key: an attempt may be in the queue of each
    """Return the queues shared by layers of one sort and duration.

    The calls that start first expire first.
    """
    return Timers(seconds)
