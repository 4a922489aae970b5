"""What the bridge replays to one client, and every scripted way of getting a conversation wrong."""

from __future__ import annotations

import json
import random

import pytest

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
    client = Voice(memory)
    client.join()
    client.dialogue.lost()
    for number in range(count):
        memory.clock += 1.0
        memory.push("tool_call", {"n": number}, None, None)
    client = Voice(memory)
    return client, client.join(resume=True)


@pytest.mark.requirement("R14")
async def test_a_replay_holds_what_was_pushed_without_a_client(memory):
    """From `since` on, inclusive, under the request's id; on re-attach the whole buffer comes unasked."""
    client, (joined, *pushed_frames) = await pushed(memory)
    assert joined["type"] == "session_joined"
    assert replayed(pushed_frames) == [0, 1, 2, 3]
    assert set(pushed_frames[0]) == {"type", "payload"}
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
    client = Voice(memory)
    client.join()
    client.say("echo_request", {"n": 9})
    assert replayed(client.say("request_replay")) == [9]


async def test_a_second_join_on_the_same_connection_pushes_nothing(memory):
    """It is no re-attach."""
    client, _ = await pushed(memory)
    assert [a["type"] for a in client.say("session_join", {"session_id": "s"})] == [
        "session_joined"
    ]


@pytest.mark.parametrize(
    ("changes", "pushed_frames", "asked", "asked_all"),
    [
        ({}, [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]),
        ({"push_buffer": False}, None, [1, 2, 3], [0, 1, 2, 3]),
        ({"replay": "exclusive"}, [0, 1, 2, 3], [2, 3], [0, 1, 2, 3]),
        ({"replay": "verbatim_seed"}, [0, 1, 2, 3], [], [0, 1, 2, 3]),
        ({"replay": "silent_truncate"}, [3], [3], [3]),
        ({"replay": "none"}, None, None, None),
        ({"replay": "pushed_only"}, [0, 1, 2, 3], None, None),
        ({"replay_entries": "strings"}, [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3]),
    ],
)
async def test_a_replay_can_be_wrong_in_every_way(memory, changes, pushed_frames, asked, asked_all):
    """What each behaviour pushes unasked, answers to the second message's stamp, and answers without one."""
    client, (_, *pushes) = await pushed(memory, **changes)
    since = {"since": memory.pushed[1]["timestamp"]}
    answers = [pushes, client.say("request_replay", since), client.say("request_replay")]
    assert [replayed(answer) if answer else None for answer in answers] == [
        pushed_frames,
        asked,
        asked_all,
    ]
    as_text = changes.get("replay") == "verbatim_seed" or "replay_entries" in changes
    entries = [
        entry for answer in answers for each in answer for entry in each["payload"]["messages"]
    ]
    assert all(isinstance(entry, str if as_text else dict) for entry in entries)


