"""Hook events: the schema of the seed, every wrong field at once, and an answer for whatever comes."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import resilient_bridge as rb
from resilient_bridge.agent import HookEvent, hook_answer
from resilient_bridge.failure import ConfigError, ProtocolError


NAMES = [
    "SessionStart",
    "SessionEnd",
    "PreToolUse",
    "PostToolUse",
    "UserPromptSubmit",
    "Stop",
    "SubagentStop",
]
GOOD = {
    "event": "PreToolUse",
    "timestamp": "2026-03-20T14:32:00Z",
    "session_id": "s1",
    "payload": {"tool": "bash", "input": {"command": ["ls"], "timeout": 1.5, "env": None}},
}
DEEP = "[" * 100_000 + "]" * 100_000


def violations(data):
    """What parse says is wrong, as (field, constraint, received)."""
    with pytest.raises(ProtocolError) as raised:
        HookEvent.parse(data)
    assert raised.value.failure.code == "HOOK_VALIDATION_FAILED"
    return [tuple(wrong.values()) for wrong in raised.value.failure.details["violations"]]


def payload(text):
    """A good event around a payload that is written by hand."""
    return json.dumps(GOOD | {"payload": 0}).replace('"payload": 0', f'"payload": {text}')


# ---- what is accepted --------------------------------------------------------------------------------------------


@pytest.mark.requirement("R13")
@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, json.dumps) for name in NAMES),
        *(
            (NAMES[0], form)
            for form in (lambda good: json.dumps(good).encode(), dict, MappingProxyType)
        ),
    ],
)
def test_the_seven_events_are_accepted_in_every_form(name, form):
    """As text, as bytes, or decoded already."""
    data = form(GOOD | {"event": name})
    with rb.testing.record() as reported:
        event = HookEvent.parse(data)
        assert hook_answer(data) == {"received": True}
    assert event == HookEvent(
        name, datetime(2026, 3, 20, 14, 32, tzinfo=UTC), "s1", GOOD["payload"]
    )
    assert reported == []


@pytest.mark.requirement("R13")
@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        ("2026-03-20T14:32:00Z", datetime(2026, 3, 20, 14, 32, tzinfo=UTC)),
        ("2026-03-20T14:32Z", datetime(2026, 3, 20, 14, 32, tzinfo=UTC)),
        ("2026-03-20T14:32:01.5Z", datetime(2026, 3, 20, 14, 32, 1, 500_000, tzinfo=UTC)),
        ("2026-03-20T14:32:01.123456789Z", datetime(2026, 3, 20, 14, 32, 1, 123_456, tzinfo=UTC)),
        ("2024-02-29T23:59:59Z", datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_a_timestamp_is_utc_with_a_z(stamp, moment):
    """What zod's datetime() takes by default; digits beyond microseconds are cut."""
    assert HookEvent.parse(GOOD | {"timestamp": stamp}).timestamp == moment


def test_other_fields_are_allowed_and_dropped():
    """As the seed's schema does, whatever is in them."""
    event = HookEvent.parse(GOOD | {"cwd": "/", "token": object(), 5: float("nan")})
    assert event == HookEvent.parse(json.dumps(GOOD | {"cwd": "/"})) == HookEvent.parse(GOOD)


def test_an_event_is_a_value_that_shows_no_payload():
    """Frozen, hashable and picklable; the payload may hold secrets, and a session id a token."""
    event = HookEvent.parse(
        GOOD | {"payload": {"command": "s3cret"}, "session_id": "a\ntoken=s3cret"}
    )
    assert "s3cret" not in repr(event)
    assert repr(event).startswith("HookEvent(event='PreToolUse', timestamp=")
    assert hash(event) == hash(pickle.loads(pickle.dumps(event)))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        event.event = "Stop"


def test_a_decoded_event_is_read_as_its_json_would_be():
    """Subclasses become what JSON knows, and what the caller changes later does not change the event."""

    class Name(StrEnum):
        STOP = "Stop"

    inner = {"list": (1, 2)}
    event = HookEvent.parse(
        GOOD | {"event": Name.STOP, "payload": MappingProxyType({"inner": inner})}
    )
    inner["list"] = "changed"
    assert type(event.event) is str
    assert event.payload == {"inner": {"list": [1, 2]}}


# ---- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.requirement("R13")
def test_the_answer_of_the_seed():
    """Code, field and message of an unknown event, as the seed words it."""
    assert hook_answer(GOOD | {"event": "PreTool"}) == {
        "received": False,
        "code": "HOOK_VALIDATION_FAILED",
        "errors": [
            {
                "field": "event",
                "message": "Invalid enum value. Expected one of: SessionStart, SessionEnd, PreToolUse, PostToolUse,"
                " UserPromptSubmit, Stop, SubagentStop",
            }
        ],
    }


