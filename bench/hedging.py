"""What a Hedge is worth, and what it costs: the tail of the answers, and the requests that a call takes.

    python bench/hedging.py [seeds]

A server with 20 workers and one queue answers in a lognormal time (median 1 s), and 2 % of its answers take ten times as long.
*Steady*: 6 calls a second. *Slow*: after five minutes it is three times slower for five minutes, which is more than it can
serve; counted are the calls of that time. *Work that goes on*: the same, but a request that its client has given up is
worked on to its end, so that it frees nothing. *In a row*: 20 calls, one after the other. *At once*: 10 calls.

The real code of each in virtual time; a seed gives the same numbers every time. nopanic's delay, like ours where it is a
number, is the time within which 95 % of the answers of a steady server come.
"""

from __future__ import annotations

import asyncio
import math
import random
import statistics
import sys
from collections import deque
from typing import NamedTuple

import resilient_bridge as rb


WORKERS, PER_SECOND, STRAGGLERS, TIMES = 20, 6.0, 0.02, 10.0
USUAL = 2.15  # seconds within which 95 % of the answers come
SLOW, SLOWER = 300.0, 3.0
CALLS = 4_000
GOALS = {
    "p99 of a steady server, of that without": 0.35,
    "requests a call": 1.06,
    "p95 of a slow server, of that without": 1.0,
}
"""The most of each."""


def _plain(function):
    return function


def _nopanic(function):
    import nopanic  # of the extra `bench`

    return nopanic.hedge(delay=USUAL)(function)


CLIENTS = {
    "without": _plain,
    "Hedge()": lambda function: rb.Policy(rb.calls.Hedge())(function, idempotent=True),
    "Hedge(2.15)": lambda function: rb.Policy(rb.calls.Hedge(USUAL))(function, idempotent=True),
    "nopanic": _nopanic,
}


class Server:
    """Answers in the order in which requests come; `factor` says how slow it is."""

    def __init__(self, rng: random.Random, *, frees: bool) -> None:
        self.rng, self.frees = rng, frees
        self.requests, self.factor, self.free = 0, 1.0, WORKERS
        self.queue: deque[asyncio.Future[None]] = deque()

    async def answer(self) -> None:
        """Wait for a worker, and for its work."""
        self.requests += 1
        seconds = self.rng.lognormvariate(0, 0.4)
        if self.rng.random() < STRAGGLERS:
            seconds *= TIMES
        work = asyncio.ensure_future(self._worked(seconds))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            if self.frees:
                work.cancel()
            raise

    async def _worked(self, seconds: float) -> None:
        if not self.free:
            turn = asyncio.get_running_loop().create_future()
            self.queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._next()
                raise
        else:
            self.free -= 1
        try:
            await asyncio.sleep(seconds * self.factor)
        finally:
            self._next()

    def _next(self) -> None:
        while self.queue:
            turn = self.queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1


class Run:
    """The seconds of each call by the time at which it began, and the requests a call."""

    def __init__(self, took: list[tuple[float, float]], requests: float) -> None:
        self.took, self.requests = took, requests

    def quantile(self, share: float, *, since: float = 0.0, until: float = math.inf) -> float:
        chosen = sorted(seconds for began, seconds in self.took if since <= began < until)
        return chosen[math.ceil(share * len(chosen)) - 1]


def run(client: str, seed: int, *, slow: bool = False, frees: bool = True) -> Run:
    """Make the calls of one client to a server of its own, in virtual time."""

    async def main(_: object) -> Run:
        loop, rng = asyncio.get_running_loop(), random.Random(seed)
        server = Server(random.Random(seed + 1_000_000), frees=frees)
        call, took, start = CLIENTS[client](_asked(server)), [], loop.time()

        async def one() -> None:
            began = loop.time()
            await call()
            took.append((began - start, loop.time() - began))

        tasks, end = [], 2 * SLOW if slow else CALLS / PER_SECOND
        while loop.time() - start < end:
            server.factor = SLOWER if slow and loop.time() - start >= SLOW else 1.0
            tasks.append(asyncio.ensure_future(one()))
            await asyncio.sleep(rng.expovariate(PER_SECOND))
        server.factor = 1.0
        await asyncio.gather(*tasks)
        while server.free < WORKERS:  # noqa: ASYNC110 -- what goes on although nobody waits for it
            await asyncio.sleep(1)
        return Run(took, server.requests / len(took))

    return rb.testing.simulate(main, seed=seed)


