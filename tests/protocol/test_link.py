"""Frames at the wrong time, and a link that ends once."""

from __future__ import annotations

import random

import pytest

from resilient_bridge.bridge import BridgeState
from tests.internals.telemetry import MessageRejected
from tests.protocol.driving import CUT, REFUSED, Rig


CONTROL = [
    "connection_ack",
    "session_joined",
    "heartbeat_pong",
    "replay_buffer",
    "message_ack",
    "error",
    "connection_error",
]


@pytest.mark.requirement("R8")
@pytest.mark.parametrize(
    ("phase", "type_"),
    [("AUTHENTICATING", "session_joined"), ("AUTHENTICATING", "heartbeat_pong"), ("AUTHENTICATING", "replay_buffer"),
     ("AUTHENTICATING", "message_ack"), ("JOINING", "connection_ack"), ("READY", "connection_ack")],
)  # fmt: skip
def test_a_frame_out_of_phase_is_named(phase, type_):
    """R8: PROTO_SEQUENCE_ERROR with what was expected, what was received and the phase; the link goes on."""
    rig = Rig()
    if phase == "READY":
        rig.up()
    else:
        rig.connect()
    if phase == "JOINING":
        rig.authenticate()
    rig.hear(type_)
    (event,) = rig.of(MessageRejected)
    failure = event.failure
    assert failure.code == "PROTO_SEQUENCE_ERROR"
    assert failure.details["received"] == type_
    assert failure.details["phase"] == phase == rig.state.value
    assert type_ not in failure.details["expected"]
    assert ("connection_ack" if phase == "AUTHENTICATING" else "heartbeat_pong") in failure.details[
        "expected"
    ]
    assert rig.session.death is None


@pytest.mark.requirement("R8")
def test_a_second_ack_does_not_join_twice():
    """Out of phase means without effect."""
    rig = Rig().up()
    rig.wire.clear()
    rig.hear("connection_ack", {"server_id": "other"})
    assert rig.write() == []


def test_the_first_cause_of_death_stands():
    """A link ends for one reason, and says nothing afterwards."""
    rig = Rig().up()
    rig.send()
    rig.session.link.die(CUT)
    rig.session.link.die(REFUSED)
    assert rig.session.death is CUT
    assert rig.session.frames_to_send(rig.now) == []
    assert not rig.session.may_read(rig.now, iterating=True)


@pytest.mark.parametrize("code", ["AUTH_TOKEN_EXPIRED", "TOKEN_EXPIRED", "AUTH_FORBIDDEN"])
def test_an_error_about_our_credentials_ends_the_link(code):
    """Mid-session: the loss table decides what follows."""
    rig = Rig().up()
    rig.hear("error", {"code": code, "message": "no"})
    assert rig.session.death.code.startswith("AUTH_")


@pytest.mark.parametrize("code", ["SESS_NOT_FOUND", "SESS_CLOSED"])
def test_an_error_about_the_session_ends_the_link(code):
    """Mid-session: the next link joins a new one."""
    rig = Rig().up()
    rig.hear("error", {"code": code, "message": "gone"})
    assert rig.session.death.code == code
    assert rig.lose(rig.session.death).new_session


GARBAGE = [
    None,
    5,
    True,
    [],
    {},
    "",
    "x",
    {"x": 1},
    "\x00",
    -1,
    1e308,
    [None],
    {"messages": [[]]},
    {"message_ids": [{}]},
]


@pytest.mark.parametrize("seed", range(20))
def test_no_frame_of_any_shape_raises(seed):
    """Threats 1 to 4 and 15: control frames with any type in any field, in every phase, are survived."""
    rng = random.Random(seed)
    rig = Rig()
    keys = ("session_id", "server_id", "messages", "message_id", "message_ids", "code", "status", "request_id",
            "request_type", "retry_after", "violations", "details", "suggestions", "recoverable")  # fmt: skip
    rig.connect()
    for _ in range(400):
        if rig.session.death is not None:
            rig.lose(CUT)
            rig.connect()
        if rng.random() < 0.1 and rig.state is BridgeState.AUTHENTICATING:
            rig.authenticate()
        payload = {key: rng.choice(GARBAGE) for key in keys if rng.random() < 0.4}
        fields = {key: rng.choice(GARBAGE) for key in ("id", "timestamp") if rng.random() < 0.3}
        rig.hear(rng.choice(CONTROL), rng.choice([payload, payload, payload, *GARBAGE]), **fields)
        rig.step(rng.random())
        rig.session.handle_timer(rig.now)
        rig.write()
    assert rig.state is not BridgeState.FAILED
