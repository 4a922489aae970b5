"""What a message is, and that a relay changes an id, a token and nothing else of its text."""

from __future__ import annotations

import json
import random

import pytest

from tests.internals.adapters import NotAMessage, message, parse, parse_line
from tests.rows import each_row
from tests.samples import IS_ALL


LETTERS = 'aé"\\/ {}[]:,\u2028\U0001f600\x7f'
SPACE = ("", "", " ", "\t", "\n", "\r\n", "  ")
SCALARS = (
    *(
        "0",
        "-0",
        "1.50",
        "1e400",
        "-1E+5",
        "12345678901234567890123",
        "0.1000",
        "true",
        "false",
        "null",
    ),
    *(r'"\ud800"', r'"A\/"', '"\u2028"', '"}{][,:"', r'"\\\""'),
)
SEEDS = range(2_000 if IS_ALL else 200)


def any_text(rng: random.Random) -> str:
    """Return a text, as JSON may write it."""
    text = "".join(rng.choices(LETTERS, k=rng.randrange(8)))
    return json.dumps(text, ensure_ascii=rng.random() < 0.5)


def any_value(rng: random.Random, depth: int = 3) -> str:
    """Return any JSON, written oddly."""
    kind = rng.choice(["scalar", "list", "object"]) if depth else "scalar"
    if kind == "scalar":
        return rng.choice([*SCALARS, any_text(rng)])
    gap, count = rng.choice(SPACE), rng.randrange(4)
    items = [any_value(rng, depth - 1) for _ in range(count)]
    if kind == "list":
        return f"[{gap}" + f"{gap},{gap}".join(items) + f"{gap}]"
    members = [f"{any_text(rng)}{gap}:{gap}{item}" for item in items]
    return f"{{{gap}" + f"{gap},{gap}".join(members) + f"{gap}}}"


@pytest.mark.requirement("X7")
def test_only_the_id_and_the_token_change():
    """Only the id and the token change, whatever stands around them and however it is written."""
    one_line = str.maketrans("\r\n", "  ")
    for seed in SEEDS:
        rng = random.Random(seed)
        gap, odd, other = rng.choice(SPACE), any_value(rng), any_value(rng)
        head = (
            f'{gap}{{"x-a"{gap}:{odd},{gap}"jsonrpc":{gap}"2.0","method":"m",{gap}"id"{gap}:{gap}'
        )
        own_id = rng.choice(["1", '"1"', "-5", r'"\u0041"', "10.5"])
        middle = (
            f'{gap},"params":{gap}{{"x-b":{other},"_meta":{{{gap}"a":{odd},"progressToken":{gap}'
        )
        tail = f'{gap},"z":{other}}}}}{gap},"end":{odd}{gap}}}{gap}'
        found = parse(f'{head}{own_id}{middle}"old"{tail}')
        changed = found.with_id(123456).with_progress_token(98765)
        assert changed.text == f"{head}123456{middle}98765{tail}".strip().translate(one_line), seed
        other_way = found.with_progress_token(98765).with_id(123456)
        assert other_way.text == changed.text
        back = changed.with_progress_token("old").with_id(found.id)
        assert back.text.replace('"A"', r'"\u0041"') == found.text.replace('"A"', r'"\u0041"'), seed
        for one in (found, changed, other_way, back):
            _is_what_it_says(one)


@pytest.mark.parametrize("name", ["a", "result", "x y", 'q"', "é"])
def test_a_member_is_added_or_replaced_and_the_rest_stays(name):
    """A member is added or replaced, and the rest stays."""
    for seed in SEEDS:
        rng = random.Random(seed)
        before, value = any_value(rng), any_value(rng)
        found = parse(f'{{"jsonrpc":"2.0","id":1,"result":{{"k":{before}}},"after":{before}}}')
        changed = found.with_member(("result", name), {"v": 1})
        assert changed.result[name] == {"v": 1}
        assert changed.result["k"] == found.result["k"]
        assert changed.text.endswith(found.text[found.text.rindex('},"after"') :])
        _is_what_it_says(changed.with_member(("result", name), value).with_id("z"))


def _is_what_it_says(one: message.Message) -> None:
    again = parse(one.text)
    assert again.fields == one.fields
    assert again._spans == one._spans
    assert "\n" not in one.text
    assert "\r" not in one.text


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"method":"m","id":2}',
        '{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1,"progressToken":2}}}',
        r'{"jsonrpc":"2.0","\u0069d":1,"method":"m"}',
    ],
)
def test_of_two_members_of_one_name_the_last_counts(text):
    """Of two members of one name the last counts."""
    found = parse(text).with_id(77).with_progress_token(88)
    assert json.loads(found.text)["id"] == 77
    assert found.progress_token in (None, 88)
    _is_what_it_says(found)


