"""Calls that were not made, because an identical one was in doubt; and what ended such doubts. Pure.

Rule: a doubt is known by its call's name and the time at which that began. It is open until an event
says how it ended.
"""

from __future__ import annotations

from typing import Any, Final, cast

import attrs

from .lines import Record, failure_in, number_in, seconds_of, text_in
from .series import First, Named, Tally


_MOST_OPEN: Final = 200
_BY_A_SIDECAR: Final = {
    "identical_in_doubt": "unknown",
    "identical_ran": "ran",
    "effects_unusable": "unreadable",
}
"""The reason of its `call_finished`, and what was known of the first call."""
FIRST_CALL: Final = {
    "unknown": "may or may not have run",
    "running": "was still running",
    "ran": "had run, its answer was lost",
    "unreadable": "unknown: the file of effects could not be used",
}
"""What was known of the call that held an identical one, in words."""


@attrs.frozen
class Held:
    """One call that was not made: when the identical one began, and what was known of it."""

    at: float
    name: str
    began: float | None
    first: str


@attrs.define(eq=False)
class EffectsOf:
    """The calls of one name that were held: by what was known of the first, and how doubts ended."""

    first: Tally = attrs.field(factory=lambda: Tally(8))
    ended: Tally = attrs.field(factory=lambda: Tally(8))

    @property
    def held(self) -> int:
        """The number of calls that were not made."""
        return self.first.total


class Effects:
    """All calls of a log that were held."""

    def __init__(self) -> None:
        self.by_name: Named[EffectsOf] = Named(EffectsOf, 100)
        self.held: First[Held] = First(200)
        # name and begin of a call that may have run; the time at which an identical one was held last
        self.open: dict[tuple[str, float], float] = {}

    def most_held(self) -> list[tuple[str, EffectsOf]]:
        """Return the calls by name, the most held first."""
        return sorted(self.by_name.items(), key=lambda item: -item[1].held)

    def take(self, record: Record) -> None:
        """Take an event; one that is not about a call in doubt changes nothing."""
        fields, name = record.fields, text_in(record.fields, "name") or "(no name)"
        if record.event == "EffectHeld":
            first = text_in(fields, "first") or "unknown"
            began = None if first == "unreadable" else _began(record)
            self._held(Held(record.at, name, began, first))
        elif record.event == "EffectResolved":
            self.by_name.of(name).ended.count(text_in(fields, "how") or "unknown")
            began = seconds_of(fields.get("began"))
            if began is not None:
                self.open.pop((name, began), None)
        elif record.event == "call_finished":
            first = _BY_A_SIDECAR.get(text_in(fields, "reason"), "")
            if first:
                self._held(Held(record.at, name, None, first))

    def _held(self, one: Held) -> None:
        self.by_name.of(one.name).first.count(one.first)
        self.held.add(one)
        if one.first == "unknown" and one.began is not None:
            key = one.name, one.began
            if key in self.open or len(self.open) < _MOST_OPEN:
                self.open[key] = one.at


def _began(record: Record) -> float:
    """Return when the first call began: as its failure says, to the microsecond, or by its age."""
    details = failure_in(record.fields).get("details")
    written = cast("dict[str, Any]", details).get("began") if isinstance(details, dict) else None
    began = seconds_of(written)
    return record.at - number_in(record.fields, "seconds") if began is None else began
