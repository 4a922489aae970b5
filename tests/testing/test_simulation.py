"""Simulations: the same run for the same seed, in any process, and nothing left over that is not reported."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from resilient_bridge.testing import Faults, ScriptedFault, SimulationError, simulate
from resilient_bridge.world import current_world
from tests.internals.testing import EPOCH, SimDeadlock, SimOverrun, Simulation


def envelope(type):
    """A message as the seed's bridge wants it."""
    ident = "11111111-1111-4111-8111-111111111111"
    return json.dumps(
        {"type": type, "id": ident, "timestamp": "2026-01-01T00:00:00.000Z", "payload": {}}
    )


async def chat(server):
    """A client of plain websockets that keeps coming back, through whatever happens, for two minutes."""
    loop = asyncio.get_running_loop()
    seen = []
    while loop.time() < 120:
        try:
            async with connect(
                server.url, ping_interval=5, ping_timeout=5, open_timeout=5, close_timeout=1
            ) as ws:
                await ws.send(envelope("auth"))
                while loop.time() < 120:
                    async with asyncio.timeout(20):
                        seen.append(json.loads(await ws.recv())["type"])
                    loop.note(seen[-1])
                    await asyncio.sleep(random.random())
                    await ws.send(envelope("heartbeat_ping"))
        except (OSError, TimeoutError, WebSocketException, ValueError) as error:
            loop.note(type(error).__name__)
            await asyncio.sleep(random.random())
    return seen


def test_simulate_gives_what_main_returns():
    """The bridge listens when main starts; its result is simulate's."""
    assert simulate(chat)[:2] == ["connection_ack", "heartbeat_pong"]


def test_the_clients_clock_and_randomness_are_simulated():
    """Inside main, the environment of the client has the simulated wall clock and a seeded source; outside not."""

    async def main(server):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(10)
        loop.wall_offset = 5.0
        world = current_world()
        return world.wall(), world.new_rng().random()

    wall, number = simulate(main, seed=1)
    assert wall == EPOCH + 15
    assert (wall, number) == simulate(main, seed=1)
    assert number != simulate(main, seed=2)[1]
    assert current_world().wall() != wall


def test_the_bridge_lives_by_the_true_time():
    """The bridge's stamps do not follow the client's clock error."""

    async def main(server):
        loop = asyncio.get_running_loop()
        loop.wall_offset = -1e9
        async with connect(server.url) as ws:
            await ws.send(envelope("auth"))
            return json.loads(await ws.recv())["timestamp"]

    assert simulate(main).startswith("2026-01-01T00:00:00")


def test_the_same_seed_is_the_same_run():
    """Twice with one seed and plan: one trace, the same steps, the same faults; another seed, another trace."""

    def once(seed):
        simulation = Simulation(seed, Faults(seed=seed, rate=0.2))
        simulation.run(chat)
        return (
            simulation.trace_hash,
            simulation.steps,
            simulation.virtual_seconds,
            dict(simulation.faults_fired),
        )

    runs = [once(seed) for seed in (1, 2, 3)]
    assert runs == [once(seed) for seed in (1, 2, 3)]
    assert len({run[0] for run in runs}) == 3
    assert all(run[3] for run in runs)


SCRIPT = """
import logging, sys
sys.path.insert(0, sys.argv[1])
logging.disable()
from test_simulation import chat
from resilient_bridge.testing import Faults
from tests.internals.testing import Simulation
for seed in range(12):
    run = Simulation(seed, Faults(seed=seed, rate=0.3))
    run.run(chat)
    print(run.trace_hash, run.steps, sorted(run.faults_fired.items()))
"""


