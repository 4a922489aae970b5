"""The registry of retry budgets in this process: by key, or for as long as their owner lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..names import Names
from .budget_state import BudgetState


if TYPE_CHECKING:
    from ..shared.ports import SharedState
    from .budget import RetryBudget


def _shared(store: SharedState, key: str, settings: RetryBudget, warn: bool) -> BudgetState:
    from .shared_budget import SHARED_BUDGETS  # imported here: most processes share nothing

    return SHARED_BUDGETS.get(store, key, settings, warn)


BUDGETS: Final = Names[BudgetState, "RetryBudget"]("retry budget", BudgetState, shared=_shared)
