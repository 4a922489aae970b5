"""A client is closed, or its program interrupted, at every step of its life: bounded, silent, complete."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import resilient_bridge as rb
from resilient_bridge.testing.simulation import Simulation, simulate

from .stepping import before_turn


QUICK = rb.presets.default.evolve(reconnect=rb.Reconnect(backoff=rb.Backoff.constant(0.5), connect_burst=50))
BRIDGES: dict[str, dict[str, Any]] = {
    "correct": {},
    "asked only, slow": {"unasked_push": False, "slow": 0.01, "replay_delay": 0.02},
    "no acks": {"acks": "none"},
}


async def live(server: Any, client: rb.BridgeClient, receipts: list[rb.Receipt]) -> None:
    """A life with everything in it: connect, both directions, a request, a loss, a resume, a flush."""
    await client.wait_ready()
    await server.push("tool_call", {})
    receipts.append(await client.send("tool_result", {}))
    await client.request("git_status_request", {})
    await server.cut("abort")
    await asyncio.sleep(0.02)
    await server.push("tool_call", {})
    receipts.extend([await client.send("tool_result", {}) for _ in range(5)])
    await client.wait_ready()
    await receipts[-1].confirmed(30)
    await asyncio.sleep(0.02)


async def closed_before(server: Any, turn: int, drain: float, behaviour: dict[str, Any]) -> bool:
    """One life, closed by somebody else before that turn; False if it had ended by then."""
    server.behave(**behaviour)
    loop: Any = asyncio.get_running_loop()
    client = rb.BridgeClient(server.url, policy=QUICK)
    receipts: list[rb.Receipt] = []
    now = asyncio.Event()
    await client.__aenter__()
    events = client.events()
    living = asyncio.create_task(live(server, client, receipts))
    reading = asyncio.create_task(drain_messages(client))
    take_back = before_turn(loop, turn, now.set)
    arrived = asyncio.create_task(now.wait())
    await asyncio.wait([living, arrived], return_when=asyncio.FIRST_COMPLETED)
    take_back()
    was_alive = not living.done()
    start = loop.time()
    left = await client.aclose(drain=drain)
    assert loop.time() - start <= drain + 1.2
    assert client.state == "CLOSED"
    assert not [task for task in asyncio.all_tasks() if "resilient_bridge" in task.get_name()]
    assert {receipt.state for receipt in receipts} <= {"confirmed", "unknown", "dropped"}
    assert {receipt.id for receipt in left} <= {r.id for r in receipts if r.state != "confirmed"}
    async with asyncio.timeout(1):
        (outcome,) = await asyncio.gather(living, return_exceptions=True)
        await reading
        assert isinstance([event async for event in events][-1], rb.events.Closed)
    assert outcome is None or isinstance(outcome, rb.BridgeError)
    arrived.cancel()
    return was_alive


async def drain_messages(client: rb.BridgeClient) -> None:
    """Read until the client ends."""
    async for _ in client:
        pass


async def nothing(server: Any) -> None:
    """An empty run: it reports what collected garbage has to say about the runs before it."""


@pytest.mark.parametrize(("drain", "seed"), [(0, 0), (0, 1), (0, 2), (5, 8)])
@pytest.mark.parametrize("bridge", BRIDGES)
def test_a_close_before_any_turn_is_complete(bridge, drain, seed):
    """Closed before every turn of a life: in time, every receipt and waiter told, Closed last, no task, no link, no error."""
    turn = 0
    while True:
        turn += 1
        try:
            if not simulate(
                lambda server, turn=turn: closed_before(server, turn, drain, BRIDGES[bridge]), seed=seed
            ):
                break
            if turn % 16 == 0:
                gc.collect()
                simulate(nothing)
        except BaseException as error:
            error.add_note(f"closed before turn {turn}")
            raise
    gc.collect()
    simulate(nothing)
    assert turn > 60


class StopError(BaseException):
    """What KeyboardInterrupt and SystemExit are to a program: nobody catches it."""


@pytest.mark.parametrize("how", ["interrupt", "raise in the loop"])
def test_an_interrupted_program_leaves_nothing(how):
    """Ctrl-C (the main task is cancelled), or an interrupt out of the loop itself, before every turn: all links and tasks end."""
    turn = 0
    landed = True
    while landed:
        turn += 1
        landed = False
        receipts: list[rb.Receipt] = []
        clients: list[rb.BridgeClient] = []

        async def main(
            server: Any, turn: int = turn, clients: Any = clients, receipts: Any = receipts
        ) -> None:
            def strike() -> None:
                nonlocal landed
                if this is not None and not this.done():
                    landed = True
                    if how == "interrupt":
                        this.cancel()
                    else:
                        raise StopError

            this = asyncio.current_task()
            before_turn(asyncio.get_running_loop(), turn, strike)
            async with rb.BridgeClient(server.url, policy=QUICK) as client:
                clients.append(client)
                reading = asyncio.create_task(drain_messages(client))
                await live(server, client, receipts)
            await reading

        simulation = Simulation()
        try:
            simulation.run(main)
        except (asyncio.CancelledError, StopError):
            assert landed
        loop: Any = simulation.loop
        assert not [link for link in loop.network.links if not link.up.sender.is_gone], turn
        assert loop.errors == [], turn
        assert all(client.state == "CLOSED" for client in clients), turn
        assert {receipt.state for receipt in receipts} <= {"confirmed", "unknown", "dropped"}, turn
    gc.collect()
    simulate(nothing)
    assert turn > 60
