"""Text and envelopes: lenient on what is read, strict on what is sent, typed errors and nothing else."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_bridge.errors import ProtocolError
from tests.internals.protocol import Encoder, InvalidFrameError, canonical, decode
from tests.protocol.driving import Rig
from tests.rows import each_row


GOOD = {
    "type": "tool_call",
    "id": "6f1b2d7e-9b1a-4c58-9f4e-0a1b2c3d4e5f",
    "timestamp": "2026-03-20T14:32:00Z",
    "payload": {},
}
DEEP = "[" * 100_000 + "]" * 100_000

UNREADABLE = [
    pytest.param("", id="nothing"),
    pytest.param('{"type":', id="cut off"),
    pytest.param("\ufeff" + json.dumps(GOOD), id="byte order mark"),
    pytest.param(b'{"type":"a\xff"}', id="invalid UTF-8"),
    pytest.param('{"type":"a"}{"type":"b"}', id="two values"),
    pytest.param(f'{{"type":"a","payload":{{"x":{DEEP}}}}}', id="100,000 levels"),
    pytest.param('{"type":"a","payload":{"x":NaN}}', id="NaN"),
    pytest.param('{"type":"a","payload":{"x":Infinity}}', id="Infinity"),
    pytest.param('{"type":"a","payload":{"x":-Infinity}}', id="-Infinity"),
    pytest.param('{"type":"a","payload":{"x":1e400}}', id="1e400"),
    pytest.param('{"type":"a","payload":{"x":' + "9" * 5_000 + "}}", id="5,000 digits"),
    pytest.param('{"type":"a","type":"b"}', id="duplicate key"),
    pytest.param('{"type":"a","payload":{"x":{"y":1,"y":2}}}', id="duplicate key inside"),
    pytest.param('{"type":"a","payload":{"x":"\\ud800"}}', id="lone surrogate"),
    pytest.param('{"type":"a","payload":{"\\uDC00":1}}', id="lone surrogate in a key"),
    pytest.param(b'{"type":"a","payload":{"x":"\\ud800"}}', id="lone surrogate in bytes"),
]  # fmt: skip

NO_MESSAGE = [
    ("[]", {"$"}), ("5", {"$"}), ('"text"', {"$"}), ("null", {"$"}),
    ("{}", {"type"}), ('{"type":""}', {"type"}), ('{"type":5}', {"type"}), ('{"type":null}', {"type"}),
    ('{"type":"a","id":true}', {"id"}), ('{"type":"a","id":["x"]}', {"id"}),
    ('{"type":"a","timestamp":[1774017120]}', {"timestamp"}),
    ('{"type":"a","payload":null}', {"payload"}), ('{"type":"a","payload":[]}', {"payload"}),
    ('{"id":{},"timestamp":false,"payload":7}', {"type", "id", "timestamp", "payload"}),
]  # fmt: skip


@each_row("frame", UNREADABLE)
def test_an_unreadable_frame_is_a_typed_error(frame):
    """Threats 1 to 4: whatever json would accept or die of is PROTO_INVALID_FRAME, with a short reason."""
    with pytest.raises(InvalidFrameError) as caught:
        decode(frame)
    assert caught.value.failure.code == "PROTO_INVALID_FRAME"
    assert len(str(caught.value)) < 200


@each_row(("frame", "fields"), NO_MESSAGE)
def test_a_frame_that_is_no_message_names_every_field(frame, fields):
    """Threat 4: wrong types are PROTO_INVALID_MESSAGE with all violations at once."""
    with pytest.raises(InvalidFrameError) as caught:
        decode(frame)
    failure = caught.value.failure
    assert failure.code == "PROTO_INVALID_MESSAGE"
    assert {violation["field"] for violation in failure.details["violations"]} == fields


@pytest.mark.requirement("R7")
@pytest.mark.parametrize(
    "frame",
    ['{"type":"a"}', '{"type":"Any-Type.9"}', '{"type":"a","id":null,"timestamp":null}', '{"type":"a","id":"7"}',
     '{"type":"a","timestamp":"yesterday","more":1}', b'{"type":"a","payload":{"x":"\xf0\x9f\x98\x80"}}',
     '{"type":"a","payload":{"x":"\\ud83d\\ude00"}}'],
)  # fmt: skip
def test_reading_is_lenient(frame):
    """No id, no timestamp, no payload, foreign fields, any id: what real servers send is read."""
    assert decode(frame)["type"] in {"a", "Any-Type.9"}


@each_row("frame", [*UNREADABLE, *(pytest.param(frame, id=frame) for frame, _ in NO_MESSAGE)])
def test_the_session_survives_what_is_no_message(frame):
    """Threats 1 to 4: the frame is counted and told, the link goes on, the next message is delivered."""
    rig = Rig().up()
    rig.session.receive(frame, rig.now)
    rig.hear("note", {"n": 1}, id="1")
    assert rig.session.inbound.rejected == 1
    assert rig.session.death is None
    assert [message.id for message in rig.take()] == ["1"]


@each_row("field", ["live", "replay"])
@each_row("margin", range(0, 60, 3))
def test_no_depth_of_nesting_escapes(field, margin):
    """Threat 2: a depth that is just readable where a frame arrives is survived where it is compared, too."""
    rig = Rig().up()
    depth = sys.getrecursionlimit() - 20 - margin
    deep = "[" * depth + "]" * depth
    frames = [f'{{"type":"b","id":"7","payload":{{"x":{space}{deep}}}}}' for space in ("", " ")]
    for frame in frames:
        if field == "live":
            rig.session.receive(frame, rig.now)
        else:
            answer = f'{{"type":"replay_buffer","payload":{{"messages":[{frame},{frame}]}}}}'
            rig.session.receive(answer, rig.now)
    assert rig.session.death is None


@given(st.text() | st.binary())
@settings(max_examples=300)
def test_decode_raises_nothing_else(frame):
    """Any text and any bytes: a message or InvalidFrameError."""
    with contextlib.suppress(InvalidFrameError):
        assert decode(frame)["type"]


# ---- strict on what is sent ---------------------------------------------------------------------------------------


@each_row(
    ("frame", "shown"), [(json.dumps("x" * 500), "x" * 80), ('{"type":"a","payload":[1]}', "list")]
)
def test_what_was_received_is_shown_shortly(frame, shown):
    """A violation shows the value as text, cut to 80 characters, or its type."""
    with pytest.raises(InvalidFrameError) as caught:
        decode(frame)
    (violation,) = caught.value.failure.details["violations"]
    assert violation["received"] == shown


CODECS = ["json", "orjson", "auto"]


@pytest.mark.requirement("R7")
@each_row("codec", CODECS)
@each_row(
    ("type_", "payload", "fields"),
    [
        ("Bad Type", {}, ["type"]),
        ("", {}, ["type"]),
        (5, {}, ["type"]),
        ("a", 5, ["payload"]),
        ("a", None, ["payload"]),
        ("a", "text", ["payload"]),
        ("a", {"x": object()}, ["payload"]),
        ("a", {"x": float("nan")}, ["payload"]),
        ("a", {"x": [float("inf")]}, ["payload"]),
        ("a", {"x": "\ud800"}, ["payload"]),
        ("a", {"\udfff": 1}, ["payload"]),
        ("A", {"x": object()}, ["type", "payload"]),
        ("A", 5, ["type", "payload"]),
    ],
)
def test_a_message_that_cannot_be_sent_is_refused_with_all_violations(
    codec, type_, payload, fields
):
    """R7, threat 4: ProtocolError with every violation, provably not executed, whichever codec is installed."""
    with pytest.raises(ProtocolError) as caught:
        Encoder(codec).payload(type_, payload)
    failure = caught.value.failure
    assert [violation["field"] for violation in failure.details["violations"]] == fields
    assert (failure.code, failure.executed) == ("PROTO_INVALID_MESSAGE", "no")


@pytest.mark.parametrize("payload", [5, None, object(), "text", ["x"], {"x": object()}])
def test_a_send_with_a_bad_payload_is_refused_and_leaves_nothing(payload):
    """The error is the same through the session's own verb, and the outbox stays empty."""
    rig = Rig()
    with pytest.raises(ProtocolError):
        rig.session.outbound.prepare("note", payload, rig.now)
    with pytest.raises(ProtocolError):
        rig.session.outbound.request("note_request", payload, rig.now, idempotent=False)
    assert (rig.session.outbound.outbox.count, rig.session.outbound.requests) == (
        0,
        type(rig.session.outbound.requests)(),
    )


