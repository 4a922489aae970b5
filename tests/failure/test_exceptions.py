"""The exceptions: their tree, their text, and that they survive a trip to another process."""

from __future__ import annotations

import copy
import pickle

from resilient_bridge import failure as errors
from resilient_bridge.failure import (
    CODES,
    BridgeError,
    ConfigError,
    Failure,
    RejectedError,
    config_error,
    error_for,
)
from tests.rows import each_row


CLASSES = [
    getattr(errors, name)
    for name in errors.__all__
    if isinstance(getattr(errors, name), type) and issubclass(getattr(errors, name), BridgeError)
]
BASES = {
    "ConfigError": ValueError,
    "AttemptTimeoutError": TimeoutError,
    "DeadlineExceededError": TimeoutError,
    "NotConnectedError": ConnectionError,
    "InboxFullError": errors.OutcomeUnknownError,
    "CircuitOpenError": RejectedError,
    "BulkheadFullError": RejectedError,
    "ThrottledError": RejectedError,
    "OutboxFullError": RejectedError,
    "NotDeliveredError": RejectedError,
}


@each_row(("name", "base"), BASES.items())
def test_the_tree_of_the_design(name, base):
    """Each class can also be caught as what it is to a program that has never heard of us."""
    assert issubclass(getattr(errors, name), base)


@each_row("cls", CLASSES)
def test_every_class_survives_pickling_and_copying(cls):
    """Class, failure, text and notes arrive; OSError's own constructor does not get in the way."""
    error = cls(Failure.of("CONN_RESET", "lost", retry_after=2.5))
    error.add_note("gave up")
    for clone in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(clone) is cls
        assert clone.failure == error.failure
        assert str(clone) == str(error)
        assert clone.__notes__ == ["gave up"]


def test_the_text_is_the_failure_and_the_first_thing_to_do():
    """One line that a user can act on, and a repr that names the code."""
    error = error_for(Failure.of("CONN_REFUSED", suggestions=("check the port", "check the host")))
    assert str(error) == "connection refused (TRANSPORT): check the port"
    assert repr(error) == "<BridgeError CONN_REFUSED connection refused (TRANSPORT)>"


@each_row(
    ("code", "name"),
    [
        ("AUTH_TOKEN_EXPIRED", "AuthError"),
        ("PROTO_SEQUENCE_ERROR", "ProtocolError"),
        ("SESS_NOT_FOUND", "SessionError"),
        ("SESS_OF_A_PEER", "SessionError"),
        ("SYS_CONFIG_INVALID", "ConfigError"),
        ("CONN_INSECURE", "ConfigError"),
        ("CONN_NOT_CONNECTED", "NotConnectedError"),
        ("SYS_OUTBOX_FULL", "OutboxFullError"),
        ("SYS_NOT_DELIVERED", "NotDeliveredError"),
        ("SYS_TIMEOUT", "AttemptTimeoutError"),
        ("SYS_OUTCOME_UNKNOWN", "OutcomeUnknownError"),
        ("SYS_DEADLINE_EXCEEDED", "DeadlineExceededError"),
        ("SYS_CIRCUIT_OPEN", "CircuitOpenError"),
        ("SYS_BULKHEAD_FULL", "BulkheadFullError"),
        ("SYS_THROTTLED", "ThrottledError"),
        ("SYS_RESULT_REJECTED", "BridgeError"),
        ("SYS_INBOX_FULL", "InboxFullError"),
        ("CONN_TLS_HANDSHAKE_FAILED", "BridgeError"),
    ],
)
def test_the_code_picks_the_class(code, name):
    """By code, else by prefix, else the base."""
    assert type(error_for(Failure.of(code))).__name__ == name


def test_what_is_rejected_did_not_run():
    """Every code whose class is a RejectedError says that it did not run, and hands on the wait."""
    for code in CODES:
        error = error_for(Failure.of(code, retry_after=4))
        if isinstance(error, RejectedError):
            assert error.failure.executed is errors.Executed.NO
            assert error.retry_after == 4.0


def test_a_wrong_setting_is_named_with_what_was_wanted_and_got():
    """The path is in the text and in the violations."""
    error = config_error("reconnect.attempts", "a positive number", -1)
    assert isinstance(error, ConfigError)
    assert str(error) == "reconnect.attempts: wanted a positive number, got -1"
    assert error.failure.details["violations"] == (
        {"field": "reconnect.attempts", "constraint": "a positive number", "received": -1},
    )
