"""Circuits, budgets, alerts and the MCP server behind a sidecar, each in one state at a time. Pure.

Rule: a table maps events to states; each is in its first state from the beginning of the log.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import attrs

from .lines import Record, count_in, failure_in, number_in, text_in
from .series import First, Lane, Named


class _Means(NamedTuple):
    """The kind of thing that an event is about, the field with its name, and its state afterwards.

    For an alert, `state` is the field that has the state.
    """

    kind: str
    field: str
    state: str


_TABLE: Final = {
    "CircuitOpened": _Means("circuit", "key", "open"),
    "CircuitHalfOpened": _Means("circuit", "key", "half-open"),
    "CircuitClosed": _Means("circuit", "key", "closed"),
    "SpendWarned": _Means("budget", "budget", "warned"),
    "SpendPaused": _Means("budget", "budget", "paused"),
    "SpendApproved": _Means("budget", "budget", "within"),
    "SpendCancelled": _Means("budget", "budget", "cancelled"),
    "AlertRaised": _Means("alert", "rule", "level"),
    "AlertCleared": _Means("alert", "rule", "remaining"),
    "server_ready": _Means("server", "", "ready"),
    "server_lost": _Means("server", "", "lost"),
    "server_unreachable": _Means("server", "", "down"),
    "server_reached": _Means("server", "", "ready"),
}
FIRST: Final = {"circuit": "closed", "budget": "within", "alert": "quiet", "server": "starting"}


@attrs.define(eq=False)
class Guard:
    """One circuit, budget, alert or server: its lane, and the details of its last change."""

    lane: Lane = attrs.field(factory=Lane)
    changes: int = 0
    troubles: int = 0
    detail: str = ""


@attrs.frozen
class Change:
    """One change of state, which the page lists: when, of what, to which state, and why."""

    at: float
    name: str
    state: str
    why: str


class Guards:
    """All circuits, budgets, alerts and servers of a log, by kind and name."""

    def __init__(self) -> None:
        self.of = {kind: Named(Guard, 100) for kind in FIRST}
        self.changes: dict[str, First[Change]] = {kind: First(200) for kind in FIRST}
        self.restarts = 0
        self.begin: float | None = None

    def take(self, record: Record) -> None:
        """Take an event; an event about none of these changes nothing."""
        if self.begin is None:
            self.begin = record.at
        means = _TABLE.get(record.event)
        if means is None:
            return
        fields = record.fields
        name = text_in(fields, means.field) if means.field else "the MCP server"
        state = means.state
        if means.kind == "alert":
            state = text_in(fields, means.state) or "quiet"
        guard = self.of[means.kind].of(name or "(no name)")
        if not guard.lane.state:
            guard.lane.enter(min(self.begin, record.at), FIRST[means.kind])
        guard.lane.enter(record.at, state)
        guard.changes += 1
        guard.troubles += state in ("open", "paused", "cancelled", "warning", "critical", "lost", "down")
        guard.detail = _why(record)
        self.changes[means.kind].add(Change(record.at, name, state, guard.detail))
        if record.event == "server_ready":
            self.restarts = max(self.restarts, count_in(fields, "restarts"))


def _why(record: Record) -> str:
    """Return what the event says besides the state, in words."""
    fields, failure = record.fields, failure_in(record.fields)
    parts = [text_in(fields, "reason"), text_in(failure, "code")]
    if "limit" in fields and "spent" in fields:
        parts.append(f"spent {number_in(fields, 'spent'):g} of {number_in(fields, 'limit'):g}")
    if "threshold" in fields:
        parts.append(f"{number_in(fields, 'value'):.4g}, threshold {number_in(fields, 'threshold'):g}")
    if fields.get("retry_after") is not None and record.event == "CircuitOpened":
        parts.append(f"for {number_in(fields, 'retry_after'):g} s")
    if "wait" in fields:
        parts.append(f"started again after {number_in(fields, 'wait'):g} s")
    return ", ".join(part for part in parts if part)
