"""Confirmations and keys: what the other side says about what we said."""

from __future__ import annotations

import pytest

from resilient_bridge.bridge import Dialect
from resilient_bridge.failure import ConfigError
from resilient_bridge.protocol import EntryState as S
from tests.internals.telemetry import MessageUndelivered
from tests.protocol.driving import Rig


def answer(rig, entry, type_="ask_response", **payload):
    rig.hear(type_, payload, id=entry.id)


def asked(rig):
    return [frame["id"] for frame in rig.wire if frame["type"] == "ask_request"]


# ---- confirmations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "how"),
    [
        (lambda e: {"message_id": e.id}, "applied"),
        (lambda e: {"message_id": e.id, "status": "applied"}, "applied"),
        (lambda e: {"message_id": e.id, "status": "already_processed"}, "read"),
        (lambda e: {"message_ids": ["x", e.id]}, "applied"),
        (lambda e: {"idempotency_key": e.key}, "applied"),
    ],
)
def test_an_ack_confirms_and_says_what_it_proves(payload, how):
    """`applied`, or only `read` where the server calls it a duplicate: the first try may have failed there."""
    rig = Rig().up()
    entry = rig.send(key="mine")
    rig.write()
    rig.hear("message_ack", payload(entry))
    assert (entry.state, entry.confirmation) == (S.CONFIRMED, how)


@pytest.mark.parametrize(
    "payload",
    [{}, {"message_id": "never sent"}, {"message_id": 5}, {"message_ids": [None, 7, {}]}, {"message_ids": "abc"},
     {"message_id": None, "status": 3}],
)  # fmt: skip
def test_acks_of_nothing_are_counted_and_ignored(payload):
    """Threat 15: beyond what was sent, garbage, another session's: nothing is confirmed, nothing breaks."""
    rig = Rig().up()
    entry = rig.send()
    rig.write()
    rig.hear("message_ack", payload)
    assert (entry.state, rig.session.outbound.stray_acks, rig.session.death) == (S.WRITTEN, 1, None)


def test_an_ack_of_what_was_never_sent_changes_nothing():
    """Threat 15: only what was handed out can be confirmed; a second ack changes nothing."""
    rig = Rig().up()
    rig.lose()
    entry = rig.send()
    rig.session.outbound.ack({"message_id": entry.id})
    assert entry.state is S.QUEUED
    rig.up()
    for _ in range(2):
        rig.hear("message_ack", {"message_id": entry.id})
    assert (entry.state, rig.session.outbound.stray_acks) == (S.CONFIRMED, 2)


def test_an_answer_to_a_send_confirms_it_and_is_news():
    """A message with the send's id proves that it was applied; the reader gets it as well."""
    rig = Rig().up()
    entry = rig.send()
    rig.write()
    answer(rig, entry, "note_done", n=1)
    assert (entry.state, entry.confirmation) == (S.CONFIRMED, "applied")
    assert [message.type for message in rig.take()] == ["note_done"]


def test_a_pong_confirms_only_what_was_written_before_its_ping():
    """The barrier proves `read` for everything before it and nothing after it."""
    rig = Rig().up()
    before = rig.send()
    rig.write()
    rig.idle(1.0)
    after = rig.send()
    rig.write()
    rig.pong()
    assert (before.state, before.confirmation, after.state) == (S.CONFIRMED, "read", S.WRITTEN)


def test_more_pongs_than_pings_prove_nothing():
    """A server that pongs twice: without ids nobody knows which ping the second one answers."""
    rig = Rig().up()
    entry = rig.send()
    rig.hear("heartbeat_pong")
    rig.write()
    rig.idle(1.0)
    rig.hear("heartbeat_pong")
    assert entry.state is S.WRITTEN


@pytest.mark.requirement("R7")
def test_an_error_about_a_send_refuses_it_and_nothing_else():
    """DEAD with the server's own failure, told; the link goes on, the reader is not bothered, the position not moved."""
    rig = Rig().up()
    rig.hear("a", {}, id="1")
    refused, other = rig.send(), rig.send()
    rig.write()
    violation = {"field": "id", "constraint": "uuid", "received": "7"}
    rig.hear(
        "error",
        {"code": "PROTO_INVALID_MESSAGE", "message": "bad", "violations": [violation]},
        id=refused.id,
    )
    assert (refused.state, other.state, rig.session.death) == (S.DEAD, S.WRITTEN, None)
    assert list(refused.failure.details["violations"]) == [violation]
    assert [(event.outcome, event.reason) for event in rig.of(MessageUndelivered)] == [
        ("quarantined", "refused")
    ]
    assert [message.type for message in rig.take()] == ["a"]
    assert rig.session.inbound.watermark.anchor()[0].key == ("a", "1")


