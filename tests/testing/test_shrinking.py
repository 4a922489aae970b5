"""A failing order is shrunk to what the failure needs: the planted races of bench/_races.py, and the edges."""

from __future__ import annotations

import asyncio
import re
from functools import partial

import pytest

import resilient_bridge as rb
from bench._races import MUTANTS, PROGRAMS, broken
from resilient_bridge.testing import SimulationError, simulate
from tests.internals.testing import AllowedOrders, SimDeadlock, Simulation, shrinking
from tests.testing.test_orders import five, five_sleepers, five_waiters, mixed


HEAD = re.compile(
    r"shrink: asyncio's own order, but for (\d+) delays?, is enough \((\d+) of (\d+) switches, (\d+) runs\):"
)


def failing(program, kind=AssertionError, **options):
    """The error of the first seed that fails, shrunk."""
    for seed in range(60):
        try:
            simulate(program, **{"server": None, **options}, seed=seed)
        except kind:
            break
    with pytest.raises(kind) as info:
        simulate(program, **{"server": None, **options}, seed=seed, shrink=True)
    return info.value


def note_of(error):
    """What shrinking says of it."""
    return next(note for note in error.__notes__ if note.startswith("shrink: "))


def counts_of(error):
    """Delays, switches, switches of the run that failed, runs."""
    match = HEAD.match(note_of(error))
    assert match, note_of(error)
    return tuple(map(int, match.groups()))


async def read_too_early():
    """One task reads what another sets, among others that do nothing of the kind."""
    settings = {}

    async def load():
        settings["port"] = 80

    async def read():
        assert settings, "nothing is loaded"

    async def noise():
        for _ in range(5):
            await asyncio.create_task(asyncio.sleep(0.01))

    noises = [asyncio.create_task(noise()) for _ in range(5)]
    tasks = [asyncio.create_task(load(), name="load"), asyncio.create_task(read(), name="read")]
    try:
        await asyncio.gather(*tasks)
    finally:
        await asyncio.gather(*noises)


def test_a_step_that_waits_for_many_is_one_delay():
    """What several others overtake is listed once, with all of them."""

    async def main():
        seen = []

        async def one(number):
            seen.append(number)

        first = asyncio.create_task(one("first"), name="first")
        await asyncio.create_task(one("second"), name="second")
        await asyncio.create_task(one("third"), name="third")
        await first
        assert seen[2] != "first", seen

    error = failing(main)
    assert counts_of(error)[0] == 1
    assert re.search(r"1\. first \(.*\) runs after .*second .*third ", note_of(error))


@pytest.mark.requirement("X19")
@pytest.mark.parametrize("program", [*PROGRAMS, *MUTANTS], ids=lambda program: program.__name__)
def test_a_planted_race_needs_few_delays(program):
    with broken(program):
        delays, switches, drawn, runs = counts_of(failing(program))
    assert delays <= 6
    assert delays <= switches <= drawn
    assert runs < 60


def test_the_note_says_what_runs_after_what():
    error = failing(read_too_early)
    (delays, switches, drawn, _), (_, line) = counts_of(error), note_of(error).splitlines()
    assert (delays, switches) == (1, 1)
    assert drawn > 20
    assert re.fullmatch(
        r"  1\. read \(test_shrinking\.py:\d+ read\) runs before \S+ \(test_shrinking\.py:\d+ \w+\)",
        line,
    )


def test_a_timer_before_another_of_its_instant_is_a_switch():
    """Two tasks wake at one instant, in the order of the calls unless it is drawn."""

    async def main():
        seen = []

        async def one(name, *waits):
            for wait in waits:
                await asyncio.sleep(wait)
            seen.append(name)

        await asyncio.gather(one("a", 10), one("b", 5, 5))
        assert seen == ["a", "b"], seen

    error = failing(main)
    assert counts_of(error)[:2] == (1, 1)
    assert "task-" in note_of(error).splitlines()[1]


def test_what_is_shrunk_is_deterministic():
    program = PROGRAMS[1]
    assert note_of(failing(program)) == note_of(failing(program))


def test_each_switch_that_remains_is_needed():
    """Each of the decisions that remain is needed: the run without it passes."""
    simulation = Simulation(0, server=None)
    search = shrinking._Search(partial(simulation._failure, PROGRAMS[1]), AssertionError)
    numbers = search.reduced(sorted(search.fails(None)))
    assert len(numbers) > 1
    assert search.fails(frozenset(numbers)) is not None
    for number in numbers:
        assert search.fails(frozenset(numbers) - {number}) is None


def test_a_run_that_passes_runs_once():
    runs = []

    async def main():
        runs.append(1)
        return await five()

    assert simulate(main, server=None, seed=3, shrink=True) == simulate(five, server=None, seed=3)
    assert len(runs) == 1


def test_what_fails_in_each_order_needs_no_switch():
    async def main():
        await five()
        raise ValueError("mine")

    note = note_of(failing(main, ValueError))
    assert note == "shrink: it fails in asyncio's own order, too: orders='fifo' is enough"


