"""The failure record: its defaults, its four forms, and that no form can be broken or made to leak."""

from __future__ import annotations

import copy
import errno
import json
import math
import pickle
import subprocess

import attrs
import httpx
import pytest

from resilient_bridge.failure import Category, Executed, Failure, Kind, classify
from tests.rows import each_row


REQUEST = httpx.Request("POST", "https://api.example/")


def test_the_line_of_the_design():
    """`str()` is one line: message, category, status, wait."""
    failure = Failure.of("SYS_RATE_LIMITED", details={"http_status": 429}, retry_after=12)
    assert str(failure) == "rate limited (UPSTREAM, 429, retry in 12 s)"


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        (
            Failure.of("CONN_REFUSED", details={"errno": 111}),
            "connection refused (TRANSPORT, ECONNREFUSED)",
        ),
        (
            Failure.of("CONN_RESET", details={"errno": 9999}),
            "connection reset (TRANSPORT, errno 9999)",
        ),
        (Failure.of("AUTH_FORBIDDEN"), "access forbidden (AUTH, not retryable)"),
        (
            Failure.of("SYS_UNAVAILABLE", retry_after=0.25),
            "server unavailable (UPSTREAM, retry in 0.2 s)",
        ),
        (
            Failure.of("SYS_UNAVAILABLE", retry_after=1e7),
            "server unavailable (UPSTREAM, retry in 10000000 s)",
        ),
    ],
)
def test_the_line_names_what_tells_cases_apart(failure, line):
    """The line has the errno by name, the wait in seconds, and says if it is not retryable."""
    assert str(failure) == line


def test_the_table_fills_missing_fields():
    """A code alone gives a complete record."""
    failure = Failure.of("CONN_TIMEOUT")
    assert (failure.message, failure.category, failure.kind) == (
        "connection timed out",
        Category.TIMEOUT,
        Kind.TRANSIENT,
    )
    assert failure.retryable
    assert failure.executed is Executed.NO
    assert failure.suggestions


def test_an_overridden_retryable_takes_the_kind_along():
    """With retryable=False the kind is permanent, with True transient; corruption stays corruption."""
    assert Failure.of("CONN_RESET", retryable=False).kind is Kind.PERMANENT
    assert Failure.of("AUTH_FORBIDDEN", retryable=True).kind is Kind.TRANSIENT
    assert Failure.of("PROTO_INVALID_MESSAGE", retryable=False).kind is Kind.CORRUPTION


@pytest.mark.parametrize("message", ["", "   ", "\n"])
def test_a_message_is_never_empty(message):
    """The text of a timeout is empty: then the message is the summary of the code."""
    assert Failure.of("CONN_TIMEOUT", message).message == "connection timed out"


@pytest.mark.parametrize("wait", [math.nan, math.inf, -1.0, -math.inf])
def test_an_impossible_wait_is_no_wait(wait):
    """NaN, infinite and negative waits never reach a sleep (threat 26)."""
    assert Failure.of("SYS_RATE_LIMITED", retry_after=wait).retry_after is None


def test_the_report_for_a_person_has_its_five_parts():
    """Category, message, retryable, session validity and what to do, in a few lines and without a trace."""
    failure = Failure.of(
        "SESS_NOT_FOUND",
        "session not found: s1",
        suggestions=["join a new session", "list the sessions"],
    )
    assert failure.explain().splitlines() == [
        "session not found: s1 (UPSTREAM, not retryable)",
        "SESS_NOT_FOUND, error: not retryable; it did not run; the session is gone",
        "you can:",
        "1. join a new session",
        "2. list the sessions",
    ]


def test_the_report_tells_earlier_attempts_and_why_it_stopped():
    """History in order, then the reason no further attempt was made."""
    earlier = Failure.of("CONN_REFUSED")
    text = Failure.of("CONN_TIMEOUT", history=(earlier,), stopped="attempts").explain()
    assert "attempt 1: connection refused (TRANSPORT)\nstopped: attempts" in text