@pytest.mark.requirement("R13")
def test_every_wrong_field_is_named_at_once():
    """In the error, in the event of the library, and in the answer."""
    wrong = {"event": "Nope", "timestamp": "yesterday", "session_id": "", "payload": []}
    with rb.testing.record() as reported:
        found = violations(wrong)
        answer = hook_answer(json.dumps(wrong))
    one_of = "one of: " + ", ".join(NAMES)
    assert found == [
        ("event", one_of, "Nope"),
        ("timestamp", "ISO 8601 in UTC, such as 2026-03-20T14:32:00Z", "yesterday"),
        ("session_id", "at least 1 character", "an empty string"),
        ("payload", "object", "array"),
    ]
    assert [error["field"] for error in answer["errors"]] == [
        "event",
        "timestamp",
        "session_id",
        "payload",
    ]
    assert [error["message"] for error in answer["errors"][1:]] == [
        "Invalid datetime. Expected ISO 8601 in UTC, such as 2026-03-20T14:32:00Z",
        "String must contain at least 1 character",
        "Expected object, received array",
    ]
    assert [type(event) for event in reported] == [rb.events.HookRejected] * 2
    assert reported[0].failure.code == "HOOK_VALIDATION_FAILED"
    assert reported[0].failure.message.startswith(
        f"hook event invalid: event ({one_of}), timestamp (ISO 8601 in UTC"
    )
    assert [dict(wrong)["field"] for wrong in reported[0].failure.details["violations"]] == list(
        GOOD
    )


@pytest.mark.requirement("R13")
def test_nothing_at_all_lacks_four_fields():
    """Each is required."""
    assert violations("{}") == [(field, "required", "nothing") for field in GOOD]
    assert hook_answer({})["errors"] == [{"field": field, "message": "Required"} for field in GOOD]


@pytest.mark.parametrize(
    ("value", "kind"), [(None, "null"), (True, "boolean"), (5, "number"), (1.5, "number"), ([], "array"), ({}, "object")]
)  # fmt: skip
def test_a_wrong_type_is_named_as_json_names_it(value, kind):
    """Wanted a string, got what it was."""
    for field in ("event", "timestamp", "session_id"):
        assert violations(GOOD | {field: value}) == [(field, "string", kind)]
    assert violations(json.dumps(GOOD | {"event": value})) == [("event", "string", kind)]


@pytest.mark.parametrize(
    "stamp",
    [
        "2026-03-20",
        "2026-03-20T14:32:00",
        "2026-03-20T14:32:00+02:00",
        "2026-03-20T14:32:00+00:00",
        "2026-03-20t14:32:00z",
        "2026-02-29T14:32:00Z",
        "2026-03-20T24:00:00Z",
        "2026-03-20T23:59:60Z",
        "2026-03-20T14:32:00,5Z",
        "2026-03-20T14:32:00.Z",
        "0000-01-01T00:00:00Z",
        "20260320T143200Z",
        "1774017120",
        "\u0662026-03-20T14:32:00Z",
        "",
        "2026-03-20 14:32:00Z",
        "2026-03-20T14:32:00Z\n",
    ],
)
def test_other_timestamps_are_refused(stamp):
    """No offset, no missing zone, no space, no date that is not there; nor the year 0, which Python has not."""
    assert [wrong[0] for wrong in violations(GOOD | {"timestamp": stamp})] == ["timestamp"]


