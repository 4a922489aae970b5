"""Time and identifiers as arguments.

Rule: nothing in this room reads a clock or draws randomness by itself.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple


if TYPE_CHECKING:
    import random


class Now(NamedTuple):
    """One reading of both clocks.

    `mono` drives delays; `wall` (epoch seconds) is what the outside world sees.
    """

    mono: float
    wall: float

    def since(self, earlier: Now) -> float:
        """Return the seconds since `earlier`.

        That is the larger of both clocks, because the monotonic one stops while a machine sleeps.

        A wall clock that stepped back counts as expired (infinite age): the real duration cannot be
        known.
        """
        mono, wall = self.mono - earlier.mono, self.wall - earlier.wall
        if mono < 0 and wall < 0:
            return float("inf")
        return max(mono, wall)

    @property
    def at(self) -> datetime:
        """The wall clock as an aware datetime in UTC."""
        return _date(self.wall)


_YEAR_9999: Final = 253_402_300_799.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _printable(wall: float) -> float:
    """Limit a wildly wrong wall clock to the years that a date can have, so that it can still be
    printed.
    """
    return min(max(wall, 0.0), _YEAR_9999)


def _date(wall: float) -> datetime:
    """Compute the date of a wall clock arithmetically: `datetime.fromtimestamp` asks the system,
    and Windows ends at the year 3000.
    """
    return _EPOCH + timedelta(seconds=_printable(wall))


class Identifiers:
    """UUIDs (version 4 in form) from an injected random source.

    A random prefix per process, then a counter.

    A fresh `uuid4()` per message costs 2 us; the prefix carries 58 random bits and the counter
    keeps ids apart.
    """

    def __init__(self, rng: random.Random) -> None:
        bits = rng.getrandbits(64)
        variant = "89ab"[bits & 3]
        head = f"{bits >> 32:08x}-{bits >> 16 & 0xFFFF:04x}-4{bits >> 4 & 0xFFF:03x}-{variant}"
        self._prefix = f"{head}{rng.getrandbits(12):03x}"
        self._count = rng.getrandbits(40)

    def __call__(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count & 0xFFFFFFFFFFFF:012x}"


class Stamps:
    """ISO 8601 timestamps with milliseconds.

    Each is formatted once, and its date part once a second.
    """

    def __init__(self) -> None:
        self._milli = -1.0
        self._second = -1
        self._date = ""
        self._text = ""

    def __call__(self, wall: float) -> str:
        """`wall` (epoch seconds) as e.g. `2026-03-20T14:32:00.250Z`."""
        milli = wall * 1000 // 1
        if milli != self._milli:
            self._milli = milli
            wall = _printable(wall)
            second = int(wall)
            if second != self._second:
                self._second = second
                self._date = _date(second).strftime("%Y-%m-%dT%H:%M:%S")
            self._text = f"{self._date}.{int((wall - second) * 1000):03d}Z"
        return self._text
