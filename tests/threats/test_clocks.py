"""Rows 30 and 31: a loop that stalls, a machine that sleeps, a wall clock that jumps. Only received data decides.

Rule: the simulation makes the stall and the jump; the bridge and the network misbehave only if a test says so.
"""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.internals.telemetry import ClockJumped
from tests.rows import each_row
from tests.threats.watching import Watch, push, simulated


YEAR = 365.25 * 86_400
DECADES = [10 * YEAR, -10 * YEAR, 1e12, -1e12]


# ---- row 30: nothing ran for a while ----------------------------------------------------------------------------


@each_row("seconds", [10, 26, 60, 280])
@each_row("after", [0.0, 7.0, 14.9, 15.02, 15.5])
@simulated
async def test_row_30_a_stalled_loop(server, seconds, after):
    """After a block of any length, at any point of the heartbeat, received data is read first and the link is not declared dead."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await asyncio.sleep(after)
        loop.stall(seconds)
        await push(server, 2)
        await watch.until(lambda: watch.ids == [1, 2])
        await asyncio.sleep(60)
        assert watch.losses == []
        assert len(server.connect_times) == 1


@simulated
async def test_row_30_stalls_again_and_again(server):
    """A program that blocks its loop for 8 of every 9 seconds, for an hour: one connection, every message."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        for n in range(400):
            loop.stall(8)
            await push(server, n)
            await asyncio.sleep(1)
        await watch.until(lambda: len(watch.ids) == 400)
        assert watch.losses == []
        assert len(server.connect_times) == 1


@simulated
async def test_row_30_a_stall_hides_no_death(server):
    """A dead peer is detected after a stall as well, within the usual time."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await asyncio.sleep(5)
        await server.cut("blackhole")
        loop.stall(60)
        started = loop.time()
        await watch.recovered(2)
        assert watch.losses == ["CONN_HEARTBEAT_TIMEOUT"]
        assert loop.time() - started < 25.5 + 10


@pytest.mark.parametrize("hours", [0.01, 1, 4])
@simulated
async def test_row_30_a_machine_that_slept(server, hours):
    """After a sleep the link is probed at once: a live one stays, and the jump is reported."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await asyncio.sleep(3)
        loop.sleep_machine(hours * 3_600)
        await asyncio.sleep(5)
        (jump,) = watch.of(ClockJumped)
        assert jump.seconds == pytest.approx(hours * 3_600, abs=1)
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        assert watch.losses == []


@simulated
async def test_row_30_a_link_that_died_in_the_sleep(server):
    """A link that died during the sleep is detected within 3 s of waking up."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await asyncio.sleep(3.3)
        await server.cut("blackhole")
        loop.sleep_machine(600)
        started = loop.time()
        await watch.until(lambda: watch.losses)
        assert loop.time() - started <= 3.0
        assert watch.losses == ["CONN_HEARTBEAT_TIMEOUT"]
        await watch.recovered(2)


# ---- row 31: the wall clock jumps -------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", DECADES)
@simulated
async def test_row_31_a_jump_while_connected(server, jump):
    """Jumps of ten and thirty thousand years in either direction are reported and probed; nothing is lost or raised, all times print."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        receipt = await watch.client.send("note", {"n": 1})
        assert await receipt.confirmed(10) == "applied"
        await asyncio.sleep(2)
        loop.wall_offset += jump
        await asyncio.sleep(5)
        receipt = await watch.client.send("note", {"n": 2})
        assert await receipt.confirmed(10) == "applied"
        answer = await watch.client.request("git_status_request", {"n": 3}, timeout=5)
        assert answer.payload["n"] == 3
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        assert watch.losses == []
        assert len(watch.of(ClockJumped)) == 1
        for event in watch.events:
            assert event.at.tzinfo is not None
            assert repr(event)