@pytest.mark.requirement("R13")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param("", "text that is no JSON", id="nothing"),
        pytest.param('{"event":', "text that is no JSON", id="cut off"),
        pytest.param("{}{}", "text that is no JSON", id="two values"),
        pytest.param("\ufeff{}", "text that is no JSON", id="byte order mark"),
        pytest.param(b'{"event":"\xff"}', "bytes that are not UTF-8", id="not UTF-8"),
        pytest.param("[]", "array", id="array"),
        pytest.param("5", "number", id="number"),
        pytest.param("null", "null", id="null"),
        pytest.param('"text"', "string", id="string"),
        pytest.param([GOOD], "array", id="decoded array"),
        pytest.param(None, "null", id="decoded null"),
        pytest.param('{"event":"Stop","event":"Stop"}', "a duplicate key", id="duplicate key"),
        pytest.param(payload('{"a":{"b":1,"b":1}}'), "a duplicate key", id="duplicate key inside"),
        pytest.param(payload('{"a":NaN}'), "a number that is not finite", id="NaN"),
        pytest.param(payload('{"a":1e400}'), "a number that is not finite", id="1e400"),
        pytest.param(
            payload(f'{{"a":{"9" * 5000}}}'), "a number of too many digits", id="5,000 digits"
        ),
        pytest.param(payload(f'{{"a":{DEEP}}}'), "nesting too deep", id="100,000 levels"),
        pytest.param(
            payload(f'{{"a":{DEEP[99_900:100_100]}}}'), "nesting too deep", id="101 levels"
        ),
        pytest.param(payload('{"a":"\\ud800"}'), "a lone surrogate", id="lone surrogate"),
        pytest.param(payload('{"a":"\ud800"}'), "a lone surrogate", id="lone surrogate in text"),
        pytest.param(payload(f'{{"a":"{"x" * 2_000_000}"}}'), "more than 1048576 bytes", id="2 MB"),
    ],
)
def test_what_cannot_be_read_is_one_violation_of_the_whole(data, reason):
    """Not JSON, not an object, or nothing that two readers would read alike: the answer is short whatever came."""
    assert violations(data) == [("$", "one JSON object", reason)]
    answer = hook_answer(data)
    assert answer["errors"] == [
        {"field": "$", "message": f"Expected one JSON object, received {reason}"}
    ]
    assert len(json.dumps(answer).encode()) < 1_000


def _cyclic():
    value = {}
    value["self"] = value
    return value


def _deep():
    value = ()
    for _ in range(150):
        value = (value,)
    return {"deep": value}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({5: "x"}, "a key of type int"),
        ({"x": {1: "a", "1": "b"}}, "a duplicate key"),
        ({"x": {1, 2}}, "a value that is no JSON"),
        ({"x": float("nan")}, "a number that is not finite"),
        ({"x": 10**5000}, "a number of too many digits"),
        ({"x": "\ud800"}, "a lone surrogate"),
        ({"x": "x" * 2_000_000}, "more than 1048576 bytes"),
        (_cyclic(), "Circular reference detected"),
        (_deep(), "nesting too deep"),
        (object(), "a value that is no JSON"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_same_rules_hold_for_a_decoded_payload(value, reason):
    """And the other fields are judged all the same."""
    assert violations(GOOD | {"payload": value, "event": "x"})[1:] == [
        ("payload", "object", reason)
    ]


def test_what_was_received_is_shown_short_and_without_secrets():
    """80 characters, on one line; of a payload only its type."""
    found = violations(GOOD | {"event": "Bearer s3cret\n" + "x" * 1000, "payload": "s3cret"})
    assert len(found[0][2]) <= 90
    assert found[0][2].startswith("Bearer [redacted]\\nxxx")
    assert found[1] == ("payload", "object", "string")
    assert "s3cret" not in str(found)


@pytest.mark.parametrize("data", [object(), {1, 2}, (GOOD,), memoryview(b"{}")])
def test_what_no_sender_can_cause_is_a_mistake_of_the_program(data):
    """ConfigError with the type, not with the value."""
    for read in (HookEvent.parse, hook_answer):
        with pytest.raises(
            ConfigError, match=r"HookEvent\.parse\.data: wanted text, bytes or a mapping, got"
        ):
            read(data)


# ---- anything at all ---------------------------------------------------------------------------------------------

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "event": st.sampled_from(NAMES) | JSON,
        "timestamp": st.datetimes(timezones=st.just(UTC)).map(lambda at: at.isoformat()[:-6] + "Z")
        | JSON,
        "session_id": ANY_TEXT | JSON,
        "payload": st.dictionaries(ANY_TEXT | st.integers(), JSON, max_size=3) | JSON,
        "more": JSON,
    },
)


def _hold(data):
    try:
        event = HookEvent.parse(data)
    except ProtocolError as error:
        event = None
        assert 1 <= len(error.failure.details["violations"]) <= 4
    answer = hook_answer(data)
    assert answer["received"] is (event is not None)
    assert len(json.dumps(answer, allow_nan=False, ensure_ascii=False).encode()) < 4_000
    if event is not None:
        assert event.event in NAMES
        assert event.session_id
        json.dumps(dict(event.payload), allow_nan=False, ensure_ascii=False).encode()


@given(EVENTS)
def test_any_object_is_an_event_or_a_protocol_error(data):
    """parse raises nothing else, the answer is JSON that can be sent, and an accepted event can be written again."""
    _hold(data)
    payload = data.get("payload")
    if not isinstance(payload, dict) or all(isinstance(key, str) for key in payload):
        _hold(json.dumps(data))


@given(st.binary(max_size=200) | ANY_TEXT | JSON.map(json.dumps))
def test_any_text_and_any_bytes_are_an_event_or_a_protocol_error(data):
    """Also what is no JSON."""
    _hold(data)
