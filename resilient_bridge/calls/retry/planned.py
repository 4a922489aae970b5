"""What the repeats of a call need of the policy that was made ready for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..frame import Planned
from .refresh_lock import RefreshLock, refresh_lock_of


if TYPE_CHECKING:
    from ...values.rule import Rule
    from ..guards import CircuitAsked
    from .budget_state import BudgetState
    from .decision import Matcher
    from .pause import Pause
    from .value import Retry


class RepeatPlan(Planned):
    """The part of a plan that the repeats need."""

    __slots__ = ()

    retry: Retry | None
    matcher: Matcher
    budget: BudgetState | None
    pause: Pause
    circuits: tuple[CircuitAsked, ...]  # those inside the Retry whose rejection ends the call
    allowed_by: str  # how a user would permit repeats
    refresh_locks: dict[int, RefreshLock]

    def refresh_lock(self, rule: Rule | None) -> RefreshLock:
        """Return where the calls that repeat by this rule wait for its `before`, those of the policy's other functions among them."""
        found = self.refresh_locks.get(id(rule))
        if found is None:
            found = self.refresh_locks[id(rule)] = refresh_lock_of(rule)
        return found