@pytest.mark.parametrize("jump", DECADES)
@simulated
async def test_row_31_a_jump_while_waiting(server, jump):
    """A jump in the middle of a wait neither ends it nor prolongs it: only monotonic time drives delays."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        server.behave(reject_upgrade=503, retry_after="100")
        await server.cut("abort")
        await watch.until(lambda: 100.0 in watch.waits)
        started, attempts = loop.time(), len(server.attempt_times)
        await asyncio.sleep(5)
        loop.wall_offset += jump
        server.behave(reject_upgrade=None, retry_after=None)
        await watch.until(lambda: len(server.attempt_times) > attempts, 200)
        assert server.attempt_times[-1] - started == pytest.approx(100, abs=1)
        await watch.recovered(2)


@pytest.mark.parametrize("jump", DECADES)
@simulated
async def test_row_31_heartbeats_keep_their_pace(server, jump):
    """Pings go out every 15 s and a dead peer is detected in 25.5 s, whatever the wall clock says meanwhile."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await asyncio.sleep(1)
        loop.wall_offset += jump
        await asyncio.sleep(20)
        pings = sum(frame["type"] == "heartbeat_ping" for frame in server.frames)
        await asyncio.sleep(60)
        assert 4 <= sum(frame["type"] == "heartbeat_ping" for frame in server.frames) - pings <= 5
        await server.cut("blackhole")
        started = loop.time()
        await watch.until(lambda: watch.losses, 60)
        assert 9 <= loop.time() - started <= 25.5
        await watch.recovered(2)


@pytest.mark.parametrize("jump", DECADES)
@simulated
async def test_row_31_timeouts_of_the_user(server, jump):
    """`request(timeout=)` and `confirmed(timeout)` end on time through any jump."""
    loop = asyncio.get_running_loop()
    server.behave(ignored=frozenset({"slow_request"}))
    async with Watch(server.url) as watch:
        await watch.ready()
        started = loop.time()
        request = asyncio.create_task(watch.client.request("slow_request", {}, timeout=20))
        await asyncio.sleep(5)
        loop.wall_offset += jump
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await request
        assert loop.time() - started == pytest.approx(20, abs=0.1)


@pytest.mark.parametrize("jump", DECADES)
@simulated
async def test_row_31_stored_messages_survive(server, jump):
    """A message in the outbox without a ttl is delivered after a jump; one with a ttl expires on time."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await server.cut("abort", seconds=40)
        await watch.until(lambda: watch.client.state == "BACKOFF")
        stored = await watch.client.send("note", {"n": 1})
        short = await watch.client.send("note", {"n": 2}, ttl=10)
        await asyncio.sleep(2)
        loop.wall_offset += jump
        await asyncio.sleep(9)
        with pytest.raises(rb.errors.NotDeliveredError):
            await short.confirmed(1)
        assert short.state == "expired"
        assert stored.state == "queued"
        await watch.recovered(2)
        assert await stored.confirmed(10) == "applied"
        assert [message["payload"]["n"] for message in server.received] == [1]


@pytest.mark.parametrize("jump", DECADES)
@simulated
async def test_row_31_a_jump_during_an_outage(server, jump):
    """A sent, unconfirmed message is resent or UNKNOWN after a jump, reported either way, and never applied twice."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("blackhole", seconds=30)
        receipt = await watch.client.send("note", {"n": 1})
        await asyncio.sleep(1)
        loop.wall_offset += jump
        await push(server, 2)
        await watch.recovered(2, within=120)
        try:
            assert await receipt.confirmed(60) in {"applied", "read"}
        except rb.OutcomeUnknownError:
            assert jump > 0  # too old to be resent, by the wall clock
        assert len(server.received) <= 1
        await watch.until(lambda: 2 in watch.ids)
        assert watch.ids == [1, 2]


@pytest.mark.parametrize("jump", [0.0, -10 * YEAR, -1e12])
@simulated
async def test_row_31_no_jump_makes_a_message_younger(server, jump):
    """A message sent 290 s ago is outside the deduplication window: UNKNOWN, whatever the wall clock says."""
    loop = asyncio.get_running_loop()
    async with Watch(server.url) as watch:
        await watch.ready()
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1])
        await server.cut("blackhole", seconds=290)
        receipt = await watch.client.send("note", {"n": 1})
        await asyncio.sleep(60)
        loop.wall_offset += jump
        await watch.recovered(2, within=320)
        with pytest.raises(rb.OutcomeUnknownError):
            await receipt.confirmed(10)
        assert sum(frame["type"] == "note" for frame in server.frames) <= 1
