"""The connection to an MCP server over streamable HTTP: against servers that are not ours, and each row of what can go wrong, counted there."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trustme
from aiohttp import web
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore

import resilient_bridge as rb
from resilient_bridge.adapters.sidecar import message as rpc
from resilient_bridge.adapters.sidecar.upstream import Loss, LostError
from tests.adapters.sidecar.http_servers import (
    MODERN,
    Scripted,
    body_of,
    call,
    connected,
    event,
    opened,
    order,
    sdk_server,
)
from tests.peers.everything import everything, needs_everything
from tests.peers.mcp_server import build
from tests.peers.running import Ledger, until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]
NO, MAYBE = rb.Executed.NO, rb.Executed.MAYBE
JSON = "application/json"


def error_body(code, text, **id):
    """A JSON-RPC error, with an id if one is given."""
    return json.dumps(
        {"jsonrpc": "2.0", **id, "error": {"code": code, "message": text, "data": {"a": [1]}}}
    ).encode()


# ---- the statuses ---------------------------------------------------------------------------------------------------

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
    "407": (True, 407, {}, b"", {**FINAL, "reason": "HTTP 407: the proxy asks"}),
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
    "502": (True, 502, {}, b"", {"executed": MAYBE, "reason": "HTTP 502"}),
    "503": (True, 503, {"Retry-After": "5"}, b"", {"executed": MAYBE, "retry_after": 5.0}),
    "504": (True, 504, {}, b"", {"executed": MAYBE}),
    "302": (True, 302, {"Location": "/login"}, b"", {"executed": MAYBE, "is_final": True}),
    "200 empty": (True, 200, {}, b"", {"executed": MAYBE, "reason": "the server accepted it without an answer"}),
    "200 page": (True, 200, {"Content-Type": "text/html"}, b"<html>", {"executed": MAYBE, "reason": "the answer is no JSON-RPC"}),
    "200 other": (True, 200, {}, error_body(-1, "x", id=9), {"executed": MAYBE, "reason": "the answer is that of another"}),
    "200 no id": (True, 200, {}, error_body(-32000, "failed", id=None), -32000),
}  # fmt: skip


@pytest.mark.parametrize("row", STATUSES)
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
            assert (outcome.id, outcome.error["code"], outcome.error["data"]) == (1, expected, {"a": [1]})
            return
        assert isinstance(outcome, Loss), outcome
        wanted = {
            "is_session_gone": False,
            "is_final": False,
            "is_unreachable": False,
            "retry_after": None,
            **expected,
        }
        for name, value in wanted.items():
            told = getattr(outcome, name)
            assert told.startswith(value) if isinstance(value, str) and value else told == value, (name, told)
        assert server.seen["POST"] == 1 + 2 * has_session
    assert server.seen["DELETE"] == int(has_session and not outcome.is_session_gone)


# ---- no connection, or one that breaks ------------------------------------------------------------------------------


@asynccontextmanager
async def listening(attend):
    """A server of bytes."""
    server = await asyncio.start_server(attend, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def lost(url, **options):
    """The loss of one request."""
    async with connected(url, **options) as (upstream, heard):
        upstream.send(call(1))
        return await heard.outcome(1)


async def test_a_refused_connection_proves_that_it_did_not_run():
    """Nobody listens, or the name has no address: not carried out, and the session may still exist."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for url, reason in (
        (f"http://127.0.0.1:{port}/mcp", "connection refused"),
        ("http://nobody.invalid/mcp", "host name"),
    ):
        loss = await lost(url)
        assert (loss.executed, loss.is_unreachable, loss.is_final) == (NO, True, False)
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
    assert (loss.executed, loss.is_unreachable) == (NO, True)


