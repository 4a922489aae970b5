"""`doctor --mcp URL`: what it finds out over HTTP about servers that do what a test tells them."""

from __future__ import annotations

import argparse

import pytest
from aiohttp import web

from tests.adapters.sidecar.http_servers import Scripted, body_of
from tests.internals.cli import Page, examine_url


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


async def _examined(url, *, tool=None) -> Page:
    page = Page()
    assert await examine_url(url, argparse.Namespace(header=[], probe_tool=tool), {}, page) == 0
    return page


def _found(page: Page, what: str) -> str:
    return next(row.found for row in page.rows if row.what == what)


class _Older(Scripted):
    """A server of an older version, at a path that redirects; `breaks` says which requests it cuts."""

    def __init__(self, script=None, *, breaks=lambda *_: False):
        super().__init__(script)
        self.breaks = breaks

    async def handle(self, request):
        if request.path == "/mcp":
            return web.Response(status=307, headers={"Location": "/mcp/"})
        message = await request.json() if request.method == "POST" else {}
        if self.breaks(request, message):
            request.transport.abort()
            return web.Response()
        if message.get("method") == "initialize":
            self.posts.append((message, request.headers))
            result = {"protocolVersion": "2025-06-18", "capabilities": {}}
            headers = {"Mcp-Session-Id": self.session}
            return web.json_response(
                {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers
            )
        return await super().handle(request)


async def test_sessions_are_looked_at_as_the_sidecar_would_use_them(monkeypatch):
    """Redirects are followed, the version is the one agreed upon, and no proxy stands before this machine's own servers."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = _Older()
    async with server.serving() as url:
        page = await _examined(url)
    assert page.data["sessions"]
    assert page.data["session_survives_cut"]
    assert page.data["ends_sessions"]
    versions = {h.get("MCP-Protocol-Version") for m, h in server.posts if m["method"] == "ping"}
    assert versions == {"2025-06-18"}


@pytest.mark.parametrize(
    ("method", "which", "rows"),
    [
        ("initialize", 2, ["sessions"]),
        ("ping", 2, ["new connection"]),
        ("DELETE", 2, ["DELETE"]),
        ("ping", 3, ["ended session"]),
    ],
)
async def test_what_a_broken_connection_hides_is_a_row(method, which, rows):
    """No traceback: the row says that it was not found out, and why; the rest of the page is there."""
    seen = []

    def breaks(request, message):
        name = message.get("method") if message else request.method
        seen.extend([name] if name == method else [])
        return name == method and len(seen) == which

    async with _Older(breaks=breaks).serving() as url:
        page = await _examined(url)
    hidden = {row.what: row.found for row in page.rows if row.found.startswith("not found out: ")}
    assert list(hidden) == rows
    assert len(hidden[rows[0]]) > len("not found out: ")
    assert page.rows[-1].what == "protocol"


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_of_http_alone_is_no_answer(status):
    """A cancelled call that gets none is what the protocol wants; an unknown method that gets none is not refused."""
    calls = []

    async def script(_, message):
        if message["method"] == "tools/call":
            calls.append(message)
        if message["method"] == "resilient-bridge/unknown" or (calls and len(calls) == 1):
            return web.Response(status=status)
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **body_of("done")})

    async with Scripted(script).serving() as url:
        page = await _examined(url, tool="order")
    assert page.data["cancelled_is_answered"] is False
    assert _found(page, "cancelled call") == "not answered, as the protocol wants it"
    assert page.data["probe"]
    assert page.data["unknown_method"] is None
    assert _found(page, "unknown method").startswith("not answered")


async def test_a_server_that_refuses_the_opening_is_named_with_its_reason():
    """Which came with HTTP alone."""

    class Refuses(Scripted):
        async def handle(self, request):
            return web.Response(status=503)

    page = Page()
    async with Refuses().serving() as url:
        assert await examine_url(url, argparse.Namespace(header=[], probe_tool=None), {}, page) == 1
    assert _found(page, "starts").startswith("no: HTTP 503")
