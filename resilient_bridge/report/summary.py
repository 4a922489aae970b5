"""An incident in one sentence, in a few lines for a terminal, and as plain data. Pure.

Rule: the sentence names links, the MCP server, calls, those that were held, limits and messages, in
this order, and says only what is in the log.
"""

from __future__ import annotations

import textwrap
from typing import Any

import attrs

from .effects import FIRST_CALL
from .incident import Incident
from .wording import count, duration, moment, times


def headline(incident: Incident) -> tuple[bool, str]:
    """Return whether there was trouble, and one sentence about it."""
    if incident.end is None:
        return False, "This log has no event that can be read."
    parts = [
        part
        for part in (
            _links(incident),
            _server(incident),
            _calls(incident),
            _held(incident),
            _limits(incident),
            _doubts(incident),
        )
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
    return f"the MCP server was lost {times(losses)}" if losses else ""


def _calls(incident: Incident) -> str:
    outcomes = incident.calls.outcomes
    unknown = outcomes.get("unknown", 0)
    bad = sum(one.bad for one in incident.calls.by_name.values()) - unknown
    total = outcomes.total
    parts = [f"{bad:,} of {count(total, 'call')} did not succeed"] if bad else []
    if unknown:
        parts.append(f"{count(unknown, 'call')} may or may not have run")
    return " and ".join(parts)


def _held(incident: Incident) -> str:
    held, still = incident.effects.held.seen, len(incident.effects.open)
    if not held:
        return ""
    text = f"{count(held, 'call was', 'calls were')} held, because an identical one may have run"
    return text + (f", and {count(still, 'call is', 'calls are')} still in doubt" if still else "")


def _limits(incident: Incident) -> str:
    exhausted = sum(one.exhausted > 0 for one in incident.limits.by_key.values())
    if not exhausted:
        return ""
    words = count(exhausted, "limit was", "limits were")
    return f"{words} exhausted: the server refused every call"


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

    They are the sentence, the time, the longest outages, calls that were held, adaptive limits, the
    most frequent failures, and the damaged lines.
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
    lines += _effect_lines(incident) + _limit_lines(incident)
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


def _effect_lines(incident: Incident) -> list[str]:
    facts = incident.effects
    lines: list[str] = []
    for name, one in facts.most_held()[:3]:
        still = sum(each == name for each, _ in facts.open)
        known = ", ".join(FIRST_CALL.get(first, first) for first, _ in one.first.ranked())
        text = f"- {name}: {count(one.held, 'call')} held: the first {known}"
        if one.held:
            lines.append(text + (f"; {still:,} in doubt at the end" if still else ""))
    return lines


def _limit_lines(incident: Incident) -> list[str]:
    lines: list[str] = []
    for key, one in incident.limits.worst()[:3]:
        parts = [f"down to {one.lowest_at_once} at once"] if one.lowest_at_once else []
        parts += [count(one.refused, "refusal"), f"longest wait {duration(one.longest_wait)}"]
        parts += [f"exhausted {times(one.exhausted)}"] if one.exhausted else []
        parts += [f"{count(one.rejected, 'call')} gave up"] if one.rejected else []
        parts += [f"at the end {one.lane.state}"] if one.lane.state else []
        lines.append(f"- limit {key}: {'; '.join(parts)}")
    return lines


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
                   "retries": one.retries, "waited": one.waited, "rejected_by": dict(one.rejected_by.ranked()),
                   "hedged": {"calls": one.hedged, "extra": one.extra, "won": one.won, "cancelled": one.cancelled}, "shared": dict(one.shared.ranked())}
            for name, one in calls.by_name.items()
        },
        "slowest": [attrs.asdict(one) for one in calls.slowest],
        "failed": [attrs.asdict(one) for one in calls.failed],
        "guards": {
            kind: {name: {"state": one.lane.state, "changes": one.changes, "troubles": one.troubles, "detail": one.detail} for name, one in named.items()}
            for kind, named in incident.guards.of.items()
        },
        "limits": {
            key: {"state": one.lane.state, "began": one.began if one.times else None, "times": one.times, "lowest": one.lowest if one.lowest_at_once else None,
                  "refused": one.refused, "longest_wait": one.longest_wait, "waiting": one.waiting, "exhausted": one.exhausted, "rejected": one.rejected}
            for key, one in incident.limits.by_key.items()
        },
        "effects": {
            "by_name": {name: {"held": one.held, "first": dict(one.first.ranked()), "ended": dict(one.ended.ranked())}
                        for name, one in incident.effects.by_name.items()},
            "open": [{"name": name, "began": began, "held": at} for (name, began), at in incident.effects.open.items()],
        },
        "restarts": incident.guards.restarts,
        "codes": {code: attrs.asdict(one) for code, one in incident.codes.items()},
        "in_doubt": {"counts": dict(incident.doubts_by.ranked()), "first": [attrs.asdict(one) for one in incident.doubts]},
        "notable": [attrs.asdict(one) for one in incident.notable],
        "lost_by_the_log": incident.lost,
        "outside": incident.outside,
    }  # fmt: skip
