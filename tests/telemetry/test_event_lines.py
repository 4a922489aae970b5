"""What operators read of each event: log lines, debug lines, lines of `pipe`, structured lines, metrics and notes on a span.

The file event_lines.txt has them to the byte: alerts, dashboards and greps rely on them.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.telemetry import emit
from tests.internals.cli import line_of
from tests.internals.exporters import note_on_span
from tests.internals.stores import log_line
from tests.internals.telemetry import LineRate, Measures, debug_kind, name_in_words
from tests.reference import records


GOLDEN = Path(__file__).with_name("event_lines.txt")
AT = datetime(2026, 3, 20, 14, 32, tzinfo=UTC)
RESET = rb.Failure.of("CONN_RESET", "connection reset")
TIMEOUT = rb.Failure.of("TOOL_TIMEOUT", "timed out after 10 s")
NOT_FOUND = rb.Failure.of("TOOL_NOT_FOUND", "no tool named fetch")
Bridge, Verdict = rb.bridge.BridgeState, rb.bridge.Verdict

SAMPLES = [
    (events.StateChanged, {"previous": Bridge.READY, "state": Bridge.BACKOFF, "reason": "peer_closed(1001)", "queued": 3, "session_id": "s1"}),
    (events.Connected, {"session_id": "s1"}),
    (events.Disconnected, {"reason": "peer_closed(1001)", "failure": RESET}),
    (events.ReconnectScheduled, {"attempt": 1, "wait": 0.25, "reason": "peer_closed(1001)", "failure": RESET}),
    (events.ReconnectScheduled, {"attempt": 2, "wait": 2.0, "reason": "connect_refused"}),
    (events.Joined, {"session_id": "s1"}),
    (events.Resumed, {"session_id": "s1", "verdict": Verdict.GAP, "reason": "buffer_overflow", "replayed": 2, "since": AT}),
    (events.AcknowledgementLate, {"type": "task", "id": "m1"}),
    (events.Suspended, {"reason": "connect_refused", "failure": RESET, "attempts": 5}),
    (events.GaveUp, {"name": "link", "failure": RESET}),
    (events.GaveUp, {"name": "ask", "failure": TIMEOUT, "seconds": 2.5}),
    (events.RetryScheduled, {"name": "ask", "attempt": 2, "wait": 0.5, "failure": TIMEOUT, "attempts": 4}),
    (events.RetryScheduled, {"name": "ask", "attempt": 2, "wait": 2.5, "failure": RESET}),
    (events.RetryRecovered, {"name": "ask", "attempt": 2}),
    (events.FellBack, {"name": "ask", "rung": 1, "failure": RESET}),
    (events.CallLeftBehind, {"name": "ask", "runs_in": "thread", "seconds": 2.0}),
    (events.CircuitChanged, {"key": "search", "state": "open", "reason": "consecutive_failures_5", "retry_after": 60.0, "failure": RESET}),
    (events.CircuitChanged, {"key": "search", "state": "isolated", "reason": "isolated"}),
    (events.CircuitChanged, {"key": "search", "state": "half_open", "reason": "reset_timeout_elapsed"}),
    (events.CircuitChanged, {"key": "search", "state": "closed", "reason": "request_success"}),
    (events.CircuitChanged, {"key": "search", "state": "disabled", "reason": "disabled"}),
    (events.LimitChanged, {"key": "https://host GET /v1", "owner": "https://host", "state": "began", "at_once": 8.0, "waiting": 3, "failure": RESET}),
    (events.LimitChanged, {"key": "search", "owner": "search", "state": "lowered", "at_once": 4.0, "per_second": 1.5, "failure": RESET}),
    (events.LimitChanged, {"key": "search", "owner": "search", "state": "exhausted", "at_once": 1.0, "failure": RESET}),
    (events.LimitChanged, {"key": "search", "owner": "search", "state": "recovered", "at_once": 1.0}),
    (events.LimitChanged, {"key": "search", "owner": "search", "state": "forgotten", "at_once": 6.0, "refused": 40, "longest_wait": 12.5}),
    (events.Closed, {"reason": "user"}),
    (events.MessageUndelivered, {"type": "note", "outcome": "dropped", "key": None, "reason": "expired"}),
    (events.MessageUndelivered, {"type": "note", "outcome": "dropped", "key": "k1", "reason": "overflow", "bridge": "agent"}),
    (events.MessageUndelivered, {"type": "note", "outcome": "quarantined", "key": "k1", "reason": "poison", "failure": RESET, "bridge": "agent"}),
    (events.MessageUndelivered, {"type": "note", "outcome": "unknown", "key": "k1", "reason": "expired", "bridge": "agent"}),
    (events.OutboundInDoubt, {"unknown": 1, "reached": 2, "unknown_keys": ("k1",)}),
    (events.MessageResent, {"type": "note", "key": "k1", "sends": 2}),
    (events.MessageRejected, {"failure": RESET}),
    (events.LateReply, {"type": "answer", "id": "m1"}),
    (events.FeatureRefused, {"feature": "acks", "type": "ack", "failure": RESET}),
    (events.ReplayIgnored, {"messages": 3}),
    (events.ClockJumped, {"seconds": 3_600.0}),
    (events.DuplicateConflict, {"type": "note", "id": "m1"}),
    (events.StoreChanged, {"store": "SQLiteStore a.db", "state": "failed", "degraded": False, "failure": RESET}),
    (events.StoreChanged, {"store": "RedisState", "state": "failed", "degraded": True, "failure": RESET}),
    (events.StoreChanged, {"store": "RedisState", "state": "working"}),
    (events.StateSetAside, {"path": "a.json", "set_aside": "a.json.damaged", "source": "a backup", "lost": "1 call", "failure": RESET}),
    (events.CallFinished, {"name": "ask", "outcome": "ok", "attempts": 2, "seconds": 2.5, "waited": 1.0, "key": "ask"}),
    (events.CallFinished, {"name": "ask", "outcome": "failed", "attempts": 1, "seconds": 0.5, "waited": 0.0, "key": "ask", "failure": RESET}),
    (events.CallRejected, {"name": "ask", "by": "circuit", "key": "ask", "failure": RESET}),
    (events.ShadowRejected, {"key": "ask", "failure": RESET}),
    (events.AlertChanged, {"rule": "error_rate", "state": "raised", "level": "warning", "value": 0.0625, "threshold": 0.05}),
    (events.AlertChanged, {"rule": "failure", "state": "raised", "level": "critical", "value": 1.0, "threshold": 0.0, "failure": RESET}),
    (events.AlertChanged, {"rule": "error_rate", "state": "cleared", "level": "critical", "value": 0.01, "threshold": 0.15, "remaining": "warning"}),
    (events.CommandSent, {"name": "audit", "correlation_id": "c1"}),
    (events.CommandAnswered, {"name": "audit", "correlation_id": "c1", "status": "complete", "seconds": 1.5}),
    (events.PollFailed, {"name": "audit", "correlation_id": "c1", "failure": RESET}),
    (events.ToolFailed, {"tool": "fetch", "required": True, "failure": TIMEOUT, "seconds": 10.0}),
    (events.ToolFailed, {"tool": "fetch", "required": False, "failure": NOT_FOUND}),
    (events.EffectHeld, {"name": "pay", "first": "unknown", "seconds": 3.0, "failure": TIMEOUT}),
    (events.EffectResolved, {"name": "pay", "how": "verified", "began": AT}),
    (events.ToolPending, {"tool": "fetch", "seconds": 5.0, "timeout": 60.0}),
    (events.CallLeftBehind, {"name": "ask", "runs_in": "task", "seconds": 2.0}),
    (events.AnswerShared, {"name": "ask", "how": "joined", "age": 0.0}),
    (events.AnswerShared, {"name": "ask", "how": "stale", "age": 90.0, "failure": RESET}),
    (events.Hedged, {"name": "ask", "requests": 2, "winner": 2, "unknown": 1, "seconds": 3.25}),
    (events.Hedged, {"name": "ask", "requests": 3, "winner": 0, "unknown": 2, "seconds": 9.0}),
    (events.HookRejected, {"failure": rb.Failure.of("HOOK_INVALID", "no id")}),
    (events.WorkflowChanged, {"workflow": "w", "status": "running", "completed": 1, "total": 3}),
    (events.PhaseChanged, {"workflow": "w", "status": "started", "phase": "b", "number": 2, "total": 3, "run": 1}),
    (events.PhaseChanged, {"workflow": "w", "status": "completed", "phase": "b", "number": 2, "total": 3, "seconds": 1.25}),
    (events.PhaseChanged, {"workflow": "w", "status": "skipped", "phase": "c", "number": 3, "total": 3, "reason": "optional", "failure": RESET}),
    (events.PhaseChanged, {"workflow": "w", "status": "skipped", "phase": "c", "number": 3, "total": 3, "reason": "by hand", "failure": None}),
    (events.PhaseChanged, {"workflow": "w", "status": "undone", "phase": "b", "number": 2, "total": 3, "failure": RESET}),
    (events.WorkflowChanged, {"workflow": "w", "status": "halted", "completed": 1, "total": 3, "phase": "b", "failure": RESET}),
    (events.WorkflowChanged, {"workflow": "w", "status": "completed", "completed": 1, "total": 3, "skipped": (), "seconds": 4.5}),
    (events.WorkflowChanged, {"workflow": "w", "status": "completed", "completed": 1, "total": 3, "skipped": ("c", "d"), "seconds": 4.5}),
    (events.WorkflowChanged, {"workflow": "w", "status": "aborted", "completed": 1, "total": 3, "phase": "b"}),
    (events.SpendChanged, {"budget": "chat", "state": "warning", "spent": Decimal("8.1"), "limit": Decimal(10)}),
    (events.SpendChanged, {"budget": "chat", "state": "paused", "spent": Decimal("10.2"), "limit": Decimal(10)}),
    (events.SpendChanged, {"budget": "chat", "state": "approved", "spent": Decimal("10.2"), "limit": Decimal(20)}),
    (events.SpendChanged, {"budget": "chat", "state": "cancelled", "spent": Decimal("10.2"), "limit": Decimal(20)}),
    (events.ContextCompacted, {"before": 90, "after": 40, "limit": 100}),
    (events.ContextNearlyFull, {"tokens": 91, "limit": 100}),
    (events.ModeChanged, {"feature": "search", "reason": "failure", "previous": "full", "mode": "cached", "failure": RESET}),
    (events.ModeChanged, {"feature": "search", "reason": "failure", "previous": "cached", "mode": None, "failure": RESET}),
    (events.ModeChanged, {"feature": "search", "previous": "cached", "mode": "full", "reason": "reset"}),
]  # fmt: skip


class _Span:
    """Notes what is recorded on it, as a span of OpenTelemetry takes it."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def add_event(self, name, attributes):
        self.notes.append(f"span event: {name} {attributes}")

    def set_attribute(self, name, value):
        if not name.startswith("user_agent"):  # it has the version
            self.notes.append(f"span attribute: {name}={value}")

    def set_status(self, status):
        self.notes.append(f"span status: {status.status_code.name} {status.description}")


