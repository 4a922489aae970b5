"""The layers around a call: what each acquires before it and releases after it.

Rule: `enter` acquires, and `leave` releases exactly what was acquired, in the reverse order,
however the call ended. `leave` may return another error: the one that this layer turned the call's
error into. Neither ever waits. A layer that has to wait for its turn returns the wait, and the
loop carries it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from ..telemetry.hub import HUB
from .finished import rejected


if TYPE_CHECKING:
    from ..failure import Failure, RejectedError
    from .frame import CallFrame
    from .registry import Sort

S = TypeVar("S")


class Wait(Protocol):
    """What a layer returns if the call has to wait for it; the loop of the call carries it out."""

    def block(self) -> None:
        """Wait in this thread."""

    async def suspend(self) -> None:
        """Wait in this task."""


class Guard:
    """One layer around the calls of a policy; a strategy overrides the methods that it needs.

    All operations of the policy have the same guard. The state is that of the attempt's operation.
    """

    __slots__ = ()

    may_wait: ClassVar[bool] = False
    """Whether `enter` may return a wait: then there is no short path."""
    gives_back: ClassVar[bool] = True
    """Whether `leave` does anything."""
    is_adaptive: ClassVar[bool] = False
    """Whether it handles the server's refusals: that of an AdaptiveLimit."""
    asks_circuit: ClassVar[bool] = False
    """Whether it asks the circuit of the operation."""

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

    def leave_hedge(self, hedge: CallFrame, failure: Failure | None) -> None:
        """Give back what `enter_hedge` took; `failure`: that of the request, None for a success."""

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
    if HUB.listening and attempt.operation is not None:
        rejected(attempt.operation.name, by, key, error.failure)


def state_for(attempt: CallFrame, sort: Sort[S, Any]) -> S:
    """Return the state of this sort that the attempt's operation uses."""
    operation: Any = attempt.operation
    found: S = operation.used[sort]
    return found
