"""stdio Bus' errors as its specification prints them: a line of a log, a call that makes one, and a report for a person."""

from __future__ import annotations

import argparse

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import classify
from tests.internals.cli import read
from tests.rows import each_row


# the six printed lines: category, code, retryable, provider
PRINTED = {
    'BridgeError AUTH: "Incorrect API key provided" { providerId: "openai", retryable: false }': (
        "AUTH", "AUTH_INVALID_TOKEN", False, "openai"),
    'BridgeError UPSTREAM: "Rate limit exceeded" { providerId: "anthropic", retryable: true }': (
        "UPSTREAM", "SYS_RATE_LIMITED", True, "anthropic"),
    'BridgeError TRANSPORT: "Connection error" { providerId: "google-gemini", retryable: true }': (
        "TRANSPORT", "CONN_RESET", True, "google-gemini"),
    'BridgeError TIMEOUT: "Request timed out" { providerId: "openai", retryable: true }': (
        "TIMEOUT", "SYS_TIMEOUT", True, "openai"),
    'BridgeError CONFIG: "Missing required credential: apiKey" { retryable: false }': (
        "CONFIG", "SYS_CONFIG_INVALID", False, None),
    "BridgeError CONFIG: 'Provider \"unknown\" is not registered in the ProviderRegistry' { retryable: false }": (
        "CONFIG", "SYS_CONFIG_INVALID", False, None),
}  # fmt: skip


def _typed(what: str) -> rb.Failure:
    options = dict.fromkeys(("status", "close_code", "exit_code", "errno", "mcp", "retry_after"))
    failure = read(argparse.Namespace(what=what, **options)).failure
    assert failure is not None
    return failure


@pytest.mark.requirement("S6")
@each_row("line", PRINTED)
def test_k12_a_printed_line_is_its_category(line):
    """`BridgeError AUTH: "…" {…}`: category, permission and provider of the line, by `classify` and on the command line."""
    category, code, retryable, provider = PRINTED[line]
    for failure in (classify(RuntimeError(line)), _typed(line)):
        assert (failure.category, failure.code, failure.retryable) == (category, code, retryable)
        assert failure.details.get("provider_id") == provider
        assert failure.executed is rb.errors.Executed.MAYBE  # a text proves nothing
        assert failure.proof == ""
        assert "BridgeError" not in failure.message


@each_row(
    ("line", "category", "retryable"),
    [
        ("BridgeError.internal('Executor not started')", "INTERNAL", False),
        ("BridgeError.upstream('Session capacity reached')", "UPSTREAM", False),
        ("BridgeError.upstream('Agent helper failed', {}, cause)", "UPSTREAM", False),
        ("BridgeError.transport('Worker w1 timed out', { retryable: true })", "TRANSPORT", True),
        ("BridgeError.transport('Server overloaded', { retryable: true })", "TRANSPORT", True),
        ("BridgeError.config('No agents registered')", "CONFIG", False),
        ("[bus] 12:03 BridgeError PROTOCOL: 'no id'", "PROTOCOL", False),
    ],
)
def test_k12_a_call_that_makes_an_error_is_read_too(line, category, retryable):
    """The form of its tables of scenarios, and a line with other words before it."""
    failure = classify(RuntimeError(line))
    assert (failure.category, failure.retryable) == (category, retryable)


@pytest.mark.requirement("S7")
def test_k12_its_report_for_a_person_is_read():
    """The message of the report: category, session, and no permission to repeat."""
    text = """\
Failed to submit prompt to agent 'my-agent':
Session not found: abc-123 (UPSTREAM, not retryable)
The session may have expired. You can:
1. Create a new session with sessions_create
2. Check available agents with agents_discover"""
    for failure in (classify(RuntimeError(text)), _typed(text)):
        assert (failure.category, failure.code, failure.retryable) == (
            "UPSTREAM",
            "SESS_NOT_FOUND",
            False,
        )
        assert failure.message == "Session not found: abc-123"
        assert not failure.session_valid
        assert (failure.executed, failure.proof) == (rb.errors.Executed.MAYBE, "")


@each_row("category", list(rb.Category))
def test_an_error_of_ours_is_read_from_its_own_text(category):
    """What another process of ours printed: category, message and "not retryable" stay; only the code may be less exact."""
    made = rb.Failure.of("SYS_INTERNAL_ERROR", "a message", category=category, retryable=False)
    failure = classify(RuntimeError(str(rb.BridgeError(made))))
    assert (failure.category, failure.retryable, failure.message) == (category, False, "a message")


@each_row(
    "text",
    [
        "a BridgeError was raised",
        "BridgeError NETWORK: 'x' { retryable: true }",
        "the job (UPSTREAM, retryable) is a name that somebody uses in a sentence",
        "BridgeError.retry('x')",
    ],
)
def test_other_texts_are_not_such_errors(text):
    """A sentence about an error, or a category that is none, is not retryable."""
    failure = classify(RuntimeError(text))
    assert (failure.code, failure.retryable) == ("SYS_INTERNAL_ERROR", False)