def _seen(event, caplog):
    """Everything that is read of one event, line by line."""
    caplog.clear()
    with rb.telemetry.Debug():
        emit(event)
    measured = [
        f"metric: {one.instrument.name} {one.value:g} {dict(zip(one.instrument.labels, one.labels, strict=True))}"
        for one in Measures().of(event)
    ]
    span = _Span()
    note_on_span(span, event)
    line = line_of(event)
    return [
        f"== {name_in_words(event)}",
        *(f"{record.levelname} {record.name}: {record.getMessage()}" for record in caplog.records),
        *([] if debug_kind(event) is None else [f"kind: {debug_kind(event)}"]),
        *([] if line is None else [f"pipe: {line}"]),
        f"structured: {log_line(event).decode().strip()}",
        *measured,
        *span.notes,
        "",
    ]


def test_what_is_read_of_each_event_is_what_it_was(caplog, monkeypatch):
    """Levels, texts, the names of metrics and the values of their labels, to the byte; and each class has a sample."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(
        "resilient_bridge.telemetry.hub._rate", LineRate()
    )  # lines of other tests do not count
    seen = [line for kind, fields in SAMPLES for line in _seen(kind(at=AT, **fields), caplog)]
    assert seen == GOLDEN.read_text().split("\n")
    assert {kind for kind, _ in SAMPLES} == set(records())
