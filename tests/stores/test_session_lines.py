"""Lines of a session log: whatever goes in, one line of JSON comes out, and no secret with it (V14)."""

from __future__ import annotations

import json
from collections import UserDict
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_bridge import events
from resilient_bridge.bridge import BridgeState, Verdict
from resilient_bridge.failure import MASK, Failure, classify
from tests.internals.stores import LONGEST_LINE, event_line, record_line
from tests.reference import records


AT = datetime(2026, 3, 20, 14, 32, tzinfo=UTC)
CANARY = "c4n4ry5ecret"
FORGED = "bye\n2026-01-01 ERROR forged\r\x1b[31mred\x1b[0m\x00\x07\x7f\x85\u2028\u2029\x9b31m\u202eevil\ud800"


def parsed(line):
    """The one object of a line, after looking at the line itself."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert line[:-1].decode("ascii").isprintable()
    assert len(line) <= LONGEST_LINE
    return json.loads(line)


def recorded(**record):
    return parsed(record_line(record, AT))


def example_of(cls):
    """An event with something in each of its fields."""
    values = {
        "at": AT,
        "failure": Failure.of("CONN_REFUSED"),
        "attempt": 2,
        "wait": 1.5,
        "state": BridgeState.READY,
    }
    values |= {
        "previous": BridgeState.IDLE,
        "verdict": Verdict.GAP,
        "since": AT,
        "degraded": True,
        "until": None,
    }
    return cls(**{name: values.get(name, "x") for name in cls._defaults})


@pytest.mark.requirement("V14")
@pytest.mark.parametrize("cls", records(), ids=lambda cls: cls.__name__)
def test_every_event_is_a_line_with_all_its_fields(cls):
    """Time, class, and each field under its name; enums by their text."""
    event = example_of(cls)
    line = parsed(event_line(event))
    assert (line["at"], line["event"]) == ("2026-03-20T14:32:00.000Z", cls.__name__)
    fields = {name: value for name, value in vars(event).items() if name != "at"}
    assert list(line)[2:] == list(fields)
    for name, value in fields.items():
        expected = (
            value.to_dict()
            if name == "failure"
            else value.isoformat()
            if isinstance(value, datetime)
            else value
        )
        assert line[name] == expected


def test_a_failure_is_its_dictionary():
    """With the history, the details and the cause's class: what `Failure.to_dict()` says, in full."""
    earlier = Failure.of(
        "CONN_TIMEOUT", details={"violations": ({"field": "a", "constraint": "b"},)}
    )
    failure = Failure.of("CONN_REFUSED", cause=OSError(), history=(earlier,), retry_after=2)
    line = parsed(event_line(events.GaveUp(at=AT, name="x", failure=failure)))
    assert line["failure"] == json.loads(json.dumps(failure.to_dict()))
    assert line["failure"]["history"][0]["details"]["violations"] == [
        {"field": "a", "constraint": "b"}
    ]


def test_an_event_can_say_more():
    """What only the log knows stands behind the fields."""
    line = parsed(event_line(events.StoreChanged(at=AT, store="s", state="working"), {"lost": 3}))
    assert list(line) == ["at", "event", "store", "state", "degraded", "failure", "lost"]


def test_an_event_of_somebody_else_that_cannot_be_read_is_a_line():
    """That it came is told."""

    class Strange(events.Event):
        pass

    strange = Strange(at="not a time")
    assert parsed(event_line(strange)) == {
        "at": None,
        "event": "Strange",
        "unreadable": "AttributeError",
    }


# ---- records ---------------------------------------------------------------------------------------------------------


def test_a_record_gets_its_time_in_front_unless_it_has_one():
    """Its own time stays as it is."""
    assert list(recorded(b=1, a=2).items()) == [
        ("at", "2026-03-20T14:32:00.000Z"),
        ("b", 1),
        ("a", 2),
    ]
    assert list(recorded(note="x", at="noon").items()) == [("at", "noon"), ("note", "x")]


