"""Adaptive limits in a log, by key: when each was in force, how far it was cut, what it cost. Pure.

Rule: numbers are those of the last event of a limit, which says how often its server has refused and
how long a call has waited so far; what came after it is in no log.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from .guards import Change
from .lines import Record, count_in, failure_in, number_in, text_in
from .series import First, Lane, Named


LIMITED, EXHAUSTED, FREE = "limited", "exhausted", "not limited"
_STATES: Final = {"exhausted": EXHAUSTED, "forgotten": FREE}  # every other one: it limits


@attrs.define(eq=False)
class LimitOf:
    """One adaptive limit: its lane, and its numbers over the whole log.

    `began` is when it came into force, or the beginning of the log if it was in force before;
    `times` is how often it did. `rejected` calls ended without a place.
    """

    lane: Lane = attrs.field(factory=Lane)
    began: float = 0.0
    times: int = 0
    lowest: float = math.inf
    exhausted: int = 0
    rejected: int = 0
    waiting: int = 0
    longest_wait: float = 0.0
    last: int = 0  # refusals of this time of being limited
    earlier: int = 0  # and of those before

    @property
    def refused(self) -> int:
        """How often its server has refused a call, as far as the events say."""
        return self.earlier + self.last

    @property
    def lowest_at_once(self) -> str:
        """The lowest number of calls at once; empty if no event says it."""
        return f"{self.lowest:.3g}" if math.isfinite(self.lowest) else ""


class Limits:
    """All adaptive limits of a log."""

    def __init__(self) -> None:
        self.by_key: Named[LimitOf] = Named(LimitOf, 100)
        self.changes: First[Change] = First(200)
        self._begin: float | None = None

    def worst(self) -> list[tuple[str, LimitOf]]:
        """Return the limits by key: those that were exhausted first, then the most refused."""
        return sorted(self.by_key.items(), key=lambda item: (-item[1].exhausted, -item[1].refused))

    def take(self, record: Record) -> None:
        """Take an event; one that is not about a limit changes nothing."""
        if self._begin is None:
            self._begin = record.at
        fields = record.fields
        if record.event == "CallRejected" and text_in(fields, "by") == "adaptive_limit":
            self.by_key.of(text_in(fields, "key") or "(no name)").rejected += 1
        elif record.event == "LimitChanged":
            self._changed(record, min(self._begin, record.at))

    def _changed(self, record: Record, begin: float) -> None:
        at, fields, word = record.at, record.fields, text_in(record.fields, "state")
        key = text_in(fields, "key") or "(no name)"
        one, state = self.by_key.of(key), _STATES.get(word, LIMITED)
        if not one.lane.state:
            is_known = word == "began"
            one.lane.enter(begin, FREE if is_known else LIMITED)
            one.times, one.began = int(not is_known), at if is_known else begin
        if word == "began":
            one.times += 1
            one.earlier, one.last = one.refused, 0
        one.last = max(one.last, count_in(fields, "refused"))
        one.exhausted += word == "exhausted"
        if state != FREE:  # by then the number has grown again
            one.lowest = min(one.lowest, number_in(fields, "at_once"))
        one.waiting = max(one.waiting, count_in(fields, "waiting"))
        one.longest_wait = max(one.longest_wait, number_in(fields, "longest_wait"))
        one.lane.enter(at, state)
        self.changes.add(Change(at, key, word, _why(record)))


def _why(record: Record) -> str:
    """Return what the event says besides the state, in words."""
    fields = record.fields
    parts = [f"{number_in(fields, 'at_once'):.3g} at once"]
    if fields.get("per_second") is not None:
        parts.append(f"{number_in(fields, 'per_second'):.3g} a second")
    if fields.get("waiting"):
        parts.append(f"{count_in(fields, 'waiting'):,} waiting")
    parts.append(text_in(failure_in(fields), "code"))
    return ", ".join(part for part in parts if part)
