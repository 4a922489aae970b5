"""One member of a JSON text is set: all else stays as it was written, whatever its form is."""

from __future__ import annotations

import json
import random

import pytest

from tests.internals.config import NotEditableError, with_member


ENTRY = {"command": "c\u2028", "args": ["1", '"'], "env": {"P": "é"}}
SIGNS = 'ab"\\\n/{}[]:,é\u2028😀'


def some(draw: random.Random, depth: int = 0):
    """Draw a value that JSON can say, strange signs included."""
    match draw.randrange(6 if depth < 4 else 3):
        case 0:
            return draw.choice([None, True, 0, -1.5, 10**20, 1e-7])
        case 1 | 2:
            return "".join(draw.choices(SIGNS, k=draw.randrange(8)))
        case 3:
            return [some(draw, depth + 1) for _ in range(draw.randrange(4))]
        case _:
            return {
                f"{n}{draw.choice(SIGNS)}": some(draw, depth + 1) for n in range(draw.randrange(4))
            }


def written(draw: random.Random, document) -> str:
    """Write it in one of the forms that people and programs use."""
    text = json.dumps(
        document,
        indent=draw.choice([None, 2, 4, "\t", 0]),
        ensure_ascii=draw.random() < 0.5,
        separators=draw.choice([None, (",", ":"), (" , ", " : ")]),
    )
    text = text.replace("\n", "\r\n") if draw.random() < 0.3 else text
    return f"{draw.choice(['', ' ', chr(10), chr(0xFEFF)])}{text}{draw.choice(['', chr(10)])}"


@pytest.mark.parametrize("seed", range(8))
def test_all_else_stays(seed):
    """Its values, their order, and each sign of them; set once more, nothing changes."""
    draw = random.Random(seed)
    for _ in range(60):
        document = {key: some(draw) for key in draw.sample(["a", 'z"', "b"], draw.randrange(4))}
        if draw.random() < 0.7:
            keys = draw.sample(["x", "memory", '"q"'], draw.randrange(4))
            document["servers"] = {key: some(draw) for key in keys}
        text = written(draw, document)
        new = with_member(text, "servers", "memory", ENTRY)
        read = json.loads(new.removeprefix("\ufeff"))
        servers = document.get("servers", {})
        assert read == {**document, "servers": {**servers, "memory": ENTRY}}
        assert list(read)[: len(document)] == list(document)
        assert list(read["servers"])[: len(servers)] == list(servers)
        if "memory" not in servers:  # what was there is there, sign by sign
            at = next(i for i, (old, now) in enumerate(zip(text, new, strict=False)) if old != now)
            tail = len(text) - at
            assert new.replace("\r", "").endswith(
                text[len(text) - tail :].replace("\r", "").lstrip()
            )
        assert with_member(new, "servers", "memory", ENTRY) == new


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_an_empty_text_becomes_an_object(text):
    assert json.loads(with_member(text, "servers", "memory", ENTRY)) == {
        "servers": {"memory": ENTRY}
    }


def test_a_url_is_no_comment():
    text = '{"a": "http://x /* y */"}'
    assert json.loads(with_member(text, "servers", "m", 1))["a"] == "http://x /* y */"
    with pytest.raises(NotEditableError, match="is not JSON"):
        with_member(text[:-1], "servers", "m", 1)
    with pytest.raises(NotEditableError, match="has comments"):
        with_member(f"{text} // mine", "servers", "m", 1)