async def test_the_verbatim_buffer_is_emptied_by_an_overflow(memory):
    """And says nothing on re-attach when it is empty."""
    size = (
        len(
            json.dumps(
                '{"type":"tool_call","timestamp":"2026-03-20T14:32:05.250Z","payload":{"n":0}}'
            )
        )
        + 1
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
    client = Voice(memory)
    client.join()
    acks = [answer["payload"]["message_id"] for answer in client.say("note")]
    assert len(acks) == count
    assert acks[:1] == [client.id][:count]
    assert client.id not in acks[1:]


async def test_acks_can_go_backwards(memory):
    """The previous one again after each."""
    change(memory, ack_backwards=True)
    client = Voice(memory)
    client.join()
    client.say("note")
    first = client.id
    assert [answer["payload"]["message_id"] for answer in client.say("note")] == [client.id, first]


@pytest.mark.parametrize(
    ("changes", "count"),
    [({}, 1), ({"never_pong": True}, 0), ({"pong_twice": True}, 2), ({"slow": 3.0}, 1)],
)
async def test_pongs_can_fail(memory, changes, count):
    """None, two, or late; a pong never has an id."""
    change(memory, **changes)
    client = Voice(memory)
    client.say("auth")
    pongs = client.say("heartbeat_ping")
    assert [set(pong) for pong in pongs] == [{"type", "timestamp", "payload"}] * count
    assert client.line.delays == ([3.0, 3.0] if "slow" in changes else [])


async def test_poison_ends_the_connection(memory):
    """A frame with the marker is not applied; the code is the scripted one."""
    change(memory, poison="drink me", poison_code=1007)
    client = Voice(memory)
    client.join()
    assert client.say("note", {"text": "please drink me now"}) == []
    assert client.line.ended == (1007, "poison")
    assert memory.received == []


@pytest.mark.parametrize("step", ["auth", "join"])
async def test_a_handshake_can_be_closed_at_each_step(memory, step):
    """Instead of the answer comes the close code."""
    change(memory, accept_then_close=1012, close_at=step)
    client = Voice(memory)
    greeting = [answer["type"] for answer in client.say("auth")]
    assert greeting == ([] if step == "auth" else ["connection_ack"])
    if step == "join":
        assert client.say("session_join", {"session_id": "s"}) == []
    assert client.line.ended == (1012, f"scripted close at {step}")


async def test_types_can_be_ignored(memory):
    """Read, and never answered."""
    change(memory, ignored=frozenset({"auth"}))
    client = Voice(memory)
    assert client.say("auth") == []
    assert len(memory.frames) == 1


async def test_without_session_memory_it_is_the_real_bridge(memory):
    """A greeting without server_id, no answer to a join, no ack, UNKNOWN_TYPE for a replay, broadcasts."""
    change(memory, no_session_memory=True)
    client, other = Voice(memory), Voice(memory)
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


async def test_nothing_is_recorded_when_switched_off(memory):
    """For long runs that only count."""
    change(memory, record=False)
    client = Voice(memory)
    client.join()
    assert client.say("note")[0]["payload"]["status"] == "applied"
    assert memory.frames == memory.received == []


# ---- as bridges of others do it
async def test_c01_types_that_it_does_not_know(memory):
    """An error of the given code, with a fresh id and `request_type`; a refused join leaves a bridge that takes messages."""
    change(memory, refused={"session_join": "PROTO_INVALID_MESSAGE", "look": "UNKNOWN_TYPE"})
    client = Voice(memory)
    client.say("auth")
    (refusal,) = client.say("session_join", {"session_id": "s"})
    assert (refusal["type"], refusal["payload"]["code"]) == ("error", "PROTO_INVALID_MESSAGE")
    assert refusal["payload"]["request_type"] == "session_join"
    assert codes(client.say("look")) == ["UNKNOWN_TYPE"]
    assert client.say("note") == []
    assert [message["type"] for message in memory.received] == ["note"]


async def test_c02_a_refused_login_may_leave_the_connection_open(memory):
    """`connection_error`, and no end of the line."""
    change(memory, auth_error="AUTH_FAILED", auth_refusal="open")
    client = Voice(memory)
    assert [answer["type"] for answer in client.say("auth")] == ["connection_error"]
    assert [answer["type"] for answer in client.say("auth")] == ["connection_error"]


async def test_c04_flat_fields(memory):
    """Fields beside the type, and no payload."""
    change(memory, flat=True)
    client = Voice(memory)
    (hello,) = client.say("auth")
    assert hello["server_id"] == memory.server_id
    assert "payload" not in hello


async def test_foreign_entries_are_mixed_in(memory):
    """As many as asked for, with and without ids, and what was pushed stays in its order."""
    client, _ = await pushed(memory, foreign_entries=3, push_buffer=False)
    (answer,) = client.say("request_replay")
    found = answer["payload"]["messages"]
    assert [m["payload"]["n"] for m in found if "n" in m["payload"]] == [0, 1, 2, 3]
    assert sorted("id" in m for m in found if "foreign" in m["payload"]) == [False, True, True]


@pytest.mark.parametrize(
    ("dedupes", "says", "applied"), [(True, True, 1), (True, False, 1), (False, True, 2)]
)
async def test_b04_a_bridge_that_runs_each_copy_does_not_say_that_it_dedupes(
    memory, dedupes, says, applied
):
    """The answer to the join says so if it does; with `dedupes=False` a copy is applied again."""
    change(memory, dedupes=dedupes, says_dedupes=says)
    client = Voice(memory)
    (joined,) = client.join()
    assert joined["payload"].get("dedupes") is (True if dedupes and says else None)
    for _ in range(2):
        client.say("note", {"idempotency_key": "k"})
    assert len(memory.received) == applied


async def test_b03_a_bridge_without_sessions_may_push_its_queue_after_each_auth(memory):
    """The newest of what it pushed, as if it were live: no marker, no answer around it."""
    change(memory, no_session_memory=True, push_queue=2)
    for number in range(3):
        memory.push("tool_call", {"n": number}, None, None)
    hello, *queue = Voice(memory).say("auth")
    assert hello["type"] == "connection_ack"
    assert [(m["type"], m["payload"]["n"]) for m in queue] == [("tool_call", 1), ("tool_call", 2)]