async def test_a_certificate_that_is_not_accepted_is_final():
    """Not carried out, nothing was received, and no repeat can help."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    server = Scripted()
    async with server.serving(ssl_context=context) as url:
        loss = await lost(url)
    assert (loss.executed, loss.is_final, loss.is_unreachable) == (NO, True, False)
    assert "certificate" in loss.reason
    assert not server.seen


async def test_a_handshake_that_is_cut_proves_that_it_did_not_run():
    """Somebody accepts and hangs up before TLS stands: no byte of the request was written."""

    async def attend(reader, writer):
        await reader.read(10)
        writer.transport.abort()

    async with listening(attend) as port:
        loss = await lost(f"https://127.0.0.1:{port}/mcp")
    assert (loss.executed, loss.is_unreachable) == (NO, True)


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
    assert (loss.executed, loss.is_unreachable, loss.is_session_gone) == (MAYBE, False, False)
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
        assert [isinstance(outcome, Loss) for outcome in outcomes] == [number == 5 for number in range(1, 11)]
        assert outcomes[4].executed is MAYBE
        assert not heard.losses
    assert set(server.effects.values()) == {1}


# ---- streams --------------------------------------------------------------------------------------------------------


async def streamed(request, *pieces):
    """Answer with a stream of these bytes, and end it."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    return response


async def test_what_a_stream_brings_belongs_to_its_request():
    """Messages of the server come with the request in whose stream they are, an event may be large, noise is a note, and the connection is kept."""
    large = "x" * 3_000_000
    ports = set()

    async def script(request, message):
        ports.add(request.transport.get_extra_info("peername")[1])
        answer = {"jsonrpc": "2.0", "id": message["id"], **body_of(large)}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage"}
        return await streamed(
            request, b"event: ping\ndata: {}\n\ndata: noise\n\n", event(asked), event(answer)
        )

    async with Scripted(script).serving() as url, connected(url) as (upstream, heard):
        for number in (1, 2):
            upstream.send(call(number))
            answer = await heard.outcome(number)
            assert answer.result["content"][0]["text"] == large
            # the server's own ids are its own: a request of it with id 1 is no answer to ours
            assert [(m.method, r) for m, r in heard.messages if r == number] == [
                ("sampling/createMessage", number), ("", number)
            ]  # fmt: skip
            assert heard.notes == ["the server sent an event that is no message: not a JSON object"] * number
            await until(lambda: not upstream._tasks, "its stream has ended")
        assert len(ports) == 1


@pytest.mark.parametrize("form", ["stream", "json", "json, chunked"])
async def test_an_answer_beyond_the_limit_is_given_up(form):
    """With a reason that names the limit; the next one is read as if nothing had been."""

    async def script(request, message):
        text = "x" * (1 if message["id"] == 2 else 100_000)
        document = {"jsonrpc": "2.0", "id": message["id"], **body_of(text)}
        if form == "json":
            return web.json_response(document)
        if form == "stream":
            return await streamed(request, event(document))
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(json.dumps(document).encode())
        return response

    async with Scripted(script).serving() as url, connected(url, max_message=50_000) as (upstream, heard):
        upstream.send(call(1))
        loss = await heard.outcome(1)
        assert (loss.executed, loss.reason) == (
            MAYBE,
            "the answer was given up: it has more than 50000 bytes",
        )
        upstream.send(call(2))
        assert (await heard.outcome(2)).result


async def test_a_stream_that_ends_without_its_answer_is_cut_at_once():
    """Without event ids there is nothing to take up again."""
    server = Scripted()

    async def script(request, message):
        server.ran(message)
        return await streamed(
            request, event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        )

    server.script = script
    async with server.serving() as url, connected(url) as (upstream, heard):
        await opened(upstream, heard)
        upstream.send(call(1))
        async with asyncio.timeout(1):
            loss = await heard.outcome(1)
        assert (loss.executed, loss.reason) == (MAYBE, "the answer was cut off")
    assert server.effects == {1: 1}


