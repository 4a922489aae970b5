"""How many lines of each kind a log may have, so that nobody fills a disk by repeating himself.

Rule: the first lines of a kind are written at once; the rest of its interval is counted, and told
once when the interval is over. A kind is a word of ours and never a peer's text, so there are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ..world import current_world


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..world.real import TimerHandle


PER: Final = 60.0
"""The seconds of an interval."""
LINES: Final = 200
"""How many lines of one kind an interval has: what a server prints when it starts, and in a busy minute."""


@attrs.define
class _Interval:
    begin: float
    most: int
    lines: int = 0

    @property
    def omitted(self) -> int:
        return max(0, self.lines - self.most)

    def is_over(self, now: float, per: float) -> bool:
        """Return whether it is over, or another clock runs: that of a simulation, or the real one."""
        return not self.begin <= now < self.begin + per


class LineRate:
    """Counts the lines of each kind. Pure: the caller passes monotonic seconds.

    Threads may share one without a lock: a race miscounts a line at most.
    """

    def __init__(self, most: int = LINES, *, per: float = PER) -> None:
        """Allow `most` lines of a kind in `per` seconds, unless `admits` is given another number."""
        self._most, self.per = most, per
        self._intervals: dict[str, _Interval] = {}

    def admits(self, kind: str, now: float, *, most: int | None = None) -> bool:
        """Count a line, and return whether it may be written.

        Call `omitted` before, which ends the intervals that are over.
        """
        interval = self._intervals.get(kind)
        if interval is None or (interval.is_over(now, self.per) and not interval.omitted):
            interval = self._intervals[kind] = _Interval(now, self._most if most is None else most)
        interval.lines += 1
        return interval.lines <= interval.most

    def omitted(self, now: float, *, at_end: bool = False) -> list[tuple[str, int]]:
        """Return how many lines of each kind were omitted in the intervals that are over.

        Each is returned once. `at_end` ends all intervals.
        """
        counts: list[tuple[str, int]] = []
        for kind, interval in list(self._intervals.items()):
            if (at_end or interval.is_over(now, self.per)) and self._intervals.pop(
                kind, None
            ) is interval:
                counts.append((kind, interval.omitted))
        return [(kind, count) for kind, count in counts if count]

    @property
    def next_end(self) -> float | None:
        """When the next interval is over that has omitted a line; None if there is none."""
        ends = (
            interval.begin + self.per for interval in self._intervals.values() if interval.omitted
        )
        return min(ends, default=None)


class RatedLines:
    """Asks a `LineRate` by the world's clock, for a log in an event loop.

    `tell` gets the kind and the number of the lines that were omitted, when their interval is over
    even if no other line comes.
    """

    def __init__(self, rate: LineRate, tell: Callable[[str, int], None]) -> None:
        import asyncio

        self._rate, self._tell = rate, tell
        self._world, self._loop = current_world(), asyncio.get_running_loop()
        self._timer: TimerHandle | None = None

    def admits(self, kind: str, *, most: int | None = None) -> bool:
        """Count a line, and return whether it may be written; `most` as in `LineRate.admits`."""
        now = self._tell_omitted()
        is_admitted = self._rate.admits(kind, now, most=most)
        self._set_timer(now)
        return is_admitted

    def close(self) -> None:
        """Tell what was omitted so far. May be called again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell_omitted(at_end=True)

    def _tell_omitted(self, *, at_end: bool = False) -> float:
        now = self._world.monotonic()
        for kind, number in self._rate.omitted(now, at_end=at_end):
            self._tell(kind, number)
        return now

    def _set_timer(self, now: float) -> None:
        if self._timer is None and (end := self._rate.next_end) is not None:
            self._timer = self._world.call_later(self._loop, max(0.0, end - now), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._set_timer(self._tell_omitted())
