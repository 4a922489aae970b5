"""A dialect without pings: the WebSocket's own say that the connection lives."""

from __future__ import annotations

import asyncio

import resilient_bridge as rb
from tests.bridges.dialects.schedules import Case, server_of
from tests.bridges.doubles.jsonrpc import JsonRpc
from tests.internals.testing import Simulation


CASE = Case("plain", JsonRpc, lambda _: rb.dialects.plain)


def _run(main):
    return Simulation(3, server=server_of(CASE)).run(main)


def test_a_half_open_connection_is_noticed():
    """Within one interval and one timeout, whatever the dialect."""

    async def main(server):
        loop = asyncio.get_running_loop()
        async with rb.BridgeClient(str(server.address), dialect=rb.dialects.plain) as bridge:
            await bridge.wait_ready(timeout=5)
            begins = loop.time()
            loop.network.cut("blackhole", 600)
            async for event in bridge.events():
                if isinstance(event, rb.events.Disconnected):
                    return event.reason, loop.time() - begins
        return None

    reason, seconds = _run(main)
    assert reason == "heartbeat_timeout"
    assert 10 < seconds < 26


def test_a_reader_who_does_not_read_costs_no_connection():
    """The pongs stand behind what is unread: nothing is concluded from that."""

    async def main(server):
        small = rb.bridge.BridgePolicy().evolve(
            inbox=rb.presets.default.inbox.evolve(max_messages=5)
        )
        async with rb.BridgeClient(
            str(server.address), dialect=rb.dialects.plain, policy=small
        ) as bridge:
            await bridge.wait_ready(timeout=5)
            messages = aiter(bridge)
            for number in range(400):
                await server.double.publish(number)
            await asyncio.sleep(180)
            numbers = [(await anext(messages)).raw["params"]["number"] for _ in range(400)]
            return numbers, bridge.health().attempt

    numbers, attempt = _run(main)
    assert numbers == list(range(400))
    assert attempt == 0


def test_a_quiet_connection_stays():
    """Nothing is said for minutes, and the pongs come."""

    async def main(server):
        async with rb.BridgeClient(str(server.address), dialect=rb.dialects.plain) as bridge:
            await bridge.wait_ready(timeout=5)
            await asyncio.sleep(600)
            return len(server.double.connections), bridge.state

    assert _run(main) == (1, rb.bridge.BridgeState.READY)


def test_a_slow_pong_is_waited_for():
    """An answer that is late, and on its way, is an answer."""

    async def main(server):
        loop = asyncio.get_running_loop()
        async with rb.BridgeClient(str(server.address), dialect=rb.dialects.plain) as bridge:
            await bridge.wait_ready(timeout=5)
            loop.network.slow(120, lag=4.5)
            await asyncio.sleep(100)
            return bridge.health().attempt

    assert _run(main) == 0
