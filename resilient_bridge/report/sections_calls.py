"""The sections of the page about calls, failures by code, and the MCP server of a sidecar. Pure."""

from __future__ import annotations

from typing import Final

from .calls import Call
from .charts import PARTS, Window, axis, bars, lane, legend
from .escaping import section, table
from .incident import Incident
from .series import Tally
from .wording import count, duration, listed


_MOST_NAMES: Final = 60
_SHARED: Final = ("joined", "fresh", "stale")
_WORDS: Final = {
    "unknown": "unknown: may have run",
    "not_executed": "not executed",
    "fell_back": "fell back",
}


def calls(incident: Incident, window: Window) -> str:
    """Return the section about calls: outcomes over time and by name, the slowest, the last bad."""
    facts = incident.calls
    if not facts.by_name:
        return ""
    stacks = [
        ("bad", facts.bad.sums(window.begin, window.end, PARTS)),
        ("good", facts.good.sums(window.begin, window.end, PARTS)),
    ]
    picture = bars("Calls that ended", f"in each {duration(window.span / PARTS)}", stacks)
    named = sorted(facts.by_name.items(), key=lambda item: (-item[1].bad, -item[1].outcomes.total))
    rows = [
        (
            *(name, one.outcomes.total, one.bad, _outcomes(one.outcomes)),
            *(
                duration(seconds)
                for seconds in (one.quantile(0.5), one.quantile(0.95), one.longest)
            ),
            *(one.retries, duration(one.waited), one.why),
        )
        for name, one in named[:_MOST_NAMES]
    ]
    heads = "call, #calls, #no success, outcomes, #median, #95 %, #longest, #repeats, #waited, last reason"
    each = "at (UTC), call, outcome, #took, #attempts, reason"
    failed = [_call(one, window) for one in sorted(facts.failed, key=lambda call: -call.at)]
    repeats = [
        (window.stamp(at), name, attempt, duration(wait), code)
        for at, name, attempt, wait, code in facts.waits
    ]
    slowest = [_call(one, window) for one in facts.slowest]
    hedged = [
        (name, one.hedged, one.extra, one.won, one.cancelled) for name, one in named if one.hedged
    ]
    shared = [
        (name, *(one.shared.get(how, 0) for how in _SHARED), duration(one.oldest))
        for name, one in named
        if one.shared
    ]
    return section(
        "calls",
        "Calls",
        *([axis(window), picture, legend("good: with success, bad: without")] if picture else []),
        table(
            "t-calls",
            f"By {listed(len(named), len(rows), 'name')}, most without success first",
            heads,
            rows,
        ),
        "<p class=note>Median and 95 % are right to a fifth.</p>" if facts.outcomes else "",
        table("t-slowest", "Slowest calls", each, slowest),
        table(
            "t-failed",
            listed(facts.failed.seen, len(failed), "call", "latest") + " without success",
            each,
            failed,
        ),
        table(
            "t-waits",
            "Waits before " + listed(facts.retries, len(repeats), "repeat", "longest"),
            "at (UTC), call, #attempt, #wait, after",
            repeats,
        ),
        table(
            "t-hedged",
            "Slow calls whose request was sent again",
            "call, #calls, #requests more, #calls that one of them won, #requests cancelled: outcome and cost unknown",
            hedged[:_MOST_NAMES],
        ),
        table(
            "t-shared",
            "Answers of other calls",
            f"call, #{', #'.join(_SHARED)}, #oldest",
            shared[:_MOST_NAMES],
        ),
    )


def _call(one: Call, window: Window) -> tuple[object, ...]:
    outcome = _WORDS.get(one.outcome, one.outcome)
    return window.stamp(one.at), one.name, outcome, duration(one.seconds), one.attempts, one.why


def _outcomes(outcomes: Tally) -> str:
    return ", ".join(f"{number:,} {_WORDS.get(name, name)}" for name, number in outcomes.ranked())


def codes(incident: Incident, window: Window) -> str:
    """Return the section with failures by code. One failure may be in several events."""
    rows = [
        (
            code,
            one.count,
            one.severity,
            window.stamp(one.first),
            window.stamp(one.last),
            one.message,
            one.hint,
        )
        for code, one in sorted(incident.codes.items(), key=lambda item: -item[1].count)
    ]
    heads = "code, #events, severity, first (UTC), last (UTC), for example, try"
    lead = "A failure may stand in several events: in that of the attempt, of the wait after it, of the call."
    return section(
        "failures", "Failures by code", table("t-codes", "Codes", heads, rows), lead=lead
    )


def server(incident: Incident, window: Window) -> str:
    """Return the section about the MCP server of a sidecar: its states, and how calls ended."""
    named, changes = incident.guards.of["server"], incident.guards.changes["server"]
    losses = count(incident.events.get("server_lost", 0), "loss", "losses")
    note = f"{losses}, {count(incident.guards.restarts, 'restart')}"
    lanes = [
        lane(window, name, one.lane.spans(window.end, 400), note) for name, one in named.items()
    ]
    rows = [(window.stamp(change.at), change.state, change.why) for change in changes]
    outcomes = [
        (_WORDS.get(name, name), number) for name, number in incident.calls.outcomes.ranked()
    ]
    parts = [
        axis(window),
        *lanes,
        legend("good: ready, busy: starting, wait: lost and started again, bad: not reachable"),
    ]
    return section(
        "server",
        "MCP server",
        *parts,
        table("t-server", listed(changes.seen, len(rows), "change"), "at (UTC), then, why", rows),
        table("t-outcomes", "How calls ended", "outcome, #calls", outcomes),
    ) if named else ""  # fmt: skip