def test_what_json_lacks_is_written_in_words():
    """Sets, tuples, bytes, times, numbers that are none, errors, and anything that has a text."""
    reported = recorded(
        tuple=(1, 2), set={1}, bytes=b"abc", nan=float("nan"), inf=float("-inf"), error=ValueError("wrong"), huge=10**5_000,
        when=datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))), naive=AT.replace(tzinfo=None), mapping=UserDict(a=1),
        object=timedelta(seconds=5), none=None, true=True, number=1.5,
    )  # fmt: skip
    del reported["at"]
    assert reported == {
        "tuple": [1, 2], "set": [1], "bytes": "abc", "nan": "nan", "inf": "-inf", "error": "ValueError: wrong",
        "huge": "integer of 16610 bits", "when": "2026-01-01T00:00:00+02:00", "naive": "2026-03-20T14:32:00",
        "mapping": {"a": 1}, "object": "0:00:05", "none": None, "true": True, "number": 1.5,
    }  # fmt: skip


class _Broken:
    def __str__(self):
        raise ValueError("no")


class _BrokenMapping(UserDict):
    def items(self):
        raise ValueError("no")


def test_what_cannot_be_looked_at_is_named():
    """A text that fails is replaced, a mapping that fails makes the line say so; nothing is raised."""
    assert recorded(x=_Broken())["x"] == "<_Broken without text>"
    assert recorded(x=ValueError(_Broken()))["x"] == "ValueError: <ValueError without text>"
    assert recorded(x=_BrokenMapping()) == {
        "at": "2026-03-20T14:32:00.000Z",
        "unreadable": "ValueError",
    }
    assert recorded(a={_Broken(): 1})["unreadable"] == "ValueError"


def test_one_record_is_one_line_whatever_it_says():
    """Threat 46: line breaks, terminal escapes, NUL, marks that reorder text and lone surrogates, in names and in values."""
    reported = recorded(
        **{
            "x": FORGED,
            FORGED: 1,
            "nested": [{FORGED: FORGED}],
            "bytes": FORGED.encode(errors="replace"),
        }
    )
    assert "forged" in reported["x"]
    for text in (*reported, *map(str, reported.values())):
        assert text.isprintable()


def test_what_is_too_much_is_cut_and_says_so():
    """Long texts, wide and deep values, values that hold themselves, and a line beyond its bound."""
    ring: list[object] = [1]
    ring.append(ring)
    reported = recorded(
        text="y" * 10_000, wide=list(range(500)), many={str(n): n for n in range(500)}, ring=ring
    )
    assert reported["text"].endswith("…")
    assert len(reported["text"]) == 500
    assert reported["wide"][99:] == [99, "… 400 more"]
    assert reported["many"]["…"] == 400
    assert "…" in str(reported["ring"])
    bush = [[["x" * 400] * 100] * 100] * 100
    reported = recorded(event="Big", bush=bush)
    assert reported.pop("cut").startswith("a line of ")
    assert reported == {"at": "2026-03-20T14:32:00.000Z", "event": "Big"}
    assert str(recorded(grid=[[[1] * 100] * 100] * 100)).count("1, 1") in range(950, 2_000)


@pytest.mark.parametrize("over", [0, 1])
def test_the_longest_line_is_the_last_that_fits(over):
    """65,536 bytes with its end; one more, and it is cut."""
    texts = [["y" * 500] * 100, ["y" * 500] * 30, ""]
    remaining = LONGEST_LINE - len(record_line({"texts": texts}, AT))
    assert 0 < remaining < 500
    texts[2] = "y" * (remaining + over)
    line = record_line({"texts": texts}, AT)
    assert (b'"cut"' in line, len(line) == LONGEST_LINE) == (bool(over), not over)


@pytest.mark.parametrize(
    "wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["list", "mapping"]
)
def test_eight_levels_are_shown(wrap):
    """A record is the first; what is deeper is cut."""
    value = 1
    for _ in range(7):
        value = wrap(value)
    assert recorded(x=value)["x"] == value
    assert str(recorded(x=wrap(value))["x"]) == str(value).replace("1", "'…'" if wrap(1) else "")


