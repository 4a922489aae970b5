"""How many happened within the last seconds: the sliding window of circuits, retry budgets and
alerts. Pure.

Rule: constant memory, constant time. A window is cut into buckets, each of which expires as a
whole: of n buckets it has the newest, as far as it has passed, and the n - 1 before. A time earlier
than the newest bucket counts as the newest, so a window never goes back.
"""

from __future__ import annotations

from math import inf
from typing import Final


# shared until something has to be counted: most windows never are
_NONE: Final[list[int]] = []


class Window:
    """What was `seen`, and how much of it `failed`, in the last `seconds`, in `buckets` of them.

    Both are sums as of the last `turn`. Nothing expires before `ends` (monotonic seconds), so a
    caller that counts often first compares `now` with it:

        if now >= window.ends:
            window.turn(now)
        window.count()
    """

    __slots__ = (
        "_at",
        "_buckets",
        "_failed",
        "_newest",
        "_seen",
        "_width",
        "ends",
        "failed",
        "seen",
    )

    def __init__(self, seconds: float, buckets: int) -> None:
        self._width = seconds / buckets
        self._buckets = buckets
        self.clear()

    def clear(self) -> None:
        """Forget everything, the time too."""
        self._seen = self._failed = _NONE
        self._newest: int | None = None  # number of the newest bucket
        self._at = 0  # its index
        self.ends = -inf
        self.seen = self.failed = 0

    def turn(self, now: float) -> None:
        """Begin the bucket of `now`, and forget those that are too old then."""
        if now < self.ends:
            return
        number = int(now // self._width)
        if self.seen and self._newest is not None:
            for passed in range(max(self._newest, number - self._buckets) + 1, number + 1):
                at = passed % self._buckets
                self.seen -= self._seen[at]
                self._seen[at] = 0
                if self.failed:
                    self.failed -= self._failed[at]
                    self._failed[at] = 0
        self._newest, self._at = number, number % self._buckets
        self.ends = (number + 1) * self._width

    def count(self, seen: int = 1, failed: int = 0) -> None:
        """Count so many in the newest bucket."""
        if not self._seen:
            self._seen = [0] * self._buckets
        self._seen[self._at] += seen
        self.seen += seen
        if failed:
            if not self._failed:
                self._failed = [0] * self._buckets
            self._failed[self._at] += failed
            self.failed += failed

    def take_back(self) -> None:
        """Uncount the newest that is still counted, if there is one."""
        for before in range(len(self._seen)):
            at = (self._at - before) % self._buckets
            if self._seen[at]:
                self._seen[at] -= 1
                self.seen -= 1
                return

    def remember(self, other: Window) -> None:
        """Count what another window counts, as far as it is recent enough."""
        if other._newest is None:
            return
        for number in range(other._newest - other._buckets + 1, other._newest + 1):
            at = number % other._buckets
            self.turn((number + 0.5) * other._width)
            if other.seen and other._seen[at]:
                self.count(other._seen[at], other._failed[at] if other.failed else 0)