def together(client: str, seed: int, calls: int, *, in_a_row: bool) -> float:
    """Return the seconds that a task of several calls takes, its 95th percentile over 200 tasks."""

    async def main(_: object) -> list[float]:
        loop, took = asyncio.get_running_loop(), []
        server = Server(random.Random(seed), frees=True)
        call = CLIENTS[client](_asked(server))
        for _ in range(200):
            began = loop.time()
            if in_a_row:
                for _ in range(calls):
                    await call()
            else:
                await asyncio.gather(*(call() for _ in range(calls)))
            took.append(loop.time() - began)
        return took

    took = sorted(rb.testing.simulate(main, seed=seed))
    return took[math.ceil(0.95 * len(took)) - 1]


def _asked(server: Server):
    async def ask() -> None:
        await server.answer()

    return ask


def tails(client: str, seeds: int) -> dict[str, float]:
    """Return what the goals are about, medians over the seeds."""
    steady = [run(client, seed) for seed in range(seeds)]
    slow = [run(client, seed, slow=True) for seed in range(seeds)]
    return {
        "p50": statistics.median(each.quantile(0.5) for each in steady),
        "p95": statistics.median(each.quantile(0.95) for each in steady),
        "p99": statistics.median(each.quantile(0.99) for each in steady),
        "requests": statistics.median(each.requests for each in steady),
        "slow p95": statistics.median(
            each.quantile(0.95, since=SLOW, until=2 * SLOW) for each in slow
        ),
        "slow requests": statistics.median(each.requests for each in slow),
    }


def measured(seeds: int) -> dict[str, dict[str, float]]:
    """Return the medians over the seeds, by client and column."""
    rows: dict[str, dict[str, float]] = {}
    for client in CLIENTS:
        on = [run(client, seed, slow=True, frees=False) for seed in range(seeds)]
        rows[client] = {
            **tails(client, seeds),
            "work goes on: slow p95": statistics.median(
                each.quantile(0.95, since=SLOW, until=2 * SLOW) for each in on
            ),
            "20 in a row p95": statistics.median(
                together(client, seed, 20, in_a_row=True) for seed in range(seeds)
            ),
            "10 at once p95": statistics.median(
                together(client, seed, 10, in_a_row=False) for seed in range(seeds)
            ),
        }
    return rows


class Worth(NamedTuple):
    """What a hedge changes: quantiles as a share of those without, and requests a call."""

    p99: float
    requests: float
    slow_p95: float
    slow_requests: float


def worth(rows: dict[str, dict[str, float]], client: str) -> Worth:
    """Return what the hedge of a client changes, beside the row `without`."""
    of, without = rows[client], rows["without"]
    return Worth(
        of["p99"] / without["p99"],
        of["requests"],
        of["slow p95"] / without["slow p95"],
        of["slow requests"],
    )


def judged(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return what the goals are held against: those of `Hedge()`."""
    ours = worth(rows, "Hedge()")
    values = (ours.p99, max(ours.requests, ours.slow_requests), ours.slow_p95)
    return dict(zip(GOALS, values, strict=True))


def main() -> None:
    """Print the table, and whether the goals are met."""
    from _measure import table  # the tests import the rest of this

    rows = measured(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    head = ["seconds, but requests a call", *rows["without"]]
    table("hedging", head, [[name, *row.values()] for name, row in rows.items()], ("nopanic",))
    for (goal, most), value in zip(GOALS.items(), judged(rows).values(), strict=True):
        print(f"{goal}: {value:.3f}, goal {most:g}{'' if value <= most else ' MISSED'}")


if __name__ == "__main__":
    main()