def test_a_name_is_cut_at_a_hundred_characters():
    """As a text is at 500."""
    assert {len(name) for name in recorded(**{"n" * 101: 1, "m" * 100: 1})} == {2, 100}


SECRETS = [
    {"headers": {"Authorization": f"Bearer {CANARY}", "X-Api-Key": CANARY, "Cookie": f"a={CANARY}"}},
    {"headers": httpx.Headers({"Authorization": CANARY, "X-Api-Key": CANARY})},
    {"headers": MappingProxyType({"proxy-authorization": CANARY})},
    {"headers": [("X-Api-Key", CANARY), ("Cookie", CANARY)]},
    {"headers": [[b"x-api-key", CANARY.encode()], (b"authorization", f"Basic {CANARY}".encode())]},
    {"headers": ["Host", "h", "X-Api-Key", CANARY]},
    {"headers": {b"x-api-key": CANARY, b"\xff-token": CANARY}},
    {"headers": [{"name": "X-Api-Key", "value": CANARY}, {"value": CANARY, "key": "Authorization"}]},
    {"header": "set-cookie", "value": CANARY},
    {"violations": [{"field": "token", "constraint": "text", "received": CANARY}]},
    {"argv": ["tool", "--token", CANARY, "--api-key", CANARY]},
    {"url": f"wss://user:{CANARY}@host/ws?token={CANARY}&api_key={CANARY}"},
    {"url": f"https://{CANARY}@host/"},
    {"payload": {"deep": [{"password": CANARY, "client_secret": [CANARY]}], "access_token": {"x": CANARY}}},
    {"payload": json.dumps({"api_key": CANARY, "x": [{"password": CANARY}]})},
    {"payload": f"Authorization: Bearer {CANARY}\r\nX-Api-Key: {CANARY}\r\n"},
    {"token": CANARY, "refresh_token": CANARY.encode(), "credentials": 5, "PASSWORD": _Broken()},
    {"error": ValueError(f"token={CANARY}"), "object": timedelta, "text": f"eyJhbGciOiJIUzI1NiJ9.{CANARY}.x"},
]  # fmt: skip


@pytest.mark.requirement("V14")
@pytest.mark.parametrize("record", SECRETS, ids=range(len(SECRETS)))
def test_no_secret_is_written(record):
    """Threat 40: headers in every shape, URLs, arguments, payloads, texts and errors; that there was one is written."""
    line = record_line(record, AT)
    assert CANARY.encode() not in line
    assert MASK.encode() in line
    parsed(line)


def test_no_secret_of_an_event_is_written():
    """Not in its texts, not in a failure, not in what a real client's error says."""
    request = httpx.Request(
        "POST", f"https://user:{CANARY}@host/?token={CANARY}", headers={"X-Api-Key": CANARY}
    )
    answer = httpx.Response(
        401, request=request, json={"error": {"message": f"invalid api key {CANARY}"}}
    )
    with pytest.raises(httpx.HTTPStatusError) as caught:
        answer.raise_for_status()
    failure = classify(caught.value)
    reported = Failure.of(
        "AUTH_FORBIDDEN",
        f"token={CANARY}",
        details={"headers": {"Cookie": CANARY}},
        history=(failure,),
    )
    for event in (
        events.Disconnected(at=AT, reason=f"wss://h/?access_token={CANARY}", failure=failure),
        events.GaveUp(at=AT, name=f"Bearer {CANARY}", failure=reported),
    ):
        assert CANARY.encode() not in event_line(event)


def test_what_is_no_secret_stays():
    """A mask too many hides what the log is for."""
    record = {
        "name": "plan",
        "value": 5,
        "list": ["a", "b"],
        "tokens": 12,
        "key": "k-1",
        "none": {"token": None},
    }
    reported = recorded(**record)
    del reported["at"]
    assert reported == record


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.floats() | st.integers() | st.text() | st.binary(),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(st.text() | st.integers(), inner)
                | st.tuples(inner, inner)
            ),
            max_leaves=12,
        ),
    )
)
def test_anything_is_one_line(record):
    """Whatever is written, one line of ASCII with a time comes out."""
    assert "at" in parsed(record_line(record, AT))
