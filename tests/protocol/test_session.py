"""The session as a whole: states and reasons, reading and not reading, disconnected mode, and every end."""

from __future__ import annotations

import itertools
import json

import pytest

from resilient_bridge.bridge import BridgeState as S
from resilient_bridge.bridge import Reconnect
from resilient_bridge.failure import Failure
from resilient_bridge.values import Backoff
from tests.internals.protocol import LINKED, TRANSITIONS
from tests.internals.telemetry import (
    Closed,
    Disconnected,
    GaveUp,
    ReconnectScheduled,
    Resumed,
    StateChanged,
    Suspended,
)
from tests.protocol.driving import CUT, REFUSED, Rig, closed
from tests.reference import REASONS
from tests.rows import each_row


def _suspended(rig):
    rig.up().lose()
    rig.idle(301)


def _replaying(rig):
    rig.up().lose(closed(1012))
    rig.connect()
    rig.join()


def _flushing(rig):
    for _ in range(100):
        rig.send()
    rig.connect()
    rig.authenticate()
    rig.hear("heartbeat_pong")
    rig.session.frames_to_send(rig.now)


def _draining(rig):
    rig.up().send()
    rig.session.drain(rig.now)


def _closed(rig):
    rig.up().session.close(rig.now)
    rig.session.closed(rig.now)


REACHING = {
    S.IDLE: lambda rig: None,
    S.CONNECTING: lambda rig: rig.session.connecting(rig.now),
    S.AUTHENTICATING: lambda rig: rig.connect(),
    S.JOINING: lambda rig: (rig.connect(), rig.authenticate()),
    S.REPLAYING: _replaying,
    S.FLUSHING: _flushing,
    S.READY: lambda rig: rig.up(),
    S.BACKOFF: lambda rig: rig.up().lose(),
    S.SUSPENDED: _suspended,
    S.FAILED: lambda rig: rig.up().lose(closed(1002)),
    S.DRAINING: _draining,
    S.CLOSING: lambda rig: rig.up().session.close(rig.now),
    S.CLOSED: _closed,
}


def to(state):
    """A session brought to this state."""
    rig = Rig()
    REACHING[state](rig)
    rig.after()
    assert rig.state is state
    return rig


LOST_IN = [S.CONNECTING, S.AUTHENTICATING, S.JOINING, S.REPLAYING, S.FLUSHING, S.READY]
LOSSES = [
    (CUT, "connection_lost"),
    (REFUSED, "connect_refused"),
    (Failure.of("CONN_DNS_FAILED"), "dns"),
    (Failure.of("CONN_TIMEOUT"), "timeout"),
    (Failure.of("CONN_HEARTBEAT_TIMEOUT"), "heartbeat_timeout"),
    (Failure.of("SYS_INBOX_FULL"), "overflow"),
    (Failure.of("SYS_UNAVAILABLE", details={"http_status": 503}), "upgrade_rejected"),
    (closed(1012), "peer_closed"),
    (closed(4404), "session_lost"),
    (closed(1002), "peer_closed"),
    (closed(4409), "superseded"),
    (closed(4001), "auth_rejected"),
    (Failure.of("AUTH_TOKEN_EXPIRED"), "auth_expired"),
    (Failure.of("CONN_TLS_HANDSHAKE_FAILED"), "tls"),
]
FATAL = {"superseded", "tls", "auth_rejected", "auth_expired"}


@each_row("state", LOST_IN)
@each_row(("failure", "reason"), LOSSES, ids=[reason for _, reason in LOSSES])
def test_every_loss_in_every_state_is_an_edge_with_a_reason(state, failure, reason):
    """delivery.md §2: BACKOFF or FAILED, whatever the phase, and the reason says why."""
    rig = to(state)
    decision = rig.lose(failure)
    final = reason in FATAL or failure.details.get("close_code") == 1002
    assert rig.state is (S.FAILED if final else S.BACKOFF)
    edge = rig.of(StateChanged)[-1]
    if state is S.CONNECTING and reason == "connection_lost":
        reason = "connect_failed"  # nothing had been connected
    assert edge.previous is state
    assert edge.reason.partition("(")[0] == reason == rig.session.reason.partition("(")[0]
    assert decision.retry is not final
    scheduled = [event for event in rig.of(ReconnectScheduled) if event.failure is failure]
    assert len(scheduled) == (not final)


