"""What an HTTP answer, or a connection that breaks, says of a request: each row of the table, counted where it arrives."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from contextlib import asynccontextmanager

import httpx
import pytest
import trustme
from aiohttp import web

import resilient_bridge as rb
from tests.adapters.sidecar.http_servers import (
    Scripted,
    body_of,
    call,
    connected,
    lost,
    opened,
)
from tests.internals.adapters import Loss, loss_of_error
from tests.peers.running import until
from tests.rows import each_row


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

NO, MAYBE = rb.errors.Executed.NO, rb.errors.Executed.MAYBE


JSON = "application/json"


def error_body(code, text, **id):
    """A JSON-RPC error, with an id if one is given."""
    return json.dumps(
        {"jsonrpc": "2.0", **id, "error": {"code": code, "message": text, "data": {"a": [1]}}}
    ).encode()


GONE = {"executed": NO, "is_session_gone": True}
FINAL = {"executed": NO, "is_final": True}
STATUSES = {
    # name: (with a session, status, headers, body), what the loss says, or the code of the error that is the answer
    "404": (True, 404, {}, b"", GONE),
    "404 typescript": (True, 404, {}, error_body(-32001, "Session not found", id=None), GONE),
    "404 python": (True, 404, {}, error_body(-32600, "Session not found", id="server-error"), GONE),
    "404 own id": (True, 404, {}, error_body(-32600, "Session terminated", id=1), GONE),
    "400 no valid id": (True, 400, {}, error_body(-32000, "Bad Request: No valid session ID provided"), GONE),
    "400 not initialized": (True, 400, {}, error_body(-32000, "Bad Request: Server not initialized", id=None), GONE),
    "401 rmcp": (True, 401, {}, b"Unauthorized: Session not found", GONE),
    "503 neotoma": (True, 503, {}, b"session is unknown on this API instance", GONE),
    "404 no method": (True, 404, {}, error_body(-32601, "Method not found", id=1), -32601),
    "404 without": (False, 404, {}, b"Not Found", {**FINAL, "reason": "HTTP 404: no MCP server at this path"}),
    "405 without": (False, 405, {}, b"", {**FINAL, "reason": "HTTP 405: no MCP server at this path"}),
    "401": (True, 401, {"WWW-Authenticate": 'Bearer error="invalid_token", error_description="it is too old"'},
            b"", {**FINAL, "reason": "HTTP 401 (it is too old): sign in with your client, or: resilient-bridge mcp -- npx"}),
    "403": (True, 403, {}, error_body(-32000, "not for you", id=1), {**FINAL, "words": "not for you"}),
    "407": (False, 407, {}, b"", {**FINAL, "reason": "HTTP 407: the proxy asks"}),
    # L09: once this path has accepted a message, an answer without a word of the server's may be a captive portal's
    "407 later": (True, 407, {}, b"", {"executed": NO, "is_final": False, "reason": "HTTP 407: the proxy asks"}),
    "403 page": (True, 403, {"Content-Type": "text/html"}, b"<html>", {"executed": NO, "is_final": False}),
    "403 scope": (True, 403, {"WWW-Authenticate": 'Bearer error="insufficient_scope"'}, b"", FINAL),
    "426 later": (True, 426, {}, b"", {"executed": NO, "is_final": False}),
    "421": (True, 421, {}, b"Invalid Host header", {**FINAL, "words": "Invalid Host header"}),
    "408": (True, 408, {}, b"", {"executed": MAYBE}),
    "408 wait": (True, 408, {"Retry-After": "7"}, b"", {"executed": NO, "retry_after": 7.0}),
    "425": (True, 425, {}, b"", {"executed": NO}),
    "429": (True, 429, {"Retry-After": "3"}, error_body(-32000, "slow", id=1), {"executed": NO, "retry_after": 3.0}),
    "400 own id": (True, 400, {}, error_body(-32602, "wrong", id=1), -32602),
    "400 no id": (True, 400, {}, error_body(-32022, "unsupported", id=None), -32022),
    "400 absent id": (True, 400, {}, error_body(-32602, "wrong"), -32602),
    "400 other id": (True, 400, {}, error_body(-32602, "wrong", id=2), {"executed": MAYBE, "words": "wrong"}),
    "413": (True, 413, {}, b"too large", {"executed": MAYBE, "reason": "HTTP 413"}),
    "500": (True, 500, {}, b"<html>oops</html>", {"executed": MAYBE, "reason": "HTTP 500", "words": ""}),
    "500 own id": (True, 500, {}, error_body(-32603, "broken", id=1), -32603),
    "500 no id": (True, 500, {}, error_body(-32603, "broken", id=None), {"executed": MAYBE, "words": "broken"}),
    "502": (True, 502, {}, b"", {"executed": MAYBE, "is_away": True, "reason": "HTTP 502"}),
    "503": (True, 503, {"Retry-After": "5"}, b"", {"executed": MAYBE, "is_away": True, "retry_after": 5.0}),
    "504": (True, 504, {}, b"", {"executed": MAYBE, "is_away": True}),
    "522": (True, 522, {}, b"", {"executed": MAYBE, "is_away": True}),
    "302": (False, 302, {"Location": "/login"}, b"", {"executed": MAYBE, "is_final": True}),
    "302 later": (True, 302, {"Location": "/login"}, b"", {"executed": MAYBE, "is_final": False}),
    "200 empty": (True, 200, {}, b"", {"executed": MAYBE, "reason": "the server accepted it without an answer"}),
    "200 page": (True, 200, {"Content-Type": "text/html"}, b"<html>", {"executed": MAYBE, "reason": "the answer is no JSON-RPC"}),
    "200 other": (True, 200, {}, error_body(-1, "x", id=9), {"executed": MAYBE, "reason": "the answer is that of another"}),
    "200 no id": (True, 200, {}, error_body(-32000, "failed", id=None), -32000),
}  # fmt: skip


@each_row("row", STATUSES)
async def test_each_status_says_what_it_proves(row):
    """The answer where there is one, else a loss; where it says NO, the server has not carried it out."""
    has_session, status, headers, body, expected = STATUSES[row]
    received = []

    async def script(_, message):
        received.append(message)
        return web.Response(status=status, body=body, headers={"Content-Type": JSON, **headers})

    server = Scripted(script, session="s-1" if has_session else "")
    async with server.serving() as url, connected(url) as (upstream, heard):
        if has_session:
            await opened(upstream, heard)
        upstream.send(call(1))
        outcome = await heard.outcome(1)
        assert len(received) == 1
        if isinstance(expected, int):
            assert (outcome.id, outcome.error["code"], outcome.error["data"]) == (
                1,
                expected,
                {"a": [1]},
            )
            return
        assert isinstance(outcome, Loss), outcome
        wanted = {
            "is_session_gone": False,
            "is_final": False,
            "is_away": False,
            "retry_after": None,
            **expected,
        }
        for name, value in wanted.items():
            actual = getattr(outcome, name)
            assert (
                actual.startswith(value) if isinstance(value, str) and value else actual == value
            ), (
                name,
                actual,
            )
        assert server.seen["POST"] == 1 + 2 * has_session
    assert server.seen["DELETE"] == int(has_session and not outcome.is_session_gone)


@asynccontextmanager
async def listening(attend):
    """A server of bytes."""
    server = await asyncio.start_server(attend, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def test_a_refused_connection_proves_that_it_did_not_run():
    """Nobody listens, or the name has no address: not carried out, and the session may still exist."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for url, reason in (
        (f"http://127.0.0.1:{port}/mcp", "connection refused"),
        ("http://nobody.invalid/mcp", "host name"),
    ):
        loss = await lost(url)
        assert (loss.executed, loss.is_away, loss.is_final) == (NO, True, False)
        assert loss.reason.startswith(reason)


