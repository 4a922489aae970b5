"""One client's conversation without a socket: phases, joins, confirmations, dedupe."""

from __future__ import annotations

import json
import random

import pytest

from resilient_bridge.failure import classify
from resilient_bridge.testing import Behaviour
from tests.internals.testing import BridgeMemory
from tests.testing.server_peer import Voice, change, codes


@pytest.fixture
async def memory(monkeypatch):
    """A bridge's memory whose clock stands until a test moves it."""
    memory = BridgeMemory(Behaviour(), lambda: 1_774_017_125.25 + memory.clock, random.Random(1))
    memory.clock = 0.0
    monkeypatch.setattr(memory, "now", lambda: memory.clock)
    yield memory
    memory.forget()


# ---- phases
@pytest.mark.requirement("R8")
async def test_nothing_goes_before_auth(memory):
    """The seed's first scenario: the error names what is expected, what came, and the phase."""
    client = Voice(memory)
    (answer,) = client.say("health_check")
    assert answer["id"] == client.id
    assert answer["payload"] == {
        "code": "PROTO_SEQUENCE_ERROR",
        "message": "message out of sequence",
        "expected": ["auth"],
        "received": "health_check",
        "current_phase": "connected",
    }
    assert codes(client.say("heartbeat_ping")) == ["PROTO_SEQUENCE_ERROR"]


SCENARIOS = {  # as printed: what the client sends before, and then; what was expected; the phase
    "`auth` message not first": ((), "session_join", "auth", "connected"),
    "`health_check` before `connection_ack`": ((), "health_check", "auth", "connected"),
    "`session_message` before `session_join`": (
        ("auth",),
        "session_message",
        "session_join",
        "authenticated",
    ),
}


@pytest.mark.requirement("R8")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_scenarios_of_the_specification(memory, scenario):
    """Each is PROTO_SEQUENCE_ERROR with what was expected, what was received, and the phase; a client reads all three."""
    before, sent, expected, phase = SCENARIOS[scenario]
    client = Voice(memory)
    for kind in before:
        client.say(kind)
    (answer,) = client.say(sent)
    payload = answer["payload"]
    assert (payload["code"], payload["received"], payload["current_phase"]) == (
        "PROTO_SEQUENCE_ERROR",
        sent,
        phase,
    )
    assert expected in payload["expected"]
    failure = classify(answer)
    assert (failure.code, failure.retryable) == ("PROTO_SEQUENCE_ERROR", False)
    assert list(failure.details["expected"]) == payload["expected"]
    assert (failure.details["received"], failure.details["phase"]) == (sent, phase)


@pytest.mark.requirement("R8")
async def test_a_session_message_needs_a_join(memory):
    """Between connection_ack and session_join only the handshake and the heartbeat are in order."""
    client = Voice(memory)
    client.say("auth")
    for kind in ("session_message", "request_replay", "auth"):
        (answer,) = client.say(kind)
        assert answer["payload"]["current_phase"] == "authenticated"
    assert [answer["type"] for answer in client.say("heartbeat_ping")] == ["heartbeat_pong"]
    assert memory.received == []


@pytest.mark.requirement("R7")
async def test_an_invalid_message_is_answered_with_its_own_id_and_not_applied(memory):
    """Even an id that is no UUID comes back, as in the seed's example."""
    client = Voice(memory)
    client.join()
    (answer,) = client.say("note", id="msg-123", timestamp="2026-03-20 14:32:00")
    assert (answer["type"], answer["id"]) == ("error", "msg-123")
    assert [wrong["field"] for wrong in answer["payload"]["violations"]] == ["id", "timestamp"]
    assert memory.received == []


async def test_the_greeting_states_an_identity(memory):
    """connection_ack carries server_id and the open sessions, and the id of the auth."""
    Voice(memory).join("one")
    client = Voice(memory)
    (answer,) = client.say("auth")
    assert (answer["type"], answer["id"]) == ("connection_ack", client.id)
    assert answer["payload"] == {"server_id": memory.server_id, "active_sessions": ["one"]}


@pytest.mark.parametrize("payload", [{}, {"token": "wrong"}, {"token": 5}])
async def test_a_wrong_token_ends_in_4001(memory, payload):
    """connection_error first, then the close code; the token is not repeated."""
    memory.token = "right"
    client = Voice(memory)
    (answer,) = client.say("auth", payload)
    assert answer["type"] == "connection_error"
    assert answer["payload"]["code"] == "AUTH_INVALID_TOKEN"
    assert "right" not in json.dumps(answer)
    assert client.line.ended == (4001, "authentication refused")
    assert Voice(memory).say("auth", {"token": "right"})[0]["type"] == "connection_ack"


async def test_an_auth_error_can_be_scripted(memory):
    """Any code; an expired token is the recoverable one."""
    change(memory, auth_error="AUTH_TOKEN_EXPIRED")
    (answer,) = Voice(memory).say("auth")
    assert answer["payload"]["code"] == "AUTH_TOKEN_EXPIRED"
    assert answer["payload"]["recoverable"] is True


