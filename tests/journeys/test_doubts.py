"""`reconnect_now()` while connected: what the application knows better, and why that alone is no verdict.

Rule: a doubt asks the link with one short ping; only a link that does not answer it is dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any

import attrs
import pytest

import resilient_bridge as rb
from resilient_bridge.testing import Faults, simulate
from tests.rows import each_row

from .journey import Journey, simulated


SLOW = rb.presets.openviber  # heartbeat 15 + 30 s: what is noticed sooner was noticed by the probe
SOON = 1.5 + 0.25 + 0.1  # the probe's time, the last look, and the way of what was sent


@pytest.mark.requirement("V13")
@pytest.mark.parametrize("way", ["both", "up", "down"])
@simulated
async def test_a_dead_link_that_the_application_doubts_is_replaced_at_once(server, way):
    """No pong within `probe_timeout`: the link is dead, the reason is honest, and the work goes out again, applied once."""
    async with Journey(server, policy=SLOW) as journey:
        await journey.ready()
        await asyncio.sleep(20)
        (link,) = journey.loop.network.links
        link.blackhole(math.inf, way)
        await journey.send(1)
        await asyncio.sleep(0.1)
        assert journey.client.health().unconfirmed == 1
        doubted = journey.loop.time()
        journey.client.reconnect_now()
        await asyncio.sleep(SOON)
        assert journey.losses() == ["probe_unanswered"]
        assert 1.5 <= journey.when(rb.events.Disconnected) - doubted <= SOON
        (lost,) = journey.of(rb.events.Disconnected)
        assert lost.failure.code == "CONN_HEARTBEAT_TIMEOUT"
        assert str(lost.failure).startswith("no pong within 1.5 s")
        assert "BACKOFF probe_unanswered" in [
            f"{event.state} {event.reason}" for event in journey.of(rb.events.StateChanged)
        ]
        await journey.rest()
        sent = [frame for frame in server.frames if frame["type"] == "tool_result"]
        assert len(sent) == (2 if way == "down" else 1)  # the silent way up swallowed the first
        assert len({frame["payload"]["idempotency_key"] for frame in sent}) == 1
        assert len(server.received) == 1
        assert journey.receipts[1].state == "confirmed"
    journey.check()


@simulated
async def test_a_short_probe_timeout_is_exact(server):
    """The verdict comes when the time is up, and not when the client happens to look at its clocks next."""
    policy = rb.bridge.BridgePolicy(heartbeat=rb.bridge.Heartbeat(probe_timeout=0.1))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        await asyncio.sleep(20.01)
        for link in journey.loop.network.links:
            link.blackhole(math.inf)
        journey.client.reconnect_now()
        await asyncio.sleep(0.4)
        assert journey.losses() == ["probe_unanswered"]


@simulated
async def test_a_healthy_link_that_is_doubted_stays(server):
    """The pong comes, so nothing changes: no state, no event, one ping more."""
    async with Journey(server) as journey:
        await journey.ready()
        await asyncio.sleep(3)
        before, seen = journey.pings(), len(journey.log)
        journey.client.reconnect_now()
        await asyncio.sleep(5)
        assert journey.pings() == before + 1
        assert len(journey.log) == seen


@simulated
async def test_many_doubts_are_one_probe_at_a_time(server):
    """A hundred calls in a moment, and a hundred more while the probe is on its way: one ping; the next call asks again."""
    server.behave(slow=0.2)
    async with Journey(server) as journey:
        await journey.ready()
        await asyncio.sleep(3)
        for expected in (1, 2):
            before = journey.pings()
            for _ in range(10):
                for _ in range(10):
                    journey.client.reconnect_now()
                await asyncio.sleep(0.01)
            await asyncio.sleep(2)
            assert journey.pings() == before + 1, expected
        assert journey.losses() == []


@each_row("after", [x / 4 for x in range(9)])
@simulated
async def test_a_doubt_is_legal_at_any_moment_of_a_connection(server, after):
    """Before, while and after a slow resume: a healthy bridge is never left, and the verdict is the one it would have been."""
    server.behave(replay_delay=1.0, push_buffer=False)
    async with Journey(server, policy=rb.presets.recursor) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(1)
        await server.cut("abort")
        await journey.push(2)
        await asyncio.sleep(after)
        journey.client.reconnect_now()
        await journey.rest()
        assert journey.losses() == ["connection_lost"]
        assert journey.verdicts() == ["RECOVERED(anchor)"]
    journey.check()


@simulated
async def test_a_link_that_dies_while_it_joins_can_be_doubted_too(server):
    """In REPLAYING, with the replay on its way and the link silent: two seconds, and not the ten of the replay's timeout."""
    server.behave(replay_delay=60.0, push_buffer=False)
    async with Journey(server) as journey:
        await journey.ready()
        await journey.push(1)
        await asyncio.sleep(1)
        await server.cut("abort")
        while journey.client.state != "REPLAYING":
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert journey.client.state == "REPLAYING"
        server.behave(replay_delay=0.0)
        for link in journey.loop.network.links:
            link.blackhole(math.inf)
        journey.client.reconnect_now()
        await asyncio.sleep(SOON)
        assert journey.losses()[-1] == "probe_unanswered"
        await journey.rest()
    journey.check()


