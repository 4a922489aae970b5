"""What the outcomes of calls mean to a circuit: which of them count, and how many it takes. Pure.

A caller's mistake is no outage. Only a failure of the server, or of the connection to it, counts.
Any other failure is neutral: neither a failure nor a success. What counts is remembered as
consecutive failures, as the last N calls, or as the last N seconds.

Rule: constant memory, constant time. A success changes nothing while a window of calls is full and
has no failure (`is_quiet`), and then need not be reported. A window of time has to count every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ...failure import RATE_LIMITED, REJECTED, Category, Severity
from ...failure.what import matches_safely, names_class
from ...values.window import Window


if TYPE_CHECKING:
    from datetime import timedelta

    from ...failure import Failure
    from .value import Breaker


_ON_THE_WAY: Final = (Category.TRANSPORT, Category.TIMEOUT)
_ALARMING: Final = (Severity.CRITICAL, Severity.FATAL)


def verdict_of(
    failure: Failure, breaker: Breaker, named: tuple[Any, ...] = ()
) -> Literal["failure", "neutral", "critical"]:
    """Return how `breaker` counts `failure`; critical opens the circuit at once.

    `breaker.on` decides which failures count; without it, the categories do and `named`, the
    exception classes that the Retry beside it names. A rejection by one of our own layers never
    left this process and says nothing about the server. Neither does a rate limiter: its server lives.
    """
    if failure.code in REJECTED or (breaker.ignore and matches_safely(breaker.ignore, failure)):
        return "neutral"
    if failure.severity in _ALARMING:
        return "critical"
    if breaker.on:
        return "failure" if matches_safely(breaker.on, failure) else "neutral"
    if failure.code == RATE_LIMITED:
        return "neutral"
    if failure.category in _ON_THE_WAY or failure.retryable or names_class(named, failure):
        return "failure"
    return "neutral"


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


def window_for(rules: Breaker, before: Outcomes | None = None) -> Outcomes:
    """Return the window that the rules need, with the convertible outcomes of `before`.

    A window of calls takes over the newest calls; between calls and time nothing converts, and the
    window starts empty.
    """
    size: int | timedelta = rules.window
    if not isinstance(size, int):
        span = Span(size.total_seconds(), rules.rate, rules.least)
        if isinstance(before, Span):
            span.remember(before)
        return span
    if rules.in_a_row is not None:
        return Row(size, _last_in_a_row(before))
    calls = Calls(size, rules.rate, rules.least)
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


def counted_by(settings: Breaker) -> tuple[object, ...]:
    """Return the settings that a window depends on."""
    return settings.window, settings.rate, settings.least
