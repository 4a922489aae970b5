"""A dialect with frames of its own: what its two functions may do, what they may not, and which fields go with them."""

from __future__ import annotations

import pickle

import pytest

import resilient_bridge as rb
from tests.internals.protocol import canonical, decode_json, own_frame
from tests.rows import each_row


def read(frame):
    """One event for each line of a text."""
    return tuple(rb.dialects.Event(raw=line, type="line") for line in frame.splitlines())


def write(message):
    """The payload's one text."""
    return message.payload["text"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"decode": read}, "Dialect.encode"),
        ({"encode": write}, "Dialect.encode"),
        ({"decode": read, "encode": write, "join": "join"}, "Dialect.join"),
        ({"decode": read, "encode": write, "ping": "ping", "pong": "pong"}, "Dialect.ping"),
        ({"decode": 7, "encode": write}, "Dialect.decode"),
        ({"bearer": "yes"}, "Dialect.bearer"),
    ],
)
def test_fields_that_do_not_go_together_are_refused_by_name(fields, named):
    """One function without the other, or a message that the session would have to speak itself."""
    with pytest.raises(rb.ConfigError, match=named):
        rb.Dialect.plain(**fields)


def test_the_dialects_are_values():
    """Equal to themselves after a pickle, hashable, and other than each other."""
    for dialect in (rb.dialects.plain, rb.dialects.recursor):
        assert pickle.loads(pickle.dumps(dialect)) == dialect
        assert hash(dialect) == hash(pickle.loads(pickle.dumps(dialect)))
    assert rb.dialects.plain != rb.dialects.recursor == rb.Dialect()


@each_row(
    ("frame", "raw", "type_"),
    [
        ('{"type": "news", "id": 7}', {"type": "news", "id": 7}, "news"),
        ('{"type": "news", "id": "a"}', {"type": "news", "id": "a"}, "news"),
        ('{"type": 7}', {"type": 7}, ""),
        ("[1, 2]", [1, 2], ""),
        ("null", None, ""),
        ("NaN", "NaN", ""),
        ("", "", ""),
        ('{"a": 1, "a": 2}', '{"a": 1, "a": 2}', ""),
        ('"\\ud800"', '"\\ud800"', ""),
        ("[" * 200 + "]" * 200, "[" * 200 + "]" * 200, ""),
        (b"\xff\x00", b"\xff\x00", ""),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_plain_reads_any_frame(frame, raw, type_):
    """JSON that is unambiguous as its value, all else as it came; nothing has an id."""
    (event,) = rb.dialects.plain.decode(frame)
    assert (event.raw, event.type, event.id) == (raw, type_, None)


@pytest.mark.parametrize(
    "text", ["NaN", '{"a": 1, "a": 2}', "[" * 200 + "]" * 200, "{", '"\\ud800"', "1e999"]
)
def test_json_that_is_ambiguous_is_no_json(text):
    """The same rules as for an envelope."""
    with pytest.raises(ValueError, match=r".*"):
        decode_json(text)


def test_what_is_no_json_is_its_own_canonical_text():
    """Two frames of a dialect of its own are compared like any others."""
    assert canonical('{"b": 1, "a": 2}') == canonical('{"a":2,"b":1}')
    assert canonical("hello") == "hello"


def test_a_message_that_cannot_be_written_is_refused():
    """Whatever the function does: an error of its own, or text that UTF-8 cannot write."""
    message = rb.dialects.Send(type="", payload={}, id="1", key="1", timestamp="")
    for encode in (lambda _: 1 / 0, lambda _: "\ud800", lambda _: 7):
        with pytest.raises(rb.errors.ProtocolError, match="frame") as refused:
            own_frame(encode, message)
        assert refused.value.failure.executed is rb.Executed.NO
