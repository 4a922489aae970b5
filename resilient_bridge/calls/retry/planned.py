"""What the repeats of a call need of the policy that was compiled for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from ...values.rule import Rule
    from ..guards import CircuitAsked
    from .budget_state import BudgetState
    from .decision import Matcher
    from .pause import Pause
    from .refresh_lock import RefreshLock


class RepeatPlan(Protocol):
    """The part of a plan that the repeats need."""

    @property
    def matcher(self) -> Matcher: ...
    @property
    def budget(self) -> BudgetState | None: ...
    @property
    def pause(self) -> Pause: ...
    @property
    def circuits(self) -> tuple[CircuitAsked, ...]: ...
    @property
    def idempotent(self) -> bool | None: ...
    @property
    def proofs(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def allowed_by(self) -> str: ...
    def gate(self, rule: Rule | None, /) -> RefreshLock: ...
