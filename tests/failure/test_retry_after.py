"""Retry-After: the rows of urllib3's and Google's tables and RFC 9110, hostile values, and what several headers say."""

from __future__ import annotations

import email.utils
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.datastructures import Headers

from resilient_bridge.failure import parse_retry_after
from tests.internals.failure import parse_http_date, wait_from_headers
from tests.rows import each_row


NOW = 1559559600.0  # 2019-06-03 11:00:00 UTC
DATES = (
    "Mon, 03 Jun 2019 11:30:12 GMT",
    "Monday, 03-Jun-19 11:30:12 GMT",
    "Mon Jun  3 11:30:12 2019",
)


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def time_zone(request, monkeypatch):
    """Set the time zone of this process, which must not matter."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be changed")
@pytest.mark.parametrize("value", DATES)
def test_the_three_date_forms_mean_the_same_in_every_time_zone(value, time_zone):
    """1,812 seconds ahead, as in urllib3's table; asctime has no zone and means UTC."""
    assert parse_retry_after(value, NOW) == 1812.0


@pytest.mark.parametrize(
    ("value", "wait"), [("0", 0.0), ("1000", 1000.0), ("\t42 ", 42.0), ("315360000", 315360000.0)]
)
def test_whole_seconds(value, wait):
    """Digits with white space around them are read, up to ten years; the policy has the limit."""
    assert parse_retry_after(value, NOW) == wait


@pytest.mark.parametrize(
    ("value", "wait"),
    [("0.5", 0.5), ("12.5", 12.5), ("1.0", 1.0), (" 7.25 ", 7.25), ("0.000000001", 1e-9)],
)
def test_f07_fractions_of_a_second(value, wait):
    """SDKs and servers send them, so they are read."""
    assert parse_retry_after(value, NOW) == wait


@pytest.mark.parametrize(
    "value",
    [
        email.utils.formatdate(NOW + 12),  # "-0000"
        email.utils.formatdate(NOW + 12, usegmt=True),
        "Mon, 03 Jun 2019 11:00:12 +0000",
        "Mon, 03 Jun 2019 11:00:12",
    ],
)
def test_f07_dates_as_python_writes_them(value):
    """`email.utils.formatdate()` says "-0000", and some servers name no zone: both mean UTC."""
    wait = 12.0
    assert parse_retry_after(value, NOW) == wait


@each_row(
    "value",
    [
        "-1", "+1", "1.", ".5", "1.2.3", "1,5", "²", "١٢", "1_000", "1e309", "nan", "inf", "-inf", "Infinity", "", " ", "soon", "0x10", "1 2",
        "12s", "Mon, 99 Jun 2019 11:30:12 GMT", "Mon, 03 Xxx 2019 11:30:12 GMT", "Mon, 03 Jun 2019 25:30:12 GMT",
        "Mon, 03 Jun 2019 11:30:99 GMT", "Mon, 03 Jun 2019 11:30:12 +0200", "2019-06-03T11:30:12Z", "Mon, 31 Feb 2019 11:30:12 GMT",
    ],
)  # fmt: skip
def test_what_is_no_retry_after_is_none(value):
    """Signs, partial numbers, digits of other scripts and other forms that `float()` accepts are ignored (threat 26)."""
    assert parse_retry_after(value, NOW) is None


def test_the_past_is_now_and_the_far_future_is_finite():
    """A past date waits nothing, thousands of digits mean a long but finite time, a leap second is a second."""
    assert parse_retry_after("Mon, 03 Jun 2019 10:00:00 GMT", NOW) == 0.0
    assert parse_retry_after("9" * 4000, NOW) == 1e10
    assert parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", NOW) > 1e11
    assert parse_retry_after("Mon, 03 Jun 2019 11:00:60 GMT", NOW) == 60.0


def test_the_century_of_a_two_digit_year():
    """More than 50 years ahead is the past, so a wait of 0 (RFC 9110, 5.6.7)."""
    assert parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", NOW) == 784111777.0
    assert parse_http_date("Friday, 01-Jan-60 00:00:00 GMT", NOW) == pytest.approx(2840140800.0)


@given(st.text() | st.from_regex(r"[0-9.eE+\-infa]{1,20}"), st.floats(0, 4e9))
def test_no_value_breaks_it(value, now):
    """The answer is None or a finite number that is not negative."""
    wait = parse_retry_after(value, now)
    assert wait is None or (math.isfinite(wait) and wait >= 0)


@each_row(
    ("headers", "expected"),
    [
        ([], (None, None)),
        ([("Retry-After", "7")], (7.0, None)),
        ([("retry-after-ms", "1500"), ("Retry-After", "7")], (1.5, None)),
        ([("retry-after-ms", "0")], (0.0, None)),
        ([("retry-after-ms", "invalid"), ("Retry-After", "7")], (7.0, None)),
        ([("retry-after-ms", "-5")], (None, None)),
        ([("retry-after-ms", "nan")], (None, None)),
        ([("Retry-After", "7"), ("Retry-After", "9")], (9.0, None)),
        ([("Retry-After", "nonsense")], (None, None)),
        ([("Date", "Mon, 03 Jun 2019 11:00:00 GMT"), ("Retry-After", DATES[0])], (1812.0, None)),
        ([("Date", "nonsense"), ("Retry-After", DATES[0])], (None, NOW + 1812)),
        ([("Retry-After", DATES[2])], (None, NOW + 1812)),
    ],
)
def test_what_the_headers_say_together(headers, expected):
    """Milliseconds first, of several the longest, a date against the server's own clock, else as an instant."""
    assert wait_from_headers(Headers(headers), None) == expected
    if len({name for name, _ in headers}) == len(headers):
        assert wait_from_headers({name.lower(): value for name, value in headers}, None) == expected


def test_our_clock_serves_where_the_server_shows_none():
    """`now_wall` is used for a date without a `Date` beside it."""
    assert wait_from_headers(Headers([("Retry-After", DATES[0])]), NOW) == (1812.0, None)
