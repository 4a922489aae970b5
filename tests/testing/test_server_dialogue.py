"""One client's conversation without a socket: phases, dedupe, joins, replays, and the scripted faults."""

from __future__ import annotations

import json
import random

import attrs
import pytest

from resilient_bridge.testing.server_dialogue import Dialogue
from resilient_bridge.testing.server_faults import Behaviour
from resilient_bridge.testing.server_session import BridgeMemory
from tests.testing.server_peer import frame


class Line:
    """Keeps what was sent, and for how long it was held back."""

    def __init__(self):
        self.sent = []
        self.delays = []
        self.ended = None

    def send(self, text):
        self.sent.append(json.loads(text))

    def later(self, delay, text):
        self.delays.append(delay)
        self.send(text)

    def end(self, code, reason):
        self.ended = (code, reason)


class Client:
    """A dialogue with its line."""

    def __init__(self, memory):
        self.line = Line()
        self.dialogue = Dialogue(self.line, memory)

    def say(self, kind, payload=None, **fields):
        """Send a message; what came back."""
        self.line.sent.clear()
        text = frame(kind, payload, **fields)
        self.dialogue.read(text)
        self.id = json.loads(text)["id"]
        return list(self.line.sent)

    def join(self, session="s", **payload):
        """Auth and join; what came back for the join."""
        self.say("auth")
        return self.say("session_join", {"session_id": session, **payload})


@pytest.fixture
async def memory(monkeypatch):
    """A bridge's memory whose clock stands until a test moves it."""
    memory = BridgeMemory(Behaviour(), lambda: 1_774_017_125.25 + memory.clock, random.Random(1))
    memory.clock = 0.0
    monkeypatch.setattr(memory, "now", lambda: memory.clock)
    yield memory
    memory.forget()


def change(memory, **changes):
    """Set some fields of the behaviour."""
    memory.behaviour = attrs.evolve(memory.behaviour, **changes)


def codes(answers):
    """The error codes in what came back."""
    return [answer["payload"]["code"] for answer in answers]


# ---- phases
@pytest.mark.requirement("R8")
async def test_nothing_goes_before_auth(memory):
    """The seed's first scenario: the error names what is expected, what came, and the phase."""
    client = Client(memory)
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


@pytest.mark.requirement("R8")
async def test_a_session_message_needs_a_join(memory):
    """Between connection_ack and session_join only the handshake and the heartbeat are in order."""
    client = Client(memory)
    client.say("auth")
    for kind in ("session_message", "request_replay", "auth"):
        (answer,) = client.say(kind)
        assert answer["payload"]["current_phase"] == "authenticated"
    assert [answer["type"] for answer in client.say("heartbeat_ping")] == ["heartbeat_pong"]
    assert memory.received == []


@pytest.mark.requirement("R7")
async def test_an_invalid_message_is_answered_with_its_own_id_and_not_applied(memory):
    """Even an id that is no UUID comes back, as in the seed's example."""
    client = Client(memory)
    client.join()
    (answer,) = client.say("note", id="msg-123", timestamp="2026-03-20 14:32:00")
    assert (answer["type"], answer["id"]) == ("error", "msg-123")
    assert [wrong["field"] for wrong in answer["payload"]["violations"]] == ["id", "timestamp"]
    assert memory.received == []


async def test_the_greeting_states_an_identity(memory):
    """connection_ack carries server_id and the open sessions, and the id of the auth."""
    Client(memory).join("one")
    client = Client(memory)
    (answer,) = client.say("auth")
    assert (answer["type"], answer["id"]) == ("connection_ack", client.id)
    assert answer["payload"] == {"server_id": memory.server_id, "active_sessions": ["one"]}


@pytest.mark.parametrize("payload", [{}, {"token": "wrong"}, {"token": 5}])
async def test_a_wrong_token_ends_in_4001(memory, payload):
    """connection_error first, then the close code; the token is not repeated."""
    memory.token = "right"
    client = Client(memory)
    (answer,) = client.say("auth", payload)
    assert answer["type"] == "connection_error"
    assert answer["payload"]["code"] == "AUTH_INVALID_TOKEN"
    assert "right" not in json.dumps(answer)
    assert client.line.ended == (4001, "authentication refused")
    assert Client(memory).say("auth", {"token": "right"})[0]["type"] == "connection_ack"


