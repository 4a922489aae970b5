"""Circuits, budgets, alerts and the MCP server behind a sidecar, each in one state at a time. Pure.

Rule: a table maps events to states; each is in its first state from the beginning of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import attrs

from .lines import Fields, Record, count_in, failure_in, number_in, text_in
from .series import First, Lane, Named


class _Means(NamedTuple):
    """The kind of thing that an event is about, the field with its name, and how its state is shown.

    An event of the package has its state in the field `state`; a state that is not listed is shown
    as it is. An event of a sidecar means one state.
    """

    kind: str
    field: str
    states: Mapping[str, str] | str


_TABLE: Final = {
    "CircuitChanged": _Means(
        "circuit", "key", {"isolated": "open", "half_open": "half-open", "disabled": "closed"}
    ),
    "SpendChanged": _Means("budget", "budget", {"warning": "warned", "approved": "within"}),
    "AlertChanged": _Means("alert", "rule", {}),
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
        state = _state(means, fields)
        guard = self.of[means.kind].of(name or "(no name)")
        if not guard.lane.state:
            guard.lane.enter(min(self.begin, record.at), FIRST[means.kind])
        guard.lane.enter(record.at, state)
        guard.changes += 1
        guard.troubles += state in (
            "open",
            "paused",
            "cancelled",
            "warning",
            "critical",
            "lost",
            "down",
        )
        guard.detail = _why(record)
        self.changes[means.kind].add(Change(record.at, name, state, guard.detail))
        if record.event == "server_ready":
            self.restarts = max(self.restarts, count_in(fields, "restarts"))


def _state(means: _Means, fields: Fields) -> str:
    if isinstance(means.states, str):
        return means.states
    state = text_in(fields, "state")
    if means.kind == "alert":
        return text_in(fields, "level" if state == "raised" else "remaining") or "quiet"
    return means.states.get(state, state)


def _why(record: Record) -> str:
    """Return what the event says besides the state, in words."""
    fields, failure = record.fields, failure_in(record.fields)
    parts = [text_in(fields, "reason"), text_in(failure, "code")]
    if "limit" in fields and "spent" in fields:
        parts.append(f"spent {number_in(fields, 'spent'):g} of {number_in(fields, 'limit'):g}")
    if "threshold" in fields:
        parts.append(
            f"{number_in(fields, 'value'):.4g}, threshold {number_in(fields, 'threshold'):g}"
        )
    if fields.get("retry_after") is not None and record.event == "CircuitChanged":
        parts.append(f"for {number_in(fields, 'retry_after'):g} s")
    if "wait" in fields:
        parts.append(f"started again after {number_in(fields, 'wait'):g} s")
    return ", ".join(part for part in parts if part)
