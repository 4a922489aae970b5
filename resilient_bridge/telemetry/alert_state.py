"""Decides when an alert is raised and cleared: compares counts in a sliding window with two
thresholds.

The caller passes the time.

Rule: the alert is raised as soon as the value is strictly above the threshold. It is cleared after
one whole window in which the value was not, so a rate that swings around the threshold is not
reported every minute.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from ..values.window import Window


Level: TypeAlias = Literal["", "warning", "critical"]

_BUCKETS: Final = 60
_RANK: Final[dict[Level, int]] = {"": 0, "warning": 1, "critical": 2}


class Change(NamedTuple):
    """An alert went from one level to another."""

    before: Level
    after: Level
    value: float
    threshold: float


class AlertState:
    """One rule: `bad` of `all` in the last `window` seconds, as a share, or `bad` per minute."""

    def __init__(
        self, warning: float, critical: float, *, window: float, is_share: bool, least: int = 0
    ) -> None:
        self._thresholds: dict[Level, float] = {"warning": warning, "critical": critical}
        self._seconds = window
        self._window = Window(window, _BUCKETS)
        self._is_share = is_share
        self._least = least
        self.level: Level = ""
        self._below_since: dict[
            Level, float
        ] = {}  # for each level: since when its threshold has not been exceeded

    def add(self, now: float, *, bad: int) -> None:
        """Count one event; `bad` is 1 if it failed, else 0."""
        self._window.turn(now)
        self._window.count(failed=bad)

    def value(self, now: float) -> float:
        """Return the share, or the count per minute."""
        window = self._window
        window.turn(now)
        if not self._is_share:
            return window.failed * 60 / self._seconds
        return window.failed / window.seen if window.seen >= max(self._least, 1) else 0.0

    def look(self, now: float) -> Change | None:
        """Compare the value with the thresholds; return the change of the level, None if there is
        none.
        """
        value = self.value(now)
        found: Level = "critical" if value > self._thresholds["critical"] else ""
        if not found and value > self._thresholds["warning"]:
            found = "warning"
        before = self.level
        if _RANK[found] > _RANK[before]:
            self.level = found
            self._below_since = {}
            return Change(before, found, value, self._thresholds[found])
        for level in ("warning", "critical"):
            if _RANK[found] >= _RANK[level]:
                self._below_since.pop(level, None)
            else:
                self._below_since.setdefault(level, now)
        if before and now - self._below_since.get(before, now) >= self._seconds:
            # From critical to warning, if only the critical threshold was not exceeded for a
            # window.
            still = (
                before == "critical" and now - self._below_since.get("warning", now) < self._seconds
            )
            self.level = "warning" if still else ""
            return Change(before, self.level, value, self._thresholds[before])
        return None
