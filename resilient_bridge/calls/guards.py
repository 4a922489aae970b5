"""The layers that stand around a call without changing its course: what each takes before it, and gives back after.

Rule: `enter` takes, `leave` gives back exactly what was taken, in the reverse order, however the call ended. `leave` may answer with
another error: the one that this layer's decision turned the end into. Neither ever waits; a layer that has to wait for
its turn returns the wait, and the runner, which knows how, does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from ..telemetry.hub import HUB
from .finished import rejected


if TYPE_CHECKING:
    from ..errors import RejectedError
    from .frame import CallFrame

__all__ = ["Guard", "Wait", "not_admitted"]


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
