"""A retry budget that several processes share: this process's own, which is fed all along, and the line to the others.

Rule: while the line is up, a repeat is allowed by all processes together or not at all. The own budget only counts what was allowed, so
that it knows what to do when the line goes down and it has to decide alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..retry.budget_state import BudgetState
from .circuit import is_real_time


if TYPE_CHECKING:
    from ..retry.budget import RetryBudget
    from .ports import Question, SharedState

__all__ = ["SharedBudget", "Token"]


class Token(NamedTuple):
    """What the budget said to one failed call, and whether all processes said it."""

    is_granted: bool
    is_shared: bool


class SharedBudget(BudgetState):
    """The budget `key`, shared by all who say that name to the same `store`."""

    __slots__ = ("_line", "store")

    def __init__(self, key: str, budget: RetryBudget, store: SharedState) -> None:
        self.store = store
        self._line = store.budget(key, budget)
        super().__init__(key, budget)

    def deposit(self, now: float) -> None:
        """Count a call: its first attempt, and not its repeats."""
        super().deposit(now)
        if self._line.is_up and is_real_time():
            self._line.deposit()

    def configure(self, budget: RetryBudget) -> None:
        """Go on with other numbers; what was called and repeated in the last seconds still counts."""
        super().configure(budget)
        self._line.configure(budget)

    def request(self, now: float) -> Token | Question[bool]:
        """Ask for a repeat: what has to be waited for, for `settle`, or at once what this process says alone."""
        if self._line.is_up and is_real_time():
            return self._line.ask()
        return Token(self.spend(now), is_shared=False)

    def settle(self, answer: bool | None, now: float) -> Token:
        """Return what the budget said; without an answer this process decides alone."""
        if answer is None:
            return Token(self.spend(now), is_shared=False)
        if answer:
            self.note(now)
        return Token(answer, is_shared=True)

    def give_back(self, token: Token, now: float) -> None:
        """Return a repeat that was not made."""
        if token.is_granted:
            self.take_back(now)
            if token.is_shared:
                self._line.give_back()
