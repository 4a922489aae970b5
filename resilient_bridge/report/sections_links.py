"""The sections about connections and what guards them: lanes over time, outages, gaps, queues, circuits, budgets, alerts. Pure."""

from __future__ import annotations

from typing import Final

from .calls import CallsOf
from .charts import PARTS, Mark, Window, axis, bars, lane, legend
from .escaping import NUMBER, section, table
from .guards import FIRST, Guard
from .incident import Incident
from .links import CLOSED, CONNECTING, DEPTHS, DOWN, READY, WAITING, Gap, Link, Outage
from .wording import clock, count, duration


_MOST_LANES: Final = 30
_MOST_MARKS: Final = 2_000  # rectangles in all lanes of one picture
_LEGEND: Final = [
    ("good", "ready"), ("busy", "connecting, joining"), ("wait", "waiting before an attempt"), ("bad", "suspended or failed"),
    ("none", "closed"), ("mixed", "too many changes to draw"), ("G", "messages are missing (GAP)"), ("U", "nobody can tell (UNKNOWN)"),
]  # fmt: skip
_GUARD_LEGENDS: Final = {
    "circuit": [("good", "closed"), ("busy", "half-open"), ("bad", "open")],
    "budget": [("good", "within its limit"), ("busy", "warned"), ("bad", "paused or cancelled")],
    "alert": [("none", "quiet"), ("wait", "warning"), ("bad", "critical")],
}
_DEPTH_WORDS: Final = {
    "queued": "waiting to be sent",
    "unconfirmed": "sent, not yet confirmed",
    "unread": "received, not yet read",
}


