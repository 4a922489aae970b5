"""The specifications' own words and objects, as they are printed there: read by `classify` as by the command line."""

from __future__ import annotations

import argparse
import json

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import classify
from tests.internals.cli import read
from tests.rows import each_row


def _typed(what: str) -> rb.Failure | None:
    options = dict.fromkeys(("status", "close_code", "exit_code", "errno", "mcp", "retry_after"))
    return read(argparse.Namespace(what=what, **options)).failure


CODES = ["SESS_NOT_FOUND", "SESS_NOT_RESUMABLE", "PROTO_SEQUENCE_ERROR", "CONN_WEBSOCKET_CLOSED", "AUTH_TOKEN_EXPIRED", "HOOK_VALIDATION_FAILED"]  # fmt: skip


@pytest.mark.requirement("R1")
@each_row("code", CODES)
@each_row("rest", ["", ": session 'sess-abc123'"])
def test_f09_a_code_that_is_thrown_as_a_text(code, rest):
    """`throw new Error('SESS_NOT_FOUND')`: the code, its category and advice; the command line reads the same."""
    failure, typed = classify(RuntimeError(code + rest)), _typed(code + rest)
    assert typed is not None
    assert (failure.code, failure.category, failure.retryable) == (
        typed.code,
        typed.category,
        typed.retryable,
    )
    assert (failure.code, failure.suggestions) == (code, typed.suggestions)
    assert failure.executed == "maybe"


def test_f09_an_open_circuit_of_somebody_else():
    """ReCursor's breaker throws 'CIRCUIT_OPEN'. A word in a sentence, or a defect's class, is no code."""
    assert classify(Exception("CIRCUIT_OPEN")).code == "SYS_CIRCUIT_OPEN"
    assert classify(RuntimeError("SOME_CONSTANT is not set")).code == "SYS_INTERNAL_ERROR"
    assert classify(KeyError("SESS_NOT_FOUND")).code == "SYS_INTERNAL_ERROR"


OBJECTS = {
    '{"error": "NotFound", "code": "SESS_NOT_FOUND", "message": "Session gone", "suggestions": ["join"]}': "SESS_NOT_FOUND no",
    '{"type": "connection_error", "payload": {"code": "CONN_TLS_HANDSHAKE_FAILED", "message": "m", "recoverable": false}}': "CONN_TLS_HANDSHAKE_FAILED no",
    '{"type": "error", "id": "msg-123", "payload": {"code": "PROTO_INVALID_MESSAGE", "message": "m"}}': "PROTO_INVALID_MESSAGE no",
    '{"type": "tool_error", "payload": {"tool": "bash", "code": "TOOL_EXECUTION_FAILED", "message": "m", "retryable": true, "max_retries": 3}}': "TOOL_EXECUTION_FAILED yes",
    '{"received": false, "code": "HOOK_VALIDATION_FAILED", "errors": []}': "HOOK_VALIDATION_FAILED no",
    '{"success": false, "error": "csp_blocked"}': "TOOL_EXECUTION_FAILED no",
    '{"success": false, "error": "execution_timeout"}': "TOOL_TIMEOUT yes",
    '{"success": false, "error": "connect ECONNREFUSED"}': "CONN_REFUSED yes",
    '{"success": false, "error": {"type": "timeout", "message": "too slow", "recoverable": true, "suggestion": "less"}}': "TOOL_TIMEOUT yes",
    '{"success": false, "error": {"type": "permission", "message": "no", "recoverable": false}}': "AUTH_FORBIDDEN no",
    '{"type": "rate_limit", "message": "slow", "recoverable": true, "timestamp": "2024-01-15T10:30:00Z"}': "SYS_RATE_LIMITED yes",
    '{"error": {"code": "SESS_CLOSED", "message": "m"}}': "SESS_CLOSED no",
    '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "m", "data": {"code": "CSP_BLOCKED"}}}': "TOOL_EXECUTION_FAILED no",
    '{"isError": true, "structuredContent": {"success": false, "error": "csp_blocked"}}': "TOOL_EXECUTION_FAILED no",
    '{"isError": true, "content": [{"type": "text", "text": "{\\"error\\": \\"csp_blocked\\"}"}]}': "TOOL_EXECUTION_FAILED no",
}


