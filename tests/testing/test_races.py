"""The planted races of bench/_races.py: asyncio's own order hides each of them, and some seed finds it."""

from __future__ import annotations

import asyncio

import pytest

from bench._races import MUTANTS, PROGRAMS, broken
from resilient_bridge.testing import simulate


SEEDS = range(40)


def is_found(program, seed, orders):
    """Whether the run ends with the program's own assertion."""
    try:
        simulate(program, server=None, seed=seed, orders=orders)
    except AssertionError as error:
        assert type(error) is AssertionError, error
        return True
    return False


@pytest.mark.parametrize("program", [*PROGRAMS, *MUTANTS], ids=lambda program: program.__name__)
def test_a_race_is_found_in_forty_seeds_and_not_in_the_order_of_asyncio(program):
    with broken(program):
        assert any(is_found(program, seed, "seeded") for seed in SEEDS)
        assert not is_found(program, 0, "fifo")


@pytest.mark.parametrize("program", MUTANTS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("orders", ["seeded", "pct"])
def test_the_package_itself_has_none_of_them(program, orders):
    assert not [seed for seed in SEEDS if is_found(program, seed, orders)]


def test_a_seed_that_finds_one_finds_it_again():
    program = PROGRAMS[0]
    found = [seed for seed in SEEDS if is_found(program, seed, "seeded")]
    assert found == [seed for seed in SEEDS if is_found(program, seed, "seeded")]
    assert 0 < len(found) < len(SEEDS)


def test_tasks_without_the_c_module_are_tasks():
    async def main():
        seen = []
        asyncio.get_running_loop().set_task_factory(
            lambda loop, coro, **options: asyncio.tasks._PyTask(coro, loop=loop, **options)
        )

        async def one(number):
            await asyncio.sleep(0)
            seen.append(number)

        await asyncio.gather(*map(one, range(5)))
        return tuple(seen)

    assert len({simulate(main, server=None, seed=seed) for seed in SEEDS}) > 20