def test_the_line_for_a_model_is_json():
    """One line with type, code, message, recoverable, executed and suggestion."""
    line = Failure.of("SYS_RATE_LIMITED", retry_after=3, suggestions=("wait",)).to_llm()
    assert "\n" not in line
    assert json.loads(line) == {
        "type": "rate_limit",
        "code": "SYS_RATE_LIMITED",
        "message": "rate limited",
        "recoverable": True,
        "executed": "maybe",
        "suggestion": "wait",
        "retry_after": 3.0,
    }


@each_row(
    ("code", "details", "word"),
    [
        ("CONN_TIMEOUT", {}, "timeout"),
        ("TOOL_TIMEOUT", {"exit_code": 127}, "timeout"),
        ("SYS_RATE_LIMITED", {"http_status": 403}, "rate_limit"),
        ("AUTH_FORBIDDEN", {}, "permission"),
        ("SYS_CONFIG_INVALID", {"errno": errno.EACCES}, "permission"),
        ("SYS_CONFIG_INVALID", {"errno": errno.EPERM}, "permission"),
        ("SYS_CONFIG_INVALID", {"exit_code": 126}, "permission"),
        ("TOOL_EXECUTION_FAILED", {"exit_code": 77}, "permission"),
        ("SYS_UPSTREAM_REJECTED", {"http_status": 403}, "permission"),
        ("SESS_NOT_FOUND", {}, "not_found"),
        ("TOOL_NOT_FOUND", {}, "not_found"),
        ("SYS_CONFIG_INVALID", {"errno": errno.ENOENT}, "not_found"),
        ("SYS_CONFIG_INVALID", {"exit_code": 127}, "not_found"),
        ("SYS_UPSTREAM_REJECTED", {"http_status": 404}, "not_found"),
        ("PROTO_INVALID_MESSAGE", {}, "validation"),
        ("HOOK_VALIDATION_FAILED", {}, "validation"),
        ("TOOL_ARGUMENTS_INVALID", {}, "validation"),
        ("SYS_CONFIG_INVALID", {}, "validation"),
        ("SYS_UPSTREAM_REJECTED", {"violations": ({"field": "path"},)}, "validation"),
        ("SYS_UPSTREAM_REJECTED", {"rpc_code": -32602}, "validation"),
        ("SYS_UPSTREAM_REJECTED", {"http_status": 422}, "validation"),
        ("SYS_CONTEXT_OVERFLOW", {}, "context_overflow"),
        ("SYS_UPSTREAM_REJECTED", {"reason": "context_length_exceeded"}, "context_overflow"),
        ("CONN_RESET", {}, "unknown"),
        ("TOOL_EXECUTION_FAILED", {"exit_code": 1}, "unknown"),
        ("SYS_INTERNAL_ERROR", {"errno": [2], "exit_code": {}, "violations": ()}, "unknown"),
    ],
)
def test_a_model_gets_a_type_it_can_act_on(code, details, word):
    """The types are timeout, permission, not_found, rate_limit, validation, unknown and context_overflow."""
    assert json.loads(Failure.of(code, details=details).to_llm())["type"] == word


@pytest.mark.requirement("V6")
@each_row(
    ("error", "word"),
    [
        (FileNotFoundError(errno.ENOENT, "no such file", "a.txt"), "not_found"),
        (FileNotFoundError("a.txt"), "not_found"),
        (PermissionError(errno.EACCES, "denied", "a.txt"), "permission"),
        (PermissionError("ask first"), "permission"),
        (subprocess.CalledProcessError(127, ["grpe"]), "not_found"),
        (subprocess.CalledProcessError(126, ["./a"]), "permission"),
        (subprocess.CalledProcessError(1, ["grep"]), "unknown"),
        (subprocess.TimeoutExpired(["grep"], 30), "timeout"),
        (httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(403)), "permission"),
        (httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(404)), "not_found"),
        (httpx.HTTPStatusError("", request=REQUEST, response=httpx.Response(429)), "rate_limit"),
        (ValueError("PermissionError: no"), "unknown"),
    ],
    ids=str,
)
def test_the_errors_of_tools_have_their_type(error, word):
    """Common errors of tools have their type, also after the error itself is freed."""
    failure = classify(error)
    assert json.loads(failure.to_llm())["type"] == word
    assert json.loads(pickle.loads(pickle.dumps(failure)).to_llm())["type"] == word


