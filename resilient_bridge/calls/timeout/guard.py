"""The layers that end an attempt or a whole call in time: their timers, and the errors that they raise.

An async call is cancelled by a timer, of which there is one for all calls of one duration: those
that began first run out of time first. `asyncio.timeout` makes a timer a call and costs as much as
everything else a policy does; this costs an entry in a dict. Rule: what asyncio.timeout promises
about cancellation holds here too. An expiry is a `task.cancel()` that is taken back with
`uncancel()`, and only a CancelledError that is nobody else's becomes a timeout.

A sync call under `Timeout(…, thread=True)` runs in a thread, which a timeout abandons. Rule: the
limits are stated. A thread cannot be stopped: the caller continues, the thread ends when its
function does, and an event reports that it still runs.
"""

from __future__ import annotations

import asyncio
from asyncio import current_task, get_running_loop
from concurrent.futures import wait
from contextlib import suppress
from contextvars import copy_context
from functools import lru_cache, partial
from math import inf
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary, ref

from ... import events
from ...failure import AttemptTimeoutError, DeadlineExceededError, Executed, Failure
from ...locks import new_lock
from ...telemetry import emit
from ...transports.event_loop import no_loop, running_or_none
from ...world import REAL
from ..frame import CURRENT, earlier, enclosing
from ..guards import Guard


if TYPE_CHECKING:
    from collections.abc import Callable

    from ...world import World
    from ...world.real import TimerHandle
    from ..frame import CallFrame
    from .value import Timeout

    class Timed(Protocol):
        """What is bounded, an attempt or a block: when it started (monotonic seconds)."""

        @property
        def started(self) -> float: ...


# ---- timers --------------------------------------------------------------------------------------


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
        self.entries: dict[Timed, tuple[float, asyncio.Task[object], int]] = {}
        self.expired: dict[Timed, tuple[asyncio.Task[object], int]] = {}
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

    def postpone(self, attempt: Timed, seconds: float) -> None:
        """Let an attempt run for so much longer, if it has not ended; in the loop's own thread."""
        if (entry := self.entries.get(attempt)) is not None:
            when, task, cancelled_before = entry
            self.entries[attempt] = when + seconds, task, cancelled_before
            self.rearm()

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
        # loops of other threads come and go; only who looks for a queue takes it
        self._lock = new_lock()
        self._queue: _Queue | None = None
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, list[_Queue]] = (
            WeakKeyDictionary()
        )

    def enter(self, attempt: Timed, world: World = REAL) -> None:
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

    def postpone(self, attempt: Timed, seconds: float) -> None:
        """Let an attempt that has these timers alone run for so much longer."""
        for queue in self._all():
            loop = queue.loop() if attempt in queue.entries else None
            if loop is None:
                continue
            if loop is running_or_none():
                queue.postpone(attempt, seconds)
            else:  # it runs in another thread
                with suppress(RuntimeError):  # it is closed
                    loop.call_soon_threadsafe(queue.postpone, attempt, seconds)

    def leave(self, attempt: Timed, error: BaseException | None) -> bool:
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


# ---- layers --------------------------------------------------------------------------------------


class TimeoutGuard(Guard):
    """Bounds one attempt of an async function; an escalating timeout repeats its last duration."""

    __slots__ = ("timers",)

    def __init__(self, seconds: tuple[float, ...]) -> None:
        self.timers = tuple(timers_of("timeout", each) for each in seconds)

    def enter(self, attempt: CallFrame) -> None:
        timers = self.timers
        (timers[0] if len(timers) == 1 else self._step(attempt)).enter(attempt, attempt.world)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        timers = self.timers
        step = timers[0] if len(timers) == 1 else self._step(attempt)
        return timed_out(step.seconds, error) if step.leave(attempt, error) else error

    def _step(self, attempt: CallFrame) -> Timers:
        return self.timers[min(attempt.number, len(self.timers)) - 1]


@lru_cache(maxsize=256)
def timeout_guard_of(seconds: tuple[float, ...]) -> TimeoutGuard:
    """Return the guard of all Timeouts of these durations: it holds nothing of one of them."""
    return TimeoutGuard(seconds)


class DeadlineGuard(Guard):
    """Bounds a whole call of an async function: every attempt and every wait in between."""

    __slots__ = ("timers",)

    def __init__(self, seconds: float) -> None:
        self.timers = timers_of("deadline", seconds)

    def enter(self, attempt: CallFrame) -> None:
        bound(attempt, self.timers.seconds)
        self.timers.enter(attempt, attempt.world)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        is_late = self.timers.leave(attempt, error)
        return too_late(self.timers.seconds, Executed.MAYBE, error) if is_late else error