@each_row("stall", [1.0, 1.6, 5.0, 600.0])
@each_row("stalls", [1, 4])
@simulated
async def test_a_stalled_loop_is_no_reason_to_leave_a_doubted_link(server, stall, stalls):
    """The pong has arrived while the loop stood still: it is read before the verdict."""
    async with Journey(server, policy=rb.presets.openviber) as journey:
        await journey.ready()
        await asyncio.sleep(3)
        for _ in range(stalls):
            journey.client.reconnect_now()
            await asyncio.sleep(0.001)
            journey.loop.stall(stall)
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)
        assert journey.losses() == []


@simulated
async def test_a_full_inbox_is_no_reason_to_leave_a_doubted_link(server):
    """Nobody reads, so the pong lies unread: no verdict until reading goes on, and none then."""
    policy = rb.bridge.BridgePolicy(inbox=rb.bridge.Inbox(max_messages=2))
    async with Journey(server, policy=policy, reads=False) as journey:
        messages = aiter(journey.client)
        await journey.ready()
        await journey.push(*range(1, 30))
        await asyncio.sleep(3)
        journey.client.reconnect_now()
        await asyncio.sleep(60)
        assert journey.losses() == []
        assert [(await anext(messages)).payload["n"] for _ in range(29)] == [*range(1, 30)]
        await asyncio.sleep(60)
        assert journey.losses() == []


@simulated
async def test_a_doubt_where_nothing_can_be_asked_does_nothing(server):
    """Before the start, while authenticating, draining, closed; without a loop; without a ping in the dialect."""
    rb.BridgeClient(server.url).reconnect_now()
    await asyncio.to_thread(rb.BridgeClient(server.url).reconnect_now)
    silent = rb.bridge.BridgePolicy(dialect=rb.bridge.Dialect(ping=None, pong=None))
    for policy in (rb.presets.default, silent):
        server.behave(slow=0.3)
        async with Journey(server, policy=policy) as journey:
            while journey.client.state != "AUTHENTICATING":
                await asyncio.sleep(0.001)
            journey.client.reconnect_now()
            await journey.ready()
            server.behave(acks="none")
            if policy is silent:
                journey.client.reconnect_now()
                await asyncio.sleep(30)
                assert journey.pings() == 0
                break
            await asyncio.sleep(3)
            await journey.send(1)
            before = journey.pings()
            closing = asyncio.create_task(journey.client.aclose())
            await asyncio.sleep(0.1)
            assert journey.client.state == "DRAINING"
            journey.client.reconnect_now()
            await closing
            assert journey.pings() == before + 1  # the barrier behind the message
            journey.client.reconnect_now()
            server.frames.clear()
        assert journey.losses() == []


@pytest.mark.parametrize("seed", range(12))
def test_doubts_at_any_time_of_a_storm_break_no_promise(seed):
    """Faults come and go while an impatient application calls `reconnect_now()` every second: all promises are kept."""

    async def main(server: Any) -> None:
        policy = rb.presets.default
        policy = policy.evolve(
            reconnect=attrs.evolve(policy.reconnect, rules={1002: rb.Rule(), 1007: rb.Rule()})
        )
        async with Journey(server, policy=policy) as journey:

            async def nag() -> None:
                while True:
                    await asyncio.sleep(journey.loop.time() % 1.3)
                    journey.client.reconnect_now()
                    await asyncio.sleep(0.1)

            nagging = asyncio.create_task(nag())
            await journey.ready()
            for n in range(1, 41):
                with contextlib.suppress(LookupError):
                    await journey.push(n)
                await journey.send(n)
                await asyncio.sleep(1)
            await asyncio.sleep(30)
            nagging.cancel()
            await journey.rest()
        journey.check()

    simulate(main, seed=seed, faults=Faults(seed=seed, rate=0.1, until=40.0))
