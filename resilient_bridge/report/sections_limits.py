"""The sections of the page about adaptive limits, and about calls that were held. Pure."""

from __future__ import annotations

from typing import Final

from .charts import Window, axis, lane, legend
from .effects import FIRST_CALL
from .escaping import section, table
from .incident import Incident
from .series import Tally
from .wording import count, duration, listed


_MOST_LANES: Final = 30
_LEGEND: Final = "none: not limited, wait: limited, bad: exhausted (every call was refused)"
_ENDED: Final = {
    "verified": "verified: it ran",
    "late_answer": "its answer came late",
    "not_run": "verified: it did not run",
    "again": "its caller made it again",
    "hold": "its time was over",
}


def limits(incident: Incident, window: Window) -> str:
    """Return the section about adaptive limits: their states over time, numbers and changes."""
    facts = incident.limits
    if not facts.by_key:
        return ""
    worst = facts.worst()
    shown = [(key, one) for key, one in worst if one.lane.state][:_MOST_LANES]
    rows = [
        (
            *(key, window.stamp(one.began) if one.times else "", one.times, one.lowest_at_once),
            *(one.refused, duration(one.longest_wait), one.waiting, one.exhausted, one.rejected),
            one.lane.state,
        )
        for key, one in worst
    ]
    changes = [
        (window.stamp(change.at), change.name, change.state, change.why) for change in facts.changes
    ]
    lanes = [
        lane(window, key, one.lane.spans(window.end, 200), count(one.refused, "refusal"))
        for key, one in shown
    ]
    return section(
        "limits",
        "Adaptive limits",
        *([axis(window), *lanes, legend(_LEGEND)] if lanes else []),
        table(
            "t-limits",
            listed(len(worst), len(rows), "limit"),
            "limit, since (UTC), #times, #lowest at once, #refusals, #longest wait, #most waiting, "
            "#exhausted, #gave up, at the end",
            rows,
        ),
        table(
            "t-limit-changes",
            listed(facts.changes.seen, len(changes), "change"),
            "at (UTC), limit, then, from then on",
            changes,
        ),
        lead="Of a server that refuses calls (429, 503, 529), how many may run at once. Refusals and waits are "
        "those up to the last change of a limit; calls that gave up ended without a place.",
    )


def effects(incident: Incident, window: Window) -> str:
    """Return the section about calls that were not made, because an identical one was in doubt."""
    facts = incident.effects
    open_ = sorted(facts.open.items(), key=lambda item: item[0][1])
    rows = [
        (name, one.held, _words(one.first, FIRST_CALL), _words(one.ended, _ENDED))
        for name, one in facts.most_held()
    ]
    held = [
        (
            *(window.stamp(one.at), one.name),
            window.stamp(one.began),
            FIRST_CALL.get(one.first, one.first),
        )
        for one in facts.held
    ]
    return section(
        "effects",
        "Calls in doubt",
        table(
            "t-open",
            "Still in doubt at the end of the log",
            "call, began (UTC), held last (UTC)",
            [(name, window.stamp(began), window.stamp(at)) for (name, began), at in open_],
        ),
        table("t-effects", "By name", "call, #held, the first call, doubts that ended", rows),
        table(
            "t-held",
            listed(facts.held.seen, len(held), "call") + " held",
            "at (UTC), call, the first began (UTC), it",
            held,
        ),
        lead="A held call was not made: an identical one had begun, and nobody knew whether it ran. "
        "Of one that is still in doubt, look whether it took effect.",
    )


def _words(tally: Tally, words: dict[str, str]) -> str:
    return ", ".join(f"{number:,} {words.get(name, name)}" for name, number in tally.ranked())
