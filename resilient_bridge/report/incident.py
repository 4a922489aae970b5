"""The facts of a log, counted in bounded memory: all that the report shows comes from here. Pure.

Rule: call `take` for each line, then `finish` once. Time and memory for a line do not depend on the
number of earlier lines.
"""

from __future__ import annotations

from typing import Final

import attrs

from .. import events
from ..lazy_names import names_of
from .calls import Calls
from .effects import Effects
from .guards import Guards
from .limits import Limits
from .lines import (
    Damage,
    Fields,
    Record,
    count_in,
    failure_in,
    first_text,
    number_in,
    read_line,
    text_in,
)
from .links import Links
from .series import First, Named, Tally


_IN_DOUBT: Final = frozenset({"MessageUndelivered", "DuplicateConflict"})
_CLASSES: Final = {
    name: kind
    for name in names_of("events")
    if isinstance(kind := getattr(events, name), type) and issubclass(kind, events.Event)
}
_OF_THE_SIDECAR: Final = (
    "list_changed", "capabilities_changed", "tools_unknown", "stray_answer", "server_unreachable",
)  # fmt: skip
_NOTABLE: Final = frozenset(_OF_THE_SIDECAR) | {
    f"{name} {state}".rstrip() for name, kind in _CLASSES.items() for state in kind.__notable__
}
# the field that says what happened, and is shown after the event's name; a reason is in the text
_STATE_OF: Final = {
    name: kind.__state__
    for name, kind in _CLASSES.items()
    if kind.__state__ in ("state", "status", "outcome")
}
_SAYING: Final = (
    "name", "tool", "store", "path", "workflow", "phase", "feature", "method", "list", "type", "id", "reason", "mode", "lost", "set_aside",
)  # fmt: skip
_MOST_DAMAGED: Final = 50


@attrs.define(eq=False)
class Code:
    """One failure code: how often it is in the log, when, and an example."""

    count: int = 0
    first: float = 0.0
    last: float = 0.0
    message: str = ""
    hint: str = ""
    severity: str = ""


@attrs.define(eq=False)
class Source:
    """One file, and what could not be read of it."""

    name: str
    lines: int = 0
    empty: int = 0  # of these
    damaged: First[tuple[int, str]] = attrs.field(
        factory=lambda: First[tuple[int, str]](_MOST_DAMAGED)
    )


@attrs.frozen
class Doubt:
    """A message whose delivery a person has to check."""

    at: float
    what: str
    type: str
    key: str
    reason: str


@attrs.frozen
class Notable:
    """Another event that the page lists."""

    at: float
    what: str
    text: str


class Incident:
    """The facts of one or several logs.

    Events before `since` or after `until` (seconds since 1970) are left out.
    """

    def __init__(self, *, since: float | None = None, until: float | None = None) -> None:
        self._since, self._until = since, until
        self.sources: list[Source] = []
        self.links, self.calls, self.guards = Links(), Calls(), Guards()
        self.limits, self.effects = Limits(), Effects()
        self.events = Tally(150)
        self.codes: Named[Code] = Named(Code, 150)
        self.doubts: First[Doubt] = First(150)
        self.doubts_by = Tally(100)
        self.undelivered = Tally(10)  # by outcome
        self.notable: First[Notable] = First(200)
        self.versions: First[str] = First(5)
        self.begin: float | None = None
        self.end: float | None = None
        self.outside = 0
        self.structured = 0
        self.lost = 0
        self.cut = 0

    @property
    def span(self) -> float:
        return (self.end or 0.0) - (self.begin or 0.0)

    def source(self, name: str) -> Source:
        """Begin a file; its lines come next."""
        self.sources.append(Source(name))
        return self.sources[-1]

    def take(self, line: bytes) -> None:
        """Take the next line of the file that was started last."""
        source = self.sources[-1]
        source.lines += 1
        found = read_line(line)
        if isinstance(found, Damage):
            source.damaged.add((source.lines, found.reason))
        elif found is None:
            source.empty += 1
        else:
            self._record(found)

    def finish(self) -> None:
        """Count what is still in progress at the end of the log."""
        if self.end is not None:
            self.links.finish(self.end)

    def _record(self, record: Record) -> None:
        at = record.at
        if (self._since is not None and at < self._since) or (
            self._until is not None and at > self._until
        ):
            self.outside += 1
            return
        self.begin = at if self.begin is None else min(self.begin, at)
        self.end = at if self.end is None else max(self.end, at)
        self.events.count(record.event or "(a line of the program's own)")
        if not record.event:
            return
        if "ts" in record.fields and "at" not in record.fields:
            self._structured(record)
            return
        self.links.take(record)
        self.calls.take(record)
        self.guards.take(record)
        self.limits.take(record)
        self.effects.take(record)
        self._failure(at, failure_in(record.fields))
        self._rest(record)

    def _structured(self, record: Record) -> None:
        """Take a structured line: it has no link states, but codes and durations of calls."""
        self.structured += 1
        fields = record.fields
        code = text_in(fields, "code") or text_in(fields, "error")
        if code:
            message = text_in(fields, "msg").partition(": ")[2]
            self._failure(
                record.at, {"code": code, "message": message, "severity": text_in(fields, "level")}
            )
        if "duration_ms" in fields:
            name = text_in(fields, "name") or text_in(fields, "tool") or record.event
            outcome = "failed" if code else "ok"
            seconds = number_in(fields, "duration_ms") / 1_000
            call = {
                "name": name,
                "outcome": outcome,
                "seconds": seconds,
                "attempts": fields.get("attempt"),
            }
            self.calls.take(
                Record(
                    record.at, "CallFinished", {**call, "failure": {"code": code} if code else None}
                )
            )

    def _failure(self, at: float, failure: Fields) -> None:
        code = text_in(failure, "code")
        if not code:
            return
        one = self.codes.of(code)
        one.first = one.first if one.count else at
        one.count, one.last = one.count + 1, at
        if not one.message:
            one.message, one.severity = text_in(failure, "message"), text_in(failure, "severity")
            one.hint = first_text(failure.get("suggestions"))

    def _rest(self, record: Record) -> None:
        event, fields = record.event, record.fields
        state = text_in(fields, _STATE_OF[event]) if event in _STATE_OF else ""
        what = f"{event} {state}" if state else event
        if event in _IN_DOUBT:
            kind, reason = text_in(fields, "type"), text_in(fields, "reason")
            self.doubts_by.count(f"{what}: {reason}" if reason else what)
            self.undelivered.count(state or event)
            key = text_in(fields, "key") or text_in(fields, "id")
            self.doubts.add(Doubt(record.at, what, kind, key, reason))
        elif event == "Started":
            self.versions.add(
                " ".join(text_in(fields, name) for name in ("version", "python", "command"))
            )
        if event in _NOTABLE or what in _NOTABLE:
            self.notable.add(Notable(record.at, what, _text(fields)))
        self.lost += count_in(fields, "lost") if event == "StoreChanged" else 0
        self.cut += "cut" in fields or "unreadable" in fields


def _text(fields: Fields) -> str:
    failure = failure_in(fields)
    parts = [text_in(fields, name) for name in _SAYING]
    parts.append(
        ": ".join(part for part in (text_in(failure, "code"), text_in(failure, "message")) if part)
    )
    if "seconds" in fields:
        parts.append(f"{number_in(fields, 'seconds'):g} s")
    return ", ".join(part for part in parts if part)
