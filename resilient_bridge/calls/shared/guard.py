"""The layer that asks a circuit shared between processes, and may have to wait for the answer.

Rule: only what cannot be known here is waited for: a circuit that nobody has looked at for seconds, one that this process's own failures
may just have opened, and the place of a probe. Everything else goes by what was last heard.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...errors import RejectedError
from ..breaker.guard import BreakerGuard
from ..guards import not_admitted
from .waits import Answer


if TYPE_CHECKING:
    from ..breaker.value import Breaker
    from ..frame import CallFrame
    from ..guards import Wait
    from .circuit import SharedCircuit
    from .ports import CircuitAnswer

__all__ = ["SharedBreakerGuard"]


class SharedBreakerGuard(BreakerGuard):
    """Asks the shared circuit before the call, and tells it how the call ended."""

    __slots__ = ("shared",)

    may_wait = True

    def __init__(self, shared: SharedCircuit, layer: Breaker, named: tuple[object, ...]) -> None:
        super().__init__(shared, layer, named)
        self.shared = shared

    def enter(self, attempt: CallFrame) -> Wait | None:
        now = attempt.world.monotonic()
        self.shared.count_overdue(now)
        try:
            found = self.shared.try_admit(now)
        except RejectedError as error:
            not_admitted(attempt, "circuit", self.shared.key, error)
            raise
        if isinstance(found, int):
            self.admitted(attempt, found)
            return None
        return Answer(found, attempt, partial(self._settle, attempt))

    def _settle(self, attempt: CallFrame, answer: CircuitAnswer | None) -> None:
        try:
            self.admitted(attempt, self.shared.settle(answer, attempt.world.monotonic()))
        except RejectedError as error:
            not_admitted(attempt, "circuit", self.shared.key, error)
            raise

    def under_way(self) -> int:
        return self.shared.unasked()
