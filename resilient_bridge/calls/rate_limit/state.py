"""One rate limit as a single number: the time at which its token bucket is full again. Pure.

The bucket holds `calls` tokens and fills up in `per` seconds. Because no tokens are counted,
nothing has to be refilled, and no fraction of a token gets lost.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from ...locks import new_lock
from ..registry import Sort
from ..rejections import ThrottledError


if TYPE_CHECKING:
    from .value import RateLimit


# seconds: allows for rounding, as in a hundred times a hundredth of a second
_ROUNDING: Final = 1e-9


class RateState:
    """The rate limit `key` with its `settings`; the caller passes monotonic seconds."""

    __slots__ = ("__weakref__", "_full_at", "_lock", "_per", "key", "settings")

    def __init__(self, key: str, settings: RateLimit) -> None:
        self.key = key
        self.settings = settings
        self._lock = new_lock()
        self._full_at = -inf
        self._per = settings.per  # the numbers that `_full_at` was made with

    def reserve(self, now: float, max_wait: float) -> float:
        """Take the next turn and return the seconds until it comes, 0 for at once.

        Raises ThrottledError, and takes none, when that is more than `max_wait`. A turn that is not
        used is given back with `cancel`.
        """
        with self._lock:
            limit = self.settings
            debt = max(0.0, self._full_at - now)
            if limit.per != self._per:  # the used share of the bucket stays the same
                debt, self._per = debt * limit.per / self._per, limit.per
                self._full_at = now + debt
            debt += limit.per / limit.calls
            wait = debt - limit.per
            if wait <= _ROUNDING:
                wait = 0.0
            elif wait > max_wait + _ROUNDING:
                raise ThrottledError(self.key, limit.calls, limit.per, wait)
            self._full_at = now + debt
            return wait

    def cancel(self) -> None:
        """Give a turn back: the next caller's comes earlier; waiting callers keep theirs."""
        with self._lock:
            self._full_at -= self._per / self.settings.calls

    def configure(self, settings: RateLimit) -> None:
        """Apply other numbers; the used part of the bucket stays used, in proportion."""
        self.settings = settings


RATES: Final = Sort[RateState, "RateLimit"]("rate limit", RateState)