def links(incident: Incident, window: Window) -> str:
    """The phases of each link over time; of many links, how many were in which phase, and the worst ones."""
    facts = incident.links
    if not facts.links:
        return ""
    worst = sorted(facts.links.values(), key=lambda link: (-link.down, -link.losses, -link.gaps))
    shown = worst[:_MOST_LANES]
    gaps: dict[str, list[Gap]] = {}
    for gap in facts.gaps:
        gaps.setdefault(gap.link, []).append(gap)
    most = max(4, _MOST_MARKS // len(shown))
    lanes = [
        lane(
            window,
            link.name,
            link.lane.spans(window.end, most),
            _note(link),
            [_mark(gap) for gap in gaps.get(link.name, [])],
        )
        for link in shown
    ]
    parts = [axis(window), *(_overview(incident, window) if facts.seen > 1 else []), *lanes]
    rest = len(worst) - len(shown)
    rows = [
        (
            link.name,
            f"{link.losses:,}",
            duration(link.down),
            _share(link, window),
            f"{link.gaps:,}",
            link.lane.state,
        )
        for link in worst[:100]
    ]
    heads = [
        ("link", ""),
        ("losses", NUMBER),
        ("out", NUMBER),
        ("ready", NUMBER),
        ("gaps", NUMBER),
        ("at the end", ""),
    ]
    lead = (
        f"The {len(shown)} links that were out longest, of {facts.seen:,}; the rest is in the first picture."
        if rest or facts.folded
        else ""
    )
    caption = "Links, the longest out first" + (
        f": {len(rows)} of {facts.seen:,}" if facts.seen > len(rows) else ""
    )
    return section(
        "timeline", "Connections", *parts, legend(_LEGEND), table("t-links", caption, heads, rows), lead=lead
    )


def _overview(incident: Incident, window: Window) -> list[str]:
    """How many links were not ready, over time."""
    part = window.span / PARTS
    stacks = [
        (
            look,
            [
                seconds / part
                for seconds in incident.links.in_group[group].sums(window.begin, window.end, PARTS)
            ],
        )
        for look, group in (("bad", DOWN), ("wait", WAITING), ("busy", CONNECTING))
    ]
    top = max((sum(column) for column in zip(*(values for _, values in stacks), strict=True)), default=0.0)
    if top < 0.01:
        return []
    note = f"of {count(incident.links.seen, 'link')}, on average in each {duration(part)}"
    return [bars("Links that are not ready", note, stacks, max(1.0, top))]


def _note(link: Link) -> str:
    if not link.losses and not link.down:
        return "never lost" if link.lane.state != CLOSED else "never lost, closed"
    return f"{count(link.losses, 'loss', 'losses')}, out {duration(link.down)}"


def _share(link: Link, window: Window) -> str:
    """How much of its time a link was ready; its time begins with its first event and ends when it is closed for good."""
    spans = link.lane.spans(window.end)
    while spans and spans[-1].state == CLOSED:
        spans.pop()
    ready = sum(span.end - span.start for span in spans if span.state == READY)
    whole = spans[-1].end - spans[0].start if spans else 0.0
    return f"{100 * ready / whole:.3g} %" if whole else "none"


def _mark(gap: Gap) -> Mark:
    return Mark(gap.at, "G" if gap.verdict == "GAP" else "U", f"{gap.verdict}: {gap.reason}")


def outages(incident: Incident, window: Window) -> str:
    """The outages, the longest first, and the re-joins that are not known to be whole."""
    facts = incident.links
    rows = [_outage(one, window) for one in facts.outages]
    heads = [
        ("began (UTC)", ""), ("lasted", NUMBER), ("link", ""), ("cause", ""), ("attempts", NUMBER), ("waits before them", ""),
        ("ended", ""), ("replayed", NUMBER),
    ]  # fmt: skip
    seen = facts.outages.seen
    caption = (
        f"The {len(rows)} longest of {count(seen, 'outage')}"
        if seen > len(rows)
        else f"{count(seen, 'outage').capitalize()}, the longest first"
    )
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
    bounds = [
        ("at (UTC)", ""),
        ("link", ""),
        ("verdict", ""),
        ("reason", ""),
        ("missing since", ""),
        ("until", ""),
    ]
    verdicts = ", ".join(f"{number:,} {name}" for name, number in sorted(facts.verdicts.items()))
    return section(
        "outages",
        "Outages and gaps",
        table("t-outages", caption, heads, rows),
        table(
            "t-gaps",
            f"{count(facts.gaps.seen, 're-join').capitalize()} not known to be whole"
            + (f": the first {len(holes)}" if facts.gaps.seen > len(holes) else ""),
            bounds,
            holes,
        ),
        lead=f"Verdicts of re-joins: {verdicts}." if verdicts else "",
    )


def _outage(one: Outage, window: Window) -> tuple[object, ...]:
    waits = ", ".join(duration(wait) for wait in one.waits) + (" …" if one.attempts > len(one.waits) else "")
    ended = ", ".join(part for part in (one.verdict, one.final) if part) or "ready again"
    cause = ": ".join(part for part in (one.code, one.message) if part)
    return (
        window.stamp(one.start),
        duration(one.seconds(window.end)),
        one.link,
        cause,
        one.attempts,
        waits or "none",
        ended,
        one.replayed,
    )


def queues(incident: Incident, window: Window) -> str:
    """How deep the queues were over time, all links together."""
    facts = incident.links
    if not any(depth for depth, _ in facts.peak.values()):
        return ""
    parts = [axis(window)]
    for name in DEPTHS:
        depth, at = facts.peak[name]
        note = f"at most {count(depth, 'message')}, {clock(at, 10)}" if depth else "always empty"
        values = facts.depth[name].highest(window.begin, window.end, PARTS)
        parts.append(bars(_DEPTH_WORDS[name].capitalize(), note, [("busy", values)], max(1.0, depth)))
    rows = [
        (_DEPTH_WORDS[name], name, depth, window.stamp(at) if depth else "")
        for name, (depth, at) in facts.peak.items()
    ]
    heads = [("messages", ""), ("field", ""), ("at most", NUMBER), ("at (UTC)", "")]
    return section(
        "queues", "Queues", *parts, table("t-queues", "Deepest", heads, rows),
        lead="All links together, known whenever one of them changes its state; in between it may have been more.",
    )  # fmt: skip


def circuits(incident: Incident, window: Window) -> str:
    """Circuits, budgets and alerts over time, and what changed when."""
    parts: list[str] = []
    for kind, title in (("circuit", "Circuits"), ("budget", "Budgets"), ("alert", "Alerts")):
        named = incident.guards.of[kind]
        if named:
            shown = sorted(named.items(), key=lambda item: -item[1].troubles)[:_MOST_LANES]
            parts += [
                f"<h3>{title}</h3>",
                axis(window),
                *(_guard(window, name, one, kind) for name, one in shown),
            ]
            parts.append(legend(_GUARD_LEGENDS[kind]))
            changes = incident.guards.changes[kind]
            rows = [
                (window.stamp(change.at), change.name, change.state or FIRST[kind], change.why)
                for change in changes
            ]
            caption = f"{title}: {count(changes.seen, 'change')}" + (
                f", the first {len(rows)}" if changes.seen > len(rows) else ""
            )
            parts.append(
                table(f"t-{kind}", caption, [("at (UTC)", ""), (kind, ""), ("then", ""), ("why", "")], rows)
            )
    return section("circuits", "Circuits, budgets, alerts", *parts, _refused(incident.calls.by_name))


def _guard(window: Window, name: str, one: Guard, kind: str) -> str:
    looks = {"closed": "good"} if kind == "circuit" else {}
    state = one.lane.state or FIRST[kind]
    note = f"{count(one.changes, 'change')}, at the end {state}"
    return lane(window, name, one.lane.spans(window.end, 200), note, looks=looks)


def _refused(by_name: dict[str, CallsOf]) -> str:
    rows = [
        (name, by, f"{number[0]:,}")
        for name, one in by_name.items()
        for by, number in one.rejected_by.items()
    ]
    rows.sort(key=lambda row: -int(row[2].replace(",", "")))
    return table(
        "t-refused",
        "Attempts that were not admitted",
        [("call", ""), ("by", ""), ("attempts", NUMBER)],
        rows[:50],
    )