def test_a_payload_that_holds_itself_is_refused():
    """A cycle is a violation, not a crash."""
    payload = {}
    payload["x"] = payload
    for codec in CODECS:
        with pytest.raises(ProtocolError):
            Encoder(codec).payload("a", payload)


@each_row("codec", CODECS)
@each_row(
    "payload",
    [{}, {"x": 'ü\u2028😀\\"\n\x00'}, {"x": [1, 1.5, None, True, 2**53]}, {"x": 2**80}, {1: 2}, OrderedDict(a=1), {"x": (1, 2)}],
)  # fmt: skip
@each_row("key", [None, 'a "key"'])
def test_frames_are_json_with_the_key_inside(codec, payload, key):
    """V9: what goes out is one JSON envelope; the idempotency key is in its payload, everything else unchanged."""
    encoder = Encoder(codec)
    frame = encoder.frame("note", "id", "now", encoder.payload("note", payload), key)
    wanted = json.loads(json.dumps(payload))
    assert json.loads(frame) == {
        "type": "note", "id": "id", "timestamp": "now",
        "payload": wanted if key is None else {"idempotency_key": key, **wanted},
    }  # fmt: skip


def test_canonical_texts_are_equal_exactly_for_equal_messages():
    """Order of keys, spaces and escapes do not count; order of lists and values do."""
    assert canonical('{"b":1, "a":"\\u00fc"}') == canonical('{"a":"ü","b":1}')
    assert canonical('{"a":[1,2]}') != canonical('{"a":[2,1]}')
    assert canonical('{"a":1}') != canonical('{"a":"1"}')
