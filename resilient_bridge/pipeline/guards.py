"""The layers that stand around a call without changing its course: what each takes before it, and gives back after.

Rule: `enter` takes, `leave` gives back exactly what was taken, in the reverse order, however the call ended. `leave` may answer with
another error: the one that this layer's decision turned the end into. Neither ever waits; a layer that has to wait for
its turn returns the wait, and the runner, which knows how, does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from ..errors import (
    AttemptTimeoutError,
    DeadlineExceededError,
    Executed,
    Failure,
    RejectedError,
)
from ..telemetry.hub import HUB
from .evidence import failure_in
from .finished import rejected
from .timers import Timers, timers_of
from .verdicts import counts_for_breaker


if TYPE_CHECKING:
    from ..policies.breaker import Breaker
    from ..policies.timeout import Timeout
    from .breaker_state import CircuitState
    from .frame import CallFrame

__all__ = ["BreakerGuard", "DeadlineGuard", "Guard", "TimeoutGuard", "Wait", "not_admitted"]


E = TypeVar("E", bound=BaseException)


class Wait(Protocol):
    """A turn to be waited for, in the way of the runner; raises a RejectedError when it does not come in time."""

    def block(self) -> None:
        """Wait in this thread."""

    async def suspend(self) -> None:
        """Wait in this task."""


class Guard(Protocol):
    """One layer around the call, with its state."""

    def enter(self, attempt: CallFrame) -> Wait | None:
        """Take what the call needs, or raise a RejectedError."""

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        """Give it back; `error` is how the call ended. Return the error it ends with beyond this layer."""


def not_admitted(
    attempt: CallFrame, by: Literal["circuit", "bulkhead", "rate_limit"], key: str, error: RejectedError
) -> None:
    """A layer rejects the attempt: nothing was called."""
    attempt.is_rejected = True
    if HUB.listening and attempt.plan is not None:
        rejected(attempt.plan.name, by, key, error.failure)


class BreakerGuard:
    """Asks the circuit before the call, and tells it how the call ended."""

    __slots__ = ("layer", "named", "state")

    def __init__(self, state: CircuitState, layer: Breaker, named: tuple[object, ...]) -> None:
        self.state = state
        self.layer = layer
        self.named = named

    def enter(self, attempt: CallFrame) -> Wait | None:
        state = self.state
        if state.under_way is not None:
            state.count_overdue(attempt.world.monotonic())
        elif state.is_closed:
            attempt.permit = state.era
            return None
        self.admitted(attempt, state.era if state.is_closed else self.admit(attempt))
        return None

    def admitted(self, attempt: CallFrame, permit: int) -> None:
        """Keep the permit of a call that begins."""
        attempt.permit = permit
        self.state.began(attempt)

    def admit(self, attempt: CallFrame) -> int:
        """Ask a circuit that is not closed."""
        try:
            return self.state.admit(attempt.world.monotonic())
        except RejectedError as error:
            not_admitted(attempt, "circuit", self.state.key, error)
            raise

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        permit = attempt.permit
        if permit is None:
            return error
        attempt.permit = None
        if self.state.is_counted(attempt):
            return error
        if error is None:
            now = attempt.world.monotonic()
            self.state.succeeded(permit, now, now - attempt.started)
            return None
        self._ended(permit, attempt, error, failure_in(attempt, error))
        return error

    def answered(self, attempt: CallFrame, failure: Failure) -> None:
        """The call returned what stands for a failure, such as a 503."""
        permit, attempt.permit = attempt.permit, None
        if permit is not None and not self.state.is_counted(attempt):
            self._ended(permit, attempt, None, failure)

    def broke_off(self, attempt: CallFrame, error: BaseException, failure: Failure) -> None:
        """A stream that had begun well failed later."""
        if self.state.is_closed:
            self._ended(self.under_way(), attempt, error, failure)

    def under_way(self) -> int:
        """Return the permit of what goes on without having been asked for."""
        return self.state.era

    def _ended(
        self, permit: int, attempt: CallFrame, error: BaseException | None, failure: Failure | None
    ) -> None:
        now = attempt.world.monotonic()
        seconds = now - attempt.started
        verdict = "neutral"
        try:
            if failure is not None and not issubclass(type(error), RejectedError):
                verdict = counts_for_breaker(failure, self.layer, self.named)
        except BaseException:  # a predicate of the user's: its mistake says nothing of the other side
            self.state.released(permit, now, seconds)
            raise
        if verdict == "neutral":
            self.state.released(permit, now, seconds)
        else:
            self.state.failed(permit, now, seconds, critical=verdict == "critical", because=failure)


class TimeoutGuard:
    """Bounds one attempt of an async function; the last duration of an escalating one repeats."""

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


class DeadlineGuard:
    """Bounds a whole call of an async function: every attempt and every wait in between."""

    __slots__ = ("timers",)

    def __init__(self, seconds: float) -> None:
        self.timers = timers_of("deadline", seconds)

    def enter(self, attempt: CallFrame) -> None:
        bound(attempt, self.timers.seconds)
        self.timers.enter(attempt, attempt.world)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        return (
            too_late(self.timers.seconds, Executed.MAYBE, error)
            if self.timers.leave(attempt, error)
            else error
        )


class BlockDeadlineGuard:
    """Bounds one attempt of an async loop by what its deadline, set when the loop began, has left."""

    __slots__ = ("running", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.running: dict[CallFrame, Timers] = {}

    def enter(self, attempt: CallFrame) -> None:
        timers = self.running[attempt] = Timers(still_left(attempt, self.seconds))
        timers.enter(attempt, attempt.world)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        timers = self.running.pop(attempt, None)
        is_late = timers is not None and timers.leave(attempt, error)
        if timers is not None:
            timers.close()
        return too_late(self.seconds, Executed.MAYBE, error) if is_late else error


class SyncDeadlineGuard:
    """Bounds a whole call of a sync function: nothing is begun, and nothing is waited for, beyond it."""

    __slots__ = ("is_bound", "seconds")

    def __init__(self, seconds: float, *, is_bound: bool) -> None:
        self.seconds = seconds
        self.is_bound = is_bound  # the deadline was set when the loop began

    def enter(self, attempt: CallFrame) -> None:
        if self.is_bound:
            still_left(attempt, self.seconds)
        else:
            bound(attempt, self.seconds)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:  # noqa: ARG002 -- as guards do
        return error


def bound(attempt: CallFrame, seconds: float) -> None:
    """Give the call its deadline, no later than one it inherits; a call that comes too late is not begun."""
    now = attempt.world.monotonic()
    inherited, own = attempt.deadline_at, now + seconds
    attempt.deadline_at = own if inherited is None else min(own, inherited)
    if attempt.deadline_at <= now:  # only one that was inherited can have passed already
        attempt.is_rejected = True
        text = "the deadline of the call around this one has passed"
        raise DeadlineExceededError(Failure.of("SYS_DEADLINE_EXCEEDED", text, executed=Executed.NO))


def still_left(attempt: CallFrame, seconds: float) -> float:
    """Return the seconds left of a deadline that has been set; an attempt that comes too late is not begun."""
    left = attempt.remaining
    if left is None:
        return seconds
    if left <= 0:
        attempt.is_rejected = True
        raise too_late(seconds, Executed.NO, None)
    return left


def too_late(seconds: float, executed: Executed, cause: BaseException | None) -> DeadlineExceededError:
    """Return the error for a deadline that has passed."""
    return _caused(
        DeadlineExceededError(
            Failure.of(
                "SYS_DEADLINE_EXCEEDED", f"deadline of {seconds:g} s exceeded", executed=executed, cause=cause
            )
        ),
        cause,
    )


def timed_out(seconds: float, cause: BaseException | None, of_what: str = "") -> AttemptTimeoutError:
    """Return the error for one attempt, or one item of a stream, that took too long."""
    text = f"timed out after {seconds:g} s{of_what}"
    failure = Failure.of("SYS_TIMEOUT", text, executed=Executed.MAYBE, cause=cause)
    return _caused(AttemptTimeoutError(failure), cause)


def _caused(error: E, cause: BaseException | None) -> E:
    error.__cause__ = cause
    return error
