"""What a message is, and that a relay changes an id, a token and nothing else of its text."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_bridge.adapters.sidecar import message
from resilient_bridge.adapters.sidecar.message import NotAMessage, parse, parse_line


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
SPACE = st.sampled_from(["", "", " ", "\t", "\n", "\r\n", "  "])
NUMBERS = st.sampled_from(["0", "-0", "1.50", "1e400", "-1E+5", "12345678901234567890123", "0.1000"])
SCALARS = st.one_of(
    NUMBERS,
    st.sampled_from(["true", "false", "null", r'"\ud800"', r'"A\/"', '"\u2028"', '"}{][,:"', r'"\\\""']),
    TEXT.map(lambda text: json.dumps(text, ensure_ascii=False)),
)


@st.composite
def values(draw: Any, depth: int = 3) -> str:
    """Any JSON, written oddly."""
    kind = draw(st.sampled_from(["scalar", "list", "object"])) if depth else "scalar"
    if kind == "scalar":
        return str(draw(SCALARS))
    gap = draw(SPACE)
    if kind == "list":
        items = draw(st.lists(values(depth - 1), max_size=3))
        return f"[{gap}" + f"{gap},{gap}".join(items) + f"{gap}]"
    members = [
        f"{json.dumps(draw(TEXT))}{gap}:{gap}{draw(values(depth - 1))}"
        for _ in range(draw(st.integers(0, 3)))
    ]
    return f"{{{gap}" + f"{gap},{gap}".join(members) + f"{gap}}}"


@st.composite
def requests(draw: Any) -> tuple[str, str, str, str]:
    """A request as text: what is before its id, its id, what is between that and its token, and what follows; the token is 7777."""
    gap, odd, other = draw(SPACE), draw(values()), draw(values())
    head = f'{gap}{{"x-a"{gap}:{odd},{gap}"jsonrpc":{gap}"2.0","method":"m",{gap}"id"{gap}:{gap}'
    middle = f'{gap},"params":{gap}{{"x-b":{other},"_meta":{{{gap}"a":{odd},"progressToken":{gap}'
    tail = f'{gap},"z":{other}}}}}{gap},"end":{odd}{gap}}}{gap}'
    return head, draw(st.sampled_from(["1", '"1"', "-5", '"\\u0041"', "10.5"])), middle, tail


@settings(max_examples=40, deadline=None)
@given(requests())
def test_only_the_id_and_the_token_change(parts):
    head, own_id, middle, tail = parts
    one_line = str.maketrans("\r\n", "  ")
    found = parse(head + own_id + middle + '"old"' + tail)
    changed = found.with_id(123456).with_progress_token(98765)
    assert changed.text == (head + "123456" + middle + "98765" + tail).strip().translate(one_line)
    other_way = found.with_progress_token(98765).with_id(123456)
    assert other_way.text == changed.text
    back = changed.with_progress_token("old").with_id(found.id)
    assert back.text.replace('"A"', r'"\u0041"') == found.text.replace('"A"', r'"\u0041"')
    for one in (found, changed, other_way, back):
        _is_what_it_says(one)


def _is_what_it_says(one: message.Message) -> None:
    again = parse(one.text)
    assert again.fields == one.fields
    assert again._spans == one._spans
    assert "\n" not in one.text
    assert "\r" not in one.text


@settings(max_examples=30, deadline=None)
@given(values(), st.sampled_from(["a", "result", "x y", 'q"', "é"]), values())
def test_a_member_is_added_or_replaced_and_the_rest_stays(before, name, value):
    inner = f'{{"k":{before}}}'
    found = parse(f'{{"jsonrpc":"2.0","id":1,"result":{inner},"after":{before}}}')
    changed = found.with_member(("result", name), {"v": 1})
    assert changed.result[name] == {"v": 1}
    assert changed.result["k"] == found.result["k"] or math.isnan(0)
    assert changed.text.endswith(found.text[found.text.index('"after"') :])
    _is_what_it_says(changed.with_member(("result", name), value).with_id("z"))


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"method":"m","id":2}',
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1,"progressToken":2}}}',
        r'{"jsonrpc":"2.0","\u0069d":1,"method":"m"}',
    ],
)
def test_of_two_members_of_one_name_the_last_counts(text):
    found = parse(text).with_id(77).with_progress_token(88)
    assert json.loads(found.text)["id"] == 77
    assert found.progress_token in (None, 88)
    _is_what_it_says(found)


def test_what_has_no_token_gets_none():
    found = parse('{"jsonrpc":"2.0","id":1,"method":"m","params":[{"_meta":{"progressToken":1}}]}')
    assert found.with_progress_token(5) is found


@pytest.mark.parametrize("id", [0, -1, "", "x", "\ud800", 1.5, 10**25])
def test_an_id_keeps_its_value_and_its_type(id):
    text = json.dumps({"jsonrpc": "2.0", "id": id, "method": "m"})
    found = parse(text)
    again = found.with_id(5).with_id(found.id)
    assert again.id == id
    assert type(again.id) is type(id)
    assert again.key == found.key
    assert again.text.encode()


def test_ids_of_different_types_are_different():
    keys = {message.key_of(one) for one in (1, "1", 1.0)}
    assert len(keys) == 3
    assert message.key_of(True) is message.key_of(None) is message.key_of([1]) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a JSON object"),
        ("hello", "not a JSON object"),
        ("[]", "not a JSON object"),
        ("1", "not a JSON object"),
        ('{"jsonrpc":"2.0","id":1,"method":"m"', "not a JSON object"),
        ('{"jsonrpc":"2.0","id":1,"method":"m"}}', "not a JSON object"),
        ('{"jsonrpc":"2.0","id":1,"method":"m",}', "not a JSON object"),
        ('{"jsonrpc":"2.0","id":1,"method":"m" 1:2}', "not a JSON object"),
        ('{"jsonrpc":"2.0","id":1,"method":"m"}{}', "not a JSON object"),
        ('{"jsonrpc":"2.0","id":1,"method":"a\nb"}', "not a JSON object"),
        ('{"jsonrpc":"1.0","id":1,"method":"m"}', "no "),
        ('{"id":1,"method":"m"}', "no "),
        ('{"jsonrpc":"2.0","id":true,"method":"m"}', "neither text nor a number"),
        ('{"jsonrpc":"2.0","id":null,"method":"m"}', "neither text nor a number"),
        ('{"jsonrpc":"2.0","id":{},"method":"m"}', "neither text nor a number"),
        ('{"jsonrpc":"2.0","id":1e400,"method":"m"}', "neither text nor a number"),
        ('{"jsonrpc":"2.0","id":NaN,"method":"m"}', "neither text nor a number"),
        (f'{{"jsonrpc":"2.0","id":"{"x" * 1001}","method":"m"}}', "more than 1000"),
        ('{"jsonrpc":"2.0","id":1,"method":5}', "a method"),
        ('{"jsonrpc":"2.0","id":1,"method":""}', "a method"),
        ('{"jsonrpc":"2.0","id":1}', "neither a request nor an answer"),
        ('{"jsonrpc":"2.0","result":{}}', "neither a request nor an answer"),
        ("[" * 100_000, "not a JSON object"),
        ('{"a":' * 100_000, "not a JSON object"),
    ],
)
def test_what_is_no_message_is_refused(text, why):
    for given_as in (text, text.encode()):
        with pytest.raises(NotAMessage, match=why):
            parse(given_as)


def test_a_number_of_any_length_passes():
    """Python reads no whole number of more than 4,300 digits; others write them, and an answer with one is an answer."""
    text = f'{{"jsonrpc":"2.0","id":1,"result":{{"n":{"9" * 6000},"x":-{"1" * 5000}}}}}'
    assert parse(text).with_id(2).text == text.replace('"id":1', '"id":2')


def test_an_answer_with_an_error_that_is_null_is_an_answer():
    found = parse('{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}')
    assert found.is_answer
    assert found.result == {"a": 1}


@pytest.mark.parametrize("line", [b"\xff\xfe{}", b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}'])
def test_bytes_that_are_no_text_are_refused(line):
    with pytest.raises(NotAMessage):
        parse(line)
    with pytest.raises(NotAMessage):
        parse_line(line)


def test_a_mark_of_the_order_of_bytes_and_windows_line_ends_are_no_part_of_it():
    found = parse(b'\xef\xbb\xbf{"jsonrpc":"2.0",\r\n"id":1,"method":"m"}\r\n')
    assert found.text == '{"jsonrpc":"2.0",  "id":1,"method":"m"}'


def test_a_batch_is_its_messages_byte_for_byte():
    line = b'\xef\xbb\xbf [ {"jsonrpc":"2.0","id":1,"method":"a","x":1.50} ,{"jsonrpc":"2.0","method":"b","y":1e400}]\n'
    assert [one.text for one in parse_line(line)] == [
        '{"jsonrpc":"2.0","id":1,"method":"a","x":1.50}',
        '{"jsonrpc":"2.0","method":"b","y":1e400}',
    ]


@pytest.mark.parametrize(
    "line", [b"[", b"[1]", b"[]", b"[{}]", b"[[]]", b"[" * 100_000, b'[{"a":' * 9_000, b"[\xff]"]
)
def test_a_batch_of_anything_else_is_refused(line):
    with pytest.raises(NotAMessage):
        parse_line(line)


def test_what_it_is():
    asked, told = message.request(1, "m", {"a": 1}), message.notification("n")
    answer, refusal = message.result("x", {"b": 2}), message.error(None, -1, "no", {"c": 3})
    kinds = [(one.is_request, one.is_notification, one.is_answer) for one in (asked, told, answer, refusal)]
    assert kinds == [(True, False, False), (False, True, False), (False, False, True), (False, False, True)]
    assert refusal.error == {"code": -1, "message": "no", "data": {"c": 3}}
    assert message.error(1, -1, "no").error == {"code": -1, "message": "no"}


def test_its_name_in_a_log_shows_nothing_that_it_holds():
    asked = message.request(1, "tools/call", {"name": "order", "arguments": {"card": "4111"}})
    assert repr(asked) == "<Message tools/call id=1>"
    assert asked.name == "order"
    assert message.request(1, "resources/read", {"uri": "a:1"}).name == "a:1"
    assert message.request(1, "x", {"name": 5}).name == ""
