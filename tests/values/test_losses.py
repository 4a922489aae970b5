"""What a loss means: the policy table of close codes, HTTP statuses and failures, row by row."""

from __future__ import annotations

import socket
import ssl

import pytest

from resilient_bridge.failure import (
    CODES,
    Failure,
    classify,
    classify_close,
    classify_error_payload,
)
from tests.internals.protocol import LossAction, meaning, reason_of, wants_slow_start
from tests.reference import REASONS
from tests.rows import each_row


RECONNECT, REFRESH, NEW_SESSION, FAIL = LossAction
SUPERSEDED = (4409,)

CLOSES = {
    RECONNECT: (
        1000,
        1001,
        1005,
        1006,
        1009,
        1011,
        1012,
        1013,
        1014,
        1015,
        1004,
        1016,
        2999,
        3999,
        4000,
        4100,
        4999,
    ),
    REFRESH: (1008, 4001, 4401),
    NEW_SESSION: (4004, 4404),
    FAIL: (1002, 1003, 1007, 1010, 4003, 4403, 4409),
}
STATUSES = {
    RECONNECT: (408, 425, 429, 500, 502, 503, 504, 507, 509, 511, 520, 521, 522, 523, 524, 599),
    REFRESH: (401,),
    FAIL: (200, 204, 300, 400, 402, 403, 404, 405, 406, 407, 409, 410, 411, 413, 414, 415, 417, 418, 421, 422, 423, 424,
           426, 428, 431, 451, 501, 505, 506, 508, 510),
}  # fmt: skip


def _rows(table):
    return [(number, action) for action, numbers in table.items() for number in numbers]


@pytest.mark.requirement("R3")
@each_row(("code", "action"), _rows(CLOSES))
def test_what_a_close_code_means(code, action):
    """delivery.md §2: each listed close code, and an unlisted one, of the peer."""
    assert meaning(classify_close(code, "bye", "peer"), SUPERSEDED) is action


@each_row(("status", "action"), _rows(STATUSES))
def test_what_an_upgrade_status_means(status, action):
    """408 425 429 and 5xx but the permanent five try again, 401 refreshes, every other status is final."""

    class Response:
        status_code = status
        headers: dict[str, str] = {}  # noqa: RUF012
        body = b""

    class InvalidStatus(Exception):  # noqa: N818
        response = Response()

    InvalidStatus.__module__ = "websockets.exceptions"
    failure = classify(InvalidStatus())
    assert failure.details["http_status"] == status
    assert meaning(failure, SUPERSEDED) is action
    assert reason_of(failure).partition("(")[0] in {
        "upgrade_rejected",
        "auth_rejected",
        "auth_expired",
    }


@pytest.mark.parametrize("by", [None, "us"])
def test_a_loss_without_a_close_frame_of_the_peer_is_tried_again(by):
    """No close frame, or only ours: the network's fault, whatever we sent."""
    for code in (None,) if by is None else (1000, 1001, 1002, 1003, 1007, 1009, 1011, 4001, 4404):
        failure = classify_close(code, "", by)
        if failure.code.startswith("CONN_"):
            assert meaning(failure, SUPERSEDED) is RECONNECT


@each_row(
    ("code", "action"),
    [
        ("CONN_WEBSOCKET_CLOSED", RECONNECT), ("CONN_TIMEOUT", RECONNECT), ("CONN_REFUSED", RECONNECT),
        ("CONN_RESET", RECONNECT), ("CONN_DNS_FAILED", RECONNECT), ("CONN_UNREACHABLE", RECONNECT),
        ("CONN_HEARTBEAT_TIMEOUT", RECONNECT), ("SYS_INBOX_FULL", RECONNECT), ("SYS_INTERNAL_ERROR", RECONNECT),
        ("AUTH_TOKEN_EXPIRED", REFRESH), ("AUTH_INVALID_TOKEN", REFRESH), ("AUTH_FORBIDDEN", FAIL),
        ("SESS_NOT_FOUND", NEW_SESSION), ("SESS_CLOSED", NEW_SESSION), ("SESS_SUPERSEDED", FAIL),
        ("CONN_REDIRECT_REFUSED", FAIL), ("CONN_INSECURE", FAIL), ("SYS_CONFIG_INVALID", FAIL),
        ("CONN_RECONNECT_EXHAUSTED", FAIL),
    ],
)  # fmt: skip
def test_what_a_failure_means(code, action):
    """The same table for failures that carry neither a close code nor a status."""
    assert meaning(Failure.of(code), SUPERSEDED) is action


