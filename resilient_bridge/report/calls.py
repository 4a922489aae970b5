"""Calls in a log, by name: their outcomes, durations, retries and rejections. Pure.

Rule: durations are counted in buckets, so quantiles are exact to 20 %, from 0.5 ms to 4 hours; the
slowest calls are exact.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from .lines import Record, count_in, failure_in, number_in, text_in
from .series import Bins, Largest, Named, Tally, add


_BUCKETS: Final = 96
_STEP: Final = 1.2
_FIRST: Final = 0.0005  # seconds
GOOD: Final = frozenset({"ok", "answered"})
_NOT_COUNTED: Final = frozenset({"cancelled"})


@attrs.frozen
class Call:
    """A single call that the page lists: one of the slowest, or of the latest failures."""

    at: float
    name: str
    outcome: str
    seconds: float
    attempts: int
    why: str


@attrs.define(eq=False)
class CallsOf:
    """All calls of one name."""

    outcomes: Tally = attrs.field(factory=lambda: Tally(12))
    seconds: list[int] = attrs.field(factory=lambda: [0] * _BUCKETS)
    longest: float = 0.0
    retries: int = 0
    waited: float = 0.0
    rejected_by: Tally = attrs.field(factory=lambda: Tally(8))
    why: str = ""
    hedged: int = 0  # calls whose request was sent again
    extra: int = 0  # the requests that were sent for them beside the first
    won: int = 0  # of the calls, by an extra request
    cancelled: int = 0  # of the requests: whether they ran, nobody can say
    shared: Tally = attrs.field(factory=lambda: Tally(4))  # answers of other calls
    oldest: float = 0.0  # seconds, of these

    @property
    def bad(self) -> int:
        """The number of calls that failed; cancelled calls do not count."""
        return sum(
            number
            for outcome, number in self.outcomes.items()
            if outcome not in GOOD | _NOT_COUNTED
        )

    def quantile(self, share: float) -> float:
        """Return the duration that this share of the calls did not exceed, up to 20 % too long."""
        remaining = share * sum(self.seconds)
        for index, count in enumerate(self.seconds):
            remaining -= count
            if count and remaining <= 0:
                return min(self.longest, _FIRST * _STEP**index)
        return 0.0


class Calls:
    """All calls of a log: of policies (`CallFinished`) and of the MCP sidecar (`call_finished`)."""

    def __init__(self) -> None:
        self.by_name: Named[CallsOf] = Named(CallsOf)
        self.slowest: Largest[Call] = Largest(25)
        self.failed: Largest[Call] = Largest(25)  # the latest
        self.good, self.bad = Bins(add), Bins(add)
        self.outcomes = Tally(20)
        self.retries = 0
        # at, name, attempt, wait, code
        self.waits: Largest[tuple[float, str, int, float, str]] = Largest(15)

    def take(self, record: Record) -> None:
        """Take an event; an event that is not about a call changes nothing."""
        event, fields = record.event, record.fields
        if event == "CallFinished":
            code = text_in(failure_in(fields), "code")
            self._finished(record, text_in(fields, "name"), count_in(fields, "attempts"), code)
        elif event == "call_finished":
            name = f"{text_in(fields, 'method')} {text_in(fields, 'name')}".strip()
            self._finished(record, name, count_in(fields, "sends"), text_in(fields, "reason"))
        elif event == "RetryScheduled":
            wait, name, code = (
                number_in(fields, "wait"),
                text_in(fields, "name"),
                text_in(failure_in(fields), "code"),
            )
            one = self.by_name.of(name)
            one.retries, one.waited = one.retries + 1, one.waited + wait
            self.retries += 1
            self.waits.add(wait, (record.at, name, count_in(fields, "attempt"), wait, code))
        elif event == "CallRejected":
            self.by_name.of(text_in(fields, "name")).rejected_by.count(text_in(fields, "by"))
        elif event == "Hedged":
            one = self.by_name.of(text_in(fields, "name"))
            one.hedged += 1
            one.extra += max(0, count_in(fields, "requests") - 1)
            one.won += count_in(fields, "winner") > 1
            one.cancelled += count_in(fields, "unknown")
        elif event == "AnswerShared":
            one = self.by_name.of(text_in(fields, "name"))
            one.shared.count(text_in(fields, "how"))
            one.oldest = max(one.oldest, number_in(fields, "age"))

    def _finished(self, record: Record, name: str, attempts: int, why: str) -> None:
        seconds, outcome = (
            number_in(record.fields, "seconds"),
            text_in(record.fields, "outcome") or "unknown",
        )
        one = self.by_name.of(name or "(no name)")
        one.outcomes.count(outcome)
        self.outcomes.count(outcome)
        one.seconds[_bucket(seconds)] += 1
        one.longest = max(one.longest, seconds)
        call = Call(record.at, name or "(no name)", outcome, seconds, attempts, why)
        self.slowest.add(seconds, call)
        if outcome in GOOD:
            self.good.add(record.at, 1)
        elif outcome not in _NOT_COUNTED:
            self.bad.add(record.at, 1)
            self.failed.add(record.at, call)
            one.why = why or one.why


def _bucket(seconds: float) -> int:
    return (
        0 if seconds <= _FIRST else min(_BUCKETS - 1, math.ceil(math.log(seconds / _FIRST, _STEP)))
    )
