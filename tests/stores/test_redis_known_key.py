"""A key that the client knows, while its Redis is away: answered from what the client holds; a new one is refused, soon and in words."""

from __future__ import annotations

import asyncio
import time

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import RedisStore
from resilient_bridge.testing import BridgeServer
from tests.redis_server import redis_server_fixture


pytestmark = [pytest.mark.real, pytest.mark.crash]
server = redis_server_fixture()
TIMEOUT = 0.5
SLACK = 1.5  # seconds that a busy machine may take on top


def store_events(seen):
    """What was told of the store."""
    return [event for event in seen if isinstance(event, rb.events.StoreChanged)]


async def timed(awaitable):
    """What it returns or raises, and the seconds until then."""
    started = time.monotonic()
    result = (await asyncio.gather(awaitable, return_exceptions=True))[0]
    return result, time.monotonic() - started


@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_a_known_key_is_answered_while_redis_is_away(server, how):
    """Killed, or silent: the confirmed send is not sent again, a new one is SYS_STORE_UNAVAILABLE within the timeout, told once.

    When Redis is back, the same new key is accepted, and the bridge has seen each once.
    """
    store = RedisStore(server.url, timeout=TIMEOUT)
    with rb.testing.record() as seen:
        async with BridgeServer() as bridge, rb.BridgeClient(bridge.url, store=store) as client:
            first = await client.send("note", {"n": 1}, idempotency_key="a")
            assert await first.confirmed(5) == "applied"
            getattr(server, how)()
            for _ in range(2):
                known, seconds = await timed(client.send("note", {"n": 1}, idempotency_key="a"))
                assert (known.state, seconds < SLACK) == ("confirmed", True)
                assert (await timed(known.confirmed(5)))[0] == "applied"
            for _ in range(2):
                refused, seconds = await timed(client.send("note", {"n": 2}, idempotency_key="b"))
                assert isinstance(refused, rb.errors.StoreError)
                assert refused.failure.code == "SYS_STORE_UNAVAILABLE"
                assert seconds < TIMEOUT + SLACK
            assert [message["payload"]["n"] for message in bridge.received] == [1]
            (failed,) = store_events(seen)
            assert failed.state == "failed"
            assert failed.failure.code == "SYS_STORE_UNAVAILABLE"
            server.start() if how == "kill" else server.resume()
            async with asyncio.timeout(10):
                while True:
                    accepted, _ = await timed(client.send("note", {"n": 2}, idempotency_key="b"))
                    if not isinstance(accepted, rb.errors.StoreError):
                        break
                    await asyncio.sleep(0.05)
            assert await accepted.confirmed(5) == "applied"
            assert [message["payload"]["n"] for message in bridge.received] == [1, 2]
            assert [event.state for event in store_events(seen)] == ["failed", "working"]