class BlockDeadlineGuard(Guard):
    """Bounds one attempt of an async loop by the rest of the deadline set at the loop's start."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def enter(self, attempt: CallFrame) -> None:
        attempt.timers = Timers(remaining_or_raise(attempt, self.seconds))
        attempt.timers.enter(attempt, attempt.world)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        timers: Timers | None = attempt.timers
        attempt.timers = None
        is_late = timers is not None and timers.leave(attempt, error)
        if timers is not None:
            timers.close()
        return too_late(self.seconds, Executed.MAYBE, error) if is_late else error


class SyncDeadlineGuard(Guard):
    """Bounds a whole call of a sync function: no attempt or wait starts after the deadline."""

    __slots__ = ("is_bound", "seconds")

    gives_back = False

    def __init__(self, seconds: float, *, is_bound: bool) -> None:
        self.seconds = seconds
        self.is_bound = is_bound  # the deadline was set when the loop started

    def enter(self, attempt: CallFrame) -> None:
        if self.is_bound:
            remaining_or_raise(attempt, self.seconds)
        else:
            bound(attempt, self.seconds)


def bound(attempt: CallFrame, seconds: float) -> None:
    """Set the call's deadline, at most an inherited one; a call that is late does not start."""
    now = attempt.world.monotonic()
    end, own = attempt.deadline_at, now + seconds
    if end is None or own < end:
        attempt.bounded_since, end = now, own
    attempt.deadline_at = end
    if attempt.heirs is not None:
        attempt.own_deadline = earlier(own, attempt.own_deadline)
    if end <= now:  # only an inherited one can have passed already
        attempt.is_rejected = True
        raise late()


def late() -> DeadlineExceededError:
    """Return the error for what does not start, because a deadline around it has passed."""
    text = "the deadline of the call around this one has passed"
    return DeadlineExceededError(Failure.of("SYS_DEADLINE_EXCEEDED", text, executed=Executed.NO))


def check_block(around: CallFrame) -> None:
    """Raise DeadlineExceededError for a call in a block whose deadline has passed."""
    if around.remaining == 0:
        raise late()


def remaining_or_raise(attempt: CallFrame, seconds: float) -> float:
    """Return the seconds left of a deadline; an attempt that is too late does not start."""
    remaining = attempt.remaining
    if remaining is None:
        return seconds
    if remaining <= 0:
        attempt.is_rejected = True
        raise too_late(seconds, Executed.NO, None)
    return remaining


def deadline_passed(attempt: CallFrame) -> DeadlineExceededError:
    """Return the error for an attempt that was cut by its deadline, which names all of the deadline.

    The attempt had only what was left of it.
    """
    at, since = attempt.deadline_at or 0.0, attempt.started
    frame: CallFrame | None = attempt
    while frame is not None and frame.deadline_at == at:  # it is its own, or inherited
        if frame.bounded_since is not None:
            since = frame.bounded_since
            break
        if frame.around is None:
            first = frame.first or frame  # which has set it, if it is its own
            since = first.started if first.bounded_since is None else first.bounded_since
        frame = frame.around or enclosing(frame)
    return too_late(round(at - since, 4), Executed.MAYBE, None)


def too_late(
    seconds: float, executed: Executed, cause: BaseException | None
) -> DeadlineExceededError:
    """Return the error for a deadline that has passed."""
    text = f"deadline of {seconds:g} s exceeded"
    failure = Failure.of("SYS_DEADLINE_EXCEEDED", text, executed=executed, cause=cause)
    error = DeadlineExceededError(failure)
    error.__cause__ = cause
    return error


def timed_out(
    seconds: float, cause: BaseException | None, of_what: str = ""
) -> AttemptTimeoutError:
    """Return the error for one attempt, or one item of a stream, that took too long."""
    text = f"timed out after {seconds:g} s{of_what}"
    error = AttemptTimeoutError(
        Failure.of("SYS_TIMEOUT", text, executed=Executed.MAYBE, cause=cause)
    )
    error.__cause__ = cause
    return error


# ---- a sync call in a thread ---------------------------------------------------------------------


def run_in_thread(function: Callable[..., Any], timeout: Timeout, name: str) -> Callable[..., Any]:
    """Return `function`, which events call `name`, bounded by this timeout."""

    def call(*args: Any, **kwargs: Any) -> Any:
        attempt = CURRENT.get()
        clock, seconds = attempt.world.monotonic, timeout.of(attempt.number)
        began, waited_until = clock(), -inf
        own_end = began + seconds
        work = attempt.world.call_in_thread(
            partial(copy_context().run, function, *args, **kwargs), name
        )
        try:
            # inside of a shared call the deadline may grow meanwhile
            while (end := earlier(own_end, attempt.deadline_at) or own_end) > waited_until:
                if wait([work], max(0.0, end - clock())).done:
                    return work.result()
                waited_until = end
        finally:
            del work  # it holds the error that holds this frame
        is_last = end < own_end
        if is_last:
            seconds = max(0.0, end - began)
        emit(events.CallLeftBehind(name=name, seconds=seconds, runs_in="thread"))
        raise deadline_passed(attempt) if is_last else timed_out(seconds, None)

    return call
