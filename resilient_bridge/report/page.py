"""The page of an incident: one self-contained HTML document, returned as text. No I/O.

Rule: a section without facts is omitted, and named at the end of the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from .charts import DEFS, Window
from .escaping import esc, section, table
from .incident import Incident
from .sections_calls import calls, codes, server
from .sections_limits import effects, limits
from .sections_links import circuits, links, outages, queues
from .style import CSS, SCRIPT
from .summary import damaged, headline
from .wording import duration, listed, moment


_HASH: Final = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
_POLICY: Final = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"


def page(incident: Incident, *, version: str = "") -> str:
    begin, end = incident.begin or 0.0, incident.end or 0.0
    window = Window(begin, end if end > begin else begin + 1)
    made = {
        ident: make(incident, window)
        for ident, (_, make) in _SECTIONS.items()
        if incident.end is not None or ident in _ALWAYS
    }
    links_to = "".join(
        f'<li><a href="#{ident}">{esc(_SECTIONS[ident][0])}</a></li>'
        for ident, text in made.items()
        if text
    )
    absent = [_SECTIONS[ident][0].lower() for ident, text in made.items() if not text]
    trouble, sentence = headline(incident)
    title = f"Incident report: {', '.join(source.name for source in incident.sources[:3])}"
    nothing = f"<p>The log has nothing about: {esc(', '.join(absent))}.</p>" if absent else ""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><meta name="referrer" content="no-referrer">
<title>{esc(title)}</title><style>{CSS}</style></head><body>{DEFS}
<header><h1>Incident report</h1><p class="headline {"trouble" if trouble else "calm"}">{esc(sentence)}</p>
<p class="meta">{_when(incident)}</p>{_tiles(incident)}<nav aria-label="Sections"><ul>{links_to}</ul></nav></header>
<main>{"".join(made.values())}</main>
<footer>{nothing}<p>Made by resilient-bridge {esc(version)} from the log alone. All times are UTC.</p></footer>
<script>{SCRIPT}</script></body></html>
"""


def _when(incident: Incident) -> str:
    files = ", ".join(source.name for source in incident.sources[:6]) + (
        " …" if len(incident.sources) > 6 else ""
    )
    if incident.begin is None or incident.end is None:
        return esc(files)
    return f"{moment(incident.begin)} to {moment(incident.end)} UTC ({duration(incident.span)}) · {esc(files)}"


def _tiles(incident: Incident) -> str:
    facts = incident.links
    longest = next(iter(facts.outages), None)
    bad = sum(one.bad for one in incident.calls.by_name.values())
    total = incident.calls.outcomes.total
    server_losses = incident.events.get("server_lost", 0)
    alerts = sum(guard.troubles for guard in incident.guards.of["alert"].values())
    shown = [
        ("links" if facts.seen > 1 else "link", f"{facts.seen:,}", facts.seen),
        ("outages", f"{facts.outages.seen:,}", facts.seen),
        (
            "longest outage",
            duration(longest.seconds(incident.end or 0.0)) if longest else "none",
            facts.seen,
        ),
        ("gaps, or unknown", f"{facts.gaps.seen:,}", facts.seen),
        ("losses of the MCP server", f"{server_losses:,}", incident.guards.of["server"]),
        ("calls", f"{total:,}", total),
        ("calls without success", f"{bad:,}", total),
        ("repeats", f"{incident.calls.retries:,}", incident.calls.retries),
        ("calls held", f"{incident.effects.held.seen:,}", incident.effects.held.seen),
        ("messages in doubt", f"{incident.doubts.seen:,}", facts.seen),
        ("alerts raised", f"{alerts:,}", alerts),
        ("damaged lines", f"{damaged(incident):,}", damaged(incident)),
    ]
    rows = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value, is_shown in shown if is_shown
    )
    return f'<dl class="tiles">{rows}</dl>' if rows else ""


def _messages(incident: Incident, window: Window) -> str:
    rows = [
        (window.stamp(one.at), one.what, one.type, one.key, one.reason) for one in incident.doubts
    ]
    return section(
        "messages",
        "Messages in doubt, dropped or set aside",
        table("t-doubts", "By kind and reason", "what, #messages", incident.doubts_by.ranked()),
        table(
            "t-doubt",
            listed(incident.doubts.seen, len(rows), "message"),
            "at (UTC), what, type, key or id, reason",
            rows,
        ),
        lead="MessageUndelivered unknown: it was handed out, nobody will ever know whether it arrived, and it is not repeated. Ask the server by its key.",
    )


def _others(incident: Incident, window: Window) -> str:
    rows = [(window.stamp(one.at), one.what, one.text) for one in incident.notable]
    caption = listed(incident.notable.seen, len(rows), "event")
    return section(
        "others", "Also happened", table("t-others", caption, "at (UTC), what, about", rows)
    )


def _log(incident: Incident, _window: Window) -> str:
    files = [(one.name, one.lines, one.damaged.seen) for one in incident.sources]
    wrong = [
        (f"{one.name}, line {number}", reason)
        for one in incident.sources
        for number, reason in one.damaged
    ]
    folded = incident.events.folded or incident.links.folded or incident.calls.by_name.folded
    remarks = {
        f"Written by {', '.join(incident.versions)}.": incident.versions,
        f"Lines that could not be written when they happened, and are missing: {incident.lost:,}.": incident.lost,
        f"Lines that were cut or not readable when they were written: {incident.cut:,}.": incident.cut,
        f"Events outside of the time asked for, left out: {incident.outside:,}.": incident.outside,
        f"Structured lines, which carry no phases: {incident.structured:,}.": incident.structured,
        "Names beyond the first few hundred are counted together.": folded,
    }
    return section(
        "log",
        "The log itself",
        table("t-files", "Files", "file, #lines, #damaged", files),
        table(
            "t-damaged",
            listed(damaged(incident), len(wrong), "damaged line"),
            "where, what is wrong",
            wrong,
        ),
        table("t-events", "Events by name", "event, #times", incident.events.ranked()),
        lead=" ".join(remark for remark, is_true in remarks.items() if is_true),
    )


_SECTIONS: Final[Mapping[str, tuple[str, Callable[[Incident, Window], str]]]] = {
    "timeline": ("Connections", links),
    "outages": ("Outages and gaps", outages),
    "server": ("MCP server", server),
    "queues": ("Queues", queues),
    "circuits": ("Circuits, budgets, alerts", circuits),
    "limits": ("Adaptive limits", limits),
    "effects": ("Calls in doubt", effects),
    "calls": ("Calls", calls),
    "failures": ("Failures", codes),
    "messages": ("Messages", _messages),
    "others": ("Also happened", _others),
    "log": ("The log", _log),
}
_ALWAYS: Final = ("messages", "others", "log")  # also for a log without any event
