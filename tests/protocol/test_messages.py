"""Timestamps of servers, read and printed; what a message shows of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from resilient_bridge.bridge import Verdict
from resilient_bridge.protocol import Gap, Message
from tests.internals.protocol import parse_timestamp, print_like
from tests.rows import each_row


@each_row(
    ("raw", "wanted"),
    [
        ("2026-03-20T14:32:05Z", "2026-03-20T14:32:05+00:00"),
        ("2026-03-20T14:32:05.5Z", "2026-03-20T14:32:05.500000+00:00"),
        ("2026-03-20 14:32:05,250Z", "2026-03-20T14:32:05.250000+00:00"),
        (
            "2026-03-20T14:32:05.123456789Z",
            "2026-03-20T14:32:05.123456+00:00",
        ),  # nanoseconds are cut
        ("2026-03-20T23:59:60Z", "2026-03-21T00:00:00+00:00"),  # a leap second
        ("2026-03-20T14:32:05+05:30", "2026-03-20T09:02:05+00:00"),
        ("2026-03-20T14:32:05-0700", "2026-03-20T21:32:05+00:00"),
        ("2026-03-20T14:32:05", "2026-03-20T14:32:05+00:00"),  # no zone is UTC
        (
            "1774017125",
            "2026-03-20T14:32:05+00:00",
        ),  # seconds since 1970, and below JavaScript's Date.now()
        ("1774017125250", "2026-03-20T14:32:05.250000+00:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
    ],
)
def test_timestamps_of_real_servers_are_read(raw, wanted):
    """Any ISO 8601 date and time, whatever its separator, digits and zone, becomes a moment in UTC."""
    assert parse_timestamp(raw).isoformat() == wanted
    assert Message("a", None, raw, {}).timestamp == datetime.fromisoformat(wanted)


@each_row(
    "raw",
    [None, "", "yesterday", "1774", "999999999999999999999", "2026-03-20", "2026-02-30T00:00:00Z", "2026-03-20T25:00:00Z",
     "2026-03-20T14:32:61Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:60Z", "٢٠٢٦-03-20T14:32:05Z",
     "2026-03-20T14:32:05Z\n"],
)  # fmt: skip
def test_what_is_no_timestamp_is_none_and_never_an_error(raw):
    """Garbage, impossible dates and moments outside the calendar are "no timestamp" (threat 10)."""
    assert parse_timestamp(raw) is None


@pytest.mark.parametrize(
    ("sample", "wanted"),
    [
        ("2026-03-20T14:32:05Z", "2026-03-20T14:27:05Z"),
        ("2026-03-20T14:32:05.250Z", "2026-03-20T14:27:05.250Z"),
        ("2026-03-20T14:32:05.123456789Z", "2026-03-20T14:27:05.123456000Z"),
        ("2026-03-20 14:32:05.5", "2026-03-20 14:27:05.5"),
        ("2026-03-20T14:32:05+05:30", "2026-03-20T08:57:05+00:00"),
        ("2026-03-20T14:32:05+0000", "2026-03-20T14:27:05+0000"),
    ],
)
def test_since_is_printed_the_way_the_server_prints(sample, wanted):
    """Same separator, same digits, same kind of zone: a server that compares strings is asked in its own tongue."""
    moment = parse_timestamp(sample)
    assert print_like(moment - timedelta(seconds=300), sample) == wanted


def test_a_moment_is_never_printed_later_than_it_is():
    """Digits that the server does not print are cut, so that `since` only ever asks for more."""
    moment = datetime(2026, 3, 20, 14, 32, 5, 999_999, UTC)
    assert print_like(moment, "2026-03-20T14:32:05.250Z") == "2026-03-20T14:32:05.999Z"


def test_the_repr_of_a_message_keeps_its_payload_secret():
    """Type, id, timestamp and flags are shown; the payload is not."""
    message = Message("tool_call", "7", None, {"token": "canary"}, replayed=True, redelivered=True)
    assert repr(message) == "<Message tool_call id=7 at=None replayed redelivered>"


def test_a_gap_says_where_the_hole_is():
    """Verdict, both edges and the reason."""
    gap = Gap(Verdict.GAP, None, None, "truncated")
    assert (gap.verdict, gap.since, gap.until, gap.reason) == ("GAP", None, None, "truncated")
