"""The registry of retry budgets in this process: by key, or for as long as their owner lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..registry import Sort
from .budget_state import BudgetState


if TYPE_CHECKING:
    from ..shared.ports import SharedState
    from .budget import RetryBudget
    from .shared_budget import SharedBudget


def _shared() -> Any:
    from .shared_budget import SharedBudget  # imported here: most processes share nothing

    def make(store: SharedState, key: str, settings: RetryBudget) -> SharedBudget:
        return SharedBudget(key, settings, store)

    return make


BUDGETS: Final = Sort[BudgetState, "RetryBudget"]("retry budget", BudgetState, shared=_shared)
