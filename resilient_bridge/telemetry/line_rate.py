"""How many lines of each kind a log may have, so that nobody fills a disk by repeating himself. Pure.

Rule: the first lines of a kind are written at once; the rest of its interval is counted, and told
once when the interval is over. A kind is a word of ours and never a peer's text, so there are few.
"""

from __future__ import annotations

from typing import Final

import attrs


PER: Final = 60.0
"""The seconds of an interval."""


@attrs.define
class _Interval:
    begin: float
    most: int
    lines: int = 0

    @property
    def omitted(self) -> int:
        return max(0, self.lines - self.most)


class LineRate:
    """Counts the lines of each kind. The caller passes monotonic seconds."""

    def __init__(self, most: int, *, per: float = PER) -> None:
        """Allow `most` lines of a kind in `per` seconds, unless `admits` is given another number."""
        self._most, self.per = most, per
        self._intervals: dict[str, _Interval] = {}

    def admits(self, kind: str, now: float, *, most: int | None = None) -> bool:
        """Count a line, and return whether it may be written.

        What an earlier interval has omitted is told by `omitted`, which has to be called first.
        """
        interval = self._intervals.get(kind)
        if interval is None or (now >= interval.begin + self.per and not interval.omitted):
            interval = self._intervals[kind] = _Interval(now, self._most if most is None else most)
        interval.lines += 1
        return interval.lines <= interval.most

    def omitted(self, now: float, *, at_end: bool = False) -> list[tuple[str, int]]:
        """Return how many lines of each kind were omitted in the intervals that are over.

        Each is returned once. `at_end` ends all intervals.
        """
        over = [
            kind for kind, interval in self._intervals.items() if at_end or now >= interval.begin + self.per
        ]
        counts = [(kind, self._intervals.pop(kind).omitted) for kind in over]
        return [(kind, count) for kind, count in counts if count]

    @property
    def next_end(self) -> float | None:
        """When the next interval is over that has omitted a line; None if there is none."""
        ends = (interval.begin + self.per for interval in self._intervals.values() if interval.omitted)
        return min(ends, default=None)
