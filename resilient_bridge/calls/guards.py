"""The layers that stand around a call without changing its course: what each takes before it, and gives back after.

Rule: `enter` takes, `leave` gives back exactly what was taken, in the reverse order, however the call ended. `leave` may answer with
another error: the one that this layer's decision turned the end into. Neither ever waits; a layer that has to wait for
its turn returns the wait, and the runner, which knows how, does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from ..telemetry.hub import HUB
from .finished import rejected


if TYPE_CHECKING:
    from ..errors import Failure, RejectedError
    from .frame import CallFrame
    from .steps import Step


class CircuitAsked(Protocol):
    """What the engine asks of a circuit itself, in the place of its guard. Permits are whole numbers; times are monotonic seconds."""

    key: str
    era: int
    """The permit of a call that is let through while the circuit is closed."""
    is_plain: bool
    """Closed, and no call can be too slow."""
    is_closed: bool
    is_silent: bool
    """A success would change nothing, and no call can be too slow."""
    tell_after: float
    """Seconds from which on a success is reported."""
    under_way: Any
    """The calls that can be too slow, None where none can."""

    def admit(self, now: float) -> int:
        """Return a permit, or raise CircuitOpenError."""
        ...

    def rejects(self, now: float, /) -> bool:
        """Return whether it would reject a call at this moment."""
        ...

    def count_overdue(self, now: float) -> None:
        """Count the calls that take too long already."""

    def is_counted(self, call: Any) -> bool:
        """Return whether the call was counted while it was under way; asked once."""
        ...

    def succeeded(self, permit: int, now: float, seconds: float) -> None:
        """The call ended well."""


class Guard:
    """One layer around the call, with its state. What the engine may ask of any; a strategy overrides what concerns it."""

    __slots__ = ()

    may_wait: ClassVar[bool] = False
    """Whether `enter` may return a wait: then there is no short way."""
    gives_back: ClassVar[bool] = True
    """Whether `leave` does anything."""
    circuit: CircuitAsked | None = None
    """The circuit that it asks, if it asks one."""

    def enter(self, attempt: CallFrame) -> Step | None:
        """Take what the call needs, or raise a RejectedError; return the wait for it, which may raise one, too."""
        raise NotImplementedError

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:  # noqa: ARG002 -- for those that give something back
        """Give it back; `error` is how the call ended. Return the error it ends with beyond this layer."""
        return error

    def conditions(self) -> tuple[Any, ...]:
        """Return the conditions of the user's that `leave` and `answered` ask about a failure."""
        return ()

    def answered(self, attempt: CallFrame, failure: Failure) -> None:
        """The call returned what stands for a failure, such as a 503; `leave` follows."""

    def broke_off(self, attempt: CallFrame, error: BaseException, failure: Failure) -> None:
        """A stream that had started well failed later."""


def not_admitted(
    attempt: CallFrame, by: Literal["circuit", "bulkhead", "rate_limit"], key: str, error: RejectedError
) -> None:
    """A layer rejects the attempt: nothing was called."""
    attempt.is_rejected = True
    if HUB.listening and attempt.plan is not None:
        rejected(attempt.plan.name, by, key, error.failure)
