"""Events that a server wants acknowledged: when the reader has had them, each copy, and no sooner."""

from __future__ import annotations

import asyncio
import random

import resilient_bridge as rb
from tests.bridges.doubles.harness import serving_aiohttp
from tests.bridges.doubles.slack_socket_mode import SlackSocketMode


def _client(double, url, **options):
    return rb.BridgeClient(
        lambda: url + double.new_path(), dialect=rb.dialects.slack_socket_mode, **options
    )


async def test_an_event_is_acknowledged_when_the_reader_asks_for_the_next():
    """Not when it arrives: a program that dies over it gets it again."""
    double = SlackSocketMode(random.Random(1), retries=())
    async with asyncio.timeout(10), serving_aiohttp(double) as url, _client(double, url) as bridge:
        await bridge.wait_ready(timeout=5)
        await double.publish(1)
        messages = aiter(bridge)
        first = await anext(messages)
        assert first.type == "message"
        await asyncio.sleep(0.05)
        assert double.effects == []
        waiting = asyncio.ensure_future(anext(messages))
        while not double.effects:
            await asyncio.sleep(0.01)
        assert double.effects == [{"envelope_id": first.raw["envelope_id"]}]
        waiting.cancel()
        await asyncio.wait([waiting])
