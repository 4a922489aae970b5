"""What the events of a link count depends on what its events have said before: stories, and what each event changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import resilient_bridge as rb
from resilient_bridge import events
from tests.internals.telemetry import Measures, metrics, sent_by


AT = datetime(2026, 3, 20, tzinfo=UTC)
RESET, REFUSED, DNS, CLOSED = (
    rb.Failure.of(code) for code in ("CONN_RESET", "CONN_REFUSED", "CONN_DNS_FAILED", "CONN_CLOSED")
)
Verdict = rb.bridge.Verdict


def counted(measures, event):
    """What an event changes: names without the package's, values and the labels after the first."""
    return [
        f"{one.instrument.name.removeprefix('resilient_bridge.')} {one.value:g} {' '.join(one.labels[1:])}"
        for one in measures.of(event)
    ]


def test_an_outage_is_counted_from_its_first_loss_to_its_verdict():
    """One failure is one error, however many events have it; the first schedule after a loss is no failed attempt."""
    measures = Measures()

    def seen(second, kind, **fields):
        at = AT + timedelta(seconds=second)
        return counted(measures, kind(at=at, bridge="a", session_id="s", **fields))

    up = ["reconnect.attempts 1 connected"]
    lost = ["errors 1 CONN_RESET error client", "session.drops 1 CONN_RESET"]
    failed = ["reconnect.attempts 1 failed", "errors 1 CONN_REFUSED error client"]
    assert seen(0, events.Connected) == up
    assert seen(0, events.Joined) == []
    assert seen(10, events.Disconnected, reason="x", failure=RESET) == lost
    scheduled = {"reason": "x", "attempt": 1, "wait": 0.5}
    assert seen(10, events.ReconnectScheduled, failure=RESET, **scheduled) == []
    assert seen(11, events.ReconnectScheduled, failure=REFUSED, **scheduled) == failed
    assert seen(12, events.ReconnectScheduled, failure=REFUSED, **scheduled) == failed[:1]
    assert seen(20, events.Connected) == up
    again = [line.replace("RESET", "CLOSED") for line in lost]
    assert seen(21, events.Disconnected, reason="x", failure=CLOSED) == again  # before its verdict
    assert seen(21, events.GaveUp, name="a", failure=CLOSED) == []
    assert seen(22, events.GaveUp, name="a", failure=CLOSED) == failed[:1]
    assert seen(23, events.Connected) == up
    resumed = {"reason": "x", "verdict": Verdict.RECOVERED}
    assert seen(30, events.Resumed, **resumed) == ["reconnect.duration 20 RECOVERED"]
    assert seen(31, events.Resumed, **resumed) == []
    gap = {"reason": "x", "verdict": Verdict.GAP}
    assert seen(32, events.Resumed, **gap) == ["gaps 1 GAP"]
    assert seen(33, events.Disconnected, reason="closed by us") == []
    assert seen(34, events.Disconnected, reason="x", failure=RESET) == lost[:1]  # it was not up


def test_only_so_many_links_are_remembered(monkeypatch):
    """The one that was silent longest is forgotten; its next loss is that of a link that was not up."""
    monkeypatch.setattr(metrics, "_MOST_LINKS", 2)
    measures, senders = Measures(), {name: object() for name in "abc"}

    def seen(name, event):
        return len(measures.of(sent_by(event, senders[name])))

    for name in "abac":
        assert seen(name, events.Connected()) == 1
    lost = {name: seen(name, events.Disconnected(reason="x", failure=RESET)) for name in "acb"}
    assert lost == {"a": 2, "c": 2, "b": 1}


def test_a_call_that_fell_back_has_failed_at_nothing():
    """Nor has one that was cancelled; its attempts have been counted when they were repeated."""
    fields = {"name": "ask", "attempts": 1, "seconds": 1.0, "waited": 0.0, "key": "ask"}
    errors = {
        outcome: [
            one
            for one in counted(
                Measures(), events.CallFinished(outcome=outcome, failure=RESET, **fields)
            )
            if one.startswith("errors")
        ]
        for outcome in ("ok", "fell_back", "cancelled", "failed", "rejected")
    }
    counts = {outcome: len(found) for outcome, found in errors.items()}
    assert counts == {"ok": 0, "fell_back": 0, "cancelled": 0, "failed": 1, "rejected": 1}