@pytest.mark.parametrize(
    ("wire", "action"),
    [("TOKEN_EXPIRED", REFRESH), ("INVALID_TOKEN", REFRESH), ("NOT_AUTHENTICATED", REFRESH), ("AUTH_FORBIDDEN", FAIL),
     ("SESS_NOT_FOUND", NEW_SESSION), ("SYS_UNAVAILABLE", RECONNECT), ("NEVER_HEARD_OF", RECONNECT)],
)  # fmt: skip
def test_what_a_connection_error_means(wire, action):
    """A refusal in words: `connection_error` with this code."""
    assert meaning(classify_error_payload({"code": wire, "message": "no"}), SUPERSEDED) is action


def test_certificates_that_fail_verification_are_final_and_resets_are_not():
    """A bad certificate is never retried; a TLS handshake cut in the middle is."""
    bad = ssl.SSLCertVerificationError(1, "certificate verify failed: certificate has expired")
    bad.verify_code, bad.verify_message = 10, "certificate has expired"
    assert meaning(classify(bad), SUPERSEDED) is FAIL
    assert meaning(classify(ConnectionResetError()), SUPERSEDED) is RECONNECT
    assert (
        meaning(classify(socket.gaierror(-2, "Name or service not known")), SUPERSEDED) is RECONNECT
    )


def test_superseded_is_the_dialects_word_and_stands_above_all():
    """Codes of the dialect never reconnect, poison or not; 4409 is built in."""
    assert meaning(classify_close(4999, "", "peer"), (4999,)) is FAIL
    assert meaning(classify_close(1011, "", "peer"), (1011,), poisoned=True) is FAIL
    assert meaning(classify_close(4409, "", "peer"), SUPERSEDED, poisoned=True) is FAIL


@pytest.mark.parametrize("code", [1007, 1009, 1011])
def test_a_poisoned_loss_is_tried_again(code):
    """The entry is set aside, the rest goes on: even 1007, which is final otherwise."""
    assert meaning(classify_close(code, "", "peer"), SUPERSEDED, poisoned=True) is RECONNECT


def test_who_asks_for_patience():
    """1012 and 1013 of the peer and HTTP 429, and nobody else."""
    status = Failure.of("SYS_RATE_LIMITED", details={"http_status": 429})
    assert wants_slow_start(status)
    assert [
        code for code in range(1000, 1016) if wants_slow_start(classify_close(code, "", "peer"))
    ] == [
        1012,
        1013,
    ]
    assert not wants_slow_start(classify_close(1012, "", "us"))
    assert not wants_slow_start(Failure.of("SYS_UNAVAILABLE", details={"http_status": 503}))


@each_row(
    ("failure", "reason"),
    [
        (Failure.of("CONN_HEARTBEAT_TIMEOUT"), "heartbeat_timeout"),
        (Failure.of("CONN_REFUSED"), "connect_refused"),
        (Failure.of("CONN_DNS_FAILED"), "dns"),
        (Failure.of("CONN_TLS_HANDSHAKE_FAILED"), "tls"),
        (Failure.of("CONN_TIMEOUT"), "timeout"),
        (Failure.of("SYS_UNAVAILABLE", details={"http_status": 503}), "upgrade_rejected(503)"),
        (Failure.of("AUTH_TOKEN_EXPIRED"), "auth_expired"),
        (Failure.of("AUTH_INVALID_TOKEN"), "auth_rejected"),
        (Failure.of("SESS_NOT_FOUND"), "session_lost"),
        (Failure.of("SESS_CLOSED"), "session_lost"),
        (Failure.of("SESS_SUPERSEDED"), "superseded"),
        (Failure.of("SYS_INBOX_FULL"), "overflow"),
        (Failure.of("PROTO_INVALID_FRAME"), "protocol_error"),
        (classify_close(1001, "", "peer"), "peer_closed(1001)"),
        (classify_close(None, "", None), "connection_lost"),
    ],
)
def test_the_reason_a_user_reads(failure, reason):
    """Each loss has a short reason of the documented list."""
    assert reason_of(failure) == reason
    assert reason.partition("(")[0] in REASONS


def test_every_failure_has_a_documented_reason():
    """Whatever code a loss carries, its reason is in the list."""
    for code in CODES:
        assert reason_of(Failure.of(code)).partition("(")[0] in REASONS, code
