"""From the first byte to the verdict: who speaks when, and what an answer at the wrong time does."""

from __future__ import annotations

import pytest

from resilient_bridge.bridge import BridgeState, Dialect, Outbox
from tests.internals.telemetry import Connected, Joined, Resumed
from tests.internals.testing import violations
from tests.protocol.driving import Rig, closed


def types(frames):
    return [frame["type"] for frame in frames]


@pytest.mark.requirement("R3")
def test_the_order_of_a_join():
    """auth alone; after the ack the join and a heartbeat in one burst; READY after the pong, and only then a message."""
    rig = Rig()
    rig.send()
    assert types(rig.connect()) == ["auth"]
    assert types(rig.authenticate()) == ["session_join", "heartbeat_ping"]
    rig.hear("session_joined", {"session_id": "s"})
    assert rig.write() == []
    assert types(rig.pong()) == ["note"]
    assert [type(event) for event in rig.of(Connected) + rig.of(Joined)] == [Connected, Joined]


def test_a_resume_asks_as_soon_as_the_join_is_answered():
    """The join's answer or the pong behind it, whichever comes first; a ping follows the question."""
    for first in ("session_joined", "heartbeat_pong"):
        rig = Rig().up()
        rig.lose()
        rig.connect()
        rig.authenticate()
        rig.hear(first)
        assert types(rig.write()) == ["request_replay", "heartbeat_ping"]
        assert rig.state is BridgeState.REPLAYING


@pytest.mark.parametrize(("token", "payload"), [(None, {}), ("secret", {"token": "secret"})])
def test_the_token_goes_into_the_first_frame(token, payload):
    """`auth {token?}`, and nowhere else."""
    rig = Rig()
    assert [frame["payload"] for frame in rig.connect(token)] == [payload]
    rig.join()
    assert "secret" not in repr(rig.session) + repr(rig.events)


@pytest.mark.requirement("R7")
def test_everything_we_say_is_strictly_valid():
    """Every frame of a session with a loss, sends and requests passes the strict rules."""
    rig = Rig().up()
    parts = list(rig.wire)
    rig.send(key="mine")
    rig.request()
    rig.write()
    parts += rig.wire
    rig.lose()
    rig.up()
    parts += rig.wire
    assert len(parts) > 8
    assert [violations(frame) for frame in parts] == [[]] * len(parts)


@pytest.mark.parametrize(
    ("dialect", "first", "then"),
    [
        ({"auth": None, "auth_ack": None}, ["session_join", "heartbeat_ping"], "heartbeat_pong"),
        (
            {"auth_ack": None},
            ["session_join", "heartbeat_ping"],
            "heartbeat_pong",
        ),  # nothing to say, nobody to hear
        ({"auth": None, "auth_ack": None, "join": None}, ["heartbeat_ping"], "heartbeat_pong"),
        (
            {"auth": None, "auth_ack": None, "ping": None, "pong": None},
            ["session_join"],
            "session_joined",
        ),
        (
            {"auth": None, "auth_ack": None, "ping": None, "pong": None, "joined": None},
            ["session_join"],
            None,
        ),
        ({"auth": None, "auth_ack": None, "ping": None, "pong": None, "join": None}, [], None),
    ],
)
def test_a_dialect_may_lack_any_of_the_names(dialect, first, then):
    """Whatever a server does not have is not waited for."""
    rig = Rig(dialect=Dialect(**dialect))
    assert types(rig.connect()) == first
    if then is not None:
        assert rig.state is BridgeState.JOINING
        rig.hear(then)
    assert rig.state is BridgeState.READY
    rig.send()
    assert types(rig.write()) == ["note"]


@pytest.mark.parametrize("join", [None, "session_join"])
def test_an_error_about_something_else_is_no_refusal_of_the_join(join):
    """Also where the dialect has no join that an error could be about."""
    rig = Rig(dialect=Dialect(join=join)).up()
    rig.hear("error", {"code": "TOOL_EXECUTION_FAILED", "message": "exit 1"})
    assert (rig.session.death, [message.type for message in rig.take()]) == (None, ["error"])


def test_other_names_are_other_names():
    """`requestReplay`, `session_start`: a Dialect, not a subclass."""
    rig = Rig(
        dialect=Dialect(
            join="session_start",
            joined="session_started",
            request_replay="request_history",
            replay="history",
        )
    )
    rig.connect()
    assert types(rig.authenticate()) == ["session_start", "heartbeat_ping"]
    rig.pong()
    rig.hear("a", {}, id="1")
    rig.lose()
    rig.connect()
    rig.authenticate()
    rig.hear("session_started")
    assert types(rig.write()) == ["request_history", "heartbeat_ping"]
    rig.hear("history", {"messages": [{"type": "a", "id": "1"}]})
    assert rig.of(Resumed)[-1].verdict == "RECOVERED"


def test_the_real_bridge_has_no_sessions_and_no_replay():
    """`error {UNKNOWN_TYPE, request_type}` for join and replay: UNKNOWN, said, and the link is used."""
    rig = Rig().up()
    rig.hear("a")
    rig.take()
    rig.lose()
    sent = rig.send()
    rig.connect()
    rig.hear("connection_ack", {"client_id": "c", "active_sessions": []})
    rig.write()
    rig.hear("error", {"code": "UNKNOWN_TYPE", "request_type": "session_join"})
    rig.pong()
    rig.hear("error", {"code": "UNKNOWN_TYPE", "request_type": "request_replay"})
    rig.write()
    assert [(event.verdict, event.reason) for event in rig.of(Resumed)] == [
        ("UNKNOWN", "no_replay")
    ]
    assert (rig.state, sent.state) == (BridgeState.READY, "written")


