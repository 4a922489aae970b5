"""X19: seeded orders of tasks find races, and many worlds a second, beside simloop and asyncio's own order.

    python bench/orders.py [ROUNDS]

Three tables. How many orders of five tasks 40 seeds try: at least 30. In how many of 40 seeds each planted race (_races.py) is found: every
one in at least one, and none in a program that holds; and to how many steps that run late the first of them is shrunk. How long a world takes: a small one at most a fifth of simloop's, which collects
garbage after each (in a process without this package its small worlds take half as long). In a large one asyncio itself, its tasks,
futures and handles, is most of it: the column `asyncio` is its own loop whose clock jumps to the next timer, with nothing added, and a
fifth of simloop is less than that. simloop needs Python 3.12; without it its columns are absent.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
import re
import time
from collections.abc import Callable
from typing import Any

from _measure import Samples, rounds_asked, table
from _races import MUTANTS, PROGRAMS, Program, broken

from resilient_bridge.testing import SimulationError, simulate


try:
    from simloop import explore
except ImportError:
    explore = None

SEEDS = range(40)
ORDERS, SPEED = 30, 5
OTHERS = ("simloop",)
logging.disable()


def ours(orders: Any) -> Callable[[Any, int], Any]:
    """A runner of one world: what the program returns; AssertionError if it does not hold."""
    return lambda program, seed: simulate(program, server=None, seed=seed, orders=orders)


def theirs(program: Any, seed: int, policy: str = "random") -> Any:
    """The same under simloop, through its public door."""
    returned: list[Any] = []

    async def main() -> None:
        returned.append(await program())

    report = explore(main, [seed], policy=policy)
    if report is not None:
        raise report.exception
    return returned[0]


RUNNERS: dict[str, Callable[[Any, int], Any]] = {
    "seeded": ours("seeded"),
    "pct": ours("pct"),
    "fifo": ours("fifo"),
}
if explore is not None:
    RUNNERS |= {
        "simloop": theirs,
        "simloop pct": lambda program, seed: theirs(program, seed, "pct"),
    }


# ---- orders -----------------------------------------------------------------------------------------------------


async def started() -> tuple[int, ...]:
    """The order in which five tasks start."""
    seen: list[int] = []

    async def one(number: int) -> None:
        seen.append(number)

    await asyncio.gather(*map(one, range(5)))
    return tuple(seen)


async def slept() -> tuple[int, ...]:
    """The order in which five tasks wake that have slept until one instant."""
    seen: list[int] = []

    async def one(number: int) -> None:
        await asyncio.sleep(1)
        seen.append(number)

    await asyncio.gather(*map(one, range(5)))
    return tuple(seen)


async def woken() -> tuple[int, ...]:
    """The order in which five tasks go on that wait for one event."""
    seen, event = [], asyncio.Event()

    async def one(number: int) -> None:
        await event.wait()
        seen.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(5)]
    await asyncio.sleep(1)
    event.set()
    await asyncio.gather(*tasks)
    return tuple(seen)


def orders_tried() -> list[list[str]]:
    """A row for each way to be ready: how many different orders 40 seeds try."""
    return [
        [program.__name__, *(str(len({run(program, seed) for seed in SEEDS})) for run in RUNNERS.values())]
        for program in (started, slept, woken)
    ]  # fmt: skip


# ---- races ------------------------------------------------------------------------------------------------------


def found_in(program: Program, run: Callable[[Any, int], Any]) -> int:
    """In how many of the seeds the program does not hold."""
    found = 0
    for seed in SEEDS:
        try:
            run(program, seed)
        except SimulationError:
            raise
        except AssertionError:
            found += 1
    return found


def races_found() -> list[list[str]]:
    """A row for each race; the programs of mutants first without their fault, where they have to hold."""
    rows = []
    for program in (*PROGRAMS, *MUTANTS):
        with broken(program):
            counts = [str(found_in(program, run)) for run in RUNNERS.values()]
            delays = shrunk_to(program)
        unbroken = ""
        if program in MUTANTS:
            unbroken = str(sum(found_in(program, run) for run in RUNNERS.values()))
        rows.append([program.__name__.replace("_", " "), *counts, delays, unbroken])
    return rows


def shrunk_to(program: Program) -> str:
    """How many delays the first seed that finds it needs, of how many switches (`shrink=True`)."""
    for seed in SEEDS:
        try:
            simulate(program, server=None, seed=seed, shrink=True)
        except AssertionError as error:
            found = re.search(r"for (\d+) delay.* of (\d+) switches", error.__notes__[-1])
            return f"{found[1]} of {found[2]}" if found else "?"
    return ""


# ---- speed ------------------------------------------------------------------------------------------------------


async def small() -> None:
    """Five tasks that sleep."""
    await slept()


async def middle() -> None:
    """Ten producers and ten consumers of a queue, 300 items."""
    queue: asyncio.Queue[int] = asyncio.Queue(5)

    async def produce() -> None:
        for n in range(30):
            await queue.put(n)
            await asyncio.sleep(0.01)

    async def consume() -> None:
        for _ in range(30):
            await queue.get()
            await asyncio.sleep(0)

    await asyncio.gather(*(produce() for _ in range(10)), *(consume() for _ in range(10)))


async def wide() -> None:
    """Five hundred tasks at once, twenty timers each."""

    async def one(n: int) -> None:
        for step in range(20):
            await asyncio.sleep((n + step) % 7 / 10)

    await asyncio.gather(*map(one, range(500)))


class Bare(asyncio.BaseEventLoop):
    """asyncio's own loop, but that its clock jumps: the least that a simulation in Python can cost."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        """The virtual seconds."""
        return self.now

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        if not ready and timers:
            self.now = timers[0].when()
        while timers and timers[0].when() <= self.now:
            timer = heapq.heappop(timers)
            timer._scheduled = False  # noqa: SLF001 -- as its own loops do
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()  # noqa: SLF001