def test_another_error_is_no_sign_of_the_same_failure():
    """In asyncio's own order this raises KeyError; the ValueError needs its switch."""

    async def main():
        seen = await five()
        if seen == (0, 1, 2, 3, 4):
            raise KeyError("in asyncio's order")
        raise ValueError("in another")

    assert counts_of(failing(main, ValueError))[1] >= 1


def test_a_program_that_one_run_changes_is_reported():
    runs = []

    async def main():
        runs.append(1)
        assert len(runs) > 1, "only once"

    with pytest.raises(AssertionError) as info:
        simulate(main, server=None, shrink=True)
    assert (
        note_of(info.value)
        == "shrink: it did not fail again: does a run of main change the next one?"
    )


def test_a_deadlock_is_shrunk():
    """Two tasks take two locks in two orders, and wait for each other for ever."""

    async def main():
        locks = asyncio.Lock(), asyncio.Lock()

        async def both(one, other):
            async with one:
                await asyncio.create_task(asyncio.sleep(0))
                async with other:
                    pass

        first = asyncio.create_task(both(*locks))
        await asyncio.create_task(five())
        await asyncio.create_task(five())
        await asyncio.gather(first, both(*reversed(locks)))

    assert counts_of(failing(main, SimDeadlock))[0] >= 1


def test_a_leak_is_shrunk():
    """SimulationError: a task that nobody waits for is still there at the end, in some orders."""

    async def main():
        seen = await five()
        if seen[0] == 4:
            asyncio.create_task(asyncio.sleep(60))  # noqa: RUF006 -- it is the leak

    error = failing(main, SimulationError)
    assert counts_of(error)[0] <= 4


def test_with_a_bridge_and_faults():
    async def main(server):
        async with rb.BridgeClient(server.url) as bridge:
            await bridge.wait_ready(timeout=30)
            assert (await five())[0] != 3

    faults = rb.testing.Faults(script=(rb.testing.ScriptedFault("abort", at=3),))
    options = {"server": rb.testing.BridgeServer, "faults": faults}
    assert counts_of(failing(main, **options))[0] <= 4


def test_the_number_of_runs_is_bounded(monkeypatch):
    """A failure that needs many switches: the note has those of the last run that failed."""
    assert shrinking._RUNS == 300
    monkeypatch.setattr(shrinking, "_RUNS", 40)
    runs = []

    async def main():
        runs.append(1)
        seen = []

        for _ in range(80):
            pair = []

            async def one(name, pair=pair):
                pair.append(name)

            await asyncio.gather(one("a"), one("b"))
            seen.append(pair == ["b", "a"])
        assert sum(seen) < 30

    with pytest.raises(AssertionError) as info:
        simulate(main, server=None, shrink=True)
    assert len(runs) <= 42
    assert "runs, the most there are)" in note_of(info.value)
    assert note_of(info.value).endswith("\n  ...")


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_an_interruption_ends_it(end):
    runs = []

    async def main():
        runs.append(1)
        raise end

    with pytest.raises(end):
        simulate(main, server=None, shrink=True)
    assert len(runs) == 1


@pytest.mark.parametrize("orders", ["pct", "fifo"])
def test_other_orders_are_refused(orders):
    with pytest.raises(rb.ConfigError, match=r"simulate\.shrink: wanted orders='seeded', got"):
        simulate(five, server=None, orders=orders, shrink=True)


@pytest.mark.parametrize("main", [five, five_sleepers, five_waiters, mixed])
def test_without_switches_it_is_asyncios_own_order(main):
    for seed in range(40):
        none = Simulation(seed, server=None)
        none._limits["orders"] = lambda rng: AllowedOrders(rng, frozenset(), describes=False)
        assert none.run(main) == simulate(main, server=None, seed=seed, orders="fifo")


def test_timers_that_are_set_again_at_once_delay_no_step():
    """A timer for now that a due timer sets is of the next turn, as with asyncio."""

    async def main():
        loop, seen, is_over = asyncio.get_running_loop(), [], False

        def again():
            seen.append("timer")
            if not is_over:
                loop.call_later(0, again)

        async def steps():
            for _ in range(5):
                await asyncio.create_task(asyncio.sleep(0))
                seen.append("step")

        again()
        await steps()
        is_over = True
        await asyncio.sleep(1)
        return seen

    none = Simulation(server=None, max_steps=1_000)
    none._limits["orders"] = lambda rng: AllowedOrders(rng, frozenset(), describes=False)
    assert none.run(main) == simulate(main, server=None, orders="fifo")


def test_a_simulation_has_its_own_order_again_after_it_was_shrunk():
    simulation = Simulation(0, server=None)

    async def main():
        order = []

        async def step(number):
            await asyncio.sleep(0.1)
            order.append(number)

        await asyncio.gather(*map(step, range(5)))
        assert order == [0, 1, 2, 3, 4], order

    with pytest.raises(AssertionError) as first:
        simulation.shrinking(main)
    with pytest.raises(AssertionError) as again:
        simulation.run(main)
    assert str(again.value) == str(first.value)
