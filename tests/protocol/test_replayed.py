"""What a replay answer holds, good and bad."""

from __future__ import annotations

import json

import pytest

from tests.internals.protocol import read_replay
from tests.protocol.driving import Rig


NOW = Rig().now


def _read(messages, *, content=lambda _body, _now: True):
    return read_replay({"payload": {"messages": messages}}, content, lambda _type, _body: True, NOW)


@pytest.mark.requirement("R14")
def test_objects_and_strings_are_the_same():
    """The seed stores JSON strings, others objects: both are messages with the server's own values."""
    body = {"type": "a", "id": "7", "timestamp": "2026-03-20T14:32:00Z", "payload": {"x": 1}}
    (as_object,), _ = _read([body])
    (as_string,), _ = _read([json.dumps(body, indent=1)])
    assert as_object.canonical == as_string.canonical
    for item in (as_object, as_string):
        message = item.message
        assert (message.type, message.id, message.raw_timestamp, message.payload) == tuple(
            body.values()
        )
        assert item.key == ("a", "7")


def test_bad_entries_are_reported_and_the_good_ones_delivered():
    """Threats 1 to 4 inside an answer: each bad entry is a failure of its own, order stays."""
    bad = [
        5,
        None,
        [],
        "{",
        '{"type":5}',
        {"type": ""},
        {"type": "a", "payload": None},
        '{"type":"a","x":NaN}',
        '"text"',
    ]
    items, rejected = _read([{"type": "first"}, *bad, '{"type":"last"}'])
    assert [item.message.type for item in items] == ["first", "last"]
    assert len(rejected) == len(bad)
    assert {failure.code for failure in rejected} == {
        "PROTO_INVALID_FRAME",
        "PROTO_INVALID_MESSAGE",
    }


@pytest.mark.parametrize(
    "payload", [None, {}, {"messages": None}, {"messages": {}}, {"messages": "[]"}]
)
def test_an_answer_without_a_list_is_an_answer_without_messages(payload):
    """Told once, and never an error."""
    items, rejected = read_replay({"payload": payload}, lambda *_: True, lambda *_: True, NOW)
    assert (items, [failure.code for failure in rejected]) == ([], ["PROTO_INVALID_MESSAGE"])


def test_what_is_no_content_is_omitted():
    """Acks, pongs and answers in a replay are not for the consumer."""
    items, rejected = _read(
        [{"type": "a"}, {"type": "b"}], content=lambda body, _now: body["type"] == "b"
    )
    assert ([item.message.type for item in items], rejected) == (["b"], [])