def test_every_edge_taken_is_in_the_table():
    """A life with two losses and an end: each move is an edge, each reason documented."""
    rig = Rig()
    rig.session.connecting(rig.now)
    rig.lose(REFUSED)
    rig.up().lose()
    rig.up().lose(closed(4404))
    rig.connect()
    rig.join()
    rig.session.drain(rig.now)
    rig.session.close(rig.now)
    rig.session.closed(rig.now)
    edges = rig.of(StateChanged)
    allowed = {(source, target) for (source, _), target in TRANSITIONS.items()}
    assert all((edge.previous, edge.state) in allowed for edge in edges)
    assert all(edge.reason.partition("(")[0] in REASONS for edge in edges)
    assert all(before.state is after.previous for before, after in itertools.pairwise(edges))
    assert (edges[0].previous, edges[-1].state) == (S.IDLE, S.CLOSED)


# ---- disconnected mode --------------------------------------------------------------------------------------------


@pytest.mark.requirement("V7")
def test_disconnected_mode_after_five_failed_attempts():
    """The user is told once, the schedule goes on unchanged, and a connection ends it."""
    rig = Rig(reconnect=Reconnect(backoff=Backoff.constant(3))).up()
    rig.lose()
    for n in range(1, 9):
        rig.step(3)
        rig.session.connecting(rig.now)
        assert rig.lose(REFUSED).wait == 3
        assert rig.state is (S.SUSPENDED if n >= 5 else S.BACKOFF)
    (reported,) = rig.of(Suspended)
    assert (reported.attempts, reported.failure.code) == (5, "CONN_REFUSED")
    rig.up()
    rig.lose()
    assert rig.state is S.BACKOFF


@pytest.mark.requirement("R4")
def test_disconnected_mode_when_the_outage_passes_the_grace():
    """Five minutes after the loss, also in the middle of a wait; replay is still asked for on the next join."""
    rig = Rig(reconnect=Reconnect(backoff=Backoff.constant(1_000))).up()
    rig.hear("a", {}, id="1")
    rig.lose()
    rig.idle(299.9)
    assert rig.state is S.BACKOFF
    rig.idle(0.2)
    assert (rig.state, rig.session.reason, len(rig.of(Suspended))) == (
        S.SUSPENDED,
        "grace_passed",
        1,
    )
    rig.up({"type": "a", "id": "1"})
    assert rig.of(Resumed)[-1].verdict == "RECOVERED"


@pytest.mark.requirement("R3")
def test_running_out_is_a_typed_reported_state():
    """`on_exhausted="raise"`: FAILED with CONN_RECONNECT_EXHAUSTED, told once, and every send has its outcome."""
    rig = Rig(
        reconnect=Reconnect(backoff=Backoff.constant(1), attempts=2, on_exhausted="raise")
    ).up()
    rig.lose()
    entry = rig.send()
    for _ in range(2):
        rig.session.connecting(rig.now)
        rig.lose(REFUSED)
    assert rig.state is S.FAILED
    assert [event.failure.code for event in rig.of(GaveUp)] == ["CONN_RECONNECT_EXHAUSTED"]
    assert rig.session.failure.code == "CONN_RECONNECT_EXHAUSTED"
    assert (entry.state, entry.is_settled) == ("dropped", True)


# ---- timers -------------------------------------------------------------------------------------------------------


def test_timers_are_asked_for_and_never_busy():
    """Served at `next_timer`, a session asks again later and not at once: no spinning through an hour."""
    rig = Rig().up()
    rig.send(ttl=1_000)
    rig.write()
    served = 0
    end = rig.mono + 3_600
    while rig.mono < end:
        due = rig.session.next_timer()
        assert due is not None
        rig.step(max(due - rig.mono, 0.0))
        rig.session.handle_timer(rig.now)
        rig.write()
        rig.pongs()
        served += 1
    assert served < 600


@pytest.mark.parametrize("jump", [3.2e8, -3.2e8])
@pytest.mark.parametrize("state", [S.BACKOFF, S.READY])
def test_only_the_monotonic_clock_drives_delays(state, jump):
    """Threat 31: ten years forward or back change no wait and kill no link."""
    rig = to(state)
    due = rig.session.next_timer()
    rig.wall += jump
    rig.session.handle_timer(rig.now)
    assert rig.state is state
    if state is S.BACKOFF:
        assert rig.session.next_timer() == due


