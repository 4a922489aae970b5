"""Refused upgrades: every HTTP status from a real websockets exception, its waits, its switches and its body."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidProxyStatus, InvalidStatus
from websockets.http11 import Response

from resilient_bridge.failure import classify
from tests.rows import each_row


ROWS = {
    "AUTH_TOKEN_EXPIRED AUTH no": (401,),
    "AUTH_FORBIDDEN AUTH no": (403, 407),
    "SYS_RATE_LIMITED UPSTREAM yes": (429,),
    "SYS_UNAVAILABLE UPSTREAM yes": (500, 502, 503, 504, 520, 521, 522, 523, 524, 529, 599),
    "CONN_UPGRADE_REJECTED TIMEOUT yes": (408,),
    "CONN_UPGRADE_REJECTED TRANSPORT yes": (421,),
    "CONN_UPGRADE_REJECTED UPSTREAM yes": (423, 425),
    "CONN_UPGRADE_REJECTED PROTOCOL no": (426,),
    "CONN_UPGRADE_REJECTED UPSTREAM no": (
        *(200, 204, 304, 400, 402, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417, 422, 431, 451, 499),
        *(501, 505, 506, 508, 510, 511),
    ),
}  # fmt: skip
NOT_FOUND = {
    "error": "NotFound",
    "code": "SESS_NOT_FOUND",
    "message": "Session 'sess-abc123' not found",
    "suggestions": [
        "Check session ID spelling",
        "Session may have expired",
        "Use GET /sessions to list active sessions",
    ],
}


def _refused(status: int, body: bytes | None = None, **headers: str) -> InvalidStatus:
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return InvalidStatus(Response(status, "reason", Headers(pairs), body))


def _row(failure) -> str:
    return f"{failure.code} {failure.category} {'yes' if failure.retryable else 'no'}"


@pytest.mark.requirement("R1")
@pytest.mark.requirement("S1")
@each_row(
    ("status", "row"), [(status, row) for row, statuses in ROWS.items() for status in statuses]
)
def test_every_status(status, row):
    """Each status has its category, is retryable or not, and has `executed=NO`."""
    failure = classify(_refused(status))
    assert _row(failure) == row
    assert failure.details["http_status"] == status
    assert failure.executed == "no"
    assert f", {status}" in str(failure)


@pytest.mark.parametrize("status", [403, 407, 503])
def test_a_proxy_is_read_the_same_way(status):
    """InvalidProxyStatus carries the same response."""
    response = Response(status, "reason", Headers())
    assert _row(classify(InvalidProxyStatus(response))) == _row(classify(InvalidStatus(response)))


@each_row(
    ("status", "headers", "wait"),
    [
        (429, {"Retry_After": "12"}, 12.0),
        (
            503,
            {
                "Retry_After": "Mon, 03 Jun 2019 11:30:12 GMT",
                "Date": "Mon, 03 Jun 2019 11:00:00 GMT",
            },
            1812.0,
        ),
        (429, {"retry_after_ms": "1500", "Retry_After": "9"}, 1.5),
        (413, {"Retry_After": "3"}, 3.0),
        (429, {"Retry_After": "315360000"}, 315360000.0),
        (429, {"Retry_After": "nan"}, None),
        (429, {"Retry_After": "-1"}, None),
        (404, {"Retry_After": "3"}, None),
    ],
)
def test_the_wait_the_server_asks_for(status, headers, wait):
    """In seconds, as a date or in milliseconds; garbage is ignored, and a permanent failure has no wait (threat 26)."""
    failure = classify(_refused(status, **headers))
    assert failure.retry_after == wait
    assert failure.retryable is (status != 404)


def test_f06_a_date_without_a_clock_counts_from_now():
    """Without a `Date` in the response the seconds count from the classification, and the instant stays in the details."""
    at = datetime.now(UTC) + timedelta(seconds=60)
    failure = classify(_refused(503, Retry_After=format_datetime(at, usegmt=True)))
    assert failure.retry_after == pytest.approx(60, abs=5)
    assert failure.details["retry_at"] == pytest.approx(at.timestamp(), abs=1)
    past = classify(_refused(503, Retry_After="Mon, 03 Jun 2019 11:30:12 GMT"))
    assert past.retry_after == 0
    assert past.details["retry_at"] == 1559561412.0


def test_a_header_that_came_twice():
    """websockets raises for a repeated header: the longest wait counts, a repeated `x-should-retry` is ignored."""
    headers = Headers(
        [
            ("Retry-After", "3"),
            ("Retry-After", "8"),
            ("x-should-retry", "true"),
            ("x-should-retry", "false"),
        ]
    )
    assert classify(InvalidStatus(Response(429, "", headers))).retry_after == 8.0


@pytest.mark.parametrize(
    ("status", "header", "row"), [(404, "true", True), (503, "false", False), (503, "maybe", True)]
)
def test_the_server_may_overrule_the_table(status, header, row):
    """`x-should-retry` overrides the table, both ways."""
    assert classify(_refused(status, x_should_retry=header)).retryable is row


@pytest.mark.requirement("R9")
@pytest.mark.parametrize("status", [404, 410, 503, 200])
def test_a_lost_session_in_the_body(status):
    """SESS_NOT_FOUND as an HTTP body, with its message and all its suggestions, whatever the status."""
    failure = classify(
        _refused(status, json.dumps(NOT_FOUND).encode(), Content_Type="application/json")
    )
    assert failure.code == "SESS_NOT_FOUND"
    assert failure.message == "Session 'sess-abc123' not found"
    assert failure.suggestions == tuple(NOT_FOUND["suggestions"])
    assert not failure.session_valid
    assert not failure.retryable
    assert failure.details["http_status"] == status
    assert "Use GET /sessions to list active sessions" in failure.explain()


@pytest.mark.requirement("R9")
def test_an_http_answer_is_read_without_being_raised():
    """`classify(response)`: None for a success, the failure of its body or status otherwise."""
    assert classify(httpx.Response(200)) is None
    assert classify(httpx.Response(302)) is None
    assert classify(httpx.Response(404, json=NOT_FOUND)).code == "SESS_NOT_FOUND"
    assert _row(classify(httpx.Response(404))) == "SYS_UPSTREAM_REJECTED UPSTREAM no"
    streamed = httpx.Response(503, headers={"retry-after": "2"}, stream=httpx.ByteStream(b"{}"))
    assert classify(streamed).retry_after == 2.0
    assert classify(streamed).executed == "maybe"
    assert classify({"code": "SESS_NOT_FOUND"}) is None
    assert classify(None) is None


@each_row(
    "body",
    [
        b"",
        b"<html>not found</html>",
        b"[" * 50_000,
        b"\xff\xfe",
        b'["SESS_NOT_FOUND"]',
        b'{"code": 7}',
        b'{"code": "busy"}',
        b'{"code": "SESS_NOT_FOUND"' + b" " * 70_000 + b"}",
    ],
)
def test_a_body_that_says_nothing_leaves_the_status(body):
    """The body may be empty, HTML, endlessly nested, not text, of another form, with another code, or too long."""
    assert _row(classify(_refused(404, body))) == "CONN_UPGRADE_REJECTED UPSTREAM no"