async def test_an_auth_error_can_be_scripted(memory):
    """Any code; an expired token is the recoverable one."""
    change(memory, auth_error="AUTH_TOKEN_EXPIRED")
    (answer,) = Client(memory).say("auth")
    assert answer["payload"]["code"] == "AUTH_TOKEN_EXPIRED"
    assert answer["payload"]["recoverable"] is True


# ---- joins
@pytest.mark.requirement("R4")
async def test_a_resume_of_an_unknown_session_is_refused_with_suggestions(memory):
    """SESS_NOT_FOUND carries the join's id; a fresh join of the same name then works."""
    client = Client(memory)
    (answer,) = client.join("s", resume=True)
    assert (answer["type"], answer["id"], answer["payload"]["code"]) == ("error", client.id, "SESS_NOT_FOUND")
    assert answer["payload"]["suggestions"]
    assert client.say("session_join", {"session_id": "s"})[0]["type"] == "session_joined"


async def test_a_closed_session_refuses_operations_and_resumes(memory):
    """SESS_CLOSED for a message and for a resume; without `resume` the name starts afresh."""
    client = Client(memory)
    client.join()
    memory.push("tool_call", {}, None, None)
    memory.sessions["s"].close()
    assert codes(client.say("note")) == ["SESS_CLOSED"]
    assert codes(Client(memory).join(resume=True)) == ["SESS_CLOSED"]
    assert [answer["type"] for answer in Client(memory).join()] == ["session_joined"]


async def test_a_newer_connection_takes_the_session(memory):
    """The old one is closed with 4409, hears nothing more, and its end does not end the session."""
    old, new = Client(memory), Client(memory)
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
    client = Client(memory)
    client.say("auth")
    (answer,) = client.say("session_join", {"session_id": ""})
    assert answer["payload"]["violations"][0]["field"] == "payload.session_id"
    (answer,) = client.say("session_join", {})
    assert answer["payload"]["session_id"] in memory.sessions


# ---- confirmations, dedupe, requests
async def test_each_applied_message_is_confirmed_and_kept_in_order(memory):
    """message_ack names the message; `received` has each once, `frames` every frame."""
    client = Client(memory)
    client.join()
    for number in range(3):
        (ack,) = client.say("note", {"n": number})
        assert ack == {"type": "message_ack", "payload": {"message_id": client.id, "status": "applied"}}
    assert [message["payload"]["n"] for message in memory.received] == [0, 1, 2]
    assert len(memory.frames) == 5


@pytest.mark.requirement("V9")
async def test_a_known_key_is_processed_once_in_five_minutes(memory):
    """Also on another connection and in another session; after the window it counts as new."""
    client = Client(memory)
    client.join()
    status = [answer["payload"]["status"] for answer in client.say("note", {"idempotency_key": "k"})]
    memory.clock = 300.0
    other = Client(memory)
    other.join("other")
    status += [answer["payload"]["status"] for answer in other.say("note", {"idempotency_key": "k"})]
    assert status == ["applied", "already_processed"]
    assert len(memory.received) == 1
    memory.clock = 300.1
    assert client.say("note", {"idempotency_key": "k"})[0]["payload"]["status"] == "applied"
    assert len(memory.received) == 2


@pytest.mark.requirement("V9")
async def test_a_key_is_recorded_only_after_its_message_was_processed(memory):
    """A request whose processing failed is processed again, not called already processed."""
    client = Client(memory)
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
    client = Client(memory)
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
    client = Client(memory)
    client.join()
    for number in range(100):
        memory.clock = number * 10.0
        client.say("note", {"idempotency_key": str(number)})
    assert len(memory._keys) == 31


async def test_a_request_without_an_answer_stays_open(memory):
    """on_request may return None: applied, confirmed, never answered. Without it the payload is echoed."""
    client = Client(memory)
    client.join()
    assert client.say("echo_request", {"a": 1})[1]["payload"] == {"a": 1}
    memory.on_request = lambda _message: None
    assert [answer["type"] for answer in client.say("echo_request", {"a": 1})] == ["message_ack"]


# ---- replay
def replayed(answers):
    """The `n` of the messages in the only answer."""
    (answer,) = answers
    assert answer["type"] == "replay_buffer"
    messages = answer["payload"]["messages"]
    return [(json.loads(m) if isinstance(m, str) else m)["payload"]["n"] for m in messages]


