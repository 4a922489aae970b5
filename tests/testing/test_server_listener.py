"""The bridge's door: /health in every state, rejected upgrades, closes at accept."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request

import pytest
from websockets.exceptions import InvalidStatus

from resilient_bridge.testing import BridgeServer
from tests.testing.server_peer import peer


pytestmark = pytest.mark.real


async def health(server):
    """GET /health: status and body."""

    def get():
        try:
            with urllib.request.urlopen(server.health_url, timeout=5) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await asyncio.to_thread(get)


@pytest.mark.requirement("G9")
async def test_health_tells_ready_starting_stopping_and_unreachable_apart():
    """200 when links are taken, 503 with the word while they are not, and a refusal when nobody is there."""
    server = BridgeServer(starting_for=3600.0)
    await server.start()
    assert await health(server) == (503, {"status": "starting", "sessions": 0})
    with pytest.raises(InvalidStatus) as caught:
        async with peer(server.url):
            pass
    assert caught.value.response.status_code == 503
    await server.aclose()

    server.behave(starting_for=0.0)
    await server.start()
    assert await health(server) == (200, {"status": "ready", "sessions": 0})
    async with peer(server.url, max_queue=1) as client:
        client.connection.transport.pause_reading()  # does not answer the close frame, so closing takes a while
        stopping = asyncio.create_task(server.aclose())
        await asyncio.sleep(0)
        assert await health(server) == (503, {"status": "stopping", "sessions": 0})
        await stopping
    with pytest.raises(urllib.error.URLError, match="refused"):
        await health(server)


async def test_an_upgrade_can_be_rejected_with_a_hint():
    """Status, Retry-After and the seed's JSON body are as scripted."""
    async with BridgeServer(
        reject_upgrade=429, retry_after="17", reject_code="SESS_NOT_FOUND"
    ) as server:
        with pytest.raises(InvalidStatus) as caught:
            async with peer(server.url):
                pass
        response = caught.value.response
        assert (response.status_code, response.headers["Retry-After"]) == (429, "17")
        assert json.loads(response.body)["code"] == "SESS_NOT_FOUND"
        assert len(server.attempt_times) == 1
        assert server.connect_times == []


@pytest.mark.parametrize("code", [1000, 1005, 1006, 1012, 4409])
async def test_a_connection_can_be_accepted_and_closed_at_once(code):
    """With any code; 1005 is a close frame without one, 1006 a reset."""
    async with BridgeServer(accept_then_close=code) as server, peer(server.url) as client:
        assert (await client.closed())[0] == code
        assert len(server.connect_times) == 1


async def test_http_dates_are_the_bridges_own():
    """A stepped clock shows in the Date header, so nothing in the bytes depends on the machine."""
    async with BridgeServer(wall=lambda: 1_774_017_125.0) as server, peer(server.url) as client:
        assert client.connection.response.headers["Date"] == "Fri, 20 Mar 2026 14:32:05 GMT"