def test_a_bridge_without_sessions_gets_no_resend():
    """It has shown no sign of the session: what it may have received is not repeated, what never left goes."""
    rig = Rig().up()
    written = rig.send()
    rig.write()
    rig.lose()
    rig.connect()
    rig.authenticate()
    rig.hear("error", {"code": "UNKNOWN_TYPE", "request_type": "session_join"})
    rig.pong()
    rig.hear("error", {"code": "UNKNOWN_TYPE", "request_type": "request_replay"})
    assert written.state == "unknown"


@pytest.mark.parametrize("server_id", ["srv", None])
def test_a_new_session_is_another_epoch(server_id):
    """Whatever the server states: what an old session may have received is not repeated in a new one."""
    rig = Rig()
    rig.connect()
    rig.authenticate(server_id=server_id)
    rig.join()
    written = rig.send()
    rig.write()
    rig.lose(closed(4404))
    rig.connect()
    rig.authenticate(server_id=server_id)
    rig.join()
    assert (rig.state, written.state) == (BridgeState.READY, "unknown")


@pytest.mark.parametrize(
    ("epochs", "resent"),
    [
        (("srv", "srv"), True),
        (("srv", "other"), False),
        ((None, None), True),
        (("srv", None), False),
        ((None, "srv"), False),
    ],
)
def test_the_epoch_is_the_identity_the_server_states(epochs, resent):
    """Without one the session itself: re-joined is unchanged. Server time is no part of it."""
    rig = Rig(outbox=Outbox())
    rig.connect()
    rig.authenticate(server_id=epochs[0])
    rig.join()
    entry = rig.send()
    rig.write()
    rig.lose()
    rig.step(1)
    rig.connect()
    rig.authenticate(server_id=epochs[1])
    rig.join()
    while rig.state is BridgeState.REPLAYING:
        rig.replay()
    assert entry.state == ("written" if resent else "unknown")


@pytest.mark.parametrize(
    ("payload", "code"),
    [({"code": "TOKEN_EXPIRED", "recoverable": True}, "AUTH_TOKEN_EXPIRED"), ({"code": "INVALID_TOKEN"}, "AUTH_INVALID_TOKEN"),
     ({"code": "NOT_AUTHENTICATED"}, "AUTH_INVALID_TOKEN"), ({}, "AUTH_INVALID_TOKEN")],
)  # fmt: skip
def test_a_refused_login_ends_the_link_with_the_servers_reason(payload, code):
    """`connection_error` before any session message."""
    rig = Rig()
    rig.connect()
    rig.hear("connection_error", payload)
    assert rig.session.death.code == code
    assert rig.session.frames_to_send(rig.now) == []


@pytest.mark.parametrize("stage", ["auth", "join"])
def test_a_handshake_that_stands_still_ends(stage):
    """Ten seconds for each answer; then the link is given up as a timeout that says where it stood."""
    rig = Rig()
    rig.connect()
    if stage == "join":
        rig.authenticate()
    rig.idle(9.9, write=False)
    assert rig.session.death is None
    rig.idle(0.2, write=False)
    assert (rig.session.death.code, rig.session.death.details["phase"]) == (
        "CONN_TIMEOUT",
        rig.state.value,
    )


def test_an_old_pong_confirms_no_new_join():
    """The session is gone and a new one asked for: the pong behind the first join says nothing about the second."""
    rig = Rig().up()
    rig.lose()
    rig.connect()
    rig.authenticate()
    rig.hear("error", {"code": "SESS_NOT_FOUND"}, id=rig.last("session_join")["id"])
    rig.write()
    rig.pong()
    assert rig.state is BridgeState.JOINING
    rig.pong()
    assert rig.state is BridgeState.READY


def test_the_watermark_of_a_lost_session_is_not_used_again():
    """A new session asks for nothing of the old one, and resumes as itself later."""
    rig = Rig().up()
    rig.hear("a", {}, id="1", timestamp="2026-03-20T09:46:40Z")
    rig.lose(closed(4404))
    rig.connect()
    rig.join()
    name = rig.session.session_id
    assert name != "s"
    assert "request_replay" not in types(rig.wire)
    rig.lose()
    rig.connect()
    rig.join()
    assert rig.last("session_join")["payload"] == {"session_id": name, "resume": True}
    assert rig.last("request_replay")["payload"] == {}


@pytest.mark.requirement("R17")
def test_flushing_is_over_when_its_mark_is_passed():
    """READY when everything that was queued at the join has been handed out; what is added meanwhile appends."""
    rig = Rig()
    for _ in range(150):
        rig.send()
    rig.connect()
    rig.authenticate()
    rig.hear("heartbeat_pong")
    assert rig.state is BridgeState.FLUSHING
    rig.session.frames_to_send(rig.now)
    late = rig.send()
    rig.session.frames_to_send(rig.now)
    assert rig.state is BridgeState.FLUSHING
    rig.session.frames_to_send(rig.now)
    assert (rig.state, late.state) == (BridgeState.READY, "written")


def test_messages_are_delivered_while_the_outbox_is_flushed():
    """Live delivery resumes with the verdict: sends never block it."""
    rig = Rig()
    for _ in range(150):
        rig.send()
    rig.connect()
    rig.authenticate()
    rig.hear("heartbeat_pong")
    rig.hear("a", {}, id="1")
    assert [message.id for message in rig.take()] == ["1"]
    assert rig.state is BridgeState.FLUSHING
