"""M04: which request a defective answer names, in whatever is wrong with it."""

from __future__ import annotations

import pytest

from tests.internals.adapters import parse, request_misnamed_by, request_named_in


NAMED = {
    b'{"jsonrpc": "2.0", "id": 7, "result": {"text": "\xfd"}}': 7,
    b'\xef\xbb\xbf{"jsonrpc": "2.0", "id": 7, "result": "\xfd"}': 7,
    '{"id": 7, "result": {}}': 7,
    '{"jsonrpc": "1.0", "id": "7", "result": {}}': 7,
    '{"jsonrpc": "2.0", "id": 7.0, "result": "a\tb"}': 7,
    '{"id": 7, "error": {"code": -32000}}': 7,
    '{"jsonrpc": "2.0", "id": 7, "result": {"text": "half': 7,
    '{"jsonrpc": "2.0", "id": 7, "result": {}} {"jsonrpc": "2.0"': 7,
    '{"result": {"a": }, "jsonrpc": "2.0", "id": 7}': 7,
    f'{{"jsonrpc": "2.0", "id": 7, "result": {{"number": {"9" * 5000}}}}}': 7,
    # nobody: lines of a log, requests, and ids inside of something else
    '{"level": "info", "id": 7}': None,
    '{"level": "error", "id": 7, "error": "no"}': None,
    '{"level": "info", "line": {"jsonrpc": "2.0", "id": 7, "result": {}}}': None,
    '{"id": 7, "method": "roots/list", "jsonrpc": "1.0"}': None,
    '{"jsonrpc": "2.0", "id": 7, "method": "roots/li': None,
    '{"jsonrpc": "2.0", "result": {"id": 7': None,
    '{"jsonrpc": "2.0", "result": {"a": , "id": 7}}': None,
    '{"jsonrpc": "2.0", "id": true, "result": }': None,
    '{"jsonrpc": "2.0", "id": [7], "result": {}}': None,
    '{"jsonrpc": "2.0", "id": 7.5, "result": {}}': None,
    '{"jsonrpc": "2.0", "id": 1e999, "result": {}}': None,
    '{"id": 7, "text": "half': None,
    "listening, id 7": None,
    "[" * 100_000: None,
    "": None,
}


@pytest.mark.parametrize("frame", NAMED, ids=lambda frame: str(frame)[:60])
def test_an_answer_that_is_no_message_names_its_request(frame):
    """And nothing else does."""
    assert request_named_in(frame) == NAMED[frame]


@pytest.mark.parametrize(
    ("id", "named"),
    [
        ('"7"', 7),
        ("7.0", 7),
        ("7", None),
        ('"seven"', None),
        ("7.5", None),
        ("null", None),
        ('"²"', None),
    ],
)
def test_an_answer_under_another_type_of_id_names_its_request(id, named):
    """Not under the right one, for that is no defect, nor under a text of the server's own."""
    text = f'{{"jsonrpc": "2.0", "id": {id}, "error": {{"code": 1, "message": "no"}}}}'
    assert request_misnamed_by(parse(text)) == named
