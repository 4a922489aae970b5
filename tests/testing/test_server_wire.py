"""The bridge's own reading of the envelope: what it refuses, how it prints and parses instants."""

from __future__ import annotations

import json
import random
import uuid

import attrs
import pytest

from resilient_bridge.testing import Behaviour
from tests.internals.testing import (
    GARBAGE,
    FrameError,
    Stamps,
    decode,
    new_id,
    parse_instant,
    violations,
)
from tests.rows import each_row
from tests.testing.server_peer import frame


@pytest.mark.requirement("R7")
def test_every_violation_is_reported_at_once():
    """Four wrong fields give four violations, each with field, constraint and what came."""
    message = {
        "type": "Tool Call",
        "id": "msg-123",
        "timestamp": "2026-03-20 14:32:00",
        "payload": [],
    }
    assert violations(message) == [
        {"field": "type", "constraint": "matches", "received": "Tool Call"},
        {"field": "id", "constraint": "uuid", "received": "msg-123"},
        {"field": "timestamp", "constraint": "iso8601", "received": "2026-03-20 14:32:00"},
        {"field": "payload", "constraint": "object", "received": "[]"},
    ]


@pytest.mark.requirement("R7")
def test_every_field_is_required():
    """An empty object misses all four; an empty type counts as missing."""
    assert [(wrong["field"], wrong["constraint"]) for wrong in violations({})] == [
        ("type", "required"),
        ("id", "required"),
        ("timestamp", "required"),
        ("payload", "required"),
    ]
    assert violations({**json.loads(frame("x")), "type": ""})[0]["constraint"] == "required"


@pytest.mark.parametrize("kind", ["tool_call\n", "tool1", "Tool", 5])
def test_a_type_is_lower_case_letters_and_underscores(kind):
    """`^[a-z_]+$` to the last character, a trailing newline included."""
    assert [wrong["field"] for wrong in violations({**json.loads(frame("x")), "type": kind})] == [
        "type"
    ]


def test_only_a_heartbeat_may_go_without_an_id():
    """`heartbeat_ping` has no id in the seed's protocol; everything else must."""
    bare = json.loads(frame("heartbeat_ping"))
    del bare["id"]
    assert violations(bare) == []
    assert [wrong["field"] for wrong in violations({**bare, "type": "tool_result"})] == ["id"]


@each_row("name", [name for name in GARBAGE if name not in {"overflow", "duplicate_keys"}])
def test_garbage_is_refused(name):
    """None of the garbage frames passes as a message; all raise FrameError or violate the envelope."""
    try:
        message = decode(GARBAGE[name])
    except FrameError as error:
        assert error.violation["field"] == "frame"
    else:
        assert violations(message)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "9" * 5_000])
def test_a_number_that_is_none_is_no_json(number):
    """What Python's own decoder would let through, or trip over, is refused as a frame."""
    whole = frame("note", {"value": 0}).replace('"value": 0', f'"value": {number}')
    with pytest.raises(FrameError) as caught:
        decode(whole)
    assert caught.value.violation["constraint"] == "json"


@each_row(
    ("text", "milliseconds"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T00:00:01.123456789Z", 1_123),
        ("1970-01-01T00:00:60Z", 60_000),
        ("1970-01-01T14:00:01+14:00", 1_000),
        ("1969-12-31T23:00:01-01:00", 1_000),
        ("0001-01-01T00:00:00+14:00", -62_135_596_800_000 - 14 * 3_600_000),
        ("9999-12-31T23:59:59Z", 253_402_300_799_000),
        ("1970-13-01T00:00:00Z", None),
        ("1970-01-01 00:00:00Z", None),
        ("1970-01-01T00:00:00", None),
        (5, None),
        (None, None),
    ],
)
def test_an_instant_is_parsed_in_every_form_a_client_may_send_back(text, milliseconds):
    """Fractions round down, a leap second is the next minute, offsets beyond the calendar do not overflow."""
    assert parse_instant(text) == milliseconds


@each_row(
    ("changes", "printed"),
    [
        ({}, "2026-03-20T14:32:05.250Z"),
        ({"timestamps": "s"}, "2026-03-20T14:32:05Z"),
        ({"timestamps": "none"}, None),
        ({"timestamp_mode": "year_9999"}, "9999-03-20T14:32:05.250Z"),
        ({"timestamp_mode": "year_1970"}, "1970-03-20T14:32:05.250Z"),
        ({"timestamp_mode": "nanoseconds"}, "2026-03-20T14:32:05.250456789Z"),
        ({"timestamp_mode": "leap_second"}, "2026-03-20T14:32:60.250Z"),
        ({"timestamp_mode": "plus_14"}, "2026-03-21T04:32:05.250+14:00"),
        ({"timestamp_mode": "year_1_plus_14"}, "0001-01-01T00:00:00+14:00"),
    ],
)
def test_a_stamp_is_printed_as_the_behaviour_says(changes, printed):
    """Resolution and every odd form, from one and the same instant."""
    stamps = Stamps(lambda: 1_774_017_125.25)
    assert stamps.show(stamps.now(), attrs.evolve(Behaviour(), **changes)) == printed


def test_the_clock_can_be_stepped():
    """A step moves what is printed and leaves the given clock alone."""
    stamps = Stamps(lambda: 1_774_017_125.25)
    stamps.offset -= 5
    assert stamps.show(stamps.now(), Behaviour()) == "2026-03-20T14:32:00.250Z"


def test_ids_come_from_the_random_source_of_the_caller():
    """The same seed gives the same UUIDs, and they are version 4."""
    first, second = random.Random(1), random.Random(1)
    ids = [new_id(first) for _ in range(50)]
    assert ids == [new_id(second) for _ in range(50)]
    assert {(uuid.UUID(ident).version, uuid.UUID(ident).variant) for ident in ids} == {
        (4, uuid.RFC_4122)
    }
