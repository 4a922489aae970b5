"""The attempt as the called function may see it: `rb.current_attempt()`.

Rule: it is a read-only view. The engine's own record is `frame.CallFrame`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from .frame import CURRENT


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..failure import Failure
    from .frame import CallFrame


class Attempt:
    """The current attempt, as the called function sees it. Read-only.

        @rb.resilient(idempotent=True)
        def order(item: str) -> str:
            attempt = rb.current_attempt()      # .idempotency_key is the same in each attempt
            return f"{item}: attempt {attempt.number}"
        print(order("book"))      # book: attempt 1

    `number` counts calls from 1. `failure` is how the previous attempt failed, None on the first;
    in a schedule, it is how this attempt failed.
    """

    __slots__ = ("__weakref__", "_failure", "_frame")

    def __init__(self, frame: CallFrame) -> None:
        """Create the view; only this package does."""
        self._frame = frame
        self._failure: Failure | None = None
        frame.view = ref(self)

    @property
    def number(self) -> int:
        """The number of this attempt, from 1."""
        return self._frame.number

    @property
    def failure(self) -> Failure | None:
        """How the previous attempt failed, None on the first; in a schedule, how this one did."""
        return self._failure or self._frame.failure

    @property
    def remaining(self) -> float | None:
        """The seconds until the nearest deadline of this call, never negative; None without one."""
        return self._frame.remaining

    @property
    def idempotency_key(self) -> str:
        """The call's key, the same on all its attempts: the server recognises a repeat by it."""
        return self._frame.idempotency_key

    def __repr__(self) -> str:
        """Return the number and the time left."""
        remaining = self.remaining
        return f"<Attempt {self.number}{'' if remaining is None else f', {remaining:.1f} s left'}>"


def current_attempt() -> Attempt | None:
    """Return the attempt this code runs in, None outside of a protected call.

        @rb.resilient(idempotent=True)
        def fetch() -> int:
            return rb.current_attempt().number
        print(fetch())      # 1

    A task that outlives the call that started it is outside again.
    """
    frame = CURRENT.get()
    if frame.plan is None or frame.is_over:
        return None
    return view_of(frame)


def view_of(frame: CallFrame) -> Attempt:
    """Return the view of an attempt; every reader gets the same one, as long as one keeps it."""
    seen: Any = None if frame.view is None else frame.view()
    return cast("Attempt | None", seen) or Attempt(frame)


def ask_schedule(schedule: Callable[[Attempt], Any], frame: CallFrame, failure: Failure) -> Any:
    """Return the answer of a user's schedule for an attempt that has just ended in `failure`.

    A view that is kept does not keep the failure alive: it would hold the error and all its frames.
    """
    view = Attempt(frame)
    view._failure = failure  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    try:
        return schedule(view)
    finally:
        view._failure = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
