"""How many happened lately: in the last seconds, of the last calls, in a row. Pure.

Circuits, retry budgets and alerts count with them.

Rule: constant memory, constant time. A window of time is cut into buckets, each of which expires as a
whole: of n buckets it has the newest, as far as it has passed, and the n - 1 before. A time earlier
than the newest bucket counts as the newest, so a window never goes back.

What a circuit remembers is its failures in a row, its last N calls, or its last N seconds. A success
changes nothing while a window of calls is full and has no failure (`is_quiet`), and then need not be
reported. A window of time has to count every call.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias


if TYPE_CHECKING:
    from datetime import timedelta


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


# ---- the outcomes that a circuit remembers -------------------------------------------------------


_BUCKETS: Final = 20
_ROUNDING: Final = 1e-9  # 0.07 x 100 is a little more than 7


class Row:
    """Failures in a row; a success ends the row."""

    __slots__ = ("failures", "limit")

    def __init__(self, limit: int, failures: int) -> None:
        self.limit = limit
        self.failures = failures

    @property
    def is_quiet(self) -> bool:
        return self.failures == 0

    def good(self, now: float) -> bool:  # noqa: ARG002 -- all windows have the same methods
        """Count a success; return whether another one would change nothing."""
        self.failures = 0
        return True

    def bad(self, now: float) -> bool:  # noqa: ARG002
        """Count a failure; return whether the circuit must open."""
        self.failures += 1
        return self.failures >= self.limit

    def probe_succeeded(self) -> None:
        self.failures = 0

    def probe_failed(self) -> str:
        """Count one more consecutive failure; return the reason to open again."""
        self.failures += 1
        return f"consecutive_failures_{self.failures}"

    def reason(self) -> str:
        return f"consecutive_failures_{self.failures}"

    def counts(self, now: float | None) -> tuple[int, int]:  # noqa: ARG002
        return min(self.failures, self.limit), self.limit

    def clear(self) -> None:
        self.failures = 0


class _Rate:
    """A window that opens by a share of failures; probes do not change it."""

    __slots__ = ()

    def probe_succeeded(self) -> None: ...

    def probe_failed(self) -> str:
        return "probe_failed"


class Calls(_Rate):
    """The last `size` calls, one bit each, the newest lowest: 1 is a failure.

    The window starts empty: the rate is that of the calls made so far, if they are `least`, and
    every success is counted until there are `size` calls.
    """

    __slots__ = ("bits", "least", "mask", "rate", "seen", "size")

    def __init__(self, size: int, rate: float, least: int) -> None:
        self.size = size
        self.rate = rate
        self.least = least
        self.mask = (1 << size) - 1
        self.bits = self.seen = 0

    @property
    def is_quiet(self) -> bool:
        return self.bits == 0 and self.seen == self.size

    def good(self, now: float) -> bool:  # noqa: ARG002
        """Count a success; return whether another one would change nothing."""
        self.bits = bits = (self.bits << 1) & self.mask
        if self.seen < self.size:
            self.seen += 1
        return bits == 0 and self.seen == self.size

    def bad(self, now: float) -> bool:  # noqa: ARG002
        """Count a failure; return whether the circuit must open."""
        self.bits = (self.bits << 1 | 1) & self.mask
        if self.seen < self.size:
            self.seen += 1
        return (
            self.seen >= self.least and self.bits.bit_count() >= self.rate * self.seen - _ROUNDING
        )

    def reason(self) -> str:
        return f"failure_rate_{self.bits.bit_count()}_of_{self.seen}"

    def counts(self, now: float | None) -> tuple[int, int]:  # noqa: ARG002
        return self.bits.bit_count(), self.seen

    def clear(self) -> None:
        self.bits = self.seen = 0


class Span(_Rate, Window):
    """The last `seconds`, in 20 buckets, each of which expires as a whole."""

    __slots__ = ("least", "rate")

    def __init__(self, seconds: float, rate: float, least: int) -> None:
        super().__init__(seconds, _BUCKETS)
        self.rate = rate
        self.least = least

    is_quiet: bool = False

    def good(self, now: float) -> bool:
        """Count a success; return False, because every one changes something."""
        if now >= self.ends:
            self.turn(now)
        self.count()
        return False

    def bad(self, now: float) -> bool:
        """Count a failure; return whether the circuit must open."""
        self.turn(now)
        self.count(failed=1)
        return self.seen >= self.least and self.failed >= self.rate * self.seen - _ROUNDING

    def reason(self) -> str:
        return f"failure_rate_{self.failed}_of_{self.seen}"

    def counts(self, now: float | None) -> tuple[int, int]:
        """Return (failed, seen) at `now`; with None, without moving the window."""
        if now is not None:
            self.turn(now)
        return self.failed, self.seen


Outcomes: TypeAlias = Row | Calls | Span


def window_for(
    size: int | timedelta,
    rate: float,
    least: int,
    *,
    in_a_row: bool,
    before: Outcomes | None = None,
) -> Outcomes:
    """Return the window of `size`, with the convertible outcomes of `before`.

    A circuit opens when `rate` of at least `least` failed, or after `size` failures `in_a_row`. A
    window of calls takes over the newest calls; between calls and time nothing converts, and the
    window starts empty.
    """
    if not isinstance(size, int):
        span = Span(size.total_seconds(), rate, least)
        if isinstance(before, Span):
            span.remember(before)
        return span
    if in_a_row:
        return Row(size, _last_in_a_row(before))
    calls = Calls(size, rate, least)
    if isinstance(before, Calls):
        calls.bits, calls.seen = before.bits & calls.mask, min(before.seen, size)
    elif isinstance(before, Row):
        failures = min(before.failures, size)
        calls.bits, calls.seen = (1 << failures) - 1, failures
    return calls


def _last_in_a_row(before: Any) -> int:
    if isinstance(before, Row):
        return before.failures
    if isinstance(before, Calls):  # count the trailing 1 bits: adding 1 clears them
        return (before.bits ^ (before.bits + 1)).bit_length() - 1
    return 0
