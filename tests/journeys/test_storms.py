"""Bridges that accept and close at once: the client never becomes a storm, whatever code they close with."""

from __future__ import annotations

import asyncio
import itertools

import attrs
import pytest

import resilient_bridge as rb
from tests.samples import some

from .journey import Journey, simulated


POLICIES = {
    "default": rb.presets.default,
    "openviber": rb.presets.openviber,
    "recursor": rb.presets.recursor.evolve(
        reconnect=attrs.evolve(rb.presets.recursor.reconnect, on_exhausted="suspend")
    ),
    "no wait": rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0))
    ),
}
# not 1006 at once: such a reset overtakes the upgrade, and the attempt was never accepted
CLOSES = [
    *itertools.product((1000, 1001, 1011, 1012, 1005), ("accept", "auth", "join")),
    (1006, "auth"),
    (1006, "join"),
]


def worst(times: list[float]) -> int:
    """The most connects in any minute; a tenth of a second is left to the network."""
    return max((sum(start <= t < start + 59.9 for t in times) for start in times), default=0)


@pytest.mark.parametrize(("name", "close"), some(itertools.product(POLICIES, CLOSES), 34))
@simulated
async def test_accept_then_close_makes_seven_connects_in_the_first_minute_and_four_after(
    server, name, close
):
    """A bridge that closes whatever it accepts: at most 7 connects in the first minute, 4 in any later one; then it heals."""
    async with Journey(server, policy=POLICIES[name]) as journey:
        await journey.ready()
        await journey.push(1)
        await journey.send(1)
        await asyncio.sleep(40)
        code, step = close
        server.behave(accept_then_close=code, close_at=step)
        start = journey.loop.time()
        await server.cut("abort")
        await journey.push(2)
        await journey.send(2)
        await asyncio.sleep(600)
        storm = [t - start for t in server.connect_times if t >= start]
        assert sum(t < 60 for t in storm) <= 7
        assert worst([t for t in storm if t >= 60]) <= 4
        assert len(storm) >= 10  # it went on trying
        assert journey.client.state in {"SUSPENDED", "CONNECTING", "AUTHENTICATING", "JOINING"}
        server.behave(accept_then_close=None)
        await journey.rest()
        assert journey.receipts[2].state in {"confirmed", "unknown"}
    journey.check()


@pytest.mark.parametrize("name", ["default", "openviber"])
@pytest.mark.parametrize("life", [1.0, 5.0, 20.0])
@simulated
async def test_links_that_die_young_are_capped_although_they_were_ready(server, name, life):
    """READY for a while and dead again, for ever: the count starts over only after 30 s and a pong, so the cap holds."""
    async with Journey(server, policy=POLICIES[name]) as journey:
        await journey.ready()
        await asyncio.sleep(40)
        start = journey.loop.time()
        while journey.loop.time() < start + 600:
            await server.cut("abort")
            await asyncio.sleep(0.1)
            await journey.ready()
            await asyncio.sleep(life)
        storm = [t - start for t in server.connect_times if t >= start]
        assert sum(t < 60 for t in storm) <= 7
        assert worst([t for t in storm if t >= 60]) <= 4


@simulated
async def test_a_stable_link_is_not_capped(server):
    """Links that lived for 30 s and answered a ping cost nothing: each loss is followed by the first wait of the schedule."""
    async with Journey(server, policy=rb.presets.openviber) as journey:
        for _ in range(30):
            await journey.ready()
            await asyncio.sleep(31)
            await server.cut("abort")
            await asyncio.sleep(0.1)
        assert journey.waits() == [1.0] * 30


@simulated
async def test_refused_attempts_are_never_capped(server):
    """The cap counts connections that were accepted; a schedule of refused attempts stays as it was written."""
    policy = rb.bridge.BridgePolicy(reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.5)))
    async with Journey(server, policy=policy) as journey:
        await journey.ready()
        await asyncio.sleep(31)
        await server.cut("abort", seconds=60)
        await asyncio.sleep(61)
        assert set(journey.waits()) == {0.5}
        assert len(journey.waits()) > 100