async def test_a_connection_that_is_not_made_in_time_proves_it_too():
    """A listener whose queue is full: the SYN is not answered."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        fillers = [socket.socket() for _ in range(8)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(server.getsockname())
        loss = await lost(f"http://127.0.0.1:{server.getsockname()[1]}/mcp", connect_timeout=0.2)
        for filler in fillers:
            filler.close()
    assert (loss.executed, loss.is_away) == (NO, True)


async def test_a_certificate_that_is_not_accepted_is_final():
    """Not carried out, nothing was received, and no repeat can help."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = Scripted()
    async with server.serving(ssl_context=context) as url:
        loss = await lost(url)
    assert (loss.executed, loss.is_final, loss.is_away) == (NO, True, False)
    assert "certificate" in loss.reason
    assert not server.seen


async def test_a_handshake_that_is_cut_proves_that_it_did_not_run():
    """Somebody accepts and hangs up before TLS stands: no byte of the request was written."""

    async def attend(reader, writer):
        await reader.read(10)
        writer.transport.abort()

    async with listening(attend) as port:
        loss = await lost(f"https://127.0.0.1:{port}/mcp")
    assert (loss.executed, loss.is_away) == (NO, True)


def test_only_what_was_seen_proves_anything():
    """No byte written: whatever the error is. A byte, or a server that redirected it before: nothing is proven by a refused connection."""
    refused = httpx.ConnectError("refused")
    refused.__cause__ = ConnectionRefusedError(111, "refused")
    assert loss_of_error(RuntimeError("a bug"), is_started=False) == Loss(
        reason="RuntimeError: a bug", executed=NO
    )
    assert loss_of_error(RuntimeError("a bug"), is_started=True).executed is MAYBE
    assert loss_of_error(refused, is_started=True).executed is NO  # of a proxy's tunnel, say
    assert loss_of_error(refused, is_started=True, hops=1).executed is MAYBE


@pytest.mark.parametrize("end", ["reset", "closed", "half a status", "half a body"])
async def test_a_connection_that_breaks_after_the_request_may_have_run(end):
    """And here it did: once."""
    effects = []

    async def attend(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        effects.append(end)
        if end == "half a status":
            writer.write(b"HTTP/1.1 20")
        elif end == "half a body":
            writer.write(
                b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"json'
            )
        await writer.drain()
        if end == "reset":
            linger = b"\x01\0\0\0\0\0\0\0"
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.close()

    async with listening(attend) as port:
        loss = await lost(f"http://127.0.0.1:{port}/mcp")
    assert (loss.executed, loss.is_away, loss.is_session_gone) == (MAYBE, False, False)
    assert effects == [end]


async def test_one_post_that_fails_concerns_its_own_request_only():
    """Of ten at once one is cut; nine are answered."""
    server = Scripted()

    async def script(request, message):
        server.ran(message)
        await until(lambda: len(server.effects) == 10, "all are under way")
        if message["id"] == 5:
            request.transport.abort()
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **body_of("done")})

    server.script = script
    async with server.serving() as url, connected(url) as (upstream, heard):
        for number in range(1, 11):
            upstream.send(call(number))
        outcomes = [await heard.outcome(number) for number in range(1, 11)]
        assert [isinstance(outcome, Loss) for outcome in outcomes] == [
            number == 5 for number in range(1, 11)
        ]
        assert outcomes[4].executed is MAYBE
        assert not heard.losses
    assert set(server.effects.values()) == {1}
