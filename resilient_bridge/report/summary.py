"""An incident in one sentence, in a few lines for a terminal, and as plain data. Pure.

Rule: the sentence names links, the MCP server, calls and messages, in this order, and says only
what is in the log.
"""

from __future__ import annotations

import textwrap
from typing import Any

import attrs

from .incident import Incident
from .wording import count, duration, moment


def headline(incident: Incident) -> tuple[bool, str]:
    """Return whether there was trouble, and one sentence about it."""
    if incident.end is None:
        return False, "This log has no event that can be read."
    parts = [
        part
        for part in (_links(incident), _server(incident), _calls(incident), _doubts(incident))
        if part
    ]
    if parts:
        sentence = "; ".join(parts)
        return True, f"{sentence[0].upper()}{sentence[1:]}."
    is_quiet = not incident.codes and not any(
        guard.troubles for named in incident.guards.of.values() for guard in named.values()
    )
    if is_quiet:
        return False, f"Nothing went wrong in {duration(incident.span)}."
    return True, "Some attempts failed; no connection and no call was lost."


def _links(incident: Incident) -> str:
    links = incident.links
    if not links.outages.seen:
        return ""
    longest = next(iter(links.outages))
    of = f" of {count(links.seen, 'link')}" if links.seen > 1 else ""
    several = links.outages.seen > 1
    text = f"{count(links.outages.seen, 'outage')}{of}, "
    text += (
        f"out for {duration(links.down)} in all, at most {duration(longest.seconds(incident.end or 0.0))} at once"
        if several
        else (f"out for {duration(links.down)}")
    )
    return text + (
        f"; {count(links.gaps.seen, 're-join')} not known to be whole" if links.gaps.seen else ""
    )


def _server(incident: Incident) -> str:
    losses = incident.events.get("server_lost", 0)
    return (
        f"the MCP server was lost {'once' if losses == 1 else f'{losses:,} times'}"
        if losses
        else ""
    )


def _calls(incident: Incident) -> str:
    outcomes = incident.calls.outcomes
    unknown = outcomes.get("unknown", 0)
    bad = sum(one.bad for one in incident.calls.by_name.values()) - unknown
    total = outcomes.total
    parts = [f"{bad:,} of {count(total, 'call')} did not succeed"] if bad else []
    if unknown:
        parts.append(f"{count(unknown, 'call')} may or may not have run")
    return " and ".join(parts)


def _doubts(incident: Incident) -> str:
    outcomes = incident.undelivered
    unknown, dropped = (
        outcomes.get("unknown", 0),
        outcomes.get("dropped", 0) + outcomes.get("quarantined", 0),
    )
    parts = [f"{count(unknown, 'message')} may or may not have arrived"] if unknown else []
    if dropped:
        parts.append(
            f"{count(dropped, 'message')} {'was' if dropped == 1 else 'were'} not delivered"
        )
    return " and ".join(parts)


def damaged(incident: Incident) -> int:
    return sum(source.damaged.seen for source in incident.sources)


def as_text(incident: Incident, width: int = 80) -> str:
    """Return a few lines for a terminal of `width` columns, 20 at least.

    They are the sentence, the time, the longest outages, the most frequent failures, and the
    damaged lines.
    """
    width = max(width, 20)
    lines = [headline(incident)[1]]
    if incident.begin is not None and incident.end is not None:
        lines.append(
            f"{moment(incident.begin)} to {moment(incident.end)} UTC, {count(incident.events.total, 'event')}"
        )
    for outage in list(incident.links.outages)[:3]:
        cause = f"{outage.code} {outage.message}".strip()
        verdict = outage.verdict or outage.final or "ready again"
        lines.append(
            f"- {duration(outage.seconds(incident.end or 0.0))} {outage.link}: {cause}; {count(outage.attempts, 'attempt')}; {verdict}"
        )
    worst = sorted(incident.codes.items(), key=lambda item: -item[1].count)[:3]
    lines += [f"- {code}: {count(one.count, 'event')}; {one.message}" for code, one in worst]
    for source in incident.sources:
        if source.damaged:
            numbers = ", ".join(str(number) for number, _ in source.damaged[:8])
            more = " …" if source.damaged.seen > 8 else ""
            lines.append(
                f"- {source.name}: {count(source.damaged.seen, 'damaged line')}: {numbers}{more}"
            )
    return "\n".join(
        textwrap.fill(
            line,
            width,
            subsequent_indent="  " if line.startswith("- ") else "",
            break_on_hyphens=False,
        )
        for line in lines
    )


def as_data(incident: Incident) -> dict[str, Any]:
    """Return the facts as plain data, as `--json` prints them.

    Times are seconds since 1970, durations are seconds.
    """
    links, calls = incident.links, incident.calls
    trouble, sentence = headline(incident)
    end = incident.end or 0.0
    return {
        "summary": sentence,
        "trouble": trouble,
        "begin": incident.begin,
        "end": incident.end,
        "sources": [
            {"name": one.name, "lines": one.lines, "damaged": one.damaged.seen, "damaged_lines": [list(row) for row in one.damaged]}
            for one in incident.sources
        ],
        "events": dict(incident.events.ranked()),
        "links": {
            "seen": links.seen,
            "outages": links.outages.seen,
            "down": links.down,
            "gaps": links.gaps.seen,
            "verdicts": dict(links.verdicts),
            "peak": {name: depth for name, (depth, _) in links.peak.items()},
        },
        "outages": [{**attrs.asdict(one), "seconds": one.seconds(end)} for one in links.outages],
        "gaps": [attrs.asdict(one) for one in links.gaps],
        "calls": {
            name: {"outcomes": dict(one.outcomes.ranked()), "p50": one.quantile(0.5), "p95": one.quantile(0.95), "max": one.longest,
                   "retries": one.retries, "waited": one.waited, "rejected_by": dict(one.rejected_by.ranked())}
            for name, one in calls.by_name.items()
        },
        "slowest": [attrs.asdict(one) for one in calls.slowest],
        "failed": [attrs.asdict(one) for one in calls.failed],
        "guards": {
            kind: {name: {"state": one.lane.state, "changes": one.changes, "troubles": one.troubles, "detail": one.detail} for name, one in named.items()}
            for kind, named in incident.guards.of.items()
        },
        "restarts": incident.guards.restarts,
        "codes": {code: attrs.asdict(one) for code, one in incident.codes.items()},
        "in_doubt": {"counts": dict(incident.doubts_by.ranked()), "first": [attrs.asdict(one) for one in incident.doubts]},
        "notable": [attrs.asdict(one) for one in incident.notable],
        "lost_by_the_log": incident.lost,
        "outside": incident.outside,
    }  # fmt: skip
