"""How many repeats the calls of the last ten seconds have earned, and how many are spent. Pure.

A repeat is allowed if with it no more than `ratio` of the calls of the last 10 s, plus `floor`,
were repeats in the last 10 s. Time is counted in whole seconds, to the strict side: a call stops
earning after 9 to 10 s, a repeat stops counting after 10 to 11.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar, Final

from ...locks import new_lock
from ...values.window import Window


if TYPE_CHECKING:
    from .value import RetryBudget


_EARNS: Final = 10  # seconds that a call earns for
_SPENDS: Final = _EARNS + 1  # seconds that a repeat counts for
_ROUNDING: Final = 1e-9  # five calls at 0.2 are a whole repeat
# Of all budgets: it holds for arithmetic, and each function has a budget.
_LOCK: Final = new_lock()


class BudgetState:
    """The budget `key`, with the numbers of its `settings`; times are monotonic seconds.

    `is_full` is a plain attribute: True means that `deposit` would change nothing.
    """

    is_shared: ClassVar[bool] = False
    """Whether several processes share it, so that a repeat needs their answer."""

    __slots__ = (
        "__weakref__",
        "_counted",
        "_earned",
        "_spent",
        "calls",
        "is_full",
        "key",
        "next_second_at",
        "settings",
    )

    def __init__(self, key: str, settings: RetryBudget) -> None:
        self.key = key
        self.calls = 0  # calls ever: never set back, so that a deposit needs no lock
        self._counted = 0  # of those, the calls before this second
        self._earned = Window(_EARNS, _EARNS)  # the counted ones, by seconds
        self._spent: Window | None = None  # made with the first repeat: few functions ever fail
        self.next_second_at = -inf
        self.configure(settings)

    def deposit(self, now: float) -> None:
        """Count a call: its first attempt, and not its repeats."""
        if now >= self.next_second_at:
            self.turn(now)
        # No lock: if two threads meet here, one call may be lost, which allows a fifth of a repeat
        # less.
        self.calls += 1

    def turn(self, now: float) -> None:
        """Begin another second; to be called before a deposit once `next_second_at` has come."""
        with _LOCK:
            self._begin(now)

    def spend(self, now: float) -> bool:
        """Return whether one more repeat is allowed; count it if so. Call it before the wait."""
        with _LOCK:
            if now >= self.next_second_at:
                self._begin(now)
            budget = self.settings
            calls = self._earned.seen + self.calls - self._counted
            allowed = budget.ratio * calls + budget.floor
            spent = self._spent or self._new_spent()
            if spent.seen + 1 > allowed + _ROUNDING:
                return False
            spent.count()
            return True

    def remaining(self, now: float) -> float:
        """Return how many repeats would be allowed now; nothing is counted."""
        with _LOCK:
            self._begin(now)
            calls = self._earned.seen
            spent = 0 if self._spent is None else self._spent.seen
            return max(0.0, self.settings.ratio * calls + self.settings.floor - spent)

    def note(self, now: float) -> None:
        """Count a repeat that was allowed elsewhere."""
        with _LOCK:
            self._begin(now)
            (self._spent or self._new_spent()).count()

    def take_back(self, now: float) -> None:
        """Uncount the last repeat: it was not made."""
        with _LOCK:
            self._begin(now)
            if self._spent is not None:
                self._spent.take_back()

    def configure(self, settings: RetryBudget) -> None:
        """Apply other numbers; the calls and repeats of the last seconds still count."""
        self.settings = settings
        self.is_full = settings.ratio == 0

    def _new_spent(self) -> Window:
        spent = self._spent = Window(_SPENDS, _SPENDS)
        spent.turn(self.next_second_at - 0.5)  # the second that has begun, whatever time it is
        return spent

    def _begin(self, now: float) -> None:
        """Start the second of `now`; an earlier `now` than the last counts as the last second."""
        fresh = self.calls - self._counted
        if fresh:  # they belong to the second that ends
            self._counted += fresh
            self._earned.count(fresh)
        self._earned.turn(now)
        if self._spent is not None:
            self._spent.turn(now)
        self.next_second_at = self._earned.ends