def test_what_the_replay_says_settles_before_anything_is_flushed():
    """Reconcile: an ack and an answer in the replay confirm; only the rest is sent again."""
    rig = Rig().up()
    rig.hear("a", {}, id="1")
    acked, answered, neither = (rig.send(payload={"n": n}) for n in range(3))
    request = rig.request(idempotent=True)
    rig.write()
    rig.lose()
    rig.up(
        {"type": "a", "id": "1", "payload": {}},
        {"type": "message_ack", "payload": {"message_id": acked.id}},
        {"type": "note_done", "id": answered.id, "payload": {}},
        {"type": "ask_response", "id": request.id, "payload": {"x": 1}},
    )
    assert [frame["payload"]["n"] for frame in rig.wire if frame["type"] == "note"] == [2]
    assert (acked.state, answered.state, neither.state, request.answer.payload) == (
        S.CONFIRMED,
    ) * 2 + (
        S.WRITTEN,
        {"x": 1},
    )
    assert asked(rig) == []
    assert [message.type for message in rig.take()] == ["a", "note_done"]


@pytest.mark.parametrize("dialect", [{}, {"ping": None, "pong": None}, {"ack": None}, {"ping": None, "pong": None, "ack": None}])  # fmt: skip
def test_what_nothing_has_shown_at_the_end_is_unknown(dialect):
    """It was handed out, and nothing has confirmed it, or shown that it left this machine."""
    rig = Rig(dialect=Dialect(**dialect))
    rig.connect()
    rig.authenticate()
    rig.hear("session_joined")
    rig.pongs()
    entry = rig.send()
    rig.write()
    rig.session.close(rig.now)
    assert (entry.state.value, entry.is_settled) == ("unknown", True)


def test_two_hundred_sends_without_any_ping():
    """A dialect without a heartbeat sends as well; its acks confirm."""
    rig = Rig(dialect=Dialect(ping=None, pong=None))
    entries = [rig.send() for _ in range(200)]
    rig.connect()
    rig.authenticate()
    rig.hear("session_joined")
    rig.write()
    for entry in entries:
        rig.hear("message_ack", {"message_id": entry.id})
    assert {entry.state for entry in entries} == {S.CONFIRMED}


# ---- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("V9")
def test_a_key_that_is_pending_or_confirmed_names_its_send():
    """The same key again is the same send, not another one; after a failure it may be used anew."""
    rig = Rig()
    first = rig.send(key="mine")
    assert rig.send(key="mine") is first
    rig.up().settle()
    assert (first.state, rig.send(key="mine")) == (S.CONFIRMED, first)
    dropped = rig.send(key="other", volatile=True)
    rig.lose()
    assert dropped.state is S.DROPPED
    assert rig.send(key="other") is not dropped


def test_a_key_in_the_payload_is_the_callers():
    """It goes out unchanged and names the send."""
    rig = Rig().up()
    entry = rig.send(payload={"idempotency_key": "mine", "x": 1})
    rig.write()
    assert rig.last("note")["payload"] == {"idempotency_key": "mine", "x": 1}
    assert rig.session.outbound.known.find("mine") is entry


@pytest.mark.parametrize("key", ["", 5, ["x"]])
def test_a_key_has_to_be_text(key):
    """ConfigError names the argument."""
    with pytest.raises(ConfigError):
        Rig().send(key=key)


def test_what_is_remembered_is_bounded():
    """10,000 confirmed sends leave no more than about a thousand findable; memory is flat."""
    rig = Rig().up()
    first = rig.send(key="first")
    for n in range(5_000):
        entry = rig.send(key=f"k{n}")
        rig.write()
        rig.hear("message_ack", {"message_id": entry.id})
    outbound = rig.session.outbound
    assert outbound.known.find("k4999") is entry
    assert outbound.known.find("k10") is None
    assert len(outbound._by_id) <= 1_026
    assert len(outbound.known._by_key) <= 1_026
    assert first.state is S.WRITTEN
    assert outbound.known.find("first") is first
