"""What a link says while it is away, and why; its heartbeat; and when it has recovered."""

from __future__ import annotations

import asyncio
import logging

import pytest
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.adapters.link_peers import Client, World, quick, served, virtual
from tests.peers.running import until


GONE = ConnectionResetError("gone")


# -- what is told -----------------------------------------------------------------------------------------------------
@virtual
async def test_e12_the_log_and_the_events_name_the_cause(caplog):
    """Why each attempt failed is in the log line, the event, the health, and in the error of `wait_ready`."""
    caplog.set_level(logging.WARNING, "resilient_bridge")

    def factory():
        raise RuntimeError("the directory names no server")

    link = rb.reconnecting(
        factory, quick(backoff=rb.Backoff.constant(5, jitter="none"), attempts=None)
    )
    seen = link.events()
    async with link:
        with pytest.raises(
            rb.errors.AttemptTimeoutError, match="the directory names no server"
        ) as caught:
            await link.wait_ready(7)
        assert "the directory names no server" in str(link.health().failure)
        assert isinstance(caught.value.failure.cause, rb.errors.NotConnectedError | RuntimeError)
    parts = [event async for event in seen]
    first, *later = (event for event in parts if isinstance(event, rb.events.StateChanged))
    assert (first.state, first.reason) == ("CONNECTING", "user")
    assert [event.reason for event in later if event.state == "CONNECTING"] == ["retry"]
    assert [event.reason for event in later if event.state == "BACKOFF"] == ["connect_failed"] * 2
    scheduled = [event for event in parts if isinstance(event, rb.events.ReconnectScheduled)]
    assert all("the directory names no server" in str(event.failure) for event in scheduled)
    lines = [record.getMessage() for record in caplog.records]
    assert lines
    assert all("the directory names no server" in line for line in lines)


@virtual
async def test_e12_the_change_to_backoff_says_why():
    """Not `connection_lost` for everything: the server's own close is there."""
    from resilient_bridge.failure import classify_close

    world = World()
    link = rb.reconnecting(world.factory, quick())
    seen = link.events()
    async with link as client:
        await client.work("a")
        world.client.die(rb.BridgeError(classify_close(1012, "service restart", "peer")))
        await until(lambda: len(world.made) == 2)
    reasons = [
        event.reason
        async for event in seen
        if isinstance(event, rb.events.StateChanged) and event.state == "BACKOFF"
    ]
    assert reasons == ["peer_closed(1012, service restart)"]


@virtual
async def test_e13_a_wait_that_the_rate_cap_makes_is_called_that():
    """The third connection within a minute that dies young waits longer than the schedule, and the event says why."""
    world = World()
    policy = rb.bridge.BridgePolicy(reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.2)))
    link = rb.reconnecting(world.factory, policy)
    seen = link.events()
    async with link:
        for number in range(1, 5):
            await until(
                lambda number=number: len(world.made) == number and link.state == "READY",
                seconds=60,
            )
            await world.lose(link)
    scheduled = [event async for event in seen if isinstance(event, rb.events.ReconnectScheduled)]
    assert [event.reason for event in scheduled] == ["connection_lost"] * 2 + ["rate_capped"] * (
        len(scheduled) - 2
    )
    assert all((event.wait > 1) is (event.reason == "rate_capped") for event in scheduled)


@virtual
async def test_a_link_has_recovered_when_it_has_worked_not_when_the_factory_returns():
    """Connections that open and die at once are failed attempts: after so many the user is told, or it gives up."""
    world = World()

    class Dying(Client):
        async def __aenter__(self):
            asyncio.get_running_loop().call_later(0.01, self.die, GONE)
            return await super().__aenter__()

    world.kind = Dying
    link = rb.reconnecting(world.factory, quick(attempts=3, on_exhausted="raise"))
    async with link as client:
        with pytest.raises(rb.BridgeError) as caught:
            await client.wait("never")
            await link.wait_ready(5)
            await client.wait("never")
        await until(lambda: link.state == "FAILED")
    assert caught.value.failure.code in {"SYS_OUTCOME_UNKNOWN", "CONN_RECONNECT_EXHAUSTED"}
    assert link.health().failure.code == "CONN_RECONNECT_EXHAUSTED"
    assert len(world.made) <= 5


@virtual
async def test_a_link_that_works_in_between_is_never_exhausted():
    """Each connection answers a call before it dies: no attempt has failed."""
    world = World()
    link = rb.reconnecting(world.factory, quick(attempts=2, on_exhausted="raise"))
    async with link as client:
        for number in range(1, 8):
            assert await client.work("a") == f"a by {number}"
            await world.lose(link)
        await link.wait_ready(5)
        assert link.health().reconnects == 7


# -- heartbeat --------------------------------------------------------------------------------------------------------
@pytest.mark.real
async def test_e13_a_heartbeat_is_obeyed_over_websockets():
    """The server stops to read: gone after `every` and `timeout`, not after the library's 40 s; the link comes back."""

    async def attend(connection):
        if len(made) == 1:
            connection.transport.pause_reading()
        else:
            await connection.send("alive")
        await connection.wait_closed()

    policy = quick().evolve(heartbeat=rb.bridge.Heartbeat(every=0.2, timeout=0.2))
    async with served(attend, close_timeout=0.1) as (url, made):
        link = rb.reconnecting(lambda: connect(url), policy)
        seen = link.events()
        async with link as ws, asyncio.timeout(10):
            assert await ws.recv() == "alive"
            assert link.health().failure.code == "CONN_HEARTBEAT_TIMEOUT"
            made[0].transport.abort()
        assert "heartbeat_timeout" in [
            event.reason async for event in seen if isinstance(event, rb.events.ReconnectScheduled)
        ]


@pytest.mark.real
async def test_e13_a_reader_who_is_slow_is_no_dead_server():
    """Reading is paused because nobody takes the messages: no verdict, whatever the pongs; all arrive, on one connection."""

    async def attend(connection):
        for number in range(200):
            await connection.send(f"{number:05}" + "x" * 20_000)
        await connection.wait_closed()

    policy = quick().evolve(heartbeat=rb.bridge.Heartbeat(every=0.1, timeout=0.1))
    async with served(attend, ping_interval=None) as (url, made):
        link = rb.reconnecting(lambda: connect(url, ping_interval=None), policy)
        async with link as ws, asyncio.timeout(20):
            await asyncio.sleep(1)
            got = [int((await ws.recv())[:5]) for _ in range(200)]
        assert got == list(range(200))
        assert len(made) == 1
