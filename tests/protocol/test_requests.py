"""The request lane: answered by id, failed at the loss, repeated only where that was asked for."""

from __future__ import annotations

import pytest

from resilient_bridge.bridge import Inbox, Outbox
from resilient_bridge.protocol import EntryState as S
from tests.internals.telemetry import LateReply
from tests.protocol.driving import CUT, REFUSED, Rig, closed


def answer(rig, entry, type_="ask_response", **payload):
    rig.hear(type_, payload, id=entry.id)


def asked(rig):
    return [frame["id"] for frame in rig.wire if frame["type"] == "ask_request"]


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
def test_a_request_that_was_sent_is_unknown_at_the_loss_and_never_repeated():
    """V8, threat 17: OutcomeUnknown names the loss; no second copy goes out."""
    rig = Rig().up()
    request = rig.request()
    rig.write()
    rig.lose()
    assert (request.state, request.failure.code) == (S.UNKNOWN, "SYS_OUTCOME_UNKNOWN")
    rig.up()
    assert asked(rig) == []


@pytest.mark.requirement("V8")
def test_a_request_that_was_never_sent_says_so():
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


@pytest.mark.parametrize(("was_sent", "state"), [(False, "withdrawn"), (True, "unknown")])
def test_a_cancelled_request_is_withdrawn_in_the_same_step(was_sent, state):
    """A timeout or a cancel: no ghost is sent later; what had left is UNKNOWN."""
    rig = Rig().up()
    request = rig.request(idempotent=True)
    if was_sent:
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


def test_answers_are_distinguished_from_messages_with_the_same_id():
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


def test_without_a_reader_nothing_can_be_answered():
    """Inbox full and no iterator: waiting requests and receipts fail naming `receive=False`."""
    rig = Rig(inbox=Inbox(max_messages=2)).up()
    (
        request,
        entry,
    ) = rig.request(), rig.send()
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
    remaining = rig.request(idempotent=True)
    rig.write()
    waiting = rig.request()
    rig.lose(closed(1002))
    assert rig.state == "FAILED"
    assert remaining.failure.code == "SYS_OUTCOME_UNKNOWN"
    assert waiting.failure.code == "CONN_NOT_CONNECTED"
    assert not rig.session.outbound.open_requests