async def pushed(memory, count=4, **changes):
    """A client that joined, lost its link, and came back after `count` pushes, one a second."""
    change(memory, **changes)
    client = Client(memory)
    client.join()
    client.dialogue.lost()
    for number in range(count):
        memory.clock += 1.0
        memory.push("tool_call", {"n": number}, None, None)
    client = Client(memory)
    return client, client.join(resume=True)


@pytest.mark.requirement("R14")
async def test_a_replay_holds_what_was_pushed_while_nobody_was_there(memory):
    """From `since` on, inclusive, under the request's id; on re-attach the whole buffer comes unasked."""
    client, (joined, *unasked) = await pushed(memory)
    assert joined["type"] == "session_joined"
    assert replayed(unasked) == [0, 1, 2, 3]
    assert set(unasked[0]) == {"type", "payload"}
    since = memory.pushed[2]["timestamp"]
    answers = client.say("request_replay", {"since": since})
    assert answers[0]["id"] == client.id
    assert replayed(answers) == [2, 3]
    assert replayed(client.say("request_replay")) == [0, 1, 2, 3]


@pytest.mark.requirement("R14")
async def test_what_is_older_than_half_an_hour_is_not_replayed(memory):
    """The age is looked at when asked, not only when something is pushed."""
    client, _ = await pushed(memory)
    memory.clock = 1802.5
    assert replayed(client.say("request_replay")) == [2, 3]


async def test_a_since_that_is_no_instant_is_refused(memory):
    """A violation, not an empty answer that would look like a gap."""
    client, _ = await pushed(memory)
    (answer,) = client.say("request_replay", {"since": "yesterday"})
    assert answer["payload"]["violations"][0]["field"] == "payload.since"


async def test_answers_to_requests_are_replayed_too(memory):
    """The answer to a request may be what the dying link lost; confirmations are not kept unless asked for."""
    client = Client(memory)
    client.join()
    client.say("echo_request", {"n": 9})
    assert replayed(client.say("request_replay")) == [9]


async def test_a_second_join_on_the_same_connection_pushes_nothing(memory):
    """It is no re-attach."""
    client, _ = await pushed(memory)
    assert [a["type"] for a in client.say("session_join", {"session_id": "s"})] == ["session_joined"]


@pytest.mark.parametrize(
    ("changes", "unasked", "asked", "asked_all"),
    [
        ({}, [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]),
        ({"unasked_push": False}, None, [1, 2, 3], [0, 1, 2, 3]),
        ({"replay": "exclusive"}, [0, 1, 2, 3], [2, 3], [0, 1, 2, 3]),
        ({"replay": "verbatim_seed"}, [0, 1, 2, 3], [], [0, 1, 2, 3]),
        ({"replay": "silent_truncate"}, [3], [3], [3]),
        ({"replay": "none"}, None, None, None),
        ({"replay": "unasked_only"}, [0, 1, 2, 3], None, None),
        ({"replay_entries": "strings"}, [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]),
    ],
)
async def test_a_replay_can_be_wrong_in_every_way(memory, changes, unasked, asked, asked_all):
    """What each behaviour pushes unasked, answers to the second message's stamp, and answers without one."""
    client, (_, *pushes) = await pushed(memory, **changes)
    since = {"since": memory.pushed[1]["timestamp"]}
    answers = [pushes, client.say("request_replay", since), client.say("request_replay")]
    assert [replayed(answer) if answer else None for answer in answers] == [unasked, asked, asked_all]
    as_text = changes.get("replay") == "verbatim_seed" or "replay_entries" in changes
    entries = [entry for answer in answers for each in answer for entry in each["payload"]["messages"]]
    assert all(isinstance(entry, str if as_text else dict) for entry in entries)


async def test_the_verbatim_buffer_is_emptied_by_an_overflow(memory):
    """And says nothing on re-attach when it is empty."""
    size = (
        len(json.dumps('{"type":"tool_call","timestamp":"2026-03-20T14:32:05.250Z","payload":{"n":0}}')) + 1
    )
    client, answers = await pushed(memory, 4, replay="verbatim_seed", replay_bytes=3 * size + 1)
    assert [answer["type"] for answer in answers] == ["session_joined"]
    assert replayed(client.say("request_replay")) == []
    memory.push("tool_call", {"n": 4}, None, None)
    assert replayed(client.say("request_replay")) == [4]


