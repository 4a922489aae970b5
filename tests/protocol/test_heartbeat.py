"""Proof of life: pings on time, a verdict only when it is fair, and a probe after a sleep."""

from __future__ import annotations

import pytest

from resilient_bridge.bridge import Heartbeat as Policy
from resilient_bridge.bridge import Inbox
from resilient_bridge.presets import openviber
from tests.internals.protocol import Heartbeat
from tests.internals.telemetry import ClockJumped
from tests.protocol.driving import Rig
from tests.rows import each_row


def _dead_after(heartbeat, start, *, step=0.01, limit=200.0):
    """When the verdict falls, with timers served within `step`; None if it never does."""
    mono, sent = start, 0
    while mono < start + limit:
        due = heartbeat.check(mono)
        if due == "dead":
            return mono - start
        if due == "ping":
            sent += 1
            heartbeat.sent(f"p{sent}", "beat", 0, mono)
        mono = max(heartbeat.next_timer(), mono + step)
    return None


@pytest.mark.requirement("R3")
@pytest.mark.parametrize("silent_from", [0.0, 3.3, 14.99])
def test_half_open_is_noticed(silent_from):
    """The peer goes away without a word at any moment of the period: at most 15 + 10 + 0.5 s (threat 20)."""
    rig = Rig().up()
    rig.idle(silent_from)
    silent = rig.mono
    rig.idle(60)
    assert rig.session.death.code == "CONN_HEARTBEAT_TIMEOUT"
    assert rig.mono - silent <= 25.5


@pytest.mark.requirement("V13")
def test_openviber_waits_30_seconds_for_a_pong():
    """V13: an unanswered heartbeat is a dead peer after 30 s, not before."""
    dead = _dead_after(Heartbeat(openviber.heartbeat, 0.0), 0.0)
    assert 15 + 30 <= dead <= 15 + 30.5


def test_a_link_that_answers_lives():
    """One hour, a ping every 15 s, every pong 9.9 s late: no verdict."""
    heartbeat = Heartbeat(Policy(), 0.0)
    pings = 0
    for tenth in range(36_000):
        mono = tenth / 10
        due = heartbeat.check(mono)
        assert due != "dead"
        if due == "ping":
            pings += 1
            heartbeat.sent(f"p{pings}", "beat", 0, mono)
        elif heartbeat._out and mono - heartbeat._out[0].due > -0.15:
            heartbeat.pong(None)
    assert 238 <= pings <= 240


def test_a_pong_during_the_last_look_saves_the_link():
    """The pong was overdue, but it had arrived: it is read before the verdict."""
    heartbeat = Heartbeat(Policy(), 0.0)
    heartbeat.sent("p", "beat", 0, 0.0)
    assert heartbeat.check(10.0) is None
    assert heartbeat.pong("p")
    assert _dead_after(heartbeat, 10.3, limit=4) is None


@pytest.mark.parametrize("stall", [11.0, 60.0, 86_400.0])
def test_a_stall_of_the_event_loop_is_no_verdict(stall):
    """Threat 30: after a stall at least one look is left in which what has arrived can be read."""
    rig = Rig().up()
    rig.idle(14.0)
    rig.step(1.1)
    rig.session.handle_timer(rig.now)
    rig.write()
    rig.step(stall)
    rig.session.handle_timer(rig.now)
    assert rig.session.death is None
    rig.pongs()
    rig.idle(5)
    assert rig.session.death is None


def test_a_stall_during_the_last_look_grants_another():
    """The loop stood still while the verdict was due: nobody has read since."""
    heartbeat = Heartbeat(Policy(), 0.0)
    heartbeat.sent("p", "beat", 0, 0.0)
    assert heartbeat.check(10.0) is None
    assert heartbeat.check(25.0) != "dead"
    assert heartbeat.check(heartbeat.next_timer() + 0.01) == "dead"


def test_no_verdict_while_reading_is_paused():
    """A full inbox stops reading: pongs cannot be seen, pings go on, and the time starts anew when reading does."""
    heartbeat = Heartbeat(Policy(), 0.0)
    heartbeat.sent("p", "beat", 0, 0.0)
    heartbeat.pause()
    assert _dead_after(heartbeat, 0.0, limit=300) is None
    heartbeat.resume(300.0)
    assert heartbeat.check(309.9) != "dead"
    assert 9.9 <= _dead_after(heartbeat, 300.0) <= 10.6


def test_the_session_pauses_its_heartbeat_with_reading():
    """Ten minutes with a reader that stands still: the link lives, and half-open is noticed after he went on."""
    rig = Rig(inbox=Inbox(max_messages=4)).up()
    for _ in range(5):
        rig.hear("a")
    assert not rig.session.may_read(rig.now, iterating=True)
    rig.idle(600)
    assert rig.session.death is None
    assert rig.session.reading.is_paused
    rig.take()
    assert rig.session.may_read(rig.now, iterating=True)
    started = rig.mono
    rig.idle(60)
    assert rig.session.death.code == "CONN_HEARTBEAT_TIMEOUT"
    assert rig.mono - started <= 25.5


@each_row("ahead", [5.5, 3_600.0, -3_600.0, 3.2e8, -3.2e8])
@each_row("phase", [0.0, 0.01, 0.5, 0.99])
def test_a_dead_link_is_noticed_soon_after_a_sleep(ahead, phase):
    """The clocks jumped apart (a sleep, or somebody set the time): a probe goes out, the verdict falls within 3 s."""
    rig = Rig().up()
    rig.idle(3 + phase)
    rig.wall += ahead
    woke = rig.mono
    rig.idle(60)
    assert rig.session.death is not None
    assert rig.mono - woke <= 3.0
    assert [round(event.seconds) for event in rig.of(ClockJumped)] == [round(ahead)]


def test_a_link_that_answers_the_probe_lives():
    """Threat 31: the wall clock jumps ten years and nothing happens to a healthy link."""
    rig = Rig().up()
    rig.idle(3)
    rig.wall += 3.2e8
    rig.idle(1.1)
    rig.pongs()
    rig.idle(5)
    assert rig.session.death is None


@pytest.mark.parametrize("drift", [0.5, 4.9])
def test_a_small_drift_is_no_sleep(drift):
    """NTP slews and short stalls are not jumps."""
    rig = Rig().up()
    rig.idle(3)
    rig.wall += drift
    rig.idle(3)
    assert rig.of(ClockJumped) == []


def test_pongs_without_ids_answer_in_order():
    """The seed's pong has no id: first ping, first pong; one more than pings is a stray."""
    heartbeat = Heartbeat(Policy(), 0.0)
    for name in "ab":
        heartbeat.sent(name, "beat", 0, 0.0)
    assert [[ping.id for ping in heartbeat.pong(None)] for _ in range(3)] == [["a"], ["b"], []]


def test_pongs_with_ids_answer_everything_before_them():
    """An echoed id says how far the peer has read; once ids were echoed, a pong without one proves nothing."""
    heartbeat = Heartbeat(Policy(), 0.0)
    for name in "abc":
        heartbeat.sent(name, "beat", 0, 0.0)
    assert [ping.id for ping in heartbeat.pong("b")] == ["a", "b"]
    assert heartbeat.pong(None) == []
    assert heartbeat.pong("a") == []
    assert [ping.id for ping in heartbeat.pong("c")] == ["c"]


def test_a_ping_of_another_connection_proves_nothing():
    """A fresh object per connection: the pong of the old one is a stray on the new."""
    rig = Rig().up()
    entry = rig.send()
    rig.write()
    rig.idle(1)
    rig.lose()
    rig.step(1)
    rig.connect()
    rig.join()
    assert entry.state == "written"
