"""The sections about connections, outages, queues, circuits, budgets and alerts. Pure."""

from __future__ import annotations

from typing import Final

from .charts import PARTS, Mark, Window, axis, bars, lane, legend
from .escaping import section, table
from .guards import FIRST, Guard
from .incident import Incident
from .links import CLOSED, CONNECTING, DEPTHS, DOWN, READY, WAITING, Gap, Link, Outage
from .wording import clock, count, duration, listed


_MOST_LANES: Final = 30
_MOST_MARKS: Final = 2_000  # rectangles in all lanes of one picture
_LEGEND: Final = (
    "good: ready, busy: connecting or joining, wait: waiting before an attempt, bad: suspended or failed, none: closed, "
    "mixed: too many changes to draw, G: messages are missing (GAP), U: nobody can tell (UNKNOWN)"
)
_LEGENDS: Final = {
    "circuit": "good: closed, busy: half-open, bad: open",
    "budget": "good: within its limit, busy: warned, bad: paused or cancelled",
    "alert": "none: quiet, wait: warning, bad: critical",
}
_DEPTH_WORDS: Final = {
    "queued": "waiting to be sent",
    "unconfirmed": "sent, not yet confirmed",
    "unread": "received, not yet read",
}


def links(incident: Incident, window: Window) -> str:
    """Return the section with the phases of each link over time.

    With several links it also has the number that were not ready; with more than 30, only those
    that were out longest have a lane.
    """
    facts = incident.links
    if not facts.links:
        return ""
    worst = sorted(facts.links.values(), key=lambda link: (-link.down, -link.losses, -link.gaps))
    shown = worst[:_MOST_LANES]
    marks: dict[str, list[Mark]] = {}
    for gap in facts.gaps:
        marks.setdefault(gap.link, []).append(_mark(gap))
    most = max(4, _MOST_MARKS // len(shown))
    parts = [axis(window), _overview(incident, window) if facts.seen > 1 else ""]
    parts += [
        lane(
            window,
            link.name,
            link.lane.spans(window.end, most),
            _note(link),
            marks.get(link.name, ()),
        )
        for link in shown
    ]
    rows = [
        (link.name, link.losses, duration(link.down), _share(link, window), link.gaps, link.lane.state) for link in worst[:100]
    ]  # fmt: skip
    lead = f"The {len(shown)} links that were out longest; all {facts.seen:,} are in the first picture."
    caption = listed(facts.seen, len(rows), "link", "that were out longest")
    links_table = table("t-links", caption, "link, #losses, #out, #ready, #gaps, at the end", rows)
    return section(
        "timeline",
        "Connections",
        *parts,
        legend(_LEGEND),
        links_table,
        lead=lead if facts.seen > len(shown) else "",
    )


def _overview(incident: Incident, window: Window) -> str:
    """Return the bars of how many links were not ready, over time."""
    part, groups = window.span / PARTS, {"bad": DOWN, "wait": WAITING, "busy": CONNECTING}
    seconds = {
        look: incident.links.in_group[group].sums(window.begin, window.end, PARTS)
        for look, group in groups.items()
    }
    stacks = [(look, [one / part for one in values]) for look, values in seconds.items()]
    note = f"of {count(incident.links.seen, 'link')}, on average in each {duration(part)}"
    return bars("Links that are not ready", note, stacks)


def _note(link: Link) -> str:
    if not link.losses and not link.down:
        return "never lost"
    return f"{count(link.losses, 'loss', 'losses')}, out {duration(link.down)}"


def _share(link: Link, window: Window) -> str:
    """Return the percentage of time that a link was ready, until it was closed for good."""
    spans = link.lane.spans(window.end)
    while spans and spans[-1].state == CLOSED:
        spans.pop()
    ready = sum(span.end - span.start for span in spans if span.state == READY)
    whole = spans[-1].end - spans[0].start if spans else 0.0
    return f"{100 * ready / whole:.3g} %" if whole else ""


def _mark(gap: Gap) -> Mark:
    return Mark(gap.at, "G" if gap.verdict == "GAP" else "U", f"{gap.verdict}: {gap.reason}")


def outages(incident: Incident, window: Window) -> str:
    """Return the section with the longest outages, and the re-joins not known to be complete."""
    facts = incident.links
    rows = [_outage(one, window) for one in facts.outages]
    holes = [
        (
            window.stamp(gap.at),
            gap.link,
            gap.verdict,
            gap.reason,
            window.stamp(gap.since),
            window.stamp(gap.until),
        )
        for gap in facts.gaps
    ]
    verdicts = ", ".join(f"{number:,} {name}" for name, number in facts.verdicts.ranked())
    return section(
        "outages",
        "Outages and gaps",
        table(
            "t-outages",
            listed(facts.outages.seen, len(rows), "outage", "longest"),
            "began (UTC), #lasted, link, cause, #attempts, waits before them, ended, #replayed",
            rows,
        ),
        table(
            "t-gaps",
            listed(facts.gaps.seen, len(holes), "re-join") + " not known to be whole",
            "at (UTC), link, verdict, reason, missing since, until",
            holes,
        ),
        lead=f"Verdicts of re-joins: {verdicts}." if verdicts else "",
    )


def _outage(one: Outage, window: Window) -> tuple[object, ...]:
    waits = ", ".join(duration(wait) for wait in one.waits) + (
        " …" if one.attempts > len(one.waits) else ""
    )
    ended = ", ".join(part for part in (one.verdict, one.final) if part) or "ready again"
    cause = ": ".join(part for part in (one.code, one.message) if part)
    lasted = duration(one.seconds(window.end))
    return (
        window.stamp(one.start),
        lasted,
        one.link,
        cause,
        one.attempts,
        waits or "none",
        ended,
        one.replayed,
    )


def queues(incident: Incident, window: Window) -> str:
    """Return the section about the lengths of the queues over time, all links together."""
    facts = incident.links
    if not any(depth for depth, _ in facts.peak.values()):
        return ""
    parts, rows = [axis(window)], list[tuple[object, ...]]()
    for name in DEPTHS:
        depth, at = facts.peak[name]
        note = f"at most {count(depth, 'message')}, {clock(at, 10)}" if depth else "always empty"
        values = facts.depth[name].highest(window.begin, window.end, PARTS)
        parts.append(bars(_DEPTH_WORDS[name].capitalize(), note, [("busy", values)]))
        rows.append((_DEPTH_WORDS[name], name, depth, window.stamp(at) if depth else ""))
    lead = "All links together, known whenever one of them changes its state; in between it may have been more."
    deepest = table("t-queues", "Deepest", "messages, field, #at most, at (UTC)", rows)
    return section("queues", "Queues", *parts, deepest, lead=lead)


def circuits(incident: Incident, window: Window) -> str:
    """Return the section about circuits, budgets and alerts, with the rejected attempts."""
    parts: list[str] = []
    for kind, words in _LEGENDS.items():
        named, changes = incident.guards.of[kind], incident.guards.changes[kind]
        if named:
            shown = sorted(named.items(), key=lambda item: -item[1].troubles)[:_MOST_LANES]
            parts += [
                f"<h3>{kind.capitalize()}s</h3>",
                axis(window),
                *(_guard(window, name, one, kind) for name, one in shown),
            ]
            rows = [
                (window.stamp(change.at), change.name, change.state, change.why)
                for change in changes
            ]
            caption = f"{kind.capitalize()}s: {listed(changes.seen, len(rows), 'change')}"
            parts += [
                legend(words),
                table(f"t-{kind}", caption, f"at (UTC), {kind}, then, why", rows),
            ]
    refused = [
        (name, by, number)
        for name, one in incident.calls.by_name.items()
        for by, number in one.rejected_by.items()
    ]
    refused.sort(key=lambda row: -row[2])
    parts.append(
        table("t-refused", "Attempts that were not admitted", "call, by, #attempts", refused[:50])
    )
    return section("circuits", "Circuits, budgets, alerts", *parts)


def _guard(window: Window, name: str, one: Guard, kind: str) -> str:
    note = f"{count(one.changes, 'change')}, at the end {one.lane.state or FIRST[kind]}"
    looks = {"closed": "good"} if kind == "circuit" else {}
    return lane(window, name, one.lane.spans(window.end, 200), note, looks=looks)
