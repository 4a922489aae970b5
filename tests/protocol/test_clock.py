"""Time and identifiers as arguments."""

from __future__ import annotations

import math
import random
import uuid
from datetime import UTC, datetime

import pytest

from resilient_bridge.protocol import Now
from tests.internals.protocol import Identifiers, Stamps


@pytest.mark.parametrize(
    ("mono", "wall", "age"),
    [
        (5.0, 5.0, 5.0),
        (1.0, 3600.0, 3600.0),  # the machine slept: the monotonic clock stood still
        (60.0, -3600.0, 60.0),  # somebody set the wall clock back
        (-500.0, 20.0, 20.0),  # rebooted: the monotonic clock started over
        (-500.0, -20.0, math.inf),  # rebooted and set back: nobody can tell
    ],
)
def test_age_is_the_larger_of_both_clocks(mono, wall, age):
    """Neither a sleep nor a step of the wall clock makes anything younger; what cannot be told counts as expired."""
    assert Now(1000.0 + mono, 2000.0 + wall).since(Now(1000.0, 2000.0)) == age


def test_now_as_a_moment():
    """`at` is the wall clock with its time zone."""
    assert Now(1.0, 0.0).at == datetime(1970, 1, 1, tzinfo=UTC)


def test_identifiers_are_uuids_that_never_repeat():
    """Each is a version 4 UUID in form, and 10,000 of one source differ."""
    ids = Identifiers(random.Random(7))
    made = [ids() for _ in range(10_000)]
    assert len(set(made)) == 10_000
    parsed = uuid.UUID(made[0])
    assert (parsed.version, parsed.variant, str(parsed)) == (4, uuid.RFC_4122, made[0])


def test_identifiers_come_from_the_seed_and_nothing_else():
    """The same source gives the same ids, another one others: a run can be replayed."""
    one, same, other = (Identifiers(random.Random(seed)) for seed in (3, 3, 4))
    first = [one() for _ in range(5)]
    assert first == [same() for _ in range(5)]
    assert not set(first) & {other() for _ in range(5)}


def test_the_counter_of_identifiers_wraps_within_a_uuid():
    """At the end of its 48 bits the counter starts over and the form stays that of a UUID."""
    ids = Identifiers(random.Random(7))
    ids._count = 2**48 - 2
    assert [ids()[-12:], ids()[-12:]] == ["f" * 12, "0" * 12]


@pytest.mark.parametrize(
    ("wall", "text"),
    [
        (1774017120.25, "2026-03-20T14:32:00.250Z"),
        (1774017120.0, "2026-03-20T14:32:00.000Z"),
        (1774017120.9999, "2026-03-20T14:32:00.999Z"),
        (0.0, "1970-01-01T00:00:00.000Z"),
    ],
)
def test_stamps_have_milliseconds_in_utc(wall, text):
    """ISO 8601, three digits, never rounded up into the next second."""
    assert Stamps()(wall) == text


def test_stamps_follow_a_clock_that_goes_back():
    """The cached date part belongs to its second and to no other, also backwards."""
    stamp = Stamps()
    assert [stamp(10.5), stamp(11.0), stamp(10.5)] == [
        "1970-01-01T00:00:10.500Z", "1970-01-01T00:00:11.000Z", "1970-01-01T00:00:10.500Z",
    ]  # fmt: skip
