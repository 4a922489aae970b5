"""What the function that is called may see of its attempt: `rb.current_attempt()`.

Rule: a view, and nothing to change. The engine's own record is `frame.CallFrame`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from .frame import CURRENT


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..errors import Failure
    from .frame import CallFrame


class Attempt:
    """An attempt, as the function that is called sees it. Read-only.

    `number` counts calls from 1. `failure` is how the attempt before it ended, None at first; for a schedule, how this one did.
    """

    __slots__ = ("__weakref__", "_failure", "_frame")

    def __init__(self, frame: CallFrame) -> None:
        """See an attempt; made by this package alone."""
        self._frame = frame
        self._failure: Failure | None = None
        frame.view = ref(self)

    @property
    def number(self) -> int:
        """Which call it is, from 1."""
        return self._frame.number

    @property
    def failure(self) -> Failure | None:
        """How the attempt before it ended, None at first; for a schedule, how this one did."""
        return self._failure or self._frame.failure

    @property
    def remaining(self) -> float | None:
        """Seconds until the deadline of this call or one around it, never negative; None without one."""
        return self._frame.remaining

    @property
    def idempotency_key(self) -> str:
        """The key of this call: the same on all its attempts, so that the server can tell a repeat."""
        return self._frame.idempotency_key

    def __repr__(self) -> str:
        """Return the number and the time left."""
        remaining = self.remaining
        return f"<Attempt {self.number}{'' if remaining is None else f', {remaining:.1f} s left'}>"


def current_attempt() -> Attempt | None:
    """Return the attempt this code runs in, None outside of a protected call.

    A task that outlives the call that started it is outside again.
    """
    frame = CURRENT.get()
    if frame.plan is None or frame.is_over:
        return None
    seen: Any = None if frame.view is None else frame.view()
    return cast("Attempt | None", seen) or Attempt(frame)


def ask_schedule(schedule: Callable[[Attempt], Any], frame: CallFrame, failure: Failure) -> Any:
    """Return what a schedule of the user's says about an attempt that has just ended in `failure`.

    Who keeps the view does not keep the failure: it holds the error, and that holds every frame.
    """
    view = Attempt(frame)
    view._failure = failure  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    try:
        return schedule(view)
    finally:
        view._failure = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
