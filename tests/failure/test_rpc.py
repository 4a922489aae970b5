"""JSON-RPC and MCP: numbers and `data`, on mcp's own errors and results from a server in this process, and on plain answers."""

from __future__ import annotations

import json

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent

from resilient_bridge.failure import Category, Executed, Failure, Kind, classify
from tests.rows import each_row

from .edges import row


ROWS = {
    "-32000 TRANSPORT yes": (-32000, "TRANSPORT yes maybe"),
    "-32001 TIMEOUT yes": (-32001, "TIMEOUT yes maybe"),
    "-32002 UPSTREAM no": (-32002, "UPSTREAM no maybe"),
    "-32003 AUTH no": (-32003, "AUTH no maybe"),
    "-32004 CONFIG no": (-32004, "CONFIG no maybe"),
    "-32603 INTERNAL no": (-32603, "INTERNAL no maybe"),
    "-32700 PROTOCOL no": (-32700, "PROTOCOL no no"),
    "-32600 PROTOCOL no": (-32600, "PROTOCOL no maybe"),
    "-32601 PROTOCOL no": (-32601, "PROTOCOL no no"),
    "-32602 UPSTREAM no": (-32602, "UPSTREAM no maybe"),
    "-32020 CONFIG no": (-32020, "CONFIG no maybe"),
    "-32021 CONFIG no": (-32021, "CONFIG no maybe"),
    "-32022 CONFIG no": (-32022, "CONFIG no maybe"),
    "Unknown → -32603, not retryable (S2)": (-31999, "INTERNAL no maybe"),
}


async def _of_server(code: int, message: str = "m", data: dict | None = None) -> MCPError:
    """The error of a tool call that a real server answers like this."""
    server = MCPServer("test")

    @server.tool()
    def fail() -> None:
        raise MCPError(code, message, data)

    async with Client(server) as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool("fail", {})
    return caught.value


@pytest.mark.requirement("S2")
@each_row(("code", "wanted"), ROWS.values(), ids=ROWS)
async def test_every_number(code, wanted):
    """The row's verdict on mcp's error, on the decoded answer, and on the error object alone."""
    error = await _of_server(code)
    assert row(error) == wanted
    assert classify(error).details["rpc_code"] == code
    assert row({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "m"}}) == wanted
    assert row(error.error.model_dump()) == wanted if code < -31999 else True


@pytest.mark.requirement("S2")
async def test_what_data_overrides():
    """`error.data.{type,retryable,sessionValid,retryAfter}` beats the number; the provider's id and the rest are kept."""
    data = {"type": "UPSTREAM", "retryable": True, "sessionValid": False, "retryAfter": 7, "providerId": "openai", "tool": "t"}  # fmt: skip
    failure = classify(await _of_server(-32603, "busy", data))
    assert (failure.category, failure.retryable, failure.kind) == ("UPSTREAM", True, "transient")
    assert (failure.session_valid, failure.retry_after) == (False, 7.0)
    assert (failure.details["provider_id"], failure.details["tool"]) == ("openai", "t")
    double = classify(await _of_server(-32000, "m", {"type": "PROTOCOL"}))  # S2 books it twice
    assert (double.category, double.retryable) == ("PROTOCOL", False)


@pytest.mark.requirement("S2")
@each_row(
    "data",
    [
        None, 7, "x", [], {"type": "NOPE"}, {"type": 7}, {"retryable": "yes"}, {"sessionValid": 0}, {"code": "x"},
        {"retryAfter": "9"}, {"retryAfter": float("nan")}, {"retryAfter": -1}, {"retryAfter": True},
        {"http_status": 429, "close_code": 1000, "errno": 1, "max_retries": "many"},
    ],
    ids=str,
)  # fmt: skip
def test_data_that_is_not_as_agreed_says_nothing(data):
    """Wrong types are ignored, and nobody else states facts about our end."""
    failure = classify({"jsonrpc": "2.0", "error": {"code": -32001, "message": "m", "data": data}})
    assert (failure.category, failure.retryable, failure.retry_after) == ("TIMEOUT", True, None)
    assert failure.session_valid
    assert failure.details == {"rpc_code": -32001}


@each_row("code", [-32600, 32600, -32002])
@each_row("message", ["Session terminated", "Session not found", "Session not found: s1"])
def test_a_session_that_is_gone(code, message):
    """-32600, or 32600 of mcp 1: SESS_NOT_FOUND, session_valid False."""
    failure = classify({"jsonrpc": "2.0", "error": {"code": code, "message": message}})
    assert (failure.code, failure.session_valid, failure.retryable) == (
        "SESS_NOT_FOUND",
        False,
        False,
    )


async def test_a_session_that_a_restarted_server_forgot():
    """mcp's client over HTTP: 404 for its session id becomes "Session terminated"."""

    def handle(request):
        if request.method == "GET":
            return httpx2.Response(405)
        if b'"initialize"' in request.content:
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}  # fmt: skip
            number = json.loads(request.content)["id"]
            answer = {"jsonrpc": "2.0", "id": number, "result": result}
            return httpx2.Response(200, json=answer, headers={"mcp-session-id": "s1"})
        return httpx2.Response(202) if b"notifications" in request.content else httpx2.Response(404)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(handle)) as http:
        with pytest.raises(ExceptionGroup) as caught:
            async with Client(
                streamable_http_client("http://host/mcp", http_client=http), mode="legacy"
            ) as client:
                await client.call_tool("x", {})
    assert classify(caught.value).code == "SESS_NOT_FOUND"