def test_what_has_no_token_gets_none():
    """What has no token gets none."""
    found = parse('{"jsonrpc":"2.0","id":1,"method":"m","params":[{"_meta":{"progressToken":1}}]}')
    assert found.with_progress_token(5) is found


@pytest.mark.parametrize("id", [0, -1, "", "x", "\ud800", 1.5, 10**25])
def test_an_id_keeps_its_value_and_its_type(id):
    """An id keeps its value and its type."""
    text = json.dumps({"jsonrpc": "2.0", "id": id, "method": "m"})
    found = parse(text)
    again = found.with_id(5).with_id(found.id)
    assert again.id == id
    assert type(again.id) is type(id)
    assert again.key == found.key
    assert again.text.encode()


def test_ids_of_different_types_are_different():
    """Ids of different types are different."""
    keys = {message.key_of(one) for one in (1, "1", 1.0)}
    assert len(keys) == 3
    assert message.key_of(True) is message.key_of(None) is message.key_of([1]) is None


@each_row(
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
    """What is no message is refused."""
    for passed_as in (text, text.encode()):
        with pytest.raises(NotAMessage, match=why):
            parse(passed_as)


def test_a_number_of_any_length_passes():
    """Python reads no whole number of more than 4,300 digits; others write them, and an answer with one is an answer."""
    text = f'{{"jsonrpc":"2.0","id":1,"result":{{"n":{"9" * 6000},"x":-{"1" * 5000}}}}}'
    assert parse(text).with_id(2).text == text.replace('"id":1', '"id":2')


def test_an_answer_with_an_error_that_is_null_is_an_answer():
    """An answer with an error that is null is an answer."""
    found = parse('{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}')
    assert found.is_answer
    assert found.result == {"a": 1}


@pytest.mark.parametrize(
    "line", [b"\xff\xfe{}", b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}']
)
def test_bytes_that_are_no_text_are_refused(line):
    """Bytes that are no text are refused."""
    with pytest.raises(NotAMessage):
        parse(line)
    with pytest.raises(NotAMessage):
        parse_line(line)


def test_a_mark_of_the_order_of_bytes_and_windows_line_ends_are_no_part_of_it():
    """A mark of the order of bytes and windows line ends are no part of it."""
    found = parse(b'\xef\xbb\xbf{"jsonrpc":"2.0",\r\n"id":1,"method":"m"}\r\n')
    assert found.text == '{"jsonrpc":"2.0",  "id":1,"method":"m"}'


def test_a_batch_is_its_messages_byte_for_byte():
    """A batch is its messages byte for byte."""
    line = b'\xef\xbb\xbf [ {"jsonrpc":"2.0","id":1,"method":"a","x":1.50} ,{"jsonrpc":"2.0","method":"b","y":1e400}]\n'
    assert [one.text for one in parse_line(line)] == [
        '{"jsonrpc":"2.0","id":1,"method":"a","x":1.50}',
        '{"jsonrpc":"2.0","method":"b","y":1e400}',
    ]


@each_row(
    "line", [b"[", b"[1]", b"[]", b"[{}]", b"[[]]", b"[" * 100_000, b'[{"a":' * 9_000, b"[\xff]"]
)
def test_a_batch_of_anything_else_is_refused(line):
    """A batch of anything else is refused."""
    with pytest.raises(NotAMessage):
        parse_line(line)


def test_what_it_is():
    """What it is."""
    asked, reported = message.request(1, "m", {"a": 1}), message.notification("n")
    answer, refusal = message.result("x", {"b": 2}), message.error(None, -1, "no", {"c": 3})
    kinds = [
        (one.is_request, one.is_notification, one.is_answer)
        for one in (asked, reported, answer, refusal)
    ]
    assert kinds == [
        (True, False, False),
        (False, True, False),
        (False, False, True),
        (False, False, True),
    ]
    assert refusal.error == {"code": -1, "message": "no", "data": {"c": 3}}
    assert message.error(1, -1, "no").error == {"code": -1, "message": "no"}


def test_its_name_in_a_log_shows_nothing_that_it_holds():
    """Its name in a log shows nothing that it holds."""
    asked = message.request(1, "tools/call", {"name": "order", "arguments": {"card": "4111"}})
    assert repr(asked) == "<Message tools/call id=1>"
    assert asked.name == "order"
    assert message.request(1, "resources/read", {"uri": "a:1"}).name == "a:1"
    assert message.request(1, "x", {"name": 5}).name == ""
