"""What the benchmarks share: a peer in another process, a clock for our own CPU, interleaved rounds, one table.

Rule: times drift and prove nothing. A claim is a ratio inside one run: every round runs every case in a shuffled order, the
quotient of the minima is judged, and the median of the quotients round by round stands beside it as a witness.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


_LINKS = ("websockets", "attrs", "orjson", "picows")


class Samples(dict[str, list[float]]):
    """Case -> one number a round."""

    def low(self, name: str) -> float:
        """The minimum: what the code costs when nobody disturbs it."""
        return min(self[name])

    def ratio(self, name: str, base: str) -> float:
        """Minimum over minimum: what a goal is held against."""
        return self.low(name) / self.low(base)

    def paired(self, name: str, base: str) -> float:
        """The median of the quotients of each round."""
        return statistics.median(a / b for a, b in zip(self[name], self[base], strict=True))


async def interleave(cases, rounds: int, seed: int = 1) -> Samples:
    """Run every case (an async callable that returns its number) once a round; the first round only warms up."""
    samples, rng, names = Samples(), random.Random(seed), list(cases)
    for number in range(rounds + 1):
        rng.shuffle(names)
        for name in names:
            value = await cases[name]()
            if number:
                samples.setdefault(name, []).append(value)
    return samples


_BATCH = 1_000_000  # nanoseconds: short enough that some batches are disturbed by nobody


def per_call(function):
    """Return a case for `interleave`: nanoseconds a call of an async function, in batches of about a millisecond."""
    calls = 10

    async def run() -> float:
        nonlocal calls
        began = time.perf_counter_ns()
        for number in range(calls):
            await function(number)
        await asyncio.sleep(
            0
        )  # the loop drops timers that were called off: that belongs to the price
        spent = (time.perf_counter_ns() - began) / calls
        calls = _next_batch(calls, spent)
        return spent

    return run


def per_call_sync(function):
    """Return a case for `interleave`: nanoseconds a call of a sync function, in batches of about a millisecond."""
    calls = 10

    async def run() -> float:
        nonlocal calls
        began = time.perf_counter_ns()
        for number in range(calls):
            function(number)
        spent = (time.perf_counter_ns() - began) / calls
        calls = _next_batch(calls, spent)
        return spent

    return run


def _next_batch(calls: int, spent: float) -> int:
    """Return how many calls fill a batch: always an even number, for functions of which every second call fails."""
    return max(calls, min(2_000, int(_BATCH / spent) // 2 * 2))


class Clock:
    """`with Clock() as clock`: the CPU seconds this process used (`cpu`) and the seconds that passed (`wall`)."""

    cpu = wall = 0.0

    def __enter__(self):
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *exc):
        self.wall, self.cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu


@contextmanager
def peer(*, apart: bool = False):
    """The bridge of `_bridge.py` in a process of its own; yields its base URLs by kind. `apart`: a core for each of us."""
    script = Path(__file__).with_name("_bridge.py")
    process = subprocess.Popen(
        [sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        ports = json.loads(process.stdout.readline())
        if apart:
            _separate(process.pid)
        yield {kind: f"ws://127.0.0.1:{port}" for kind, port in ports.items()}
    finally:
        process.stdin.close()  # it ends with its input
        process.wait(10)


def _separate(other: int) -> None:
    """A core for each process, where the system lets us: what CPU one uses must not depend on where the other runs."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})
        os.sched_setaffinity(other, {cores[1]})


def rounds_asked(default: int) -> int:
    """The one argument of a script: how many rounds."""
    return int(sys.argv[1]) if len(sys.argv) > 1 else default


def holds(value: float, goal: float) -> str:
    """The last column of a row that has a goal."""
    return "holds" if value <= goal else f"missed by {value / goal - 1:.0%}"


def table(
    title: str, head: list[str], rows: list[list], packages: tuple[str, ...] = _LINKS
) -> None:
    """Print one Markdown table under the versions it was measured with."""
    print(f"\n### {title}\n\n{_versions('resilient-bridge', *packages)}\n")
    texts = [
        head,
        *(
            [f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row]
            for row in rows
        ),
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for number, row in enumerate(texts):
        print(
            "| "
            + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            + " |"
        )
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def _versions(*names: str) -> str:
    found = [f"Python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} (absent)")
    return ", ".join(found)
