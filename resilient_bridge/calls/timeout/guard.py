"""The layers that end an attempt or a whole call in time, and the errors that they raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...failure import AttemptTimeoutError, DeadlineExceededError, Executed, Failure
from ..frame import enclosing
from ..guards import Guard
from .timers import Timers, timers_of


if TYPE_CHECKING:
    from ..frame import CallFrame
    from .value import Timeout


class TimeoutGuard(Guard):
    """Bounds one attempt of an async function; an escalating timeout repeats its last duration."""

    __slots__ = ("timers",)

    def __init__(self, layer: Timeout) -> None:
        self.timers = tuple(timers_of("timeout", seconds) for seconds in layer.seconds)

    def enter(self, attempt: CallFrame) -> None:
        timers = self.timers
        (timers[0] if len(timers) == 1 else self._step(attempt)).enter(attempt, attempt.world)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        timers = self.timers
        step = timers[0] if len(timers) == 1 else self._step(attempt)
        return timed_out(step.seconds, error) if step.leave(attempt, error) else error

    def _step(self, attempt: CallFrame) -> Timers:
        return self.timers[min(attempt.number, len(self.timers)) - 1]


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

    __slots__ = ("running", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: dict[CallFrame, Timers] = {}

    def enter(self, attempt: CallFrame) -> None:
        timers = self.running[attempt] = Timers(remaining_or_raise(attempt, self.seconds))
        timers.enter(attempt, attempt.world)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        timers = self.running.pop(attempt, None)
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
    inherited, own = attempt.deadline_at, now + seconds
    attempt.deadline_at = own if inherited is None else min(own, inherited)
    if attempt.deadline_at <= now:  # only an inherited one can have passed already
        attempt.is_rejected = True
        text = "the deadline of the call around this one has passed"
        raise DeadlineExceededError(Failure.of("SYS_DEADLINE_EXCEEDED", text, executed=Executed.NO))


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
    at = attempt.deadline_at or 0.0
    first: CallFrame = attempt.first or attempt
    while (outer := enclosing(first)) is not None and outer.deadline_at == at:
        first = outer.first or outer  # it inherits the deadline
    return too_late(round(at - first.started, 4), Executed.MAYBE, None)


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
