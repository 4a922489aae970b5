"""The advice for a peer's typed errors: the scenarios of stdio Bus (S3, S7, S9)."""

from __future__ import annotations

import json

import pytest

from resilient_bridge.failure import Failure
from tests.rows import each_row


def _error(number: int, message: str, **data: object) -> dict[str, object]:
    return {"code": number, "message": message, "data": data}


@pytest.mark.requirement("S7")
@pytest.mark.requirement("S3")
@each_row(
    ("error", "code", "retryable", "advice"),
    [
        (_error(-32002, "Rate limit exceeded", type="UPSTREAM", retryable=True), "SYS_RATE_LIMITED", True, "wait, then repeat"),
        (_error(-32000, "Server overloaded", type="TRANSPORT", retryable=True), "SYS_UNAVAILABLE", True, "wait, then repeat"),
        (_error(-32000, "Server overloaded"), "SYS_UNAVAILABLE", True, "wait, then repeat"),
        (_error(-32000, "Worker w1 timed out", type="TRANSPORT", retryable=True), "SYS_TIMEOUT", True, "wait, then repeat"),
        (_error(-32001, "Request timed out", type="TIMEOUT", retryable=True), "SYS_TIMEOUT", True, "wait, then repeat"),
        (_error(-32002, "Internal provider error", type="UPSTREAM", retryable=True), "SYS_UPSTREAM_REJECTED", True, "wait, then repeat"),
        (_error(-32002, "Agent not found: a1", type="UPSTREAM", retryable=False), "SYS_UPSTREAM_REJECTED", False, "check the available agents"),
        (_error(-32002, "Session capacity reached", type="UPSTREAM", retryable=False), "SYS_UPSTREAM_REJECTED", False, "close a session"),
        (_error(-32002, "Session not found: s1", type="UPSTREAM", retryable=False), "SESS_NOT_FOUND", False, "create a new session"),
        (_error(-32002, "Prompt exceeds maximum size", type="UPSTREAM"), "SYS_UPSTREAM_REJECTED", False, "send less"),
        (_error(-32003, "Incorrect API key provided", type="AUTH", retryable=False), "AUTH_INVALID_TOKEN", False, "fix the api key"),
        (_error(-32004, "Missing required credential: apiKey", type="CONFIG"), "SYS_CONFIG_INVALID", False, "set the credential"),
        (_error(-32004, 'Provider "x" is not registered in the ProviderRegistry', type="CONFIG"), "SYS_CONFIG_INVALID", False, "registered provider"),
        (_error(-32603, "Executor not started", type="INTERNAL"), "SYS_INTERNAL_ERROR", False, "start the bridge"),
        (_error(-32603, "boom", type="INTERNAL"), "SYS_INTERNAL_ERROR", False, "check the bridge's health, and restart it"),
        (_error(-32603, "boom"), "SYS_INTERNAL_ERROR", False, "check the bridge's health, and restart it"),
    ],
)  # fmt: skip
def test_f05_what_to_do_about_a_peers_error(error, code, retryable, advice):
    """Wait and retry, check the health, check the available agents, fix the key: never "change the request" for all of them."""
    failure = Failure.from_mcp(error)
    assert (failure.code, failure.retryable) == (code, retryable)
    assert advice in failure.suggestions[0]
    if "type" in error["data"]:  # type: ignore[operator]
        assert failure.category == error["data"]["type"]  # type: ignore[index]
    assert advice in failure.explain()


@pytest.mark.requirement("S9")
def test_h04_the_session_id_is_preserved():
    """`sessionId` becomes the documented `session_id`; both directions preserve it, and the provider's id too."""
    data = {"type": "UPSTREAM", "sessionId": "abc", "providerId": "openai"}
    failure = Failure.from_mcp({"code": -32002, "message": "x", "data": data})
    assert (failure.details["session_id"], failure.details["provider_id"]) == ("abc", "openai")
    sent = failure.to_mcp()
    assert (sent["data"]["sessionId"], sent["data"]["providerId"]) == ("abc", "openai")
    again = Failure.from_mcp(sent)
    assert (again.details["session_id"], again.code, again.message) == (
        "abc",
        failure.code,
        failure.message,
    )
    own = Failure.of("CONN_RESET", details={"session_id": "abc"})
    assert own.to_mcp()["data"]["sessionId"] == "abc"


@each_row("stopped", [None, "attempts", "not_idempotent", "deadline", "budget", "not_retryable"])
@each_row("code", ["CONN_RESET", "SYS_TIMEOUT", "AUTH_FORBIDDEN", "PROTO_INVALID_MESSAGE"])
def test_f13_all_forms_give_one_answer(code, stopped):
    """Kind, retryable and recoverable agree in every form; a call that may have run is not reported as recoverable."""
    import attrs

    from resilient_bridge.errors import Executed
    from tests.internals.failure import Record, ended

    failure = attrs.evolve(Failure.of(code), executed=Executed.MAYBE)
    failure = ended(failure, Record(stopped=stopped))  # type: ignore[arg-type]
    fields, model = failure.to_dict(), json.loads(failure.to_llm())
    assert fields["retryable"] is model["recoverable"]
    assert not (fields["kind"] == "permanent" and fields["retryable"])
    if stopped == "not_idempotent":
        assert model["recoverable"] is False
        assert model["suggestion"].startswith("it may have run: find out")
