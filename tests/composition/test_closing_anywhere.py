"""A client is closed, or its program interrupted, at every step of its life: bounded, silent, complete."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import simulate
from tests.internals.testing import Simulation
from tests.samples import IS_ALL, some

from .stepping import before_turn


QUICK = rb.presets.default.evolve(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.5), connect_burst=50)
)
BRIDGES: dict[str, dict[str, Any]] = {
    "correct": {},
    "asked only, slow": {"push_buffer": False, "slow": 0.01, "replay_delay": 0.02},
    "no acks": {"acks": "none"},
}
STEP = 1 if IS_ALL else 2  # from one turn to the next


CLOSES = [  # a sample of three has each bridge, and both ways to drain
    *(("correct", 0, 0), ("correct", 0, 1), ("correct", 5, 8), ("correct", 0, 2)),
    *(
        ("asked only, slow", 5, 8),
        ("asked only, slow", 0, 0),
        ("asked only, slow", 0, 1),
        ("asked only, slow", 0, 2),
    ),
    *(("no acks", 0, 0), ("no acks", 0, 1), ("no acks", 5, 8), ("no acks", 0, 2)),
]


async def live(server: Any, client: rb.BridgeClient, receipts: list[rb.bridge.Receipt]) -> None:
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
    receipts: list[rb.bridge.Receipt] = []
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
    remaining = await client.aclose(drain=drain)
    assert loop.time() - start <= drain + 1.2
    assert client.state == "CLOSED"
    assert not [task for task in asyncio.all_tasks() if "resilient_bridge" in task.get_name()]
    assert {receipt.state for receipt in receipts} <= {"confirmed", "unknown", "dropped"}
    assert {receipt.id for receipt in remaining} <= {
        r.id for r in receipts if r.state != "confirmed"
    }
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


@pytest.mark.parametrize(("bridge", "drain", "seed"), some(CLOSES, 3))
def test_a_close_before_any_turn_is_complete(bridge, drain, seed):
    """Closed before every other turn of a life, or every one: in time, every receipt and waiter told, Closed last, no task, no link, no error."""
    turn = 1 - STEP
    while True:
        turn += STEP
        try:
            if not simulate(
                lambda server, turn=turn: closed_before(server, turn, drain, BRIDGES[bridge]),
                seed=seed,
                orders="fifo",
            ):
                break
            if turn % 16 == 1:
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


class Program:
    """`asyncio.run(main)` of one client, interrupted before a turn; `landed` if it was still running then."""

    def __init__(self, turn: int, how: str) -> None:
        self.turn, self.how = turn, how
        self.landed = False
        self.receipts: list[rb.bridge.Receipt] = []
        self.clients: list[rb.BridgeClient] = []

    async def main(self, server: Any) -> None:
        """The program."""
        self.task = asyncio.current_task()
        before_turn(asyncio.get_running_loop(), self.turn, self.strike)
        async with rb.BridgeClient(server.url, policy=QUICK) as client:
            self.clients.append(client)
            reading = asyncio.create_task(drain_messages(client))
            await live(server, client, self.receipts)
        await reading

    def strike(self) -> None:
        """Ctrl-C as asyncio.run passes it on, or a BaseException out of the loop itself."""
        if self.task is None or self.task.done():
            return
        self.landed = True
        if self.how == "raise in the loop":
            raise StopError
        self.task.cancel()

    def run(self) -> bool:
        """Run it and look at what is left."""
        simulation = Simulation(seed=self.turn, orders="fifo")
        try:
            simulation.run(self.main)
        except (asyncio.CancelledError, StopError):
            assert self.landed
        loop: Any = simulation.loop
        assert not [link for link in loop.network.links if not link.up.sender.is_gone]
        assert loop.errors == []
        assert all(client.state == "CLOSED" for client in self.clients)
        assert {receipt.state for receipt in self.receipts} <= {"confirmed", "unknown", "dropped"}
        return self.landed


@pytest.mark.parametrize("how", ["interrupt", "raise in the loop"])
def test_an_interrupted_program_leaves_nothing(how):
    """Ctrl-C, or an exception that ends the loop, before every other turn of a life, or every one: all links and tasks end, all receipts are told."""
    turn = 1
    while Program(turn, how).run():
        turn += STEP
    gc.collect()
    simulate(nothing)
    assert turn > 60
