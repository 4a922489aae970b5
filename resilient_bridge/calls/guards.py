"""The layers around a call: what each acquires before it and releases after it.

Rule: `enter` acquires, and `leave` releases exactly what was acquired, in the reverse order,
however the call ended. `leave` may return another error: the one that this layer turned the call's
error into. Neither ever waits. A layer that has to wait for its turn returns the wait, and the
loop carries it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..telemetry.hub import HUB
from .finished import rejected


if TYPE_CHECKING:
    from ..failure import Failure, RejectedError
    from .frame import CallFrame


class Wait(Protocol):
    """What a layer returns if the call has to wait for it; the loop of the call carries it out."""

    def block(self) -> None:
        """Wait in this thread."""

    async def suspend(self) -> None:
        """Wait in this task."""


class CircuitAsked(Protocol):
    """The part of a circuit that the engine uses directly, without its guard.

    Permits are whole numbers; times are monotonic seconds.
    """

    key: str
    era: int
    """The permit of a call that is let through while the circuit is closed."""
    is_plain: bool
    """Whether it is closed, and no call can be too slow."""
    is_closed: bool
    is_silent: bool
    """A success would change nothing, and no call can be too slow."""
    tell_after: float
    """Seconds from which a success has to be reported."""
    under_way: Any
    """The calls that can be too slow, None if none can."""

    def admit(self, now: float) -> int:
        """Return a permit, or raise CircuitOpenError."""
        ...

    def rejects(self, now: float, /) -> bool:
        """Return whether it would reject a call at this moment."""
        ...

    def link_ready(self, now: float) -> None:
        """The link whose calls it guards is READY again."""

    def count_overdue(self, now: float) -> None:
        """Count the running calls that already take too long."""

    def is_counted(self, call: Any) -> bool:
        """Return whether the call was counted while it ran; called once."""
        ...

    def succeeded(self, permit: int, now: float, seconds: float) -> None:
        """Count a call that succeeded."""


class Guard:
    """One layer around the call, with its state; a strategy overrides the methods that it needs."""

    __slots__ = ()

    may_wait: ClassVar[bool] = False
    """Whether `enter` may return a wait: then there is no short path."""
    gives_back: ClassVar[bool] = True
    """Whether `leave` does anything."""
    circuit: CircuitAsked | None = None
    """The circuit that the layer uses, if it uses one."""

    def enter(self, attempt: CallFrame) -> Wait | None:
        """Acquire what the call needs, or raise a RejectedError.

        Return the wait for it if there is one; the wait may raise a RejectedError, too.
        """
        raise NotImplementedError

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:  # noqa: ARG002 -- for those that give something back
        """Release it; return the error of the call as seen outside of this layer.

        `error` is the error that the call ended with.
        """
        return error

    def conditions(self) -> tuple[Any, ...]:
        """Return the user's conditions that `leave` and `answered` evaluate for a failure."""
        return ()

    def answered(self, attempt: CallFrame, failure: Failure) -> None:
        """Handle a returned value that represents a failure, such as a 503; `leave` follows."""

    def enter_hedge(self, hedge: CallFrame) -> bool:  # noqa: ARG002 -- for those that bound requests
        """Take what a further request of an attempt that runs needs; False if it is not there now."""
        return True

    def leave_hedge(self, hedge: CallFrame) -> None:
        """Give back what `enter_hedge` took."""

    def broke_off(self, attempt: CallFrame, error: BaseException, failure: Failure) -> None:
        """Handle the late failure of a stream that had started well."""


def not_admitted(
    attempt: CallFrame,
    by: str,
    key: str,
    error: RejectedError,
) -> None:
    """Record that a layer rejects the attempt: the function was not called."""
    attempt.is_rejected = True
    if HUB.listening and attempt.plan is not None:
        rejected(attempt.plan.name, by, key, error.failure)
