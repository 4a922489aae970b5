"""Links that died without a word: noticed in time, both ways and each way alone; and healthy ones that only looked dead."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

import resilient_bridge as rb
from tests.rows import each_row

from .journey import Journey, simulated


YEAR = 365 * 86_400.0


async def noticed(journey: Journey, within: float, reason: str = "heartbeat_timeout") -> float:
    """Seconds until the loss was noticed; fails if it takes longer."""
    start = journey.loop.time()
    await asyncio.sleep(within)
    assert journey.losses() == [reason]
    (failure,) = [event.failure for event in journey.of(rb.events.Disconnected)]
    assert failure.code == "CONN_HEARTBEAT_TIMEOUT"
    return journey.when(rb.events.Disconnected) - start


@pytest.mark.requirement("V13")
@each_row("way", ["both", "up", "down"])
@each_row("phase", range(0, 16, 3))
@each_row("load", ["idle", "sending", "receiving"])
@simulated
async def test_a_half_open_link_is_noticed_within_25_5_seconds(server, way, phase, load):
    """Heartbeat 15 + 10 s: whatever the moment, the direction that died, and what still flows in the other one."""
    async with Journey(server) as journey:
        await journey.ready()
        await asyncio.sleep(20 + phase)
        for link in journey.loop.network.links:
            link.blackhole(math.inf, way)

        async def talk() -> None:
            for n in range(1, 100):
                if load == "sending":
                    await journey.send(n)
                else:
                    await journey.push(n)
                await asyncio.sleep(0.5)

        talking = asyncio.create_task(talk()) if load != "idle" else None
        await noticed(journey, 25.5)
        await journey.ready()
        if talking is not None:
            await talking
        await journey.rest()
    journey.check()


@pytest.mark.requirement("V13")
@simulated
async def test_the_seed_of_30_seconds_holds(server):
    """presets.openviber: a heartbeat that stays unanswered for 30 s ends the link, and not one that is answered after 29."""
    seconds = int("Heartbeat timeout (default: 30s)".partition(": ")[2].removesuffix("s)"))
    async with Journey(server, policy=rb.presets.openviber) as journey:
        await journey.ready()
        await asyncio.sleep(20)
        (link,) = journey.loop.network.links
        link.blackhole(seconds - 1.0)
        await asyncio.sleep(60)
        assert journey.losses() == []
        link.vanish()
        assert await noticed(journey, seconds + 15.5) >= seconds


@each_row("phase", [x / 4 for x in range(8)])
@each_row("slept", [60.0, 3_600.0, 8 * 3_600.0])
@simulated
async def test_a_link_that_died_while_the_machine_slept_is_noticed_within_3_seconds(
    server, phase, slept
):
    """After a wake-up the clocks disagree: the client asks at once, and waits two seconds for the answer."""
    async with Journey(server) as journey:
        await journey.ready()
        await asyncio.sleep(17 + phase)
        (link,) = journey.loop.network.links
        link.vanish()
        journey.loop.sleep_machine(slept)
        await noticed(journey, 3.0, "suspected_sleep")
        (jump,) = journey.of(rb.events.ClockJumped)
        assert jump.seconds == pytest.approx(slept)


@each_row("phase", [0.0, 0.3, 5.0, 14.9, 15.0])
@each_row(("stalls", "seconds"), [(1, 10.0), (1, 40.0), (1, 600.0), (5, 10.0), (3, 26.0)])
@simulated
async def test_a_stalled_loop_kills_no_link(server, phase, stalls, seconds):
    """The loop is blocked for 10 s or longer, once or again and again: what has arrived is read before any verdict."""
    async with Journey(server) as journey:
        await journey.ready()
        await asyncio.sleep(15 + phase)
        for _ in range(stalls):
            journey.loop.stall(seconds)
            await asyncio.sleep(0.1)
        await asyncio.sleep(40)
        assert journey.losses() == []
        await journey.push(1)
        await journey.send(1)
        await journey.rest()
    assert journey.seen() == [1]


@pytest.mark.parametrize("stall", [1.0, 10.0, 60.0])
@simulated
async def test_a_loop_that_stalls_in_the_last_moment_kills_no_link(server, stall):
    """The pong is late, and comes while the loop is blocked and the verdict already due: it is read first."""
    async with Journey(server) as journey:
        await journey.ready()
        await asyncio.sleep(10)
        server.behave(slow=10.1)
        pings = len(server.frames)
        while len(server.frames) == pings:
            await asyncio.sleep(0.001)
        assert server.frames[-1]["type"] == "heartbeat_ping"
        await asyncio.sleep(10.05)
        journey.loop.stall(stall)
        server.behave(slow=0.0)
        await asyncio.sleep(30)
        assert journey.losses() == []


@pytest.mark.parametrize("slept", [6.0, 60.0, 3_600.0])
@simulated
async def test_a_healthy_link_survives_the_sleep_of_its_machine(server, slept):
    """The bridge still knows us after the wake-up: the probe is answered, and the link stays."""
    async with Journey(server) as journey:
        await journey.ready()
        await asyncio.sleep(17)
        journey.loop.sleep_machine(slept)
        await asyncio.sleep(60)
        assert journey.losses() == []


@each_row("jump", [10 * YEAR, -10 * YEAR, -60 * YEAR, 8_000 * YEAR])
@each_row("down", [False, True])
@simulated
async def test_a_wall_clock_that_jumps_by_years_drives_nothing(server, jump, down):
    """Only monotonic time drives delays: no false verdict, no wait that lasts years, nothing lost."""
    async with Journey(server, policy=rb.presets.openviber) as journey:
        await journey.ready()
        await journey.push(1)
        await journey.send(1)
        await asyncio.sleep(17)
        if down:
            await server.cut("abort", seconds=3)
            await journey.push(2)
        journey.loop.wall_offset += jump
        await journey.send(2)
        await asyncio.sleep(20)
        assert len(journey.losses()) == down
        assert journey.client.state == "READY"
        await journey.send(3)
        await journey.rest()
    assert journey.receipts[3].state == "confirmed"
    assert journey.receipts[2].state == "confirmed"
    journey.check()


@simulated
async def test_no_verdict_while_the_reader_waits(server):
    """A full inbox pauses reading: the pongs lie unread, and that is no sign of death, however long it lasts."""
    policy = rb.bridge.BridgePolicy(inbox=rb.bridge.Inbox(max_messages=2))
    async with Journey(server, policy=policy, reads=False) as journey:
        await journey.ready()
        await journey.push(*range(1, 30))
        await asyncio.sleep(120)
        assert journey.losses() == []
        assert journey.client.health().unread <= 3
        got: list[Any] = []
        async for message in journey.client:
            got.append(message.payload["n"])
            if len(got) == 29:
                break
        assert got == list(range(1, 30))
        await asyncio.sleep(60)
        assert journey.losses() == []
