"""Servers of MCP over streamable HTTP for tests of the connection to one: a scripted one on aiohttp, and the Python SDK's in this process.

Rule: each counts what reached it and what it did, so that a test knows what ran whatever was answered.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import asynccontextmanager, suppress

import uvicorn
from aiohttp import web

from tests.internals.adapters import HTTPUpstream
from tests.internals.adapters import message as rpc
from tests.peers.ports import Port
from tests.peers.running import until


LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
INITIALIZE = {
    "protocolVersion": LEGACY,
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Heard:
    """What a connection told."""

    def __init__(self):
        """Nothing yet."""
        self.messages, self.unanswered, self.losses, self.notes = [], {}, [], []

    def on_message(self, message, request):
        """Remember it."""
        self.messages.append((message, request))

    def on_unanswered(self, request, loss):
        """Remember it; it is said once, and never after the answer."""
        assert request not in self.unanswered
        assert not self.answers(request)
        self.unanswered[request] = loss

    def on_lost(self, loss):
        """Remember it."""
        self.losses.append(loss)

    def on_note(self, text):
        """Remember it."""
        self.notes.append(text)

    def answers(self, request):
        """The answers to one request."""
        return [
            message for message, _ in self.messages if message.is_answer and message.id == request
        ]

    async def outcome(self, request):
        """The answer to a request, or its loss."""
        await until(
            lambda: request in self.unanswered or self.answers(request), f"the end of {request}"
        )
        return self.unanswered[request] if request in self.unanswered else self.answers(request)[0]


@asynccontextmanager
async def connected(url, **options):
    """A connection and what it tells; when it is closed, no task of it is left."""
    before = asyncio.all_tasks()
    heard = Heard()
    upstream = HTTPUpstream(url, receiver=heard, **options)
    await upstream.open()
    try:
        yield upstream, heard
    finally:
        async with asyncio.timeout(6):
            await upstream.close()
        remaining = [
            task
            for task in asyncio.all_tasks() - before
            if "resilient_bridge mcp" in task.get_name()
        ]
        assert not remaining


async def opened(upstream, heard, **changed):
    """Initialize; return the result."""
    upstream.send(rpc.request(0, "initialize", {**INITIALIZE, **changed}))
    answer = await heard.outcome(0)
    upstream.send(rpc.notification("notifications/initialized"))
    return answer.result


def call(id, tool="order", modern=False, **arguments):
    """A request to call a tool."""
    meta = {"_meta": META} if modern else {}
    return rpc.request(id, "tools/call", {"name": tool, "arguments": arguments, **meta})


def order(id, key, **more):
    """A request to call the tool that must not run twice."""
    return call(id, "create_ticket", key=key, **more)


def body_of(text, **more):
    """A result of a tool."""
    return {"result": {"content": [{"type": "text", "text": text}], **more}}


def event(document, id="", retry=None):
    """One event of a stream."""
    lines = [f"id: {id}"] if id else []
    lines += [f"retry: {retry}"] if retry is not None else []
    data = json.dumps(document) if document is not None else ""
    return ("\n".join([*lines, f"data: {data}"]) + "\n\n").encode()


async def streamed(request, *pieces):
    """Answer with a stream of these bytes, and end it."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    return response


async def lost(url, **options):
    """The loss of one request."""
    async with connected(url, **options) as (upstream, heard):
        upstream.send(call(1))
        return await heard.outcome(1)


class Scripted:
    """A server that answers tools/call as its script says, and everything else as a server should.

    `effects` counts the calls that it carried out, by id; `seen` the requests by method of HTTP; `posts` are their messages and headers.
    """

    def __init__(self, script=None, notices=None, session="s-1"):
        """`script(request, message)` answers a tools/call; `notices(request)` the GET."""
        self.script, self.notices, self.session = script, notices, session
        self.effects, self.seen = Counter(), Counter()
        self.posts, self.gets = [], []

    def ran(self, message):
        """Carry it out."""
        self.effects[message["id"]] += 1

    async def handle(self, request):
        """Any request."""
        self.seen[request.method] += 1
        if request.method == "GET":
            self.gets.append(dict(request.headers))
            return web.Response(status=405) if self.notices is None else await self.notices(request)
        if request.method == "DELETE":
            return web.Response(status=200)
        message = await request.json()
        self.posts.append((message, request.headers))
        method = message.get("method")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            result = {
                "protocolVersion": version,
                "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"},
            }
            headers = {"Mcp-Session-Id": self.session} if self.session else {}
            return web.json_response(
                {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers
            )
        if "id" not in message or method is None:
            return web.Response(status=202)
        if self.script is not None:
            return await self.script(request, message)
        self.ran(message)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **body_of("done")})

    @asynccontextmanager
    async def serving(self, **how):
        """Its URL, while it listens."""
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{tail:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.01, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, **how)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        try:
            yield f"http{'s' if how else ''}://127.0.0.1:{port}/mcp"
        finally:
            await runner.cleanup()


class SDKServer:
    """The Python SDK's server in this process, on a port that stays its own: stopped and started, it has forgotten its sessions."""

    def __init__(self, port, build):
        """`build` makes the app anew for each life."""
        self.port, self._build = port, build
        self._server = self._task = None

    @property
    def url(self):
        """The address for a client."""
        return f"http://127.0.0.1:{self.port.number}/mcp"

    async def start(self):
        """Listen."""
        config = uvicorn.Config(
            self._build(),
            log_config=None,
            access_log=False,
            lifespan="on",
            timeout_graceful_shutdown=0,
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = suppress  # the signals are the test run's
        self._task = asyncio.create_task(self._server.serve(sockets=[self.port.listen()]))
        await until(lambda: self._server.started, "the server listens")

    async def stop(self):
        """End all its connections."""
        if self._task is not None:
            self._server.should_exit = self._server.force_exit = True
            await self._task
            self._task = None


class Door:
    """The authentication before an MCP server: `valid` is the only token, `asked` counts what came with which."""

    def __init__(self, valid, build_inner):
        """`build_inner` makes the server behind it."""
        self.valid, self.asked, self.refused = valid, Counter(), 0
        self.on_refusal = lambda: None
        self._build = build_inner

    def __call__(self):
        """A new app, as `sdk_server` wants it."""
        inner = self._build()

        async def app(scope, receive, send):
            if scope["type"] != "http":
                return await inner(scope, receive, send)
            token = (
                dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
            )
            self.asked[token] += 1
            if token == self.valid:
                return await inner(scope, receive, send)
            self.refused += 1
            self.on_refusal()
            await send(
                {
                    "type": "http.response.start",
                    "status": 401,
                    "headers": [(b"content-type", b"text/plain")],
                }
            )
            return await send({"type": "http.response.body", "body": f"{token} is over".encode()})

        return app


@asynccontextmanager
async def sdk_server(build):
    """The SDK's server, listening."""
    with Port() as port:
        server = SDKServer(port, build)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()