# ---- joins
@pytest.mark.requirement("R4")
async def test_a_resume_of_an_unknown_session_is_refused_with_suggestions(memory):
    """SESS_NOT_FOUND carries the join's id; a fresh join of the same name then works."""
    client = Voice(memory)
    (answer,) = client.join("s", resume=True)
    assert (answer["type"], answer["id"], answer["payload"]["code"]) == (
        "error",
        client.id,
        "SESS_NOT_FOUND",
    )
    assert answer["payload"]["suggestions"]
    assert client.say("session_join", {"session_id": "s"})[0]["type"] == "session_joined"


async def test_a_closed_session_refuses_operations_and_resumes(memory):
    """SESS_CLOSED for a message and for a resume; without `resume` the name starts afresh."""
    client = Voice(memory)
    client.join()
    memory.push("tool_call", {}, None, None)
    memory.sessions["s"].close()
    assert codes(client.say("note")) == ["SESS_CLOSED"]
    assert codes(Voice(memory).join(resume=True)) == ["SESS_CLOSED"]
    assert [answer["type"] for answer in Voice(memory).join()] == ["session_joined"]


async def test_a_newer_connection_takes_the_session(memory):
    """The old one is closed with 4409, hears nothing more, and its end does not end the session."""
    old, new = Voice(memory), Voice(memory)
    old.join()
    new.join(resume=True)
    assert old.line.ended[0] == 4409
    assert codes(old.say("note")) == ["SESS_CLOSED"]
    old.dialogue.lost()
    assert memory.sessions["s"].timer is None
    new.line.sent.clear()
    memory.push("tool_call", {}, None, None)
    assert [message["type"] for message in new.line.sent] == ["tool_call"]
    assert [answer["type"] for answer in old.line.sent] == ["error"]


async def test_a_join_without_a_name_gets_one(memory):
    """The answer carries the session the bridge made up; an empty or strange name is refused."""
    client = Voice(memory)
    client.say("auth")
    (answer,) = client.say("session_join", {"session_id": ""})
    assert answer["payload"]["violations"][0]["field"] == "payload.session_id"
    (answer,) = client.say("session_join", {})
    assert answer["payload"]["session_id"] in memory.sessions


# ---- confirmations, dedupe, requests
async def test_each_applied_message_is_confirmed_and_stays_in_order(memory):
    """message_ack names the message; `received` has each once, `frames` every frame."""
    client = Voice(memory)
    client.join()
    for number in range(3):
        (ack,) = client.say("note", {"n": number})
        assert ack == {
            "type": "message_ack",
            "payload": {"message_id": client.id, "status": "applied"},
        }
    assert [message["payload"]["n"] for message in memory.received] == [0, 1, 2]
    assert len(memory.frames) == 5


@pytest.mark.requirement("V9")
async def test_a_known_key_is_processed_once_in_five_minutes(memory):
    """Also on another connection and in another session; after the window it counts as new."""
    client = Voice(memory)
    client.join()
    status = [
        answer["payload"]["status"] for answer in client.say("note", {"idempotency_key": "k"})
    ]
    memory.clock = 300.0
    other = Voice(memory)
    other.join("other")
    status += [
        answer["payload"]["status"] for answer in other.say("note", {"idempotency_key": "k"})
    ]
    assert status == ["applied", "already_processed"]
    assert len(memory.received) == 1
    memory.clock = 300.1
    assert client.say("note", {"idempotency_key": "k"})[0]["payload"]["status"] == "applied"
    assert len(memory.received) == 2


@pytest.mark.requirement("V9")
async def test_a_key_is_recorded_only_after_its_message_was_processed(memory):
    """A request whose processing failed is processed again, not called already processed."""
    client = Voice(memory)
    client.join()
    outcomes = [RuntimeError("disk full"), {"ok": True}]

    def process(_message):
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    memory.on_request = process
    assert codes(client.say("save_request", {"idempotency_key": "k"})) == ["SYS_INTERNAL_ERROR"]
    assert memory.received == []
    ack, answer = client.say("save_request", {"idempotency_key": "k"})
    assert ack["payload"]["status"] == "applied"
    assert answer["payload"] == {"ok": True}


@pytest.mark.requirement("V9")
async def test_a_repeated_request_gets_its_answer_again(memory):
    """The stored answer, with the id of the first; the callback does not run twice."""
    client = Voice(memory)
    client.join()
    calls = []
    memory.on_request = lambda message: calls.append(message) or {"n": len(calls)}
    _, first = client.say("count_request", {"idempotency_key": "k"})
    assert (first["type"], first["id"], first["payload"]) == ("count_response", client.id, {"n": 1})
    ack, second = client.say("count_request", {"idempotency_key": "k"})
    assert ack["payload"]["status"] == "already_processed"
    assert second == first


async def test_keys_past_the_window_are_forgotten(memory):
    """Memory stays bounded by what came in five minutes."""
    client = Voice(memory)
    client.join()
    for number in range(100):
        memory.clock = number * 10.0
        client.say("note", {"idempotency_key": str(number)})
    assert len(memory._keys) == 31


async def test_a_request_without_an_answer_stays_open(memory):
    """on_request may return None: applied, confirmed, never answered. Without it the payload is echoed."""
    client = Voice(memory)
    client.join()
    assert client.say("echo_request", {"a": 1})[1]["payload"] == {"a": 1}
    memory.on_request = lambda _message: None
    assert [answer["type"] for answer in client.say("echo_request", {"a": 1})] == ["message_ack"]