@pytest.mark.requirement("S2")
async def test_a_tool_that_failed_is_no_exception():
    """`CallToolResult.is_error`: TOOL_EXECUTION_FAILED, it ran; a success is None."""
    server = MCPServer("test")

    @server.tool()
    def fail() -> str:
        raise ValueError("boom")

    @server.tool()
    def work() -> str:
        return "ok"

    async with Client(server) as client:
        failed, worked = await client.call_tool("fail", {}), await client.call_tool("work", {})
    assert (row(failed), classify(failed).code) == ("UPSTREAM no yes", "TOOL_EXECUTION_FAILED")
    assert "fail" in classify(failed).message
    assert classify(worked) is None


def _result(text: str = "", structured: object = None) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured, is_error=True
    )


@pytest.mark.requirement("S2")
def test_what_a_failed_tool_tells():
    """Structured content first, then its text as JSON, then the text; as mcp's object or as plain data."""
    fields = {
        "type": "TIMEOUT",
        "retryable": True,
        "sessionValid": True,
        "retryAfter": 3,
        "message": "slow",
    }
    for answer in (_result(structured=fields), _result(structured={"error": fields}), {"isError": True, "structuredContent": fields}):  # fmt: skip
        failure = classify(answer)
        assert (failure.category, failure.retryable, failure.retry_after) == ("TIMEOUT", True, 3.0)
    line = Failure.of("SYS_RATE_LIMITED", retry_after=4).to_llm()
    assert classify(_result(line)).code == "SYS_RATE_LIMITED"
    assert (
        classify({"isError": True, "content": [{"type": "text", "text": line}]}).retry_after == 4.0
    )
    by_text = classify(_result("Error: connect ECONNREFUSED 127.0.0.1:80"))
    assert (by_text.retryable, by_text.executed) == (True, "maybe")


@pytest.mark.requirement("G8")
@pytest.mark.parametrize(
    ("code", "ours", "hint"),
    [
        ("CSP_BLOCKED", "TOOL_EXECUTION_FAILED", 'world: "isolated"'),
        ("EXECUTION_TIMEOUT", "TOOL_TIMEOUT", "timeout_ms"),
        ("EXECUTION_ERROR", "TOOL_EXECUTION_FAILED", "browser's console"),
    ],
)
def test_execution_errors(code, ours, hint):
    """CSP_BLOCKED with its fallback, EXECUTION_TIMEOUT, EXECUTION_ERROR: our code, the wire's in the details, and what to do."""
    for structured in ({"code": code, "message": "m"}, {"error": code, "message": "m"}):
        failure = classify(_result(structured=structured))
        assert (failure.code, failure.details["wire_code"]) == (ours, code)
        assert hint in failure.suggestions[0]
    assert classify(_result(structured={"code": "CSP_BLOCKED"})).details["fallback"] == {
        "world": "isolated"
    }
    assert classify(_result(structured={"code": "CSP_BLOCKED"})).executed == "maybe"


@each_row(
    "answer",
    [
        {}, {"code": 200, "message": "ok"}, {"code": -32000}, {"jsonrpc": "2.0", "result": {}}, {"isError": False},
        {"error": {"code": -32000, "message": "m"}}, {"code": "SESS_NOT_FOUND"}, 7, object, [],
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_known_to_be_a_failure_is_none(answer):
    """A dict with a code is not an error: it needs `jsonrpc`, a reserved number with a message, or `isError`."""
    assert classify(answer) is None


@pytest.mark.requirement("S2")
@pytest.mark.parametrize("category", Category)
def test_there_and_back(category):
    """`Failure.from_mcp` is the inverse of `to_mcp`: category, code, retryable, session, wait and message come back."""
    for again in (True, False):
        sent = Failure.of("SESS_NOT_FOUND", "m", category=category, retryable=again, retry_after=2)
        back = Failure.from_mcp(sent.to_mcp())
        for name in ("code", "message", "category", "retryable", "session_valid", "retry_after"):
            assert getattr(back, name) == getattr(sent, name)
    alone = Failure.from_mcp({"code": -32603, "message": "m", "data": {"type": category.value}})
    assert alone.category is category


@pytest.mark.requirement("S2")
@pytest.mark.parametrize(
    "error",
    [{}, {"code": 1}, {"code": "x", "message": 7}, {"code": True}, {"code": 10**400}, None, []],
)
def test_what_is_no_error_object_is_internal(error):
    """Anything else is INTERNAL, -32603 and not retryable, and nothing raises."""
    failure = Failure.from_mcp(error)
    assert (failure.category, failure.retryable, failure.to_mcp()["code"]) == (
        "INTERNAL",
        False,
        -32603,
    )


def test_a_certificate_stays_bad_whatever_a_peer_says():
    """`retryable: true` is believed, except of a failed verification."""
    data = {"code": "CONN_TLS_HANDSHAKE_FAILED", "retryable": True}
    assert not Failure.from_mcp({"code": -32000, "message": "m", "data": data}).retryable
    made_up = Failure.from_mcp(
        {"code": -32000, "data": {"code": "TOOL_OF_THEIRS", "retryable": True}}
    )
    assert (made_up.code, made_up.kind) == ("TOOL_OF_THEIRS", Kind.TRANSIENT)


def test_a_peers_own_code_proves_nothing():
    """A code of the server's under one of our prefixes: the prefix's usual code would mean that nothing ran."""
    error = {"code": -32003, "message": "m", "data": {"code": "AUTH_OF_THEIRS"}}
    failure = Failure.from_mcp(error)
    assert (failure.code, failure.executed, failure.proof) == ("AUTH_OF_THEIRS", Executed.MAYBE, "")
