"""Numbers, times and durations as text for people. Rule: one format for each, with its unit."""

from __future__ import annotations

from datetime import UTC, datetime


def count(number: float, one: str, many: str = "") -> str:
    """Return a number with its noun: `3 outages`, `1 outage`."""
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


def times(number: int) -> str:
    """Return how often: `once`, `3 times`."""
    return "once" if number == 1 else count(number, "time")


def listed(seen: int, shown: int, one: str, which: str = "first") -> str:
    """Return the number of items and which of them are listed: `123 outages: the 100 longest`."""
    return count(seen, one) + (f": the {shown} {which}" if shown < seen else "")


def duration(seconds: float) -> str:
    """Return a duration with two units at most: 4 ms, 2.5 s, 4 min 12 s, 3 h 5 min, 2 d 4 h."""
    if seconds < 0.0005:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    for size, name, part, part_name in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {name}" + (f" {rest} {part_name}" if rest else "")
    raise AssertionError  # pragma: no cover -- the last size is a minute


def clock(at: float, span: float) -> str:
    """Return a time in UTC, with the precision that a chart of `span` seconds needs."""
    time = datetime.fromtimestamp(at, UTC)
    if span > 4 * 86_400:
        return f"{time:%d %b}"
    if span > 86_400:
        return f"{time:%d %b %H:%M}"
    if span > 1_800:
        return f"{time:%H:%M}"
    return f"{time:%H:%M:%S}" if span > 5 else f"{time:%S}.{time.microsecond // 1000:03d} s"


def moment(at: float) -> str:
    """Return a date and a time in UTC, to the millisecond."""
    time = datetime.fromtimestamp(at, UTC)
    return f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}"
