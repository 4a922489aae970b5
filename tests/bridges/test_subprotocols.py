"""The sub-protocols of WebSocket that a dialect asks for, over aiohttp's server, which picks one."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

import resilient_bridge as rb
from tests.bridges.aiohttp_server import serving
from tests.bridges.foreign import quick


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


async def test_the_sub_protocols_of_a_dialect_are_asked_for():
    """At each connection, the best first; the server picks one of them."""
    chosen = []

    async def handle(request):
        socket = web.WebSocketResponse(protocols=("v1.feed",))
        await socket.prepare(request)
        chosen.append((request.headers.get("Sec-WebSocket-Protocol"), socket.ws_protocol))
        await socket.close(code=1012)
        return socket

    dialect = rb.bridge.Dialect.envelopes(subprotocols=("v2.feed", "v1.feed"))
    async with serving(handle) as url, rb.BridgeClient(url, dialect=dialect, policy=quick()):
        async with asyncio.timeout(20):
            while len(chosen) < 2:
                await asyncio.sleep(0.01)
    assert set(chosen) == {("v2.feed, v1.feed", "v1.feed")}


@pytest.mark.parametrize("names", ["feed", ("a b",), ("",), (1,), ("a,b",)])
def test_a_sub_protocol_has_a_name_that_a_header_can_hold(names):
    """ConfigError, which names the field."""
    with pytest.raises(rb.ConfigError, match=r"Dialect.subprotocols"):
        rb.bridge.Dialect.envelopes(subprotocols=names)