@pytest.mark.real
def test_no_process_and_no_hash_seed_changes_a_run():
    """In another process, with another hash seed, the same seeds give the same traces and faults."""
    here = Path(__file__).parent

    def traces(hash_seed):
        path = os.pathsep.join([str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", SCRIPT, str(here)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = traces("0")
    assert len(set(first.splitlines())) == 12
    assert traces("1") == first


def test_a_leaked_task_is_reported():
    """A task that main leaves running fails the run, by name and place, with the seed."""

    async def background():
        while True:
            await asyncio.sleep(15)

    async def main(server):
        asyncio.get_running_loop().leaked = asyncio.create_task(background(), name="heartbeat")

    with pytest.raises(
        SimulationError,
        match=r"seed=9.*\n.*leaked task: heartbeat \(test_simulation.py:\d+ background",
    ):
        simulate(main, seed=9)


def test_an_open_link_is_reported():
    """A connection that main does not close fails the run."""

    async def main(server):
        asyncio.get_running_loop().leaked = await connect(server.url, ping_interval=None)

    with pytest.raises(SimulationError, match=r"open link: <Link 1 .*open>"):
        simulate(main)


def test_an_error_in_the_loop_is_reported():
    """What asyncio would only log fails the run."""

    async def main(server):
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    with pytest.raises(SimulationError, match=r"error in the loop: .*ZeroDivisionError"):
        simulate(main)


@pytest.mark.parametrize("runs", [0, -1], ids=["in a later run", "in the run itself"])
def test_an_error_that_only_garbage_shows_fails_a_run(runs, monkeypatch):
    """An exception that was not retrieved, caught in a cycle, is found when the garbage is collected: after every 64th run."""
    monkeypatch.setattr(Simulation, "_runs", runs)

    async def leave_an_error(server):
        async def fail():
            raise ValueError("never seen")

        task = asyncio.create_task(fail())
        cycle = [task]
        cycle.append(cycle)
        await asyncio.sleep(1)

    async def nothing(server):
        pass

    gc.collect()
    gc.disable()  # or a collection between two runs would find it, where nobody listens
    try:
        with pytest.raises(SimulationError, match=r"never seen(.|\n)*seed=77"):
            for seed in (77, *range(100)):
                simulate(leave_an_error if seed == 77 else nothing, seed=seed)
    finally:
        gc.enable()


def test_a_deadlock_names_the_run():
    """A wait that can never end is reported with seed, faults and place."""

    async def main(server):
        await asyncio.Event().wait()

    with pytest.raises(
        SimDeadlock, match=r"seed=5, faults=Faults\(seed=6, rate=0.1\).*test_simulation.py:\d+ main"
    ):
        simulate(main, seed=5, faults=Faults(seed=6))


def test_bounds_end_a_run():
    """A run that spins, or polls for ever, meets its bounds and still closes its loop."""

    async def spin(server):
        while True:
            await asyncio.sleep(0)

    async def poll(server):
        while True:
            await asyncio.sleep(60)

    for main, bound in ((spin, {"max_steps": 5_000}), (poll, {"max_seconds": 3_600})):
        simulation = Simulation(**bound)
        with pytest.raises(SimOverrun):
            simulation.run(main)
        assert simulation.loop.is_closed()


def test_what_main_raises_comes_out_with_the_seed():
    """An exception of main is raised as it is, with a note that names the run and the virtual time."""

    async def main(server):
        await asyncio.sleep(3)
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        simulate(main, seed=4)
    assert caught.value.__notes__ == [
        "in Simulation(seed=4, faults=None, orders='seeded') after 3.000 virtual seconds"
    ]


def test_simulate_is_no_coroutine():
    """Within a running loop it refuses, with an error that says what to do."""

    async def outer():
        simulate(chat)

    with pytest.raises(SimulationError, match="from a plain function"):
        asyncio.run(outer())


def test_the_random_module_is_restored():
    """Libraries draw reproducible numbers inside, and the caller's sequence goes on undisturbed."""

    async def main(server):
        return random.random()

    random.seed(1)
    expected = [random.random() for _ in range(2)]
    random.seed(1)
    assert random.random() == expected[0]
    assert simulate(main, seed=3) == simulate(main, seed=3)
    assert random.random() == expected[1]


def test_a_server_of_ones_own():
    """`Simulation` takes any maker of servers that accepts `wall` and `rng`."""

    class Mine:
        def __init__(self, *, wall, rng):
            self.answer = wall(), rng.random()

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

    async def main(server):
        return server.answer

    wall, number = Simulation(seed=1, server=Mine).run(main)
    assert wall == EPOCH
    assert 0 <= number < 1


def test_faults_are_counted():
    """`faults_fired` tells what happened to whom, by kind; the bridge's own faults included."""
    faults = Faults(
        script=(
            ScriptedFault("abort", at=10),
            ScriptedFault("restart", at=20),
            ScriptedFault("vanish", link=2, after=4),
        )
    )
    simulation = Simulation(3, faults)
    simulation.run(chat)
    assert dict(simulation.faults_fired) == {"abort": 1, "restart": 1, "vanish": 1}
    assert repr(simulation) == f"Simulation(seed=3, faults={faults!r}, orders='seeded')"


def test_the_servers_cut_is_the_networks():
    """`server.cut` breaks links of the simulated network, for simulated seconds."""

    async def main(server):
        loop = asyncio.get_running_loop()
        async with connect(server.url, ping_interval=None) as ws:
            await server.cut("abort", seconds=30)
            with pytest.raises(WebSocketException):
                await ws.recv()
            with pytest.raises(ConnectionRefusedError):
                await connect(server.url)
        await asyncio.sleep(30)
        async with connect(server.url) as ws:
            return loop.time() > 30

    assert simulate(main) is True