async def test_an_unknown_type_is_named(memory):
    """The real bridge's answer to what it does not know."""
    client, _ = await pushed(memory, replay="unknown_type", replay_ids=False)
    (answer,) = client.say("request_replay")
    assert (answer["payload"]["code"], answer["payload"]["request_type"]) == (
        "UNKNOWN_TYPE",
        "request_replay",
    )
    assert "id" not in answer


async def test_answers_can_come_twice_late_and_without_an_id(memory):
    """Three switches for one request."""
    client, _ = await pushed(memory, answer_twice=True, replay_ids=False, replay_delay=5.0)
    first, second = client.say("request_replay")
    assert first == second
    assert "id" not in first
    assert client.line.delays == [5.0, 5.0]


# ---- the other faults
@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 1), ({"acks": "none"}, 0), ({"ack_beyond": True}, 2), ({"ack_foreign": True}, 2)],
)
async def test_acks_can_be_off_or_too_many(memory, changes, count):
    """Those that are too many name messages nobody sent."""
    change(memory, **changes)
    client = Client(memory)
    client.join()
    acks = [answer["payload"]["message_id"] for answer in client.say("note")]
    assert len(acks) == count
    assert acks[:1] == [client.id][:count]
    assert client.id not in acks[1:]


async def test_acks_can_go_backwards(memory):
    """The previous one again after each."""
    change(memory, ack_backwards=True)
    client = Client(memory)
    client.join()
    client.say("note")
    first = client.id
    assert [answer["payload"]["message_id"] for answer in client.say("note")] == [client.id, first]


@pytest.mark.parametrize(
    ("changes", "count"), [({}, 1), ({"never_pong": True}, 0), ({"pong_twice": True}, 2), ({"slow": 3.0}, 1)]
)
async def test_pongs_can_fail(memory, changes, count):
    """None, two, or late; a pong never has an id."""
    change(memory, **changes)
    client = Client(memory)
    client.say("auth")
    pongs = client.say("heartbeat_ping")
    assert [set(pong) for pong in pongs] == [{"type", "timestamp", "payload"}] * count
    assert client.line.delays == ([3.0, 3.0] if "slow" in changes else [])


async def test_poison_ends_the_connection(memory):
    """A frame with the marker is not applied; the code is the scripted one."""
    change(memory, poison="drink me", poison_code=1007)
    client = Client(memory)
    client.join()
    assert client.say("note", {"text": "please drink me now"}) == []
    assert client.line.ended == (1007, "poison")
    assert memory.received == []


@pytest.mark.parametrize("step", ["auth", "join"])
async def test_a_handshake_can_be_closed_at_each_step(memory, step):
    """Instead of the answer comes the close code."""
    change(memory, accept_then_close=1012, close_at=step)
    client = Client(memory)
    greeting = [answer["type"] for answer in client.say("auth")]
    assert greeting == ([] if step == "auth" else ["connection_ack"])
    if step == "join":
        assert client.say("session_join", {"session_id": "s"}) == []
    assert client.line.ended == (1012, f"scripted close at {step}")


async def test_types_can_be_ignored(memory):
    """Read, and never answered."""
    change(memory, ignored=frozenset({"auth"}))
    client = Client(memory)
    assert client.say("auth") == []
    assert len(memory.frames) == 1


async def test_without_session_memory_it_is_the_real_bridge(memory):
    """A greeting without server_id, no answer to a join, no ack, UNKNOWN_TYPE for a replay, broadcasts."""
    change(memory, no_session_memory=True)
    client, other = Client(memory), Client(memory)
    (hello,) = client.say("auth")
    assert set(hello["payload"]) == {"client_id", "active_sessions"}
    other.say("auth")
    assert client.say("session_join", {"session_id": "s", "resume": True}) == []
    assert codes(client.say("request_replay")) == ["UNKNOWN_TYPE"]
    (answer,) = client.say("git_status_request")
    assert answer["payload"]["request_id"] == client.id
    for each in (client, other):
        each.line.sent.clear()
    memory.push("claude_event", {"n": 1}, None, None)
    assert [len(each.line.sent) for each in (client, other)] == [1, 1]
    other.dialogue.lost()
    memory.push("claude_event", {"n": 2}, None, None)
    assert len(client.line.sent) == 2


async def test_nothing_is_recorded_when_told_so(memory):
    """For long runs that only count."""
    change(memory, record=False)
    client = Client(memory)
    client.join()
    assert client.say("note")[0]["payload"]["status"] == "applied"
    assert memory.frames == memory.received == []
