"""A retry budget shared by several processes: the local budget and the line to the store.

Rule: while the line is up, all processes together allow a repeat. The local budget then only counts
what was allowed, so that it can decide alone when the line goes down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..shared.waits import AwaitedAnswer, is_real_time
from .budget_state import BudgetState


if TYPE_CHECKING:
    from ..frame import CallFrame
    from ..guards import Wait
    from ..shared.ports import Question, SharedState
    from .budget import RetryBudget


class Token(NamedTuple):
    """The budget's answer to one failed call, and whether it is that of all processes."""

    is_granted: bool
    is_shared: bool


class SharedBudget(BudgetState):
    """The budget `key`, shared by all users of that name with the same `store`."""

    __slots__ = ("_line", "store")

    is_shared = True

    def __init__(self, key: str, settings: RetryBudget, store: SharedState) -> None:
        self.store = store
        self._line = store.budget(key, settings)
        super().__init__(key, settings)

    def deposit(self, now: float) -> None:
        """Count a call: its first attempt, and not its repeats."""
        super().deposit(now)
        if self._line.is_up and is_real_time():
            self._line.deposit()

    def configure(self, settings: RetryBudget) -> None:
        """Apply other numbers; the calls and repeats of the last seconds still count."""
        super().configure(settings)
        self._line.configure(settings)

    def request(self, now: float) -> Token | Question[bool]:
        """Ask for a repeat: return a question for `settle`, or at once this process's answer."""
        if self._line.is_up and is_real_time():
            return self._line.ask()
        return Token(self.spend(now), is_shared=False)

    def settle(self, answer: bool | None, now: float) -> Token:
        """Return the budget's answer; without one this process decides alone."""
        if answer is None:
            return Token(self.spend(now), is_shared=False)
        if answer:
            self.note(now)
        return Token(answer, is_shared=True)

    def asked(self, first: CallFrame, frame: CallFrame) -> Wait | None:
        """Ask for a repeat after a failed attempt; return the wait for an answer of all processes.

        The answer is the `token` of the first attempt, at once or after the wait.
        """
        found = self.request(frame.world.monotonic())
        if isinstance(found, Token):
            first.token = found
            return None

        def settle(answer: bool | None) -> None:
            first.token = self.settle(answer, frame.world.monotonic())

        return AwaitedAnswer(found, frame, settle)

    def settle_up(self, first: CallFrame) -> None:
        """Give back the repeat that the decision did not use, if there is one."""
        token: Token | None = first.token
        first.token = None
        if token is not None and token.is_granted:
            self.take_back(first.world.monotonic())
            if token.is_shared:
                self._line.give_back()
