"""The default log: what is worth a line when nobody listens."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from resilient_bridge import events
from resilient_bridge.failure import Failure
from resilient_bridge.telemetry import emit, listen
from resilient_bridge.world import current_world
from tests.internals.telemetry import LineRate


AT = datetime(2026, 3, 20, tzinfo=UTC)
FAILURE = Failure.of("CONN_REFUSED", "connection refused")
LOUD = [
    (
        events.ReconnectScheduled(
            at=AT, attempt=3, wait=5.25, reason="connect_refused", failure=FAILURE
        ),
        logging.WARNING,
        f"not reached, attempt 3 in 5.25 s: connect_refused: {FAILURE}",
    ),
    (
        events.Suspended(at=AT, reason="connect_refused", failure=FAILURE, attempts=5),
        logging.WARNING,
        f"disconnected after 5 attempts, still trying: connect_refused: {FAILURE}",
    ),
    (
        events.GaveUp(at=AT, name="BridgeClient wss://host/ws", failure=FAILURE),
        logging.ERROR,
        f"gave up on BridgeClient wss://host/ws: {FAILURE}",
    ),
    (
        events.ContextNearlyFull(at=AT, tokens=91, limit=100),
        logging.WARNING,
        "context is nearly full: 91 of 100 tokens: save what a new session needs",
    ),
]
QUIET = [
    events.ReconnectScheduled(at=AT, attempt=1, wait=1.0, reason="connect_refused"),
    events.Connected(at=AT),
    events.Disconnected(at=AT, reason="peer_closed", failure=FAILURE),
    events.MessageUndelivered(at=AT, type="x", key=None, outcome="dropped", reason="expired"),
]


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest.mark.parametrize(("event", "level", "line"), LOUD, ids=lambda case: type(case).__name__)
def test_waits_over_a_second_and_give_ups_are_logged(log, event, level, line):
    """One record, in the logger `resilient_bridge`, that says what and why."""
    emit(event)
    assert log.record_tuples == [("resilient_bridge", level, line)]


@pytest.mark.parametrize("event", QUIET, ids=lambda event: type(event).__name__)
def test_everything_else_is_quiet(log, event):
    """Short waits and daily business leave no line."""
    emit(event)
    assert log.records == []


def test_j02_a_listener_takes_nothing_from_the_log(log):
    """A metric is no reader: with any number of listeners the log has the same lines."""
    with listen(lambda event: None), listen(lambda event: None):
        for event, _, _ in LOUD:
            emit(event)
    assert log.record_tuples == [("resilient_bridge", level, line) for _, level, line in LOUD]


def test_j02_the_log_has_a_switch_of_its_own(log):
    """That of the stdlib, by level or altogether; listeners hear all the same."""
    logger, heard = logging.getLogger("resilient_bridge"), []
    with listen(heard.append):
        log.set_level(logging.CRITICAL + 1, "resilient_bridge")
        for event, _, _ in LOUD:
            emit(event)
        log.set_level(logging.DEBUG, "resilient_bridge")
        logger.disabled = True
        try:
            for event, _, _ in LOUD:
                emit(event)
        finally:
            logger.disabled = False
    assert (log.records, len(heard)) == ([], 2 * len(LOUD))


def test_text_of_a_peer_cannot_forge_a_line_or_show_a_secret(log):
    """Line breaks, terminal escapes and tokens in a reason do not reach the log as they are."""
    reason = "bye\nERROR all is lost\x1b[31m token=abcdef0123456789"
    emit(events.Suspended(at=AT, reason=reason, attempts=1))
    (record,) = log.records
    assert record.getMessage().isprintable()
    assert "abcdef0123456789" not in record.getMessage()
    assert "bye" in record.getMessage()


def test_percent_signs_are_no_format(log):
    """A reason with %s in it is text."""
    emit(events.Suspended(at=AT, reason="100 %s", attempts=1))
    assert log.records[0].getMessage().endswith("100 %s")


def test_a_broken_handler_does_not_reach_the_emitter():
    """What a filter of the application raises stays in the log."""

    def broken(record):
        raise ValueError

    logger = logging.getLogger("resilient_bridge")
    logger.addFilter(broken)
    try:
        emit(LOUD[2][0])
    finally:
        logger.removeFilter(broken)


def test_an_event_whose_line_cannot_be_made_does_not_reach_the_emitter(log):
    """A field that belongs to this state is missing; listeners get the event, and the log has no line."""
    heard = []
    with listen(heard.append):
        emit(events.PhaseChanged(workflow="w", phase="a", status="completed", number=1, total=1))
    assert (len(heard), log.records) == (1, [])


TIMED_OUT = Failure.of("CONN_TIMEOUT", cause=TimeoutError())
LATE = Failure.of("CONN_TIMEOUT", "no answer to the join")


@pytest.mark.parametrize(
    ("reason", "level"), [("peer_closed(1001)", "INFO"), ("connect_refused", None)]
)
def test_l12_a_loss_that_is_soon_over_is_an_info(caplog, reason, level):
    """The default schedule begins within half a second: why the connection was lost is in the log all the same."""
    caplog.set_level(logging.DEBUG, "resilient_bridge")
    emit(events.ReconnectScheduled(at=AT, attempt=1, wait=0.25, reason=reason))
    assert [record.levelname for record in caplog.records] == ([level] if level else [])


@pytest.mark.parametrize(
    ("reason", "failure", "words"),
    [
        ("connect_refused", FAILURE, "not reached"), ("dns", None, "not reached"), ("connect_failed", None, "not reached"),
        ("timeout", TIMED_OUT, "not reached"), ("timeout", LATE, "not connected"), ("tls", None, "not connected"),
        ("upgrade_rejected(503)", None, "not connected"), ("rejected(503)", None, "not connected"),
        ("auth_expired", None, "not connected"), ("peer_closed(1001)", None, "connection lost"),
        ("rate_capped", None, "connection lost"), ("heartbeat_timeout", None, "connection lost"),
    ],
)  # fmt: skip
def test_l12_an_attempt_that_failed_is_not_called_a_lost_connection(caplog, reason, failure, words):
    """Nothing was lost by it: the server was not reached, or did not accept the connection."""
    emit(events.ReconnectScheduled(at=AT, attempt=2, wait=2.0, reason=reason, failure=failure))
    assert caplog.messages[-1].startswith(f"{words}, attempt 2 in 2 s: {reason}")


def test_sec3_hook_events_that_are_refused_have_a_rate(log, monkeypatch):
    """SEC3: whoever sends them fills no log: 200 a minute, then the number of the others."""
    clock = [1_000_000.0]
    monkeypatch.setattr("resilient_bridge.telemetry.hub._rate", LineRate())
    monkeypatch.setattr(current_world(), "monotonic", lambda: clock[0])
    for _ in range(500):
        emit(
            events.HookRejected(
                at=AT, failure=Failure.of("HOOK_VALIDATION_FAILED", "hook event invalid")
            )
        )
    assert len(log.records) == 200
    clock[0] += 60
    emit(
        events.HookRejected(
            at=AT, failure=Failure.of("HOOK_VALIDATION_FAILED", "hook event invalid")
        )
    )
    assert "300 more lines of HookRejected were omitted within 60 s" in {
        record.getMessage() for record in log.records[200:]
    }
    assert len(log.records) == 202
