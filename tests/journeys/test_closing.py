"""Closing in every state, and after a thousand reconnects: bounded, no network error, nothing left, every receipt told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest

import resilient_bridge as rb
from tests.rows import each_row

from .journey import simulated


STEADY = rb.bridge.BridgePolicy(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(2), connect_burst=2_000)
)
STATES = (
    "IDLE CONNECTING AUTHENTICATING JOINING REPLAYING FLUSHING READY BACKOFF SUSPENDED FAILED DRAINING CLOSING CLOSED"
).split()
GOODBYE = 1.2  # seconds that a close may take beyond its drain


async def until(client: rb.BridgeClient, state: str) -> None:
    """Wait for a state, looking every millisecond."""
    async with asyncio.timeout(100):
        while client.state != state:
            await asyncio.sleep(0.001)


def ours(loop: Any) -> list[Any]:
    """The links whose client end is open."""
    return [link for link in loop.network.links if not link.up.sender.is_gone]


DEAF = frozenset({"tool_result", "heartbeat_ping"})
IGNORED = {
    "AUTHENTICATING": frozenset({"auth"}),
    "JOINING": frozenset({"session_join", "heartbeat_ping"}),
}
NEVER_READY = {"IDLE", "CONNECTING", "AUTHENTICATING", "JOINING"}
HANDED_OUT = {"READY", "DRAINING", "CLOSING"}


async def lead_to(server: Any, client: rb.BridgeClient, state: str) -> None:
    """From READY to the loss that leads to `state`."""
    match state:
        case "READY" | "DRAINING" | "CLOSING":
            server.behave(ignored=DEAF)
        case "BACKOFF" | "SUSPENDED":
            await server.cut("abort", seconds=10_000)
            await until(client, state)
        case "REPLAYING" | "FLUSHING":
            server.behave(
                replay="none" if state == "REPLAYING" else "correct",
                push_buffer=state == "FLUSHING",
            )
            await server.cut("abort")
            await until(client, "BACKOFF")
            if state == "FLUSHING":
                asyncio.get_running_loop().network.slow(1_000, rate=20_000)  # type: ignore[attr-defined]
        case "FAILED":
            await server.cut("close", code=4003)
            await until(client, state)
        case "CLOSED":
            await client.aclose()


@contextlib.asynccontextmanager
async def standing(
    server: Any, state: str
) -> AsyncIterator[tuple[rb.BridgeClient, list[rb.bridge.Receipt]]]:
    """A client that stands in `state` and cannot leave it by itself soon, with three sends waiting or unconfirmed."""
    network: Any = asyncio.get_running_loop().network  # type: ignore[attr-defined]
    reconnect = attrs.evolve(STEADY.reconnect, attempts=1 if state == "SUSPENDED" else None)
    client = rb.BridgeClient(server.url, policy=STEADY.evolve(reconnect=reconnect))
    await asyncio.sleep(0.1)
    if state == "CONNECTING":
        network.shut("blackhole", 10_000)
    if state in NEVER_READY:
        server.behave(ignored=IGNORED.get(state, frozenset()))
    if state != "IDLE":
        await client.__aenter__()
    if state not in NEVER_READY:
        await client.wait_ready(10)
        await server.push("tool_call", {})
        await asyncio.sleep(0.1)
        await lead_to(server, client, state)
    receipts = []
    if state not in {"IDLE", "FAILED", "CLOSED"}:  # they refuse
        receipts = [
            await client.send("tool_result", {"n": n, "pad": "x" * 200_000}) for n in range(3)
        ]
    closing = None
    if state in HANDED_OUT:
        await asyncio.sleep(0.2)
    if state in {"DRAINING", "CLOSING"}:
        if state == "CLOSING":
            network.links[0].vanish()
        closing = asyncio.create_task(client.aclose(drain=0 if state == "CLOSING" else 60))
    await until(client, state)
    yield client, receipts
    if closing is not None:
        await closing


def others_of(
    client: rb.BridgeClient, receipts: list[rb.bridge.Receipt]
) -> list[asyncio.Task[Any]]:
    """Everybody who may wait for a client: first those who wait for the receipts."""
    waits: list[Any] = [receipt.confirmed() for receipt in receipts]
    if client.state != "IDLE":  # a client that was never entered refuses the rest
        waits += [
            client.wait_ready(),
            anext(aiter(client)),
            client.request("a_request", {}, timeout=1000),
        ]
    return [asyncio.ensure_future(wait) for wait in waits]


@each_row("drain", [0, 3])
@each_row("state", STATES)
@simulated
async def test_a_close_is_bounded_in_every_state(server, state, drain):
    """Within `drain` and a goodbye of a second: CLOSED, no link, no task, no network error, and what was not settled is returned."""
    loop: Any = asyncio.get_running_loop()
    async with standing(server, state) as (client, receipts):
        others = others_of(client, receipts)
        await asyncio.sleep(0)
        start = loop.time()
        remaining = await client.aclose(drain=drain)
        assert loop.time() - start <= drain + GOODBYE
        assert client.state == "CLOSED"
        assert ours(loop) == []
        if state != "CLOSING":  # there the other close has them
            assert [receipt.id for receipt in remaining] == [receipt.id for receipt in receipts]
        unknown = (
            {"unknown"}
            if state in HANDED_OUT
            else {"unknown", "dropped"}
            if state == "FLUSHING"
            else {"dropped"}
        )
        assert {receipt.state for receipt in receipts} <= unknown
        async with asyncio.timeout(1):
            results = await asyncio.gather(*others, return_exceptions=True)
        fine = rb.bridge.Message | rb.BridgeError | StopAsyncIteration | None
        assert all(isinstance(result, fine) for result in results)
        assert all(isinstance(result, rb.BridgeError) for result in results[: len(receipts)])
        with pytest.raises(rb.errors.NotConnectedError):
            await client.send("a", {})
        assert await client.aclose() == []
    assert not [task for task in asyncio.all_tasks() if "resilient_bridge" in task.get_name()]


@pytest.mark.parametrize("exits", ["normal", "error", "cancel"])
@simulated
async def test_leaving_the_block_drains_unless_it_is_cancelled(server, exits):
    """`async with`: what was sent is confirmed before it is left; an error of the body passes; a cancellation does not wait."""
    receipts: list[rb.bridge.Receipt] = []
    loop = asyncio.get_running_loop()

    async def body() -> None:
        async with rb.BridgeClient(server.url) as client:
            await client.wait_ready()
            receipts.extend([await client.send("tool_result", {"n": n}) for n in range(20)])
            if exits == "error":
                raise ValueError("mine")
            if exits == "cancel":
                await asyncio.sleep(100)

    task = asyncio.create_task(body())
    await asyncio.sleep(0.06)
    start = loop.time()
    if exits == "cancel":
        server.behave(ignored=frozenset({"heartbeat_ping"}))
        task.cancel()
    await asyncio.wait([task])
    assert loop.time() - start < 2
    if exits == "normal":
        assert task.exception() is None
    elif exits == "error":
        assert isinstance(task.exception(), ValueError)
    else:
        assert task.cancelled()
    if exits != "cancel":
        assert {receipt.state for receipt in receipts} == {"confirmed"}


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.simulation)])
@simulated
async def test_reconnects_leave_nothing_behind(server, count):
    """After so many reconnects there are as many tasks, links and timers as after the first; after the close none."""
    loop: Any = asyncio.get_running_loop()
    policy = STEADY.evolve(reconnect=attrs.evolve(STEADY.reconnect, backoff=rb.Backoff.constant(0)))
    hows = ("abort", "fin", "close", "blackhole")
    async with rb.BridgeClient(server.url, policy=policy) as client:
        await client.wait_ready()
        reader = asyncio.create_task(anext(aiter(client)))
        await asyncio.sleep(0.1)
        names = sorted(task.get_name() for task in asyncio.all_tasks())
        timers = len([entry for entry in loop._timers if not entry[2]._cancelled])
        for n in range(count):
            await client.send("tool_result", {"n": n})
            how: Any = hows[n % 4]
            if how == "blackhole":
                loop.network.links[-1].vanish()
                await asyncio.sleep(26)
            else:
                await server.cut(how, code=1001) if how == "close" else await server.cut(how)
            await asyncio.sleep(0.05)
            await client.wait_ready(60)
        await asyncio.sleep(1_000)
        assert sorted(task.get_name().split("-")[0] for task in asyncio.all_tasks()) == sorted(
            name.split("-")[0] for name in names
        )
        assert len([entry for entry in loop._timers if not entry[2]._cancelled]) <= timers + 2
        assert len(loop.network.links) == 1
        assert len(server.connect_times) == count + 1
        assert client.health().unconfirmed == 0
        reader.cancel()
    assert ours(loop) == []
