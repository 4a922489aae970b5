"""A line of input is a message or a failure that names its number and every bad field."""

from __future__ import annotations

import json

import pytest

from resilient_bridge.bridge import Message
from resilient_bridge.errors import ProtocolError
from tests.internals.cli import Outgoing, parse_line, print_message
from tests.rows import each_row


def _violations(line):
    with pytest.raises(ProtocolError) as caught:
        parse_line(line, 7)
    failure = caught.value.failure
    assert failure.code == "PROTO_INVALID_MESSAGE"
    assert failure.executed == "no"
    assert failure.details["line"] == 7
    assert str(failure).startswith("line 7: ")
    return [(one["field"], one["received"]) for one in failure.details["violations"]], str(failure)


def test_a_good_line_is_a_message():
    """Type and payload are needed, key and ttl may be there."""
    assert parse_line(b'{"type":"a","payload":{"n":1}}\r\n', 1) == Outgoing("a", {"n": 1})
    line = b'{"type":"a","payload":{},"idempotency_key":"k","ttl":2.5}'
    assert parse_line(line, 1) == Outgoing("a", {}, "k", 2.5)


@each_row(
    ("line", "found"),
    [
        (b"nonsense", [("$", "text that is not JSON at character 1")]),
        (
            b"{",
            [
                (
                    "$",
                    "text that is not JSON, expecting property name enclosed in double quotes at character 2",
                )
            ],
        ),
        (b'{"type": tool}', [("$", "text that is not JSON at character 10")]),
        (b'{"a": "b\n', [("$", "text that is not JSON, invalid control character at character 9")]),
        (b'{"type":"a","payload":{}} x', [("$", "something behind it at character 27")]),
        (b"[1]", [("$", "a list")]),
        (b"null", [("$", "nothing")]),
        (b'"text"', [("$", "a string")]),
        (b"{}", [("type", "nothing"), ("payload", "nothing")]),
        (b'{"type":"","payload":null}', [("type", "an empty string"), ("payload", "nothing")]),
        (b'{"type":3,"payload":[]}', [("type", "a number"), ("payload", "a list")]),
        (b'{"type":"a","payload":{},"ttl":0}', [("ttl", "a number")]),
        (b'{"type":"a","payload":{},"ttl":true}', [("ttl", "true or false")]),
        (
            b'{"type":"a","payload":{},"idempotency_key":""}',
            [("idempotency_key", "an empty string")],
        ),
        (
            b'{"type":"a","payload":{},"idempotency_key":"\\ud800"}',
            [("idempotency_key", "a string")],
        ),
        (b'{"type":"a","payload":{},"idempotency_key":null}', [("idempotency_key", "nothing")]),
        (b'{"type":"a","payload":{},"extra":"s3cret"}', [("extra", "a string")]),
        (b'{"type":"a","payload":{"x":NaN}}', [("$", "NaN, which JSON does not have")]),
        (b'{"type":"a","type":"b","payload":{}}', [("$", "an object that has a name twice")]),
        (b'{"type":"a","payload":{"x":"\xff"}}', [("$", "bytes that are not UTF-8 at byte 29")]),
        (b"\xef\xbb\xbf{}", [("$", "a byte order mark at character 1")]),
        (b"[" * 100_000, [("$", "too deep a nesting")]),
    ],
)
def test_a_bad_line_names_each_bad_field(line, found):
    """All violations come at once, with what was there instead, and never with a value."""
    violations, text = _violations(line)
    assert violations == found
    assert "s3cret" not in text


def test_a_huge_integer_is_a_bad_line():
    """Digits beyond what Python converts are refused, not a crash."""
    violations, _ = _violations(b'{"type":"a","payload":{"x":' + b"9" * 5_000 + b"}}")
    assert violations == [("$", "a number with too many digits")]


def test_a_line_that_is_no_json_is_named_in_plain_words():
    """Number, what was wanted, what came and where: no notation of ours."""
    _, text = _violations(b"nonsense")
    assert text == (
        "line 7: one JSON object expected, got text that is not JSON at character 1 (PROTOCOL, not retryable)"
    )


def test_a_received_message_is_one_line_of_ascii():
    """Line breaks and control characters cannot leave the line; flags are there only if they are true."""
    plain = Message("a", None, None, {"text": "é\n\x1b\u2028\ud800"})
    line = print_message(plain)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {
        "type": "a",
        "id": None,
        "timestamp": None,
        "payload": plain.payload,
    }
    flagged = Message("a", "i", "t", {}, replayed=True, maybe_duplicate=True)
    assert json.loads(print_message(flagged)) == {
        "type": "a", "id": "i", "timestamp": "t", "payload": {}, "replayed": True, "maybe_duplicate": True,
    }  # fmt: skip
