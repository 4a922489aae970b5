"""What counts for a breaker: an outage does, a caller's mistake does not."""

from __future__ import annotations

import re

import pytest

from resilient_bridge import named
from resilient_bridge.calls import Breaker, Policy, Retry, circuit
from resilient_bridge.failure import (
    CODES,
    Category,
    Failure,
    Kind,
    RejectedError,
    Severity,
    error_for,
)
from tests.internals.calls import verdict_of
from tests.rows import each_row


class BusyError(Exception):
    """A user's own."""


NOT_FOUND = Failure.of("SYS_UPSTREAM_REJECTED", details={"http_status": 404})
BUSY = Failure.of("SYS_INTERNAL_ERROR", cause=BusyError())


@each_row(
    ("failure", "verdict"),
    [
        (Failure.of("CONN_REFUSED"), "failure"),
        (Failure.of("CONN_RESET", retryable=False), "failure"),
        (Failure.of("SYS_TIMEOUT"), "failure"),
        (Failure.of("SYS_TIMEOUT", retryable=False), "failure"),
        (Failure.of("SYS_UNAVAILABLE", details={"http_status": 503}), "failure"),
        (Failure.of("SYS_RATE_LIMITED"), "neutral"),
        (NOT_FOUND, "neutral"),
        (BUSY, "neutral"),
        (Failure.of("AUTH_TOKEN_EXPIRED"), "neutral"),
        (Failure.of("SYS_CONFIG_INVALID"), "neutral"),
        (Failure.of("PROTO_INVALID_MESSAGE"), "neutral"),
        (Failure.of("SYS_UNAVAILABLE", severity=Severity.CRITICAL), "critical"),
        (Failure.of("SYS_UPSTREAM_REJECTED", severity=Severity.FATAL), "critical"),
        (Failure.of("SYS_CIRCUIT_OPEN"), "neutral"),
        (Failure.of("SYS_BULKHEAD_FULL"), "neutral"),
        (Failure.of("SYS_THROTTLED"), "neutral"),
        (Failure.of("SYS_THROTTLED", severity=Severity.CRITICAL), "neutral"),
    ],
    ids=lambda value: f"{value.code} {value.severity}" if isinstance(value, Failure) else value,
)
def test_what_points_at_the_other_side_counts(failure, verdict):
    """Transport errors, timeouts and transient failures count, critical ones open at once (R2); caller's mistakes and our own rejections do not."""
    assert verdict_of(failure, Breaker()) == verdict


def test_every_code_has_a_verdict_that_follows_from_its_row():
    """The rule over the whole table of codes."""
    for code, row in CODES.items():
        failure = Failure.of(code)
        if isinstance(error_for(failure), RejectedError) or code == "SYS_RATE_LIMITED":
            expected = "neutral"
        elif row.severity in ("critical", "fatal"):
            expected = "critical"
        else:
            counts = row.category in ("TRANSPORT", "TIMEOUT") or row.retryable
            expected = "failure" if counts else "neutral"
        assert verdict_of(failure, Breaker()) == expected, code


@each_row(
    "ignore",
    [
        ConnectionError,
        named("builtins", "ConnectionRefusedError"),
        "CONN_REFUSED",
        re.compile("refused"),
        Category.TRANSPORT,
        Kind.TRANSIENT,
        lambda failure: failure.code == "CONN_REFUSED",
        (503, "CONN_REFUSED"),
    ],
    ids=lambda what: getattr(what, "__name__", repr(what)),
)
def test_what_is_ignored_counts_neither_way(ignore):
    """Every form of `ignore`, also for failures that would open it at once."""
    for severity in (Severity.ERROR, Severity.FATAL):
        failure = Failure.of("CONN_REFUSED", severity=severity, cause=ConnectionRefusedError())
        assert verdict_of(failure, Breaker(ignore=ignore)) == "neutral"


def test_an_error_named_by_the_retry_counts():
    """A class in the Retry's `on=` counts as an outage; a status or a predicate there does not."""
    assert verdict_of(BUSY, Breaker(), (Kind.TRANSIENT, BusyError)) == "failure"
    assert verdict_of(BUSY, Breaker(), (named("tests", "BusyError"),)) == "failure"
    assert verdict_of(NOT_FOUND, Breaker(), (404, lambda failure: True)) == "neutral"
    assert verdict_of(BUSY, Breaker(ignore=BusyError), (BusyError,)) == "neutral"


def test_e08_the_on_of_a_breaker_says_what_counts():
    """`on` in every form; other failures count neither way, `ignore` wins, critical severity opens all the same."""
    for on in (
        BusyError,
        Exception,
        lambda failure: True,
        re.compile("Busy|internal"),
        "SYS_INTERNAL_ERROR",
    ):
        breaker = Breaker(on=on)
        assert verdict_of(BUSY, breaker) == "failure"
        assert verdict_of(BUSY, Breaker(on=on, ignore=BusyError)) == "neutral"
    assert verdict_of(NOT_FOUND, Breaker(on=404)) == "failure"
    assert verdict_of(Failure.of("CONN_RESET"), Breaker(on=BusyError)) == "neutral"
    assert verdict_of(Failure.of("CONN_RESET"), Breaker(on=Exception)) == "failure"
    fatal = Failure.of("CONN_RESET", severity=Severity.FATAL)
    assert verdict_of(fatal, Breaker(on=BusyError)) == "critical"
    assert verdict_of(Failure.of("SYS_CIRCUIT_OPEN"), Breaker(on=Exception)) == "neutral"


def test_e08_exception_in_the_retry_beside_it_counts():
    """A Retry with `on=Exception` says that every exception is a failure of the server."""

    def fail():
        raise BusyError

    for retry, state in (
        (Retry(attempts=1, on=Exception), "open"),
        (Retry(attempts=1, on=BusyError), "open"),
    ):
        work = Policy(retry, Breaker.consecutive(1))(idempotent=False)(fail)
        with pytest.raises(BusyError):
            work()
        assert circuit(work).state == state


def test_e04_a_rate_limiter_is_no_outage():
    """A 429 means that the service is up, with or without Retry-After. One named in the breaker's `on` counts."""
    limited = Failure.of("SYS_RATE_LIMITED", retry_after=1.0, details={"http_status": 429})
    assert verdict_of(limited, Breaker()) == "neutral"
    assert verdict_of(limited, Breaker(on=429)) == "failure"
    assert verdict_of(Failure.of("SYS_RATE_LIMITED"), Breaker()) == "neutral"
    assert verdict_of(Failure.of("SYS_UNAVAILABLE", retry_after=1.0), Breaker()) == "failure"
