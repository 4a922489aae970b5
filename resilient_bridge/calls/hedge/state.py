"""What the requests behind one Hedge have shown: how long answers take, and the budget. Pure.

The time after which a further request starts is learnt from the last answers. A request that lost
its race counts with the time until it was cancelled, which is beyond that time anyway: the share of
slow answers stays right, although nobody knows how slow they would have been.

Each request earns `budget` of a further one, and what the last 200 have earned is kept. So no more
than that share of all requests are further ones, from the first request on.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from ...locks import new_lock


if TYPE_CHECKING:
    from .value import Hedge


_ANSWERS: Final = 200  # answers
_LEAST: Final = 20  # answers that are known before a time is taken from them
_SHARE: Final = 0.95
_SHORTEST: Final = 0.001  # seconds: of a function that answers at once
_EARNING: Final = 200  # requests whose earnings are kept
_ROUNDING: Final = 1e-9  # twenty requests at 0.05 are a whole one
_REFUSED: Final = 10.0  # seconds without a further request after a refusal that names none


class HedgeState:
    """The answers, the budget and the last refusal of one owner; times are monotonic seconds."""

    __slots__ = ("_answers", "_credit", "_lock", "_refused_until", "_sorted")

    def __init__(self) -> None:
        self._lock = new_lock()
        self._answers: deque[float] = deque()
        self._sorted: list[float] = []
        self._credit = 0.0
        self._refused_until = -inf

    def begin(self, layer: Hedge) -> float | None:
        """Count a request; return the seconds after which a further one starts, None for none."""
        with self._lock:
            self._credit = min(self._credit + layer.budget, max(1.0, _EARNING * layer.budget))
            if layer.after is not None:
                return layer.after
            known = len(self._sorted)
            if known < _LEAST:
                return None
            return max(_SHORTEST, self._sorted[ceil(_SHARE * known) - 1])

    def take(self, now: float) -> bool:
        """Return whether a further request may start now; count it if so."""
        with self._lock:
            if self._credit < 1 - _ROUNDING or now < self._refused_until:
                return False
            self._credit -= 1
            return True

    def give_back(self) -> None:
        """Uncount a further request that was not sent."""
        with self._lock:
            self._credit += 1

    def answered(self, seconds: float) -> None:
        """Learn how long the first request took to its answer, or until another one answered."""
        with self._lock:
            if len(self._answers) == _ANSWERS:
                del self._sorted[bisect_left(self._sorted, self._answers.popleft())]
            self._answers.append(seconds)
            insort(self._sorted, seconds)

    def refused(self, now: float, retry_after: float | None) -> None:
        """Start no further request for a while: the server has no room."""
        until = now + (_REFUSED if retry_after is None else retry_after)
        with self._lock:
            self._refused_until = max(self._refused_until, until)
