"""A relay that answers by a script, behind a real HTTP front, and raw requests to that front.

Rule: it knows what `front.Relayed` promises and nothing of HTTP, so that what a test sees of HTTP is the front's.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx

from tests.internals.adapters import message as rpc
from tests.internals.adapters import serve_http


TOKEN = "a-token-of-the-test-0123456789"
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}
_TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}}
    for name in ("echo", "now", "progress", "roots", "hold")
]
_INFO = {
    "serverInfo": {"name": "scripted", "version": "1"},
    "capabilities": {"tools": {}, "logging": {}},
}


class ScriptedRelay:
    """Answers each request a turn later. `clients` are those connected; `got` are (client, message)."""

    def __init__(self, schemas=()):
        self.schemas = dict(schemas)  # by tool
        self.clients, self.got, self.cancelled = [], [], []
        self.is_closed = False
        self.state = "ok"
        self.waiting = {}  # (client, key of our own request): what to do with its answer

    def connect(self, client):
        self.clients.append(client)

    def disconnect(self, client):
        self.clients.remove(client)

    def status(self):
        return {"status": self.state, "command": "a secret command"}

    def schema_of(self, tool):
        return self.schemas.get(tool)

    async def close(self):
        self.is_closed = True

    def receive(self, client, message):
        self.got.append((client, message))
        if message.is_answer:
            self.waiting.pop((client, message.key), lambda _: None)(message)
        elif message.is_notification:
            if message.method == "notifications/cancelled":
                key = rpc.key_of(message.params["requestId"])
                self.cancelled.append(key)
                client.drop(key)
        elif message.name == "now":
            self.answer(client, message, now=True)
        elif message.name == "hold" or message.method == "subscriptions/listen":
            pass
        else:
            asyncio.get_running_loop().call_soon(self.act, client, message)

    def act(self, client, message):
        """What happens a turn after a request came."""
        if message.name == "progress" or message.progress_token is not None:
            params = {
                "progressToken": message.progress_token,
                "progress": 1,
                "message": message.params["arguments"]["mark"],
            }
            client.deliver(rpc.notification("notifications/progress", params), message.key)
        if message.name == "roots":
            ask = rpc.request(f"ours {message.id}", "roots/list")
            self.waiting[client, ask.key] = lambda answer: self.answer(
                client, message, answer.result["roots"][0]["uri"]
            )
            client.deliver(ask, message.key)
            return
        self.answer(client, message)

    def answer(self, client, message, text=None, *, now=False):
        """Answer a request: with its mark, or a text."""
        if message.method == "initialize":
            if message.params.get("protocolVersion") == "refuse":
                client.deliver(rpc.error(message.id, -32000, "no such server"), message.key)
                return
            result = _INFO | {"protocolVersion": message.params["protocolVersion"]}
        elif message.method == "server/discover":
            result = _INFO | {"supportedVersions": [MODERN]} | _complete()
        elif message.method == "tools/list":
            result = {"tools": _TOOLS} | _complete()
        elif message.method == "tools/call":
            mark = text or message.params.get("arguments", {}).get("mark", "")
            result = {"content": [{"type": "text", "text": mark}], "resultType": "complete"}
        else:
            client.deliver(rpc.error(message.id, -32601, "method not found"), message.key)
            return
        client.deliver(rpc.result(message.id, result), message.key)

    def held(self, number=0):
        """The client and the message of a request that is held back."""
        return [(client, message) for client, message in self.got if message.name == "hold"][number]


def _complete():
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class Front:
    """A front that runs, its relays in the order in which they were made, and raw requests to it."""

    def __init__(self, url, relays, http):
        self.url, self.relays, self.http = url, relays, http

    async def post(self, body, session=None, **headers):
        """POST a message; the response, read to its end."""
        return await self.http.post(
            self.url, content=_text(body), headers=_headers(session, headers)
        )

    def stream(self, method, body=None, session=None, **headers):
        """The same, as a context manager whose response is read by the caller."""
        content = None if body is None else _text(body)
        return self.http.stream(
            method, self.url, content=content, headers=_headers(session, headers)
        )

    async def open(self, version="2025-11-25"):
        """Begin a session; its id."""
        response = await self.post(
            request(0, "initialize", protocolVersion=version, capabilities={})
        )
        assert response.status_code == 200
        return response.headers["mcp-session-id"]


@asynccontextmanager
async def running(token=TOKEN, schemas=(), **options):
    """A front with scripted relays, and an HTTP client that shows the token."""
    relays = []

    def make_relay():
        relays.append(ScriptedRelay(schemas))
        return relays[-1]

    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        serve_http(make_relay, token=token, **options) as url,
        httpx.AsyncClient(headers=headers, timeout=20, trust_env=False) as http,
    ):
        yield Front(url, relays, http)


def request(id, method, **params):
    """A request."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def call(id, tool, mark="", meta=None):
    """A tools/call."""
    params = {"name": tool, "arguments": {"mark": mark}}
    return request(id, "tools/call", **params, **({"_meta": meta} if meta else {}))


def modern(body, **headers):
    """A request without a session, and the headers that belong to it."""
    params = body["params"]
    body = body | {"params": params | {"_meta": META | params.get("_meta", {})}}
    named = {"mcp-name": params["name"]} if "name" in params else {}
    return body, {"mcp-protocol-version": MODERN, "mcp-method": body["method"], **named, **headers}


def events(text):
    """The events of a stream's text: (id, message or None)."""
    found = []
    for block in text.split("\r\n\r\n"):
        fields = dict(
            line.split(": ", 1)
            for line in block.split("\r\n")
            if line[:1] not in {"", ":"} and ": " in line
        )
        if "data" in fields or "id" in fields:
            found.append(
                (fields.get("id"), json.loads(fields["data"]) if fields.get("data") else None)
            )
    return found


def answer_of(response):
    """The answer in a response, which is JSON or a stream."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    return next(
        message
        for _, message in reversed(events(response.text))
        if message and "method" not in message
    )


def _text(body):
    return body if isinstance(body, str | bytes) else json.dumps(body)


def _headers(session, headers):
    sent = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    sent |= {} if session is None else {"mcp-session-id": session}
    return sent | {name.replace("_", "-"): value for name, value in headers.items()}
