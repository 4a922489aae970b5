"""Errors that the other side reports: the seed's own examples, real servers' codes, and payloads made to hurt."""

from __future__ import annotations

import json

import pytest

from resilient_bridge.failure import CODES, Failure, classify_error_payload
from tests.rows import each_row


CERTIFICATE = {
    "code": "CONN_TLS_HANDSHAKE_FAILED",
    "message": "TLS certificate validation failed",
    "details": {
        "reason": "CERTIFICATE_EXPIRED",
        "expiry": "2026-03-01T00:00:00Z",
        "suggested_action": "regenerate_certificates",
    },
    "recoverable": False,
}
VIOLATION = {"field": "timestamp", "constraint": "iso8601", "received": "2026-03-20 14:32:00"}


@pytest.mark.requirement("R5")
def test_the_certificate_error_of_the_seed():
    """Reason, expiry and action arrive as sent; and nobody can declare it recoverable."""
    for payload in (CERTIFICATE, CERTIFICATE | {"recoverable": True}):
        failure = classify_error_payload(payload)
        assert failure.code == "CONN_TLS_HANDSHAKE_FAILED"
        assert failure.message == "TLS certificate validation failed"
        assert dict(failure.details) == CERTIFICATE["details"]
        assert not failure.retryable


@pytest.mark.requirement("R1")
def test_the_validation_error_of_the_seed():
    """All violations with field, constraint and what was received."""
    failure = classify_error_payload(
        {
            "code": "PROTO_INVALID_MESSAGE",
            "message": "Message validation failed",
            "violations": [VIOLATION],
        }
    )
    assert failure.code == "PROTO_INVALID_MESSAGE"
    assert failure.details["violations"] == (VIOLATION,)


@pytest.mark.parametrize("phase", ["current_phase", "currentPhase"])
def test_a_sequence_error_tells_expected_received_and_phase(phase):
    """Under the names of our own record, whichever spelling the server has."""
    payload = {
        "code": "PROTO_SEQUENCE_ERROR",
        "expected": ["auth"],
        "received": "session_join",
        phase: "connected",
    }
    details = classify_error_payload(payload).details
    assert dict(details) == {
        "expected": ("auth",),
        "received": "session_join",
        "phase": "connected",
    }


@pytest.mark.requirement("R1")
@pytest.mark.parametrize(
    ("wire", "ours"),
    [
        ("INVALID_TOKEN", "AUTH_INVALID_TOKEN"),
        ("NOT_AUTHENTICATED", "AUTH_INVALID_TOKEN"),
        ("TOKEN_EXPIRED", "AUTH_TOKEN_EXPIRED"),
        ("UNKNOWN_TYPE", "PROTO_UNKNOWN_TYPE"),
        ("SERVER_BUSY", "SYS_UPSTREAM_REJECTED"),
        (17, "SYS_UPSTREAM_REJECTED"),
    ],
)
def test_what_real_servers_call_it(wire, ours):
    """Known aliases are translated, other names become a rejection; the original is kept."""
    failure = classify_error_payload({"code": wire, "message": "no", "request_type": "x"})
    assert failure.code == ours
    assert failure.details["wire_code"] == wire
    assert failure.details["received"] == "x"


@pytest.mark.requirement("R1")
@each_row("code", [*CODES, "SESS_FROZEN", "AUTH_CLOCK_SKEW", "SYS_QUOTA"])
def test_codes_of_the_seven_prefixes_keep_their_name(code):
    """Listed or not; an unlisted one is treated like its prefix."""
    failure = classify_error_payload({"code": code})
    assert failure.code == code
    assert "wire_code" not in failure.details
    assert failure.session_valid is not code.startswith("SESS_")


@pytest.mark.parametrize(
    "code", ["SYS_", "sess_not_found", "SESS_" + "X" * 100, "SESS_A\nB", "SESS_\x1b[0m", "", None]
)
def test_what_is_no_code_is_not_taken_for_one(code):
    """Bare prefixes, lower case, endless and forged ones."""
    assert classify_error_payload({"code": code}).code == "SYS_UPSTREAM_REJECTED"


def test_recoverable_and_the_wait_are_believed():
    """Booleans only; a wait only if it is a finite number that is not negative."""
    assert classify_error_payload({"code": "SYS_INTERNAL_ERROR", "recoverable": True}).retryable
    assert not classify_error_payload({"code": "SYS_RATE_LIMITED", "retryable": False}).retryable
    assert classify_error_payload({"code": "SYS_RATE_LIMITED", "recoverable": "no"}).retryable
    waits = [3, 2.5, "3", True, -1, float("nan"), 10**400, None]
    got = [
        classify_error_payload({"code": "SYS_RATE_LIMITED", "retry_after": wait}).retry_after
        for wait in waits
    ]
    assert got == [3.0, 2.5, None, None, None, None, None, None]


def test_facts_about_our_end_cannot_be_planted():
    """A payload may not state close codes, statuses or errnos: decisions hang on them."""
    planted = {
        "close_code": 4409,
        "close_by": "peer",
        "http_status": 401,
        "errno": 1,
        "error": "x",
        "note": "kept",
    }
    assert dict(
        classify_error_payload({"code": "SYS_UNAVAILABLE", "details": planted}).details
    ) == {"note": "kept"}


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"code": [], "message": {}, "details": [], "suggestions": "all", "violations": 7},
        {
            "code": {"a": 1},
            "suggestions": [1, None, "", "do"],
            "details": {1: {2: {3: {4: {5: {6: {7: 8}}}}}}},
        },
        {"message": "x" * 10**6, "details": {str(i): "y" * 1000 for i in range(10_000)}},
        {
            "code": "AUTH_INVALID_TOKEN",
            "message": "token=CANARY \n\x1b[2J",
            "details": {"token": "CANARY", "h": "Bearer CANARY"},
        },
        {"violations": [{"field": "token", "constraint": "text", "received": "CANARY"}]},
        {"suggestions": ["use ?token=CANARY", *["x" * 10_000] * 1000]},
    ],
)
def test_no_payload_breaks_floods_or_leaks(payload):
    """Wrong types are ignored, size is bounded, secrets are masked, lines cannot be forged (threats 40, 45, 46)."""
    failure = classify_error_payload(payload)
    assert isinstance(failure, Failure)
    assert failure.message
    for shown in (
        str(failure),
        failure.to_llm(),
        repr(failure),
        failure.explain(),
        json.dumps(failure.to_dict()),
    ):
        assert "CANARY" not in shown
        assert "\x1b" not in shown
        assert len(shown) < 100_000
    assert len(str(failure)) < 600