def bare(program: Any, seed: int) -> Any:
    """Run a program on it."""
    del seed
    with asyncio.Runner(loop_factory=Bare) as runner:
        return runner.run(program())


WORLDS = {small: 40, middle: 4, wide: 1}
TIMED = {name: run for name, run in RUNNERS.items() if "pct" not in name} | {"asyncio": bare}


def times(rounds: int) -> dict[Any, Samples]:
    """Milliseconds a world, of each program and runner, in shuffled rounds."""
    rng, measured = random.Random(1), {program: Samples() for program in WORLDS}
    for number in range(rounds + 1):
        cases = [(program, name) for program in WORLDS for name in TIMED]
        rng.shuffle(cases)
        for program, name in cases:
            worlds, run = WORLDS[program], TIMED[name]
            began = time.process_time()
            for seed in range(worlds):
                run(program, number * worlds + seed)
            if number:
                spent = (time.process_time() - began) / worlds * 1e3
                measured[program].setdefault(name, []).append(spent)
    return measured


def main(rounds: int) -> None:
    """Print the tables, and which goals hold."""
    tried = orders_tried()
    table("Orders of five tasks that 40 seeds try", ["five tasks have", *RUNNERS], tried, OTHERS)
    found = races_found()
    table(
        "Races, and in how many of 40 seeds each is found",
        ["race", *RUNNERS, "shrunk to", "unbroken"],
        found,
        OTHERS,
    )
    measured = times(rounds)
    rows = []
    for program, samples in measured.items():
        low = [f"{samples.low(name):.2f}" for name in TIMED]
        ratios = [f"{samples.ratio('seeded', 'asyncio'):.1f}"]
        if explore:
            ratios.append(f"{samples.ratio('simloop', 'seeded'):.1f}")
        rows.append([(program.__doc__ or "").strip(), *low, *ratios])
    ratios = ["seeded / asyncio", "simloop / seeded"][: len(ratios)]
    table("Milliseconds of CPU a world", ["world", *TIMED, *ratios], rows, OTHERS)
    goals = {
        f"at least {ORDERS} of 40 seeds differ": all(int(n) >= ORDERS for row in tried for n in row[1:3]),
        "every race is found by seeded": all(int(row[1]) for row in found),
        "none is found in fifo, or unbroken": all(row[3] == "0" and row[-1] in {"", "0"} for row in found),
    }  # fmt: skip
    if explore:
        ratio = measured[small].ratio("simloop", "seeded")
        goals[f"at least {SPEED} times simloop's small worlds a second"] = ratio >= SPEED
    for goal, holds in goals.items():
        print(f"{goal}: {'holds' if holds else 'missed'}")


if __name__ == "__main__":
    main(rounds_asked(5))
