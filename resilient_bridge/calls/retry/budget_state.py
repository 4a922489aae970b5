"""How many repeats the calls of the last ten seconds have earned, and how many are spent. Pure.

A repeat is allowed if with it no more than `ratio` of the calls of the last 10 s, plus `floor`,
were repeats in the last 10 s. Time is counted in whole seconds, to the strict side: a call stops
earning after 9 to 10 s, a repeat stops counting after 10 to 11.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, ClassVar, Final

from ...locks import new_lock


if TYPE_CHECKING:
    from .budget import RetryBudget


_EARNS: Final = 10  # seconds that a call earns for
_PLACES: Final = _EARNS + 1  # seconds that a repeat counts for
# shared until a second has to be recorded: most budgets are never asked
_NONE: Final = [0] * _PLACES
_ROUNDING: Final = 1e-9  # five calls at 0.2 are a whole repeat


class BudgetState:
    """The budget `key`, with the numbers of its `settings`; times are monotonic seconds.

    `is_full` is a plain attribute: True means that `deposit` would change nothing.
    """

    is_shared: ClassVar[bool] = False
    """Whether several processes share it, so that a repeat needs their answer."""

    __slots__ = (
        "__weakref__",
        "_calls",
        "_counted",
        "_earning",
        "_lock",
        "_second",
        "_spent",
        "_spent_sum",
        "calls",
        "is_full",
        "key",
        "next_second_at",
        "settings",
    )

    def __init__(self, key: str, settings: RetryBudget) -> None:
        self.key = key
        self._lock = new_lock()
        self.calls = 0  # calls ever: never set back, so that a deposit needs no lock
        self._counted = 0  # of those, the calls before this second
        self._calls = _NONE  # in each second before
        self._earning = 0  # the sum of those that still count
        self._spent = _NONE
        self._spent_sum = 0
        self._second: int | None = None
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
        with self._lock:
            self._begin(now)

    def spend(self, now: float) -> bool:
        """Return whether one more repeat is allowed; count it if so. Call it before the wait."""
        with self._lock:
            if now >= self.next_second_at:
                self._begin(now)
            budget = self.settings
            calls = self._earning + self.calls - self._counted
            allowed = budget.ratio * calls + budget.floor
            if self._spent_sum + 1 > allowed + _ROUNDING:
                return False
            self._count()
            return True

    def remaining(self, now: float) -> float:
        """Return how many repeats would be allowed now; nothing is counted."""
        with self._lock:
            self._begin(now)
            calls = self._earning + self.calls - self._counted
            return max(0.0, self.settings.ratio * calls + self.settings.floor - self._spent_sum)

    def note(self, now: float) -> None:
        """Count a repeat that was allowed elsewhere."""
        with self._lock:
            self._begin(now)
            self._count()

    def take_back(self, now: float) -> None:
        """Uncount the last repeat: it was not made."""
        with self._lock:
            self._begin(now)
            for before in range(_PLACES):
                at = ((self._second or 0) - before) % _PLACES
                if self._spent[at]:
                    self._spent[at] -= 1
                    self._spent_sum -= 1
                    return

    def configure(self, settings: RetryBudget) -> None:
        """Apply other numbers; the calls and repeats of the last seconds still count."""
        self.settings = settings
        self.is_full = settings.ratio == 0

    def _count(self) -> None:
        if self._spent is _NONE:
            self._spent = list(_NONE)
        self._spent_sum += 1
        self._spent[(self._second or 0) % _PLACES] += 1

    def _begin(self, now: float) -> None:
        """Start the second of `now`; an earlier `now` than the last counts as the last second."""
        second = int(now // 1)
        last = self._second
        if last is not None:
            if second <= last:
                return
            if self._calls is _NONE:
                self._calls = list(_NONE)
            fresh = self.calls - self._counted
            self._counted += fresh
            self._calls[last % _PLACES] = fresh
            self._earning += fresh
            for passed in range(max(last, second - _PLACES) + 1, second + 1):
                self._earning -= self._calls[(passed - _EARNS) % _PLACES]
                self._calls[(passed - _EARNS) % _PLACES] = 0
                if self._spent_sum:
                    self._spent_sum -= self._spent[passed % _PLACES]
                    self._spent[passed % _PLACES] = 0
        self._second = second
        self.next_second_at = second + 1.0
