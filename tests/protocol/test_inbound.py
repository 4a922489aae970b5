"""From frames to the reader: once, in order, and committed when the reader asks for the next."""

from __future__ import annotations

import pytest

from resilient_bridge.bridge import Dialect
from tests.internals.telemetry import MessageRejected
from tests.protocol.driving import Rig, envelope


def test_asking_for_the_next_commits_the_one_before():
    """What the consumer holds is not taken yet: a crash would repeat it."""
    rig = Rig().up()
    for n in range(3):
        rig.hear("a", {}, id=str(n))
    watermark, take = rig.session.inbound.watermark, rig.session.inbound.take
    counts = []
    for _ in range(4):
        take()
        counts.append((watermark.accepted, watermark.handed, watermark.taken))
    assert counts == [(3, 1, 0), (3, 2, 1), (3, 3, 2), (3, 3, 3)]


def test_messages_stay_in_server_order_and_ids_may_repeat_across_types():
    """Messages reach the reader as they came, id or none."""
    rig = Rig().up()
    parts = [
        ("tool_call", "1"),
        ("stream", None),
        ("stream", None),
        ("approval", "1"),
        ("tool_call", "1"),
        ("stream", None),
    ]
    for type_, identity in parts:
        rig.hear(type_, {}, **({} if identity is None else {"id": identity}))
    assert [(message.type, message.id) for message in rig.take()] == [*parts[:4], parts[5]]


@pytest.mark.parametrize("type_", ["heartbeat_status", "connection_notice"])
def test_what_is_never_replayed_is_delivered_and_no_position(type_):
    """`heartbeat_*` and `connection_*` never enter the watermark: no anchor a replay could not hold."""
    rig = Rig().up()
    rig.hear("a", {}, id="1")
    rig.hear(type_, {}, id="2")
    assert [message.type for message in rig.take()] == ["a", type_]
    assert rig.session.inbound.watermark.anchor()[0].key == ("a", "1")


@pytest.mark.parametrize("fields", [{}, {"id": "e1"}])
def test_an_error_about_nothing_we_sent_is_news_and_no_position(fields):
    """It reaches the reader in its place; a server that does not replay its errors is still RECOVERED from."""
    rig = Rig().up()
    rig.hear("a", {}, id="1")
    rig.hear("error", {"code": "TOOL_EXECUTION_FAILED", "message": "exit 1"}, **fields)
    rig.hear("x")
    assert [message.type for message in rig.take()] == ["a", "error", "x"]
    rig.lose()
    rig.up({"type": "a", "id": "1", "payload": {}}, {"type": "x", "payload": {}})
    assert [event.verdict for event in rig.events if hasattr(event, "verdict")] == ["RECOVERED"]


def test_a_client_that_does_not_receive_counts_and_drops():
    """`receive=False`: nothing is kept, and the position moves on."""
    rig = Rig(receives=False).up()
    for n in range(5_000):
        rig.hear("a", {}, id=str(n))
    rig.hear("heartbeat_status")
    inbound = rig.session.inbound
    assert (inbound.dropped, len(inbound.inbox), inbound.inbox.bytes) == (5_001, 0, 0)
    assert inbound.watermark.taken == inbound.watermark.accepted == 5_000


def test_the_reader_stops_at_a_gap_until_it_was_reported():
    """`take` gives nothing while a gap stands first."""
    rig = Rig().up()
    rig.lose()
    rig.up({"type": "a", "id": "1", "payload": {}})
    inbound = rig.session.inbound
    assert inbound.take() is None
    assert inbound.inbox.peek_gap().reason == "no_anchor"
    inbound.inbox.pass_gap()
    assert inbound.take().id == "1"


def test_flags_say_where_a_message_came_from():
    """Live ones carry no flag; those of the replay say so."""
    rig = Rig().up()
    rig.hear("a", {}, id="1")
    rig.lose()
    rig.up({"type": "a", "id": "1", "payload": {}}, {"type": "a", "id": "2", "payload": {}})
    rig.hear("a", {}, id="3")
    assert [(message.id, message.replayed) for message in rig.take()] == [
        ("1", False),
        ("2", True),
        ("3", False),
    ]


def test_the_server_may_name_the_session():
    """`session_from_join`: the id of the answer is the one we resume."""
    rig = Rig(dialect=Dialect(session_from_join=True))
    rig.connect()
    rig.authenticate()
    rig.hear("session_joined", {"session_id": "theirs"})
    rig.pongs()
    assert rig.session.session_id == "theirs"
    rig.lose()
    rig.connect()
    rig.authenticate()
    assert rig.last("session_join")["payload"] == {"session_id": "theirs", "resume": True}


def test_unreadable_entries_of_a_replay_are_counted():
    """Entries that are no messages are told and counted, as such frames are; the rest is delivered."""
    rig = Rig().up()
    rig.hear("note", {"n": 1}, id="1")
    rig.lose()
    rig.connect()
    rig.join()
    rig.replay(envelope("note", {"n": 1}, id="1"), "{", 5, envelope("note", {"n": 2}, id="2"))
    assert len(rig.of(MessageRejected)) == rig.session.inbound.rejected == 2
    assert [message.id for message in rig.take()] == ["1", "2"]