@pytest.mark.requirement("G8")
@pytest.mark.requirement("R9")
@each_row("text", OBJECTS)
def test_f09_h08_an_object_that_says_failure(text):
    """Decoded, it is one for `classify`; as a text, for the command line."""
    for failure in (classify(json.loads(text)), _typed(text)):
        assert failure is not None
        assert f"{failure.code} {'yes' if failure.retryable else 'no'}" == OBJECTS[text]
        if "csp" in text.lower():
            assert failure.details["fallback"] == {"world": "isolated"}
            assert "isolated" in failure.suggestions[0]


@each_row(
    "value",
    [
        {},
        {"success": True, "result": 1},
        {"success": False},
        {"code": "abc", "message": "hello"},
        {"code": 200},
        {"error": None},
        {"type": "message", "payload": {"text": "SESS_NOT_FOUND"}},
        {"type": "note", "message": "fine"},
    ],
)
def test_what_says_no_failure_is_none(value):
    """An object that is not marked as a failure is a success."""
    assert classify(value) is None


EXECUTIONS = {  # Gasoline's texts and spellings: the code, and a word of the advice
    "Script exceeded 5000ms timeout": ("TOOL_TIMEOUT", "timeout_ms"),
    "Error: Script exceeded 30000 ms timeout": ("TOOL_TIMEOUT", "timeout_ms"),
    "execution_timeout": ("TOOL_TIMEOUT", "timeout_ms"),
    "Refused to evaluate a string as JavaScript: it violates the following Content Security Policy directive": (
        "TOOL_EXECUTION_FAILED",
        'world: "isolated"',
    ),
    "Script execution rejected by page CSP": ("TOOL_EXECUTION_FAILED", 'world: "isolated"'),
    "csp_blocked": ("TOOL_EXECUTION_FAILED", 'world: "isolated"'),
    "execution_error": ("TOOL_EXECUTION_FAILED", "browser's console"),
}


@pytest.mark.requirement("G8")
@each_row("text", EXECUTIONS)
def test_k12_the_texts_of_an_execution_error_have_its_hint(text):
    """`Script exceeded Nms timeout` and "Content Security Policy" get what the codes get; so does an object with that text."""
    code, word = EXECUTIONS[text]
    typed = _typed(text)
    assert typed is not None
    for failure in (
        classify(RuntimeError(text)),
        typed,
        classify({"success": False, "error": text}),
    ):
        assert failure.code == code
        assert word in failure.suggestions[0]
        assert failure.details.get("fallback") == (
            {"world": "isolated"} if "isolated" in word else None
        )
    assert classify(RuntimeError(text)).executed is not rb.errors.Executed.NO


KINDS = {  # the column "Examples" of ccsetup's table, and its patterns that are sentences
    "Network timeout": "transient",
    "rate limit": "transient",
    "temporary file lock": "transient",
    "File not found": "permanent",
    "permission denied": "permanent",
    "invalid argument": "permanent",
    "Invalid JSON in state file": "corruption",
    "orphan workflow state": "corruption",
    "workflow-state.json invalid or inconsistent": "corruption",
    "Some files written, commit incomplete": "partial",
    "Some files written": "partial",
    "commit incomplete": "partial",
    "Checkpoint exists but final state missing": "partial",
    "Some expected artifacts present, others missing": "partial",
}


@pytest.mark.requirement("C1")
@each_row("text", KINDS)
def test_k12_each_example_is_of_its_type(text):
    """Transient, permanent, corruption or partial, as its row says; only what is transient is repeated."""
    typed = _typed(text)
    assert typed is not None
    for failure in (classify(RuntimeError(text)), classify(RuntimeError(f"step 2: {text}")), typed):
        assert (failure.kind, failure.retryable) == (KINDS[text], KINDS[text] == "transient")


def test_k12_a_missing_file_has_the_advice_of_enoent():
    """ "File not found" alone has the advice of ENOENT."""
    assert "spelling" in classify(RuntimeError("error: file not found")).suggestions[0]
