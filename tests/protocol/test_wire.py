"""Barriers and control frames: few, on time, and first."""

from __future__ import annotations

import json

import pytest

from tests.protocol.driving import Rig


def _pings(frames):
    return [index for index, frame in enumerate(frames) if frame["type"] == "heartbeat_ping"]


@pytest.mark.parametrize("total", [64, 1_000])
def test_at_most_one_barrier_per_64_entries_under_load(total):
    """P12, first half: a burst of sends brings a ping behind every 64th entry and no more."""
    rig = Rig().up()
    for _ in range(total):
        rig.send()
    frames = rig.write()
    assert len(_pings(frames)) == total // 64
    assert all((frame_index + 1) % 65 == 0 for frame_index in _pings(frames))


@pytest.mark.parametrize("waiting", [1, 5, 63])
def test_one_barrier_within_a_second_when_idle(waiting):
    """P12, second half: the last entries are proven read within 1 s; then it is quiet until the next heartbeat."""
    rig = Rig().up()
    entries = [rig.send() for _ in range(waiting)]
    assert _pings(rig.write()) == []
    rig.wire.clear()
    rig.idle(1.0)
    assert len(_pings(rig.wire)) == 1
    rig.pong()
    assert {entry.state.value for entry in entries} == {"confirmed"}
    rig.wire.clear()
    rig.idle(13.0)
    assert _pings(rig.wire) == []


def test_a_trickle_costs_one_barrier_a_second():
    """Ten sends a second for a minute: at most one barrier per 0.9 s, and nothing stays unproven for longer."""
    rig = Rig().up()
    rig.wire.clear()
    for _ in range(600):
        rig.send()
        rig.write()
        rig.idle(0.1)
        rig.pongs()
        assert len(rig.session.outbound.outbox.unconfirmed) <= 10
    assert len(_pings(rig.wire)) <= 70


def test_no_barrier_under_load_where_the_server_acknowledges():
    """After the first ack the pings stop; a send that stays unacknowledged still gets its barrier when idle."""
    rig = Rig().up()
    first = rig.send()
    rig.write()
    rig.hear("message_ack", {"message_id": first.id})
    rig.wire.clear()
    entries = [rig.send() for _ in range(640)]
    rig.write()
    assert _pings(rig.wire) == []
    for entry in entries[:-1]:
        rig.hear("message_ack", {"message_id": entry.id})
    rig.settle()
    assert entries[-1].confirmation == "read"


def test_nothing_sent_no_barrier():
    """An idle link carries a heartbeat every 15 s and nothing else."""
    rig = Rig().up()
    rig.wire.clear()
    for _ in range(12):
        rig.idle(5)
        rig.pongs()
    assert len(rig.wire) == 4


def test_control_frames_go_first():
    """A thousand queued sends starve neither the handshake nor the heartbeat."""
    rig = Rig()
    for _ in range(1_000):
        rig.send()
    rig.up()
    for _ in range(1_000 - rig.session.outbound.outbox.count):
        rig.send()
    rig.step(16)
    rig.session.handle_timer(rig.now)
    assert json.loads(rig.session.frames_to_send(rig.now)[0])["type"] == "heartbeat_ping"


def test_a_batch_is_bounded():
    """About 64 frames or 256 KiB at a time: a control frame never waits behind the whole outbox."""
    rig = Rig().up()
    for _ in range(200):
        rig.send()
    assert len(rig.session.frames_to_send(rig.now)) <= 65
    rig.write()
    for _ in range(10):
        rig.send(payload={"x": "y" * 100_000})
    assert sum(map(len, rig.session.frames_to_send(rig.now))) < 400_000


def test_every_ping_has_its_own_id_and_a_stamp():
    """Strict on what we send: each control frame is a whole envelope."""
    rig = Rig().up()
    rig.idle(60)
    pings = [frame for frame in rig.wire if frame["type"] == "heartbeat_ping"]
    assert len({ping["id"] for ping in pings}) == len(pings) > 1
    assert all(set(ping) == {"type", "id", "timestamp", "payload"} for ping in pings)