@pytest.mark.parametrize("way", ["answer", "405", "404", "away", "modern"])
async def test_a_stream_with_event_ids_is_taken_up_again(way):
    """After the time that `retry:` names, from the last id; refused for good or away for too long, the answer was cut. Not since 2026-07-28."""
    server = Scripted()
    answer = {"jsonrpc": "2.0", "id": 1, **body_of("late")}
    resumed = []

    async def script(request, message):
        server.ran(message)
        return await streamed(request, event(None, id="e-1", retry=20))

    async def notices(request):
        if "Last-Event-ID" not in request.headers:
            return web.Response(status=405)
        resumed.append((request.headers["Last-Event-ID"], request.headers["Mcp-Session-Id"]))
        if way == "answer":
            return await streamed(
                request,
                *([event(answer)] if len(resumed) == 3 else [event(None, id=f"e-{len(resumed) + 1}")]),
            )
        if way == "away":
            request.transport.abort()
        return web.Response(status=404 if way == "404" else 405)

    server.script, server.notices = script, notices
    async with server.serving() as url, connected(url, resume_within=0.1) as (upstream, heard):
        if way != "modern":
            await opened(upstream, heard)
        upstream.send(call(1, modern=way == "modern"))
        async with asyncio.timeout(5):
            outcome = await heard.outcome(1)
    assert server.effects == {1: 1}
    if way == "answer":
        assert outcome.result["content"][0]["text"] == "late"
        assert resumed == [("e-1", "s-1"), ("e-2", "s-1"), ("e-3", "s-1")]
        return
    assert (outcome.executed, outcome.reason) == (MAYBE, "the answer was cut off")
    assert (
        (len(resumed) == 0)
        if way == "modern"
        else (len(resumed) > 1)
        if way == "away"
        else (len(resumed) == 1)
    )


async def test_cancelled_its_stream_is_closed_and_nothing_is_told():
    """The server sees the end of the stream; the others go on."""
    closed = []

    async def script(request, message):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}))
        await until(
            lambda: request.transport is None or request.transport.is_closing(), "the client hangs up"
        )
        closed.append(message["id"])
        return response

    server = Scripted(script)
    async with server.serving() as url, connected(url) as (upstream, heard):
        upstream.send(call(1, modern=True))
        await until(lambda: len(heard.messages) == 1, "it runs")
        upstream.send(
            rpc.notification("notifications/cancelled", {"requestId": 1})
        )  # since 2026-07-28 no message
        await until(lambda: closed == [1], "the server sees it")
        upstream.send(call(2, modern=True))
        await until(lambda: len(heard.messages) == 2, "it runs")
        upstream.cancel(2)
        await until(lambda: closed == [1, 2], "the server sees it")
        upstream.cancel(2)
        assert not heard.unanswered
    assert server.seen == {"POST": 2}


# ---- the session, and what goes first -------------------------------------------------------------------------------


async def test_the_order_of_what_is_sent():
    """Nothing before initialize is answered; no request before "initialized" is accepted; "cancelled" after its request."""
    times = []

    class Slow(Scripted):
        async def handle(self, request):
            message = await request.json() if request.method == "POST" else {}
            times.append(f"{message.get('method', request.method)} {message.get('id', '')}")
            if message.get("method") in {"initialize", "notifications/initialized"}:
                await asyncio.sleep(0.05)
            if message.get("method"):
                times.append(f"/{message['method']}")
            return await super().handle(request)

    ends = asyncio.Event()

    async def script(*_):
        await ends.wait()
        return web.Response()

    server = Slow(script)
    async with server.serving() as url, connected(url) as (upstream, _):
        upstream.send(rpc.request(0, "initialize", {"protocolVersion": "2025-06-18"}))
        upstream.send(rpc.notification("notifications/initialized"))
        upstream.send(call(1))
        upstream.send(rpc.notification("notifications/cancelled", {"requestId": 1}))
        upstream.cancel(1)  # it was never sent: nobody has to hear that it is cancelled
        upstream.send(call(2))
        await until(lambda: "tools/call 2" in times, "the second is sent")
        upstream.send(call(3))
        upstream.send(rpc.notification("notifications/cancelled", {"requestId": 3}))
        await until(lambda: "notifications/cancelled " in times, "it is cancelled")
        posts = [line for line in times if "GET" not in line]
        assert posts[:4] == [
            "initialize 0", "/initialize", "notifications/initialized ", "/notifications/initialized"
        ]  # fmt: skip
        assert posts[4:] == [
            "tools/call 2", "/tools/call", "tools/call 3", "/tools/call", "notifications/cancelled ", "/notifications/cancelled"
        ]  # fmt: skip
        first, *rest = [headers for _, headers in server.posts]
        assert "MCP-Protocol-Version" not in first
        assert {(h["MCP-Protocol-Version"], h["Mcp-Session-Id"]) for h in rest} == {("2025-06-18", "s-1")}
        ends.set()
    assert server.seen["DELETE"] == 1


