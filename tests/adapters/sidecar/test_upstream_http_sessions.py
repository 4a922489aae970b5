"""A session over streamable HTTP: what goes before what, its stream of notices, the headers of both eras, and its end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from aiohttp import web

import resilient_bridge as rb
from tests.adapters.sidecar.http_servers import (
    MODERN,
    Scripted,
    body_of,
    call,
    connected,
    event,
    opened,
    streamed,
)
from tests.internals.adapters import message as rpc
from tests.peers.running import until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


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
        assert {(h["MCP-Protocol-Version"], h["Mcp-Session-Id"]) for h in rest} == {
            ("2025-06-18", "s-1")
        }
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
        assert [(m.params["n"], r) for m, r in heard.messages if m.is_notification] == [
            (1, None),
            (2, None),
        ]
        assert not heard.losses
        ends.set()
        assert (await heard.outcome(1)).result
        await until(lambda: heard.losses, "the loss")
        assert heard.losses[0].is_session_gone
    assert server.seen["DELETE"] == 0


async def test_modern_requests_carry_what_the_body_says_as_headers():
    """Method, name and marked arguments; no session, no stream of notices, no DELETE. Marks that are not valid are left out."""
    pytest.importorskip("mcp.shared.inbound")
    tools = [
        {"name": "order", "inputSchema": {"properties": {
            "where": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer", "x-mcp-header": "Count"}}}},
        {"name": "bad", "inputSchema": {"properties": {"n": {"type": "number", "x-mcp-header": "N"}}}},
        {"name": "plain", "inputSchema": {"properties": {"n": {"type": "number"}}}},
    ]  # fmt: skip
    server = Scripted()
    async with server.serving() as url, connected(url) as (upstream, heard):
        upstream.know_tools(tools)
        upstream.send(call(1, modern=True, where="Zürich", n=3))
        upstream.send(call(2, "grüezi", modern=True))
        upstream.send(call(3, "bad", modern=True, n=1.5))
        for number in (1, 2, 3):
            await heard.outcome(number)
        one, two, bad = (
            headers for _, headers in sorted(server.posts, key=lambda post: post[0]["id"])
        )
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
        assert "Mcp-Param-N" not in bad
    assert server.seen == {"POST": 3}


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


NOT_FOUND = {"code": -32001, "message": "Session not found"}


@pytest.mark.parametrize("form", ["json", "stream"])
@pytest.mark.parametrize(
    ("error", "session", "is_gone"),
    [
        (NOT_FOUND, "s-1", True),
        ({"code": -32600, "message": "Session not found"}, "s-1", True),
        (NOT_FOUND, "", False),
        ({**NOT_FOUND, "data": {"session": "browser-1"}}, "s-1", False),
        ({"code": -32602, "message": "Session not found"}, "s-1", False),
        ({"code": -32001, "message": "Request timed out"}, "s-1", False),
    ],
    ids=[
        "unknown",
        "invalid request",
        "no session",
        "of the application",
        "an argument",
        "a timeout",
    ],
)
async def test_an_unknown_session_inside_of_a_success_is_one(form, error, session, is_gone):
    """M06: the next session can do the call; an error about a session of the application is the answer."""

    async def script(request, message):
        document = {"jsonrpc": "2.0", "id": message["id"], "error": error}
        return (
            web.json_response(document)
            if form == "json"
            else await streamed(request, event(document))
        )

    server = Scripted(script, session=session)
    async with server.serving() as url, connected(url) as (upstream, heard):
        if session:
            await opened(upstream, heard)
        upstream.send(call(1))
        outcome = await heard.outcome(1)
        assert getattr(outcome, "is_session_gone", False) == is_gone
        if is_gone:
            assert outcome.executed is rb.errors.Executed.NO
        else:
            assert outcome.error == error