def test_the_record_for_a_log_is_plain_json():
    """It has every field, only JSON types, and the cause by its class name."""
    failure = Failure.of(
        "PROTO_INVALID_MESSAGE",
        details={
            "violations": ({"field": "id", "constraint": "uuid", "received": "x"},),
            "limit": math.inf,
        },
        cause=ValueError("x"),
        history=(Failure.of("CONN_RESET"),),
    )
    record = json.loads(json.dumps(failure.to_dict(), allow_nan=False))
    assert set(record) == {field.name for field in attrs.fields(Failure)}
    assert record["details"]["violations"] == [
        {"field": "id", "constraint": "uuid", "received": "x"}
    ]
    assert record["cause"] == "ValueError"
    assert record["history"][0]["code"] == "CONN_RESET"


def test_the_error_of_a_json_rpc_answer():
    """Code by category; data says type, retryable, sessionValid and executed."""
    error = Failure.of("SESS_NOT_FOUND", category=Category.AUTH).to_mcp()
    assert error["code"] == -32003
    assert error["data"] == {
        "type": "AUTH",
        "retryable": False,
        "sessionValid": False,
        "executed": "no",
        "code": "SESS_NOT_FOUND",
    }


def test_a_failure_is_a_value():
    """Equality ignores the cause; it is hashable and immutable, and is copied and pickled without the cause."""
    failure = Failure.of("CONN_RESET", details={"errno": 104, "list": [1]}, cause=OSError("x"))
    twin = attrs.evolve(failure, cause=None)
    assert failure == twin
    assert hash(failure) == hash(twin)
    for clone in (pickle.loads(pickle.dumps(failure)), copy.deepcopy(failure)):
        assert clone == failure
        assert clone.cause is None
    with pytest.raises(TypeError):
        failure.details["errno"] = 1
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        failure.code = "X"


def test_details_of_any_shape_are_survived():
    """Deep, wide, cyclic, unprintable and enormous values are cut to plain data that every form can show."""
    cyclic: dict[str, object] = {}
    cyclic["self"] = cyclic

    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    details = {
        "cyclic": cyclic,
        "wide": range(10_000),
        "huge": 10**5000,
        "object": Unprintable(),
        "http_status": {"not": "a number"},
        "errno": [1],
        "bytes": b"\xff\x00",
    }
    failure = Failure.of("SYS_INTERNAL_ERROR", details=details)
    assert len(failure.details["wide"]) == 50
    assert failure.details["object"] == "<Unprintable without text>"
    for text in (
        str(failure),
        repr(failure),
        failure.explain(),
        failure.to_llm(),
        json.dumps(failure.to_dict()),
    ):
        assert text.isprintable() or text == failure.explain()


@pytest.mark.requirement("S8")
def test_a_server_that_says_retryable_says_that_a_repeat_can_help():
    """`retryable: true` in the data of an error does not say whether the call ran, and a peer's `executed: no` is no proof."""
    fields = {"code": -32000, "message": "busy", "data": {"retryable": True}}
    assert (Failure.from_mcp(fields).retryable, Failure.from_mcp(fields).executed) == (
        True,
        Executed.MAYBE,
    )
    ours = Failure.of("CONN_RESET").to_mcp()
    assert Failure.from_mcp(ours).executed is Executed.MAYBE
    for wrong in ("perhaps", 1, None):
        assert (
            Failure.from_mcp({"code": -32000, "data": {"executed": wrong}}).executed
            is Executed.MAYBE
        )