@pytest.mark.parametrize("wall", [0.0, -1e9, 4e11, 1e15])
def test_a_clock_that_is_wildly_wrong_stops_nothing(wall):
    """Threat 31: before 1970 or beyond the year 9999, messages go out and events are told."""
    rig = Rig()
    rig.wall = wall
    rig.up()
    rig.send()
    assert [frame["type"] for frame in rig.write()] == ["note"]


# ---- the end ------------------------------------------------------------------------------------------------------


@each_row("state", list(S))
def test_closing_is_legal_in_every_state(state):
    """It raises nothing, settles everything, and a second time it does nothing."""
    rig = to(state)
    entry = rig.send() if state in {S.IDLE, S.BACKOFF, S.READY} else None
    before = len(rig.of(Closed))
    remaining = rig.session.close(rig.now)
    assert rig.session.close(rig.now) == []
    rig.session.closed(rig.now)
    rig.session.closed(rig.now)
    rig.after()
    assert rig.state is S.CLOSED
    assert len(rig.of(Closed)) == (1 if state is not S.CLOSED else before)
    assert entry is None or (entry.is_settled and entry in remaining)
    assert rig.session.outbound.outbox.count == 0
    assert (
        rig.session.next_timer(),
        rig.session.frames_to_send(rig.now),
        rig.session.wants_to_send,
    ) == (
        None,
        [],
        False,
    )


@each_row("state", list(S))
def test_what_arrives_while_closing_changes_nothing(state):
    """Frames in flight, timers and the loss itself, in any order: no error, and CLOSING stays CLOSING until it is over."""
    rig = to(state)
    rig.session.close(rig.now)
    for (
        type_
    ) in "connection_ack session_joined heartbeat_pong replay_buffer message_ack error a".split():
        payload = (
            {"code": "SESS_NOT_FOUND"} if type_ == "error" else {"messages": [], "server_id": "srv"}
        )
        rig.hear(type_, payload)
        rig.session.handle_timer(rig.now)
        rig.step(11)
        assert rig.session.frames_to_send(rig.now) == []
    assert not rig.lose().retry
    rig.session.fail(REFUSED, "config", rig.now)
    assert rig.state in {S.CLOSING, S.CLOSED}
    rig.session.closed(rig.now)
    assert rig.state is S.CLOSED


def test_draining_sends_what_is_queued_and_is_done_when_it_is_settled():
    """No new link is made for it: a loss while draining asks for no retry."""
    rig = Rig().up()
    entry = rig.send()
    rig.session.drain(rig.now)
    assert rig.session.outbound.outbox.count
    assert [frame["type"] for frame in rig.write()] == ["note"]
    rig.settle()
    assert not rig.session.outbound.outbox.count
    assert entry.state == "confirmed"
    assert not rig.lose().retry


@pytest.mark.parametrize("state", sorted(LINKED - {S.DRAINING}))
def test_a_loss_is_reported_once(state):
    """One Disconnected per connection, with its cause; none for an attempt that never connected."""
    rig = to(state)
    reported = len(rig.of(Disconnected))
    rig.lose(closed(1012))
    assert [event.failure.details["close_code"] for event in rig.of(Disconnected)[reported:]] == [
        1012
    ]
    rig.session.connecting(rig.now)
    rig.lose(REFUSED)
    assert len(rig.of(Disconnected)) == reported + 1


def test_a_session_without_a_connection_ignores_the_wire():
    """Frames that arrive after the loss belong to nobody."""
    rig = Rig().up()
    rig.lose()
    rig.session.receive(json.dumps({"type": "a"}), rig.now)
    assert (rig.take(), rig.session.frames_to_send(rig.now), rig.session.look_every) == (
        [],
        [],
        None,
    )


@pytest.mark.parametrize("by", ["peer", None])
def test_only_our_own_ghost_may_supersede_us(by):
    """4409 after a link that died unnoticed by the server may be our own late join; any other takeover is final."""
    rig = Rig().up()
    rig.lose(CUT if by is None else closed(1012))
    rig.up()
    assert rig.lose(closed(4409)).retry is (by is None)


def test_the_same_inputs_make_the_same_run():
    """No clock and no randomness of its own: two runs of one seed say the same, another seed says it otherwise."""

    def run(seed):
        rig = Rig(seed=seed)
        parts = []
        for _ in range(3):
            rig.send()
            rig.up()
            parts += rig.wire
            parts.append(rig.lose(closed(1012)).wait)
        return json.dumps(parts)

    assert run(1) == run(1) != run(2)
