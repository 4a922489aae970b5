"""What a circuit remembers of the last outcomes: a row of failures, the last so many calls, or the last so many seconds. Pure.

Rule: constant memory, constant time. Calls that were not made yet count as good in a window of calls, so that a success
changes nothing while no failure is in it (`is_quiet`), and needs not be told. A window of time has to know them all.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias


if TYPE_CHECKING:
    from datetime import timedelta

    from ..shared.ports import CircuitRules


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

    def good(self, now: float) -> bool:  # noqa: ARG002 -- all windows are asked alike
        """Count a success; return whether another one would change nothing."""
        self.failures = 0
        return True

    def bad(self, now: float) -> bool:  # noqa: ARG002
        """Count a failure; return whether that is one too many."""
        self.failures += 1
        return self.failures >= self.limit

    def probe_succeeded(self) -> None:
        self.failures = 0

    def probe_failed(self) -> str:
        """Go on with the row; return the reason to open again."""
        self.failures += 1
        return f"consecutive_failures_{self.failures}"

    def reason(self) -> str:
        return f"consecutive_failures_{self.failures}"

    def counts(self, now: float | None) -> tuple[int, int]:  # noqa: ARG002
        return min(self.failures, self.limit), self.limit

    def clear(self) -> None:
        self.failures = 0


class Calls:
    """The last `size` calls, one bit each, the newest lowest: 1 is a failure.

    With a `minimum` the window is not taken for full at the start: then the calls made so far are what the rate is of, and every
    success is counted until there are `size` of them.
    """

    __slots__ = ("bits", "mask", "minimum", "rate", "seen", "size")

    def __init__(self, size: int, rate: float, minimum: int | None) -> None:
        self.size = size
        self.rate = rate
        self.minimum = minimum
        self.mask = (1 << size) - 1
        self.bits = 0
        self.seen = size if minimum is None else 0

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
        """Count a failure; return whether that is one too many."""
        self.bits = (self.bits << 1 | 1) & self.mask
        if self.seen < self.size:
            self.seen += 1
        return self.seen >= (self.minimum or 1) and self.bits.bit_count() >= self.rate * self.seen - _ROUNDING

    def probe_succeeded(self) -> None:
        """Leave the window as it was when the circuit opened."""

    def probe_failed(self) -> str:
        """Leave the window as it was when the circuit opened; return the reason to open again."""
        return "probe_failed"

    def reason(self) -> str:
        return f"failure_rate_{self.bits.bit_count()}_of_{self.seen}"

    def counts(self, now: float | None) -> tuple[int, int]:  # noqa: ARG002
        return self.bits.bit_count(), self.seen

    def clear(self) -> None:
        self.bits = 0
        self.seen = self.size if self.minimum is None else 0


class Span:
    """The last `seconds`, in 20 buckets: a bucket leaves as a whole."""

    __slots__ = ("_at", "_ends", "_failed", "_newest", "_seen", "_width", "failed", "least", "rate", "seen")

    def __init__(self, seconds: float, rate: float, least: int) -> None:
        self.rate = rate
        self.least = least
        self._width = seconds / _BUCKETS
        self.clear()

    is_quiet: bool = False

    def good(self, now: float) -> bool:
        """Count a success; return False, because every one changes something."""
        self._seen[self._bucket(now)] += 1
        self.seen += 1
        return False

    def bad(self, now: float) -> bool:
        """Count a failure; return whether that is one too many."""
        place = self._bucket(now)
        self._seen[place] += 1
        self.seen += 1
        self._failed[place] += 1
        self.failed += 1
        return self.seen >= self.least and self.failed >= self.rate * self.seen - _ROUNDING

    def probe_succeeded(self) -> None:
        """Leave the window as it was when the circuit opened."""

    def probe_failed(self) -> str:
        """Leave the window as it was when the circuit opened; return the reason to open again."""
        return "probe_failed"

    def reason(self) -> str:
        return f"failure_rate_{self.failed}_of_{self.seen}"

    def counts(self, now: float | None) -> tuple[int, int]:
        """Return failed and seen at `now`; None leaves the window where it stands."""
        if now is not None:
            self._bucket(now)
        return self.failed, self.seen

    def clear(self) -> None:
        self._seen = [0] * _BUCKETS
        self._failed = [0] * _BUCKETS
        self._newest: int | None = None  # number of the newest bucket
        self._at = 0  # its place
        self._ends = -inf
        self.seen = self.failed = 0

    def remember(self, before: Span) -> None:
        """Take over what another span knows, as far as it is recent enough."""
        newest = before._newest
        if newest is None:
            return
        for number in range(newest - _BUCKETS + 1, newest + 1):
            old, new = number % _BUCKETS, self._bucket((number + 0.5) * before._width)
            self._seen[new] += before._seen[old]
            self._failed[new] += before._failed[old]
            self.seen += before._seen[old]
            self.failed += before._failed[old]

    def _bucket(self, now: float) -> int:
        """Let go of what is too old; return the bucket of `now`. An earlier `now` than the last counts as the last."""
        if now < self._ends:
            return self._at
        number = int(now // self._width)
        first = number if self._newest is None else max(self._newest + 1, number - _BUCKETS + 1)
        for passed in range(first, number + 1):
            at = passed % _BUCKETS
            self.seen -= self._seen[at]
            self.failed -= self._failed[at]
            self._seen[at] = self._failed[at] = 0
        self._newest, self._at = number, number % _BUCKETS
        self._ends = (number + 1) * self._width
        return self._at


Window: TypeAlias = Row | Calls | Span


def window_for(rules: CircuitRules, before: Window | None = None) -> Window:
    """Return the window that the rules ask for, with what `before` remembers, as far as it says the same.

    A window of calls keeps the newest; calls and time do not convert, and start empty.
    """
    size: int | timedelta = rules.window
    if not isinstance(size, int):
        span = Span(size.total_seconds(), rules.rate, rules.least)
        if isinstance(before, Span):
            span.remember(before)
        return span
    if rules.in_a_row is not None:
        return Row(size, _last_in_a_row(before))
    calls = Calls(size, rules.rate, rules.minimum)
    if isinstance(before, Calls):
        calls.bits, calls.seen = before.bits & calls.mask, max(calls.seen, min(before.seen, size))
    elif isinstance(before, Row):
        failures = min(before.failures, size)
        calls.bits, calls.seen = (1 << failures) - 1, max(calls.seen, failures)
    return calls


def _last_in_a_row(before: Any) -> int:
    if isinstance(before, Row):
        return before.failures
    if isinstance(before, Calls):  # the ones at the end: they vanish when 1 is added
        return (before.bits ^ (before.bits + 1)).bit_length() - 1
    return 0
