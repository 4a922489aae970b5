"""Alerts: each threshold of the specification is crossed at n + 1 and not at n, under virtual time, and cleared one window later."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re

import pytest

import resilient_bridge as rb
from resilient_bridge.telemetry import emit
from resilient_bridge.testing import record, simulate, virtual_time
from tests.adapters.link_peers import World, quick, virtual
from tests.internals.telemetry import Measures, sender_of, sent_by
from tests.rows import each_row


RESET = rb.Failure.of("CONN_RESET")
HOOK = rb.Failure.of("HOOK_VALIDATION_FAILED")


def call(outcome):
    """A call that ended so."""
    failure = RESET if outcome == "failed" else None
    emit(
        rb.events.CallFinished(
            name="c", outcome=outcome, attempts=1, seconds=0, waited=0, key="c", failure=failure
        )
    )


def failed_attempt():
    """An attempt to connect that failed."""
    emit(rb.events.ReconnectScheduled(attempt=2, wait=0.1, reason="connect_refused", failure=RESET))


def drop():
    """A connection that was there, and is lost."""
    emit(rb.events.Connected(session_id="s1"))
    emit(rb.events.Disconnected(reason="connection_lost", failure=RESET, session_id="s1"))


def bad_hook():
    """A hook event that was not valid."""
    emit(rb.events.HookRejected(failure=HOOK))


THRESHOLDS = """\
| Error rate | > 5% | > 15% |
| Reconnection failures | > 10/min | > 50/min |
| Session drops | > 5/min | > 20/min |
| Hook validation failures | > 20/min | > 100/min |
"""  # of the specification: warning and critical
NUMBERS = [[int(number) for number in re.findall(r"\d+", line)] for line in THRESHOLDS.splitlines()]
KINDS = [
    ("reconnect_failures", failed_attempt),
    ("session_drops", drop),
    ("hook_failures", bad_hook),
]
PER_MINUTE = [
    (rule, happen, level, most)
    for (rule, happen), numbers in zip(KINDS, NUMBERS[1:], strict=True)
    for level, most in zip(("warning", "critical"), numbers, strict=True)
]


def alerts_in(seen):
    return [event for event in seen if isinstance(event, rb.events.AlertChanged)]


@pytest.mark.requirement("R19", "X9")
@pytest.mark.parametrize(("rule", "happen", "level", "most"), PER_MINUTE)
def test_more_a_minute_than_the_threshold_is_an_alert(rule, happen, level, most):
    """Exactly as many are none; one more is; a window after the last of them it is cleared."""
    with virtual_time() as time, rb.telemetry.Alerts() as alerts, record() as seen:
        for _ in range(most):
            happen()
            time.advance(50 / most)
        assert alerts.active().get(rule) != level
        happen()
        raised = alerts_in(seen)[-1]
        assert (raised.rule, raised.level, raised.value, raised.threshold) == (
            rule,
            level,
            most + 1,
            most,
        )
        assert alerts.active()[rule] == level
        time.advance(59)
        assert rule in alerts.active()
        time.advance(130)
        assert alerts.active() == {}
        assert alerts_in(seen)[-1].state == "cleared"


@pytest.mark.requirement("R19", "X9")
@pytest.mark.parametrize(
    ("level", "failed", "total"),
    [("warning", NUMBERS[0][0], 100), ("critical", NUMBERS[0][1], 100)],
)
def test_a_share_of_failed_calls_above_the_threshold_is_an_alert(level, failed, total):
    """Five of a hundred are no more than 5 %; six of 101 are."""
    with virtual_time(), rb.telemetry.Alerts() as alerts, record() as seen:
        for _ in range(total - failed):
            call("ok")
        for _ in range(failed):
            call("failed")
        assert alerts.active().get("error_rate") != level
        call("failed")
        assert alerts.active()["error_rate"] == level
        assert alerts_in(seen)[-1].level == level


@pytest.mark.requirement("R19")
def test_few_calls_are_no_rate():
    """Nineteen that failed say little; the twentieth says it. Rejected and cancelled ones say nothing of the other side."""
    with virtual_time(), rb.telemetry.Alerts() as alerts:
        for _ in range(19):
            call("failed")
        for _ in range(1_000):
            call("rejected")
            call("cancelled")
        assert alerts.active() == {}
        call("failed")
        assert alerts.active() == {"error_rate": "critical"}


@pytest.mark.requirement("R19")
def test_an_alert_is_one_event_and_eases_step_by_step():
    """Raised as a warning, then as critical; from critical to warning while that one still stands; then it is over."""
    with virtual_time() as time, rb.telemetry.Alerts() as alerts, record() as seen:
        for _ in range(60):
            bad_hook()
        for _ in range(60):
            bad_hook()
        for _ in range(10):  # above the warning, and no more: 30 a minute
            time.advance(20)
            for _ in range(10):
                bad_hook()
        assert alerts.active() == {"hook_failures": "warning"}
        time.advance(61)
        alerts.active()
        time.advance(61)
        assert alerts.active() == {}
    changes = [(event.state, event.level, event.remaining) for event in alerts_in(seen)]
    assert changes == [
        ("raised", "warning", ""),
        ("raised", "critical", ""),
        ("cleared", "critical", "warning"),
        ("cleared", "warning", ""),
    ]


@pytest.mark.requirement("R19")
def test_an_alert_stands_for_one_whole_window_below_its_threshold():
    """Looked at every second: from the first one below it, sixty more, and not one less."""
    with virtual_time() as time, rb.telemetry.Alerts() as alerts:
        for _ in range(21):
            bad_hook()
        seconds = 0
        while alerts.active():
            time.advance(1)
            seconds += 1
        assert 119 <= seconds <= 121  # 60 in which they are counted, 60 in which they are not


def test_a_rate_that_swings_does_not_tell_every_time():
    """Below the threshold for less than a window is not over."""
    with virtual_time() as time, rb.telemetry.Alerts() as alerts, record() as seen:
        for _ in range(5):
            for _ in range(21):
                bad_hook()
            time.advance(100)  # for 40 s there is nothing in the window
            alerts.active()
        assert len(alerts_in(seen)) == 1


@pytest.mark.requirement("R2")
@pytest.mark.parametrize("severity", rb.errors.Severity)
def test_severity_decides_about_notice_and_alert(severity):
    """As the specification prints it: a notice from error on, an alert from critical on, at once, whatever the rates."""
    noticed = []
    failure = rb.Failure.of("PROTO_INVALID_MESSAGE", severity=severity)
    with virtual_time(), rb.telemetry.Alerts(notify=noticed.append) as alerts, record() as seen:
        emit(rb.events.MessageRejected(failure=failure))
        emit(rb.events.MessageRejected(failure=failure))
        standing = alerts.active()
    serious = severity in (
        rb.errors.Severity.ERROR,
        rb.errors.Severity.CRITICAL,
        rb.errors.Severity.FATAL,
    )
    alarming = severity in (rb.errors.Severity.CRITICAL, rb.errors.Severity.FATAL)
    assert noticed == ([failure, failure] if serious else [])
    assert standing == ({"failure": "critical"} if alarming else {})
    assert [event.failure for event in alerts_in(seen)] == ([failure] if alarming else [])


@pytest.mark.requirement("R2")
def test_an_alert_of_a_failure_is_for_its_code_and_cleared():
    """Two codes are two alerts; each is over a window after it was last seen."""
    with virtual_time() as time, rb.telemetry.Alerts() as alerts, record() as seen:
        for code in ("CONN_TLS_HANDSHAKE_FAILED", "PROTO_VIOLATION"):
            emit(rb.events.GaveUp(name="bridge", failure=rb.Failure.of(code)))
        assert [event.failure.code for event in alerts_in(seen)] == [
            "CONN_TLS_HANDSHAKE_FAILED",
            "PROTO_VIOLATION",
        ]
        time.advance(61)
        alerts.active()
        time.advance(61)
        assert alerts.active() == {}


@pytest.mark.requirement("R2", "R19")
def test_an_alert_is_a_line_of_the_log_at_its_level(caplog):
    """Warning and critical, and info when it is over."""
    caplog.set_level(logging.INFO, "resilient_bridge")
    with virtual_time() as time, rb.telemetry.Alerts() as alerts:
        for _ in range(101):
            bad_hook()
        time.advance(200)
        alerts.active()
        time.advance(61)
        alerts.active()
    changes = [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if "alert" in record.getMessage()
    ]
    assert changes == [
        ("WARNING", "alert hook_failures, warning: 21 is above 20"),
        ("CRITICAL", "alert hook_failures, critical: 101 is above 100"),
        ("INFO", "alert hook_failures is over, critical: 0"),
    ]


@pytest.mark.requirement("R19")
def test_an_outage_of_a_real_client_raises_it():
    """A simulated bridge that is away: the attempts of twelve clients are more than ten a minute."""

    async def main(server):
        with rb.telemetry.Alerts() as alerts, record() as seen:
            clients = [rb.BridgeClient(server.url, name=f"c{n}") for n in range(12)]
            for client in clients:
                await client.__aenter__()
            for client in clients:
                await client.wait_ready()
            await server.cut("abort", seconds=30.0)
            await asyncio.sleep(25)
            standing = alerts.active()
            for client in clients:
                await client.aclose(drain=0)
        assert standing["reconnect_failures"] in ("warning", "critical")
        assert standing["session_drops"] == "warning"
        assert {event.rule for event in alerts_in(seen)} == {"reconnect_failures", "session_drops"}

    simulate(main)


def test_a_rule_may_be_none_and_outside_of_the_block_nothing_is_counted():
    """None is no rule; what happens before and after the block is not counted."""
    alerts = rb.telemetry.Alerts(hook_failures=None)
    with virtual_time(), record() as seen:
        for _ in range(200):
            failed_attempt()
        with alerts:
            for _ in range(200):
                bad_hook()
            assert alerts.active() == {}
        for _ in range(200):
            failed_attempt()
    assert alerts_in(seen) == []


def test_a_notice_that_raises_is_contained(caplog):
    """It is called last: what was counted is counted."""

    def notify(_failure):
        raise RuntimeError

    with virtual_time(), rb.telemetry.Alerts(notify=notify) as alerts:
        for _ in range(21):
            bad_hook()
            drop()
        assert alerts.active() == {"hook_failures": "warning", "session_drops": "critical"}
    assert "raised RuntimeError" in caplog.text


@each_row(
    ("options", "field"),
    [
        ({"error_rate": (0.15, 0.05)}, "error_rate"),
        ({"error_rate": (5, 15)}, "error_rate"),
        ({"session_drops": 5}, "session_drops"),
        ({"session_drops": (1, 2, 3)}, "session_drops"),
        ({"hook_failures": (-1, 2)}, "hook_failures"),
        ({"reconnect_failures": ("1", 2)}, "reconnect_failures"),
        ({"window": 0}, "window"),
        ({"least_calls": 0}, "least_calls"),
        ({"notify": 1}, "notify"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_named(options, field):
    """Each by its name."""
    with pytest.raises(rb.ConfigError, match=rf"Alerts\.{field}"):
        rb.telemetry.Alerts(**options)


def test_it_is_entered_once_at_a_time():
    """A second time would count everything twice."""
    alerts = rb.telemetry.Alerts()
    with alerts, pytest.raises(rb.ConfigError, match="a second time"), alerts:
        pass
    with alerts:
        assert repr(alerts) == "<Alerts none>"


@virtual
async def test_t02_each_link_is_counted_by_itself_whatever_its_name():
    """Five links with the default name are lost: five drops, and the alert that stands above four a minute."""
    from tests.exporters.test_prometheus import Scraped

    worlds = [World() for _ in range(5)]
    links = [rb.reconnecting(world.factory, quick()) for world in worlds]
    with Scraped() as scraped, rb.telemetry.Alerts(session_drops=(4, 99)) as alerts:
        async with contextlib.AsyncExitStack() as stack:
            for link in links:
                await stack.enter_async_context(link)
            for world, link in zip(worlds, links, strict=True):
                await world.lose(link)
            drops = sum(
                sample.value
                for sample in scraped.families()["resilient_bridge_session_drops"].samples
                if sample.name.endswith("_total")
            )
            assert drops == 5
            assert alerts.active()["session_drops"] == "warning"


async def test_t02_event_sources_are_counted_by_themselves():
    """They have no name in events, and are counted by themselves all the same; it is in no text of an event."""
    measures, senders, found = Measures(), [object(), object()], []
    for one in senders:
        measures.of(sent_by(rb.events.Connected(), one))
    for one in senders:
        event = sent_by(rb.events.Disconnected(reason="connection_lost", failure=RESET), one)
        assert sender_of(event) is one
        assert event == rb.events.Disconnected(reason="connection_lost", failure=RESET, at=event.at)
        found += [one.instrument.name for one in measures.of(event)]
    assert found.count("resilient_bridge.session.drops") == 2
