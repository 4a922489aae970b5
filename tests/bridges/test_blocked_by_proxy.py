"""A WebSocket that a proxy blocks: nginx that filters it, takes its headers away, or answers with a page."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

import resilient_bridge as rb
from tests.bridges.aiohttp_server import serving
from tests.peers.nginx import needs_nginx, nginx
from tests.peers.ports import HOST


pytestmark = pytest.mark.real

SERVER = """
location /filtered { default_type text/html; return 403 "<html><h1>Blocked by policy</h1></html>"; }
location /page { default_type text/html; return 200 "<html><title>Sign in</title></html>"; }
"""
#: path: the code, and the status; "/" is a server of WebSockets behind nginx as its defaults are
BLOCKED = {
    "/filtered": ("AUTH_FORBIDDEN", 403),
    "/page": ("CONN_UPGRADE_REJECTED", 200),
    "/": ("CONN_UPGRADE_REJECTED", 426),
}


async def of_client(url):
    """The failure in which a client of a bridge ends."""
    with pytest.raises(rb.errors.BridgeError) as caught:
        async with rb.BridgeClient(url) as client:
            await client.wait_ready(5)
    assert "a proxy in between may block WebSockets" in str(caught.value)
    return caught.value.failure


async def of_websockets(url):
    """That of the library alone."""
    with pytest.raises(Exception) as caught:
        await connect(url, proxy=None)
    return rb.classify(caught.value)


async def of_aiohttp(url):
    """That of aiohttp, whose error has the headers and no body."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(url)
    return rb.classify(caught.value)


@needs_nginx
@pytest.mark.parametrize("failure_of", [of_client, of_websockets, of_aiohttp])
async def test_it_says_that_a_proxy_may_block_it_and_what_to_try(failure_of, tmp_path):
    async with serve(lambda _: None, HOST, 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with nginx(tmp_path, port, server=SERVER) as front:
            for path, (code, status) in BLOCKED.items():
                failure = await failure_of(front.url(path).replace("http:", "ws:"))
                assert (failure.code, failure.details["http_status"]) == (code, status)
                for way in ("a proxy in between may block", "wss://", "Upgrade", "NO_PROXY"):
                    assert way in failure.suggestions[0]


async def test_a_server_that_refuses_is_no_proxy():
    """A 403 without a page is the server's own word, and so is a 404."""
    for status in (403, 404):

        async def refuse(_, status=status):
            return web.json_response({"error": "not yours"}, status=status)

        async with serving(refuse) as url:
            failure = await of_websockets(url)
        assert failure.details["http_status"] == status
        assert "may block WebSockets" not in str(failure.suggestions)
