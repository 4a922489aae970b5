"""Confirmations, keys and the request lane: what the other side says about what we said."""

from __future__ import annotations

import pytest

from resilient_bridge.errors import ConfigError
from resilient_bridge.policies import Dialect, Inbox, Outbox
from resilient_bridge.protocol import EntryState as S
from resilient_bridge.telemetry.events import LateReply, MessageQuarantined
from tests.protocol.driving import CUT, REFUSED, Rig, closed


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


def test_an_ack_of_what_never_left_is_a_lie():
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
    rig.hear("error", {"code": "PROTO_INVALID_MESSAGE", "message": "bad", "violations": [violation]}, id=refused.id)
    assert (refused.state, other.state, rig.session.death) == (S.DEAD, S.WRITTEN, None)
    assert list(refused.failure.details["violations"]) == [violation]
    assert [event.reason for event in rig.of(MessageQuarantined)] == ["refused"]
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
    assert (acked.state, answered.state, neither.state, request.answer.payload) == (S.CONFIRMED,) * 2 + (S.WRITTEN, {"x": 1})
    assert asked(rig) == []
    assert [message.type for message in rig.take()] == ["a", "note_done"]


@pytest.mark.parametrize(("dialect", "final"), [({}, "unknown"), ({"ping": None, "pong": None}, "unknown"),
                                                ({"ack": None}, "unknown"), ({"ping": None, "pong": None, "ack": None}, "written")])  # fmt: skip
def test_a_dialect_that_can_confirm_nothing_ends_as_written(dialect, final):
    """A terminal WRITTEN is called that; where a confirmation was possible it is UNKNOWN."""
    rig = Rig(dialect=Dialect(**dialect))
    rig.connect()
    rig.authenticate()
    rig.hear("session_joined")
    rig.pongs()
    entry = rig.send()
    rig.write()
    rig.session.close(rig.now)
    assert (entry.state.value, entry.is_settled) == (final, True)


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
    assert rig.session.outbound.find("mine") is entry


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
    assert outbound.find("k4999") is entry
    assert outbound.find("k10") is None
    assert len(outbound._by_id) <= 1_026
    assert len(outbound._by_key) <= 1_026
    assert first.state is S.WRITTEN
    assert outbound.find("first") is first


# ---- requests -----------------------------------------------------------------------------------------------------


def test_a_request_is_answered_by_its_id():
    """The answer goes to who asked and to nobody else."""
    rig = Rig().up()
    request = rig.request()
    rig.write()
    answer(rig, request, x=1)
    assert (request.state, request.answer.payload, rig.take()) == (S.CONFIRMED, {"x": 1}, [])


def test_a_request_may_be_answered_by_request_id():
    """The real bridge correlates by `payload.request_id`."""
    rig = Rig().up()
    request = rig.request()
    rig.write()
    rig.hear("ask_response", {"request_id": request.id, "x": 1})
    assert request.answer.payload["x"] == 1


def test_an_error_answers_a_request():
    """The server's own failure, with its code."""
    rig = Rig().up()
    request = rig.request()
    rig.write()
    rig.hear("error", {"code": "TOOL_TIMEOUT", "message": "too slow"}, id=request.id)
    assert (request.failure.code, rig.take(), rig.session.death) == ("TOOL_TIMEOUT", [], None)


@pytest.mark.requirement("V8")
def test_a_request_that_left_is_unknown_at_the_loss_and_never_repeated():
    """V8, threat 17: OutcomeUnknown names the loss; no second copy goes out."""
    rig = Rig().up()
    request = rig.request()
    rig.write()
    rig.lose()
    assert (request.state, request.failure.code) == (S.UNKNOWN, "SYS_OUTCOME_UNKNOWN")
    rig.up()
    assert asked(rig) == []


@pytest.mark.requirement("V8")
def test_a_request_that_never_left_says_so():
    """The link it waited on died: provably not sent."""
    rig = Rig().up()
    request = rig.request()
    rig.lose()
    assert (request.state, request.failure.code) == (S.DROPPED, "CONN_NOT_CONNECTED")
    assert asked(rig.up()) == []


def test_a_request_waits_while_the_client_is_not_ready():
    """Asked during an outage it survives refused attempts and goes out after the join."""
    rig = Rig().up()
    rig.lose()
    request = rig.request()
    for _ in range(3):
        rig.session.connecting(rig.now)
        rig.lose(REFUSED)
        rig.step(5)
    assert asked(rig.up()) == [request.id]
    answer(rig, request)
    assert request.state is S.CONFIRMED


@pytest.mark.requirement("V9")
def test_an_idempotent_request_is_asked_again_with_the_same_id_and_key():
    """`idempotent=True`: after the join, once per link, until it is answered."""
    rig = Rig().up()
    request = rig.request(idempotent=True)
    rig.write()
    first = rig.last("ask_request")
    for _ in range(3):
        rig.lose()
        rig.up()
        assert rig.last("ask_request") == first
        assert asked(rig) == [request.id]
    answer(rig, request)
    assert request.state is S.CONFIRMED
    rig.lose()
    assert asked(rig.up()) == []