async def test_the_stream_of_notices_is_opened_again_until_the_session_is_gone():
    """From its last id; once the server does not know the session, that is said when nothing is open any more."""
    lives = []
    ends = asyncio.Event()
    notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async def notices(request):
        lives.append(request.headers.get("Last-Event-ID"))
        if len(lives) == 3:
            return web.Response(status=404)
        return await streamed(
            request, event({**notice, "params": {"n": len(lives)}}, id=f"n-{len(lives)}", retry=10)
        )

    async def script(_, message):
        await ends.wait()
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **body_of("done")})

    server = Scripted(script, notices)
    async with server.serving() as url, connected(url) as (upstream, heard):
        await opened(upstream, heard)
        upstream.send(call(1))
        await until(lambda: len(lives) == 3, "the third GET")
        assert lives == [None, "n-1", "n-2"]
        assert [(m.params["n"], r) for m, r in heard.messages if m.is_notification] == [(1, None), (2, None)]
        assert not heard.losses
        ends.set()
        assert (await heard.outcome(1)).result
        await until(lambda: heard.losses, "the loss")
        assert heard.losses[0].is_session_gone
    assert server.seen["DELETE"] == 0


async def test_modern_requests_carry_what_the_body_says_as_headers():
    """Method, name and marked arguments; no session, no stream of notices, no DELETE. Tools with marks that are not valid are named."""
    pytest.importorskip("mcp.shared.inbound")
    tools = [
        {"name": "order", "inputSchema": {"properties": {
            "where": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer", "x-mcp-header": "Count"}}}},
        {"name": "bad", "inputSchema": {"properties": {"n": {"type": "number", "x-mcp-header": "N"}}}},
        {"name": "plain", "inputSchema": {"properties": {"n": {"type": "number"}}}},
    ]  # fmt: skip
    server = Scripted()
    async with server.serving() as url, connected(url) as (upstream, heard):
        assert set(upstream.know_tools(tools)) == {"bad"}
        upstream.send(call(1, modern=True, where="Zürich", n=3))
        upstream.send(call(2, "grüezi", modern=True))
        await heard.outcome(1)
        await heard.outcome(2)
        one, two = (headers for _, headers in sorted(server.posts, key=lambda post: post[0]["id"]))
        names = [
            "MCP-Protocol-Version",
            "Mcp-Method",
            "Mcp-Name",
            "Mcp-Param-Region",
            "Mcp-Param-Count",
            "Mcp-Session-Id",
        ]
        assert [one.get(name) for name in names] == [
            MODERN,
            "tools/call",
            "order",
            "=?base64?WsO8cmljaA==?=",
            "3",
            None,
        ]
        assert [two.get(name) for name in names[2:4]] == ["=?base64?Z3LDvGV6aQ==?=", None]
    assert server.seen == {"POST": 2}


# ---- where it may go ------------------------------------------------------------------------------------------------


async def test_redirects_are_followed_inside_the_origin_only():
    """307 and 308 with method, body and headers; to another origin nothing goes, least of all a credential."""
    stranger = Scripted()
    targets = {}

    class Moved(Scripted):
        async def handle(self, request):
            if request.path != "/mcp":
                return await super().handle(request)
            return web.Response(status=307, headers={"Location": targets["to"]})

    server = Moved()
    headers = {"Authorization": "Bearer topsecret-1"}
    async with stranger.serving() as elsewhere, server.serving() as url:
        targets["to"] = "/mcp/"
        async with connected(url, headers=headers) as (upstream, heard):
            upstream.send(call(1))
            assert (await heard.outcome(1)).result
            assert server.posts[0][1]["Authorization"] == "Bearer topsecret-1"
        targets["to"] = elsewhere
        loss = await lost(url, headers=headers)
        assert (loss.executed, loss.is_final) == (MAYBE, True)
        assert "redirect" in loss.reason
    assert not stranger.seen
    assert server.effects == {1: 1}


@pytest.mark.parametrize(
    ("url", "headers", "reason"),
    [
        ("ftp://host/mcp", {}, "wanted http:// or https://"),
        ("host/mcp", {}, "wanted http:// or https://"),
        ("http://host:x/mcp", {}, "an unreadable one"),
        ("http://host/mcp", {"Authorization": "Bearer topsecret-1"}, "credentials over plaintext refused"),
        ("http://user:topsecret-1@host/mcp", {}, "credentials over plaintext refused"),
        ("https://host/mcp", {"X-Key": "topsecret-1\n"}, "wanted printable characters"),
    ],
)
async def test_what_cannot_work_or_would_leak_is_refused_before_anything_is_sent(url, headers, reason):
    """By `open`, for good, and without a secret in the words."""
    with pytest.raises(LostError, match=reason) as caught:
        async with connected(url, headers=headers):
            pass
    assert (caught.value.loss.is_final, caught.value.loss.executed) == (True, NO)
    assert "topsecret" not in repr(caught.value.loss)


async def test_no_secret_that_a_server_echoes_is_told():
    """Header values, parts of the URL and the session id are masked in reasons, words and notes."""
    secret = "topsecret-1"

    async def script(*_):
        challenge = {"WWW-Authenticate": f'Bearer error_description="{secret} and qu-ery-2 and s-1-session"'}
        return web.Response(status=401, text=f"no {secret} qu-ery-2 s-1-session", headers=challenge)

    server = Scripted(script, session="s-1-session").serving()
    async with (
        server as url,
        connected(f"{url}?key=qu-ery-2", headers={"X-Mine": secret}) as (upstream, heard),
    ):
        await opened(upstream, heard)
        upstream.send(call(1))
        loss = await heard.outcome(1)
    assert not any(word in repr(loss) for word in (secret, "qu-ery-2", "s-1-session"))
    assert loss.words == "no [redacted] [redacted] [redacted]"


async def test_close_is_bounded_whatever_is_open():
    """A POST without an answer, one that is connecting, a stream of notices, a DELETE that hangs: a few seconds, and no socket is left."""
    hanging = asyncio.Event()

    async def script(*_):
        await hanging.wait()

    async def notices(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await hanging.wait()
        return response

    class Hangs(Scripted):
        async def handle(self, request):
            if request.method == "DELETE":
                await hanging.wait()
            return await super().handle(request)

    server = Hangs(script, notices)
    loop = asyncio.get_running_loop()
    async with server.serving() as url:
        before = sockets()
        async with connected(url) as (upstream, heard):
            await opened(upstream, heard)
            upstream.send(call(1))
            await until(lambda: server.seen["GET"] and server.seen["POST"] == 3, "all is open")
            began = loop.time()
        assert loop.time() - began < 5
        assert not heard.unanswered
        hanging.set()
        await until(lambda: sockets() <= before, "no socket is left")


def sockets():
    """How many sockets this process has."""
    kinds = []
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            kinds.append(str(file.readlink()))
    return sum(kind.startswith("socket:") for kind in kinds)


# ---- servers that are not ours --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "stream"])
async def test_the_python_sdk_restarted_has_forgotten_the_session(form, tmp_path):
    """Each call that meets it provably did not run, concerns itself, and is done in the next session: once. While it is away: unreachable."""
    ledger = Ledger(tmp_path / "ledger")
    async with sdk_server(
        lambda: build(ledger.file, 2).streamable_http_app(json_response=form == "json")
    ) as server:
        async with connected(server.url) as (upstream, heard):
            assert (await opened(upstream, heard))["serverInfo"]["name"] == "peer"
            upstream.send(order(1, "a"))
            assert (await heard.outcome(1)).result["content"][0]["text"] == "created a"
            await server.stop()
            upstream.send(order(2, "b"))
            loss = await heard.outcome(2)
            assert (loss.executed, loss.is_unreachable, loss.is_session_gone) == (NO, True, False)
            await server.start()
            upstream.send(order(3, "b"))
            upstream.send(order(4, "c"))
            for number in (3, 4):
                loss = await heard.outcome(number)
                assert (loss.executed, loss.is_unreachable, loss.is_session_gone) == (NO, False, True)
            assert ledger.keys == ["a"]
        async with connected(server.url) as (upstream, heard):
            await opened(upstream, heard)
            upstream.send(order(1, "b"))
            assert (await heard.outcome(1)).result
    assert ledger.keys == ["a", "b"]


@pytest.mark.parametrize("form", ["json", "stream"])
async def test_the_python_sdk_in_the_modern_era_has_no_session(form, tmp_path):
    """Requests on their own, known by their `_meta`; restarted it answers the next; killed in the middle of a call, that may have run."""
    ledger = Ledger(tmp_path / "ledger")
    app = lambda: build(ledger.file, 2).streamable_http_app(json_response=form == "json")  # noqa: E731
    async with sdk_server(app) as server, connected(server.url) as (upstream, heard):
        upstream.send(order(1, "a", modern=True))
        assert (await heard.outcome(1)).result["resultType"] == "complete"
        upstream.send(call(2, "slow", modern=True, seconds=30, key="b"))
        await ledger.wait_for("b")
        await server.stop()
        assert (await heard.outcome(2)).executed is MAYBE
        await server.start()
        upstream.send(order(3, "c", modern=True))
        assert (await heard.outcome(3)).result
        upstream.send(rpc.request(4, "no/such", {"_meta": order(4, "", modern=True).meta}))
        assert (await heard.outcome(4)).error["code"] == -32601  # which comes with a 404
    assert ledger.keys == ["a", "b", "c"]


async def test_the_python_sdk_s_own_streams_are_taken_up_again():
    """It closes the stream of a call in the middle, as 2025-11-25 has it, keeps the events, and tells changes on the stream of notices."""
    effects = []
    peer = MCPServer("peer", version="1", log_level="CRITICAL")

    @peer.tool()
    async def polled(ctx: Context) -> str:
        effects.append("polled")
        await ctx.session.send_tool_list_changed()
        await ctx.close_sse_stream()
        await asyncio.sleep(0.05)
        return "after the cut"

    gets = []

    def app():
        inner = peer.streamable_http_app(event_store=Kept(), retry_interval=20)

        async def counted(scope, receive, send):
            async def told(message):
                await send(message)
                if message["type"] == "http.response.start" and scope["method"] == "GET":
                    gets.append(dict(scope["headers"]).get(b"last-event-id"))

            await inner(scope, receive, told if scope["type"] == "http" else send)

        return counted

    async with sdk_server(app) as server, connected(server.url) as (upstream, heard):
        await opened(upstream, heard)
        await until(lambda: gets, "the stream of notices is there")
        upstream.send(call(1, "polled"))
        assert (await heard.outcome(1)).result["content"][0]["text"] == "after the cut"
        await until(
            lambda: ("notifications/tools/list_changed", None) in [(m.method, r) for m, r in heard.messages],
            "the notice",
        )
    assert effects == ["polled"]
    assert gets[0] is None
    assert len([position for position in gets if position]) == 1


class Kept(EventStore):
    """The events of all streams, in memory."""

    def __init__(self):
        """None yet."""
        self.events = []

    async def store_event(self, stream_id, message):
        """Keep it; its id is its number."""
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        """Send what came later in the same stream."""
        after = int(last_event_id)
        stream_id = self.events[after - 1][0]
        for number, (stream, message) in enumerate(self.events[after:], after + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


@needs_everything
async def test_node_s_own_example_server(tmp_path):
    """Another implementation: a session, notices, a 400 without an id once it is restarted, which proves that the call did not run."""
    async with everything(tmp_path / "log") as server, connected(server.url()) as (upstream, heard):
        assert "everything" in (await opened(upstream, heard))["serverInfo"]["name"]
        upstream.send(call(1, "echo", message="a"))
        assert (await heard.outcome(1)).result["content"][0]["text"] == "Echo: a"
        await server.restart()
        upstream.send(call(2, "echo", message="b"))
        loss = await heard.outcome(2)
        assert (loss.executed, loss.is_session_gone) == (NO, True)
        async with connected(server.url()) as (later, told):
            await opened(later, told)
            later.send(call(1, "echo", message="b"))
            assert (await told.outcome(1)).result["content"][0]["text"] == "Echo: b"
