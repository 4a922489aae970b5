"""The document of a state file: what was written comes back, or nothing does."""

from __future__ import annotations

import json
import sys
import time
from collections import OrderedDict, UserDict
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient_bridge.failure import ConfigError
from tests.internals.stores import (
    FORMAT,
    Document,
    InvalidDocumentError,
    read_document,
    write_document,
)


AT = datetime(2026, 3, 20, 14, 32, 0, 250_000, tzinfo=UTC)
VALUE = {
    "workflow": "x",
    "phases": ["plan", "é"],
    "n": 12,
    "rate": 0.5,
    "none": None,
    "done": False,
}
DOCUMENT = Document(version=3, saved_at=AT, value=VALUE, lost="")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


class _Colour(StrEnum):
    RED = "red"


class _Number(IntEnum):
    TWO = 2


@given(JSON, st.integers(1, 10**6), st.datetimes(timezones=st.just(UTC)), st.text())
def test_what_was_written_comes_back(value, version, at, lost):
    """Every JSON value, the version, the time to the millisecond, and what was lost."""
    lost = lost.encode(errors="ignore").decode()
    document = Document(version=version, saved_at=at, value=value, lost=lost)
    read = read_document(write_document(document))
    same = at.replace(microsecond=at.microsecond // 1000 * 1000)
    assert read == Document(version=version, saved_at=same, value=value, lost=lost)
    assert repr(read.value) == repr(
        value
    )  # 1 is not 1.0, 0.0 is not -0.0, and the order of keys is kept


def test_the_document_is_one_line_of_ascii_with_its_name():
    """A person can look into it, and nothing in it breaks a line."""
    text = write_document(DOCUMENT).decode("ascii")
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    assert json.loads(text)["format"] == FORMAT
    assert json.loads(text)["saved_at"] == "2026-03-20T14:32:00.250Z"


@pytest.fixture
def in_tokyo(monkeypatch):
    """The machine's clock shows another time than that of Greenwich."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()


def test_the_time_is_in_utc(in_tokyo):
    """Whatever zone it was given in, and wherever the machine is."""
    there = AT.astimezone(timezone(timedelta(hours=14)))
    data = write_document(Document(version=1, saved_at=there, value=1))
    assert b"2026-03-20T14:32:00.250Z" in data
    assert read_document(data).saved_at.isoformat() == "2026-03-20T14:32:00.250000+00:00"


def test_layout_does_not_matter():
    """Formatted by hand or with keys in another order, it is the same document."""
    body = json.loads(write_document(DOCUMENT))
    laid_out = json.dumps(dict(reversed(body.items())), indent=4, ensure_ascii=False)
    assert read_document(laid_out.encode()) == DOCUMENT


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ((1, (2,)), [1, [2]]),
        (OrderedDict(a=1), {"a": 1}),
        (_Colour.RED, "red"),
        ({_Colour.RED: _Number.TWO}, {"red": 2}),
        (True, True),
    ],
)
def test_what_is_json_by_another_name_comes_back_as_json(value, back):
    """Tuples as lists, enums as their values, mappings of the standard library as dictionaries."""
    read = read_document(write_document(Document(version=1, saved_at=AT, value=value))).value
    assert read == back
    assert type(read) is type(back)


def _itself():
    ring = []
    ring.append([ring, ring])
    return ring


def _deep(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


UNFIT = [
    pytest.param(
        float("nan"),
        "value: wanted what JSON can hold, got 'a number that is not finite'",
        id="NaN",
    ),
    pytest.param(
        {"a": [1, {"b": float("inf")}]}, r"value\.a\[1\]\.b: .* not finite", id="infinity"
    ),
    pytest.param("\ud800", "got 'a lone surrogate'", id="surrogate"),
    pytest.param({"\ud800": 1}, "wanted keys that are text", id="surrogate in a key"),
    pytest.param(
        {1: 2}, "wanted keys that are text, got 'an object of type int'", id="key that is a number"
    ),
    pytest.param([{None: 2}], r"value\[0\]: wanted keys that are text", id="key that is None"),
    pytest.param([{1: 2}, [1], {"a": 1}], r"value\[0\]: wanted keys", id="beside what is fine"),
    pytest.param({"a": {b"x"}}, r"value\.a: .* of type set", id="set"),
    pytest.param([b"x"], r"value\[0\]: .* of type bytes", id="bytes"),
    pytest.param(Decimal(1), "of type Decimal", id="Decimal"),
    pytest.param(UserDict(a=1), "of type UserDict", id="other mapping"),
    pytest.param(object(), "of type object", id="object"),
    pytest.param(
        _itself(),
        "value: wanted at most 100 levels, got 'more, or a value that holds itself'",
        id="itself",
    ),
    pytest.param(_deep(101), "at most 100 levels", id="101 levels"),
    pytest.param(10**5_000, "ValueError", id="5,000 digits"),
]


@pytest.mark.parametrize(("value", "stated"), UNFIT)
def test_a_value_that_json_cannot_hold_is_refused(value, stated):
    """Threats 2 to 4: typed, with the place, and never a value that would come back as another one."""
    with pytest.raises(ConfigError, match=stated):
        write_document(Document(version=1, saved_at=AT, value=value))


def test_a_hundred_levels_are_allowed():
    """The bound is what it says."""
    document = Document(version=1, saved_at=AT, value=_deep(100))
    assert read_document(write_document(document)) == document


def test_a_stack_that_is_nearly_used_up_is_typed(monkeypatch):
    """Deep inside somebody's recursion the encoder may fail: an error, and no half-written text."""

    def no_remainingover(value):
        raise RecursionError

    monkeypatch.setattr("resilient_bridge.stores.state_files.document._encode", no_remainingover)
    with pytest.raises(ConfigError, match="RecursionError"):
        write_document(DOCUMENT)


GOOD = write_document(DOCUMENT).decode()


def _with(**changes):
    body = {**json.loads(GOOD), **changes}
    return json.dumps({name: part for name, part in body.items() if part != "left out"})


UNREADABLE = [
    pytest.param(b"", "^wanted a state document, got an empty file$", id="empty"),
    pytest.param(b" \n", "an empty file", id="white space"),
    pytest.param(b"\0" * 200, "no JSON", id="zeros, as after a power cut"),
    pytest.param(b"\xef\xbb\xbf" + GOOD.encode(), "no JSON", id="byte order mark"),
    pytest.param(b'{"format":"\xff"}', "no JSON", id="invalid UTF-8"),
    pytest.param(GOOD * 2, "no JSON", id="two documents"),
    pytest.param("[" * 100_000 + "]" * 100_000, "no JSON: nested too deeply$", id="100,000 levels"),
    pytest.param(GOOD.replace('"n":12', '"n":NaN'), "no JSON: NaN instead of a number", id="NaN"),
    pytest.param(
        GOOD.replace('"n":12', '"n":1e400'), "no JSON: a number that is not finite", id="1e400"
    ),
    pytest.param(GOOD.replace('"n":12', '"n":' + "9" * 5_000), "no JSON", id="5,000 digits"),
    pytest.param(
        GOOD.replace('"n":12', '"n":12,"n":12'),
        "no JSON: a key that is there twice",
        id="a key twice",
    ),
    pytest.param(GOOD.replace('"n":12', '"n":"\\ud800"'), "value.n", id="lone surrogate"),
    pytest.param(
        GOOD.replace('"n":12', '"n":' + "[" * 101 + "]" * 101), "100 levels", id="101 levels"
    ),
    pytest.param(_with(version="left out"), "without", id="no version"),
    pytest.param(_with(version="3"), "without", id="version as text"),
    pytest.param(_with(version=True), "without", id="version that is true"),
]


@pytest.mark.parametrize(("data", "stated"), UNREADABLE)
def test_what_cannot_be_read_says_why_and_holds_nothing(data, stated):
    """Whatever json would accept or die of."""
    with pytest.raises(InvalidDocumentError, match=stated) as caught:
        read_document(data.encode() if isinstance(data, str) else data)
    assert caught.value.document is None
    assert not caught.value.is_foreign


@pytest.mark.parametrize(
    "data",
    ["{}", "[]", "5", '"x"', "null", _with(format="left out"), _with(format="x"), _with(format=[])],
)
def test_other_json_is_foreign(data):
    """Whole, and of another program: not to be used, and not damaged either."""
    with pytest.raises(InvalidDocumentError, match="got other JSON") as caught:
        read_document(data.encode())
    assert caught.value.is_foreign
    assert caught.value.document is None


@pytest.mark.parametrize(
    "changes",
    [
        {"value": {**VALUE, "n": 13}}, {"value": "left out"}, {"version": 4}, {"lost": "x"}, {"lost": None}, {"saved_at": None},
        {"saved_at": "2026-03-20T14:32:00.251Z"}, {"saved_at": "soon"}, {"sha256": "0" * 64}, {"sha256": "left out"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_change_of_anything_is_noticed(changes):
    """The checksum covers all that is said; what the document says all the same is handed on as that."""
    with pytest.raises(InvalidDocumentError, match="a checksum that fits") as caught:
        read_document(_with(**changes).encode())
    document = caught.value.document
    assert document.version == changes.get("version", 3)
    assert document.value == (
        None if changes.get("value") == "left out" else changes.get("value", VALUE)
    )
    assert document.has_value == (changes.get("value") != "left out")


def test_every_flipped_bit_and_every_cut_is_noticed_or_harmless():
    """C5, threat 35: 8 bits of each byte, and each length: the same document, or none."""
    data = write_document(DOCUMENT)
    flipped = (
        data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    )
    same = 0
    for damaged in (*flipped, *(data[:length] for length in range(len(data)))):
        try:
            assert read_document(damaged) == DOCUMENT
            same += 1
        except InvalidDocumentError:
            pass
    assert same < 10  # the last line break, and the case of an escape


def test_an_end_is_no_value_of_null():
    """A document without a value is told from one whose value is null."""
    over = Document(version=1, saved_at=AT, has_value=False, lost="all of it")
    null = Document(version=1, saved_at=AT, value=None)
    assert read_document(write_document(over)) == over
    assert read_document(write_document(null)) == null
    assert over != null


def test_reading_leaves_the_recursion_limit_alone():
    """A hostile file changes nothing for the rest of the program."""
    before = sys.getrecursionlimit()
    with pytest.raises(InvalidDocumentError):
        read_document(b"[" * 10_000)
    assert sys.getrecursionlimit() == before