def test_idempotent_requests_keep_their_order_among_sends():
    """One numbering for both lanes: the older goes first, also when it is repeated."""
    rig = Rig().up()
    one, send, two = rig.request(idempotent=True), rig.send(), rig.request(idempotent=True)
    for _ in range(2):
        rig.write()
        order = [frame["id"] for frame in rig.wire if frame["type"] in {"ask_request", "note"}]
        assert order == [one.id, send.id, two.id]
        rig.lose()
        rig.up()


@pytest.mark.parametrize(("left", "state"), [(False, "withdrawn"), (True, "unknown")])
def test_a_request_given_up_is_withdrawn_in_the_same_step(left, state):
    """A timeout or a cancel: no ghost is sent later; what had left is UNKNOWN."""
    rig = Rig().up()
    request = rig.request(idempotent=True)
    if left:
        rig.write()
    rig.session.outbound.give_up(request, CUT)
    assert request.state.value == state
    rig.wire.clear()
    rig.write()
    assert asked(rig) == []
    rig.lose()
    assert asked(rig.up()) == []
    rig.session.outbound.give_up(request, REFUSED)
    assert request.failure is CUT


def test_an_answer_that_comes_too_late_is_an_event():
    """LateReply, once; the reader is not handed an answer that nobody waits for."""
    rig = Rig().up()
    request = rig.request()
    rig.write()
    rig.lose()
    rig.up()
    for _ in range(2):
        answer(rig, request)
    assert [(event.type, event.id) for event in rig.of(LateReply)] == [("ask_response", request.id)]
    assert not [item for item in rig.take() if getattr(item, "type", None) == "ask_response"]


def test_answers_are_told_apart_from_messages_with_the_same_id():
    """`tool_call` answered, then `approval_required` with the same id: the second is a message."""
    rig = Rig().up()
    request = rig.request()
    rig.write()
    answer(rig, request)
    answer(rig, request)
    answer(rig, request, "approval_required")
    assert [message.type for message in rig.take()] == ["approval_required"]


@pytest.mark.parametrize("after", ["many sends", "a new process"])
def test_answers_in_a_replay_do_not_break_the_merge(after):
    """An answered request stands in the server's buffer, not in our tail: still RECOVERED, and the answer is no message."""
    rig = Rig().up()
    rig.hear("a", {}, id="1")
    request = rig.request()
    rig.write()
    answer(rig, request)
    rig.hear("x")
    if after == "many sends":
        for _ in range(1_100):
            entry = rig.send()
            rig.write()
            rig.hear("message_ack", {"message_id": entry.id})
    rig.take()
    rig.lose()
    if after == "a new process":
        rig = Rig(store=rig.store, seed=2, session_id=None)
    rig.up({"type": "a", "id": "1", "payload": {}}, {"type": "ask_response", "id": request.id, "payload": {}},
           {"type": "x", "payload": {}}, {"type": "b", "id": "2", "payload": {}})  # fmt: skip
    assert [event.verdict for event in rig.events if hasattr(event, "verdict")] == ["RECOVERED"]
    assert [message.type for message in rig.take()] == ["b"]


def test_requests_do_not_wait_behind_the_outbox():
    """A full outbox starves no request, and requests take none of its room."""
    rig = Rig(outbox=Outbox(max_messages=1))
    rig.send()
    requests = [rig.request() for _ in range(50)]
    assert asked(rig.up()) == [request.id for request in requests]


def test_nobody_reads_so_nothing_can_be_answered():
    """Inbox full and no iterator: waiting requests and receipts fail naming `receive=False`."""
    rig = Rig(inbox=Inbox(max_messages=2)).up()
    request, entry, = rig.request(), rig.send()
    rig.write()
    for _ in range(3):
        rig.hear("a")
    assert not rig.session.may_read(rig.now, iterating=False)
    rig.after()
    for failed in (request, entry):
        assert (failed.state, failed.failure.code) == (S.UNKNOWN, "SYS_INBOX_FULL")
        assert "receive=False" in failed.failure.message


def test_the_end_answers_every_request():
    """FAILED and CLOSED leave no request waiting: never left is NotConnected, handed out is OutcomeUnknown."""
    rig = Rig().up()
    left = rig.request(idempotent=True)
    rig.write()
    waiting = rig.request()
    rig.lose(closed(1002))
    assert rig.state == "FAILED"
    assert left.failure.code == "SYS_OUTCOME_UNKNOWN"
    assert waiting.failure.code == "CONN_NOT_CONNECTED"
    assert not rig.session.outbound.open_requests
