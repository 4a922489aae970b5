"""The sections about calls, about failures by their code, and about the MCP server behind a sidecar. Pure."""

from __future__ import annotations

from typing import Final

from .calls import Call
from .charts import PARTS, Window, axis, bars, lane, legend
from .escaping import NUMBER, section, table
from .incident import Incident
from .wording import count, duration


_MOST_NAMES: Final = 60
_WORDS: Final = {"unknown": "unknown: may have run", "not_executed": "not executed", "fell_back": "fell back"}
_SERVER_LEGEND: Final = [
    ("good", "ready"),
    ("busy", "starting"),
    ("wait", "lost, started again"),
    ("bad", "not reachable"),
]


def calls(incident: Incident, window: Window) -> str:
    """How many calls ended how, over time and by name; the slowest, and the latest without success."""
    facts = incident.calls
    total = sum(one[0] for one in facts.outcomes.values())
    if not total and not facts.retries:
        return ""
    good, bad = (
        facts.good.sums(window.begin, window.end, PARTS),
        facts.bad.sums(window.begin, window.end, PARTS),
    )
    top = max((one + other for one, other in zip(good, bad, strict=True)), default=0.0)
    every = duration(window.span / PARTS)
    pictures = (
        [axis(window), bars("Calls that ended", f"in each {every}", [("bad", bad), ("good", good)], max(1.0, top)),
         legend([("good", "with success"), ("bad", "without")])]
        if top
        else []
    )  # fmt: skip
    named = sorted(facts.by_name.items(), key=lambda item: (-item[1].bad, -item[1].count))
    rows = [
        (name, f"{one.count:,}", f"{one.bad:,}", _outcomes(one.outcomes), duration(one.quantile(0.5)), duration(one.quantile(0.95)),
         duration(one.longest), f"{one.retries:,}", duration(one.waited), one.why)
        for name, one in named[:_MOST_NAMES]
    ]  # fmt: skip
    heads = [
        ("call", ""), ("calls", NUMBER), ("no success", NUMBER), ("outcomes", ""), ("median", NUMBER), ("95 %", NUMBER), ("longest", NUMBER),
        ("repeats", NUMBER), ("waited", NUMBER), ("last reason", ""),
    ]  # fmt: skip
    caption = "By name, most without success first" + (
        f": {len(rows)} of {len(named)}" if len(named) > len(rows) else ""
    )
    each = [
        ("at (UTC)", ""),
        ("call", ""),
        ("outcome", ""),
        ("took", NUMBER),
        ("attempts", NUMBER),
        ("reason", ""),
    ]
    failed = sorted(facts.failed, key=lambda call: -call.at)
    repeats = [
        (window.stamp(at), name, f"{attempt:,}", duration(wait), code)
        for at, name, attempt, wait, code in facts.waits
    ]
    return section(
        "calls",
        "Calls",
        *pictures,
        table("t-calls", caption, heads, rows, "Median and 95 % are right to a fifth." if total else ""),
        table("t-slowest", "Slowest calls", each, [_call(one, window) for one in facts.slowest]),
        table("t-failed", f"Latest of {count(facts.failed.seen, 'call')} without success" if failed else "", each, [_call(one, window) for one in failed]),
        table(
            "t-waits", f"Longest waits before a repeat, of {facts.retries:,}",
            [("at (UTC)", ""), ("call", ""), ("attempt", NUMBER), ("wait", NUMBER), ("after", "")], repeats,
        ),
    )  # fmt: skip


def _call(one: Call, window: Window) -> tuple[object, ...]:
    outcome = _WORDS.get(one.outcome, one.outcome)
    return (
        window.stamp(one.at),
        one.name,
        outcome,
        duration(one.seconds),
        one.attempts,
        one.why,
    )


def _outcomes(outcomes: dict[str, list[int]]) -> str:
    listed = sorted(outcomes.items(), key=lambda item: -item[1][0])
    return ", ".join(f"{number[0]:,} {_WORDS.get(name, name)}" for name, number in listed)


def codes(incident: Incident, window: Window) -> str:
    """Failures by their code. One loss stands in several events: that of the link, that of the wait, that of the call."""
    listed = sorted(incident.codes.items(), key=lambda item: -item[1].count)
    rows = [
        (
            code,
            f"{one.count:,}",
            one.severity,
            window.stamp(one.first),
            window.stamp(one.last),
            one.message,
            one.hint,
        )
        for code, one in listed
    ]
    heads = [
        ("code", ""), ("events", NUMBER), ("severity", ""), ("first (UTC)", ""), ("last (UTC)", ""), ("for example", ""), ("try", ""),
    ]  # fmt: skip
    return section(
        "failures", "Failures by code", table("t-codes", "Codes", heads, rows),
        lead="A failure may stand in several events: in that of the attempt, of the wait after it, of the call.",
    )  # fmt: skip


def server(incident: Incident, window: Window) -> str:
    """The MCP server behind the sidecar: when it was there, when it was lost and why, how calls ended."""
    named = incident.guards.of["server"]
    if not named:
        return ""
    losses = incident.events.get("server_lost", [0])[0]
    note = f"{count(losses, 'loss', 'losses')}, {count(incident.guards.restarts, 'restart')}"
    lanes = [lane(window, name, one.lane.spans(window.end, 400), note) for name, one in named.items()]
    changes = incident.guards.changes["server"]
    rows = [(window.stamp(change.at), change.state, change.why) for change in changes]
    caption = "Changes" + (f": the first {len(rows)} of {changes.seen:,}" if changes.seen > len(rows) else "")
    outcomes = [
        (_WORDS.get(name, name), f"{number[0]:,}")
        for name, number in sorted(incident.calls.outcomes.items(), key=lambda item: -item[1][0])
    ]
    return section(
        "server", "MCP server", axis(window), *lanes, legend(_SERVER_LEGEND),
        table("t-server", caption, [("at (UTC)", ""), ("then", ""), ("why", "")], rows),
        table("t-outcomes", "How calls ended", [("outcome", ""), ("calls", NUMBER)], outcomes),
    )  # fmt: skip
