"""P5: a circuit whose time is over tries with one call, however many come at once.

    python bench/half_open.py

After the open time, 100 callers arrive together at a server that is still down; each call takes 20 ms. How many reach it? Exactly one
should: the others are what kept it down. Asked of tasks and of threads, of every library in the form that it has.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, Lock

from _measure import table
from _peers import ASYNC_CIRCUITS, CIRCUITS, PACKAGES, our_breaker

import resilient_bridge as rb


CALLERS, FAILURES, OPEN_FOR = 100, 2, 1
OURS = {
    "ours": lambda failures, seconds: rb.Policy(our_breaker(failures, seconds)),
    "ours, failure rate": lambda failures, seconds: rb.Policy(
        rb.Breaker(rate=1, window=failures, open_for=seconds)
    ),
}


class Server:
    """Down. Counts who reaches it. The functions are plain ones: some libraries take no methods."""

    def __init__(self) -> None:
        self.reached = 0
        lock = Lock()

        async def get() -> None:
            self.reached += 1
            await asyncio.sleep(0.02)
            raise ConnectionRefusedError

        def get_sync() -> None:
            with lock:
                self.reached += 1
            time.sleep(0.02)
            raise ConnectionRefusedError

        self.get, self.get_sync = get, get_sync


async def tasks(make) -> int:
    """Return how many of the tasks reach the server."""
    server = Server()
    call = make(FAILURES, OPEN_FOR)(server.get)
    for _ in range(FAILURES + 1):
        with suppress(Exception):
            await call()
    assert server.reached == FAILURES, "not open"
    await asyncio.sleep(OPEN_FOR * 1.1)
    server.reached = 0
    await asyncio.gather(*(call() for _ in range(CALLERS)), return_exceptions=True)
    return server.reached


def threads(make) -> int:
    """Return how many of the threads reach the server."""
    server = Server()
    call = make(FAILURES, OPEN_FOR)(server.get_sync)
    for _ in range(FAILURES + 1):
        with suppress(Exception):
            call()
    assert server.reached == FAILURES, "not open"
    time.sleep(OPEN_FOR * 1.1)
    server.reached = 0
    together = Barrier(CALLERS)

    def come() -> None:
        together.wait()
        with suppress(Exception):
            call()

    with ThreadPoolExecutor(CALLERS) as pool:
        for _ in range(CALLERS):
            pool.submit(come)
    return server.reached


async def main() -> None:
    """Count, then print."""
    rows = []
    for name in dict.fromkeys((*OURS, *ASYNC_CIRCUITS, *CIRCUITS)):
        is_ours = name in OURS
        in_tasks = OURS.get(name) or ASYNC_CIRCUITS.get(name)
        in_threads = OURS.get(name) or CIRCUITS.get(name)
        counts = [
            await tasks(in_tasks) if in_tasks else "",
            threads(in_threads) if in_threads else "",
        ]
        verdict = ["1", "holds" if counts == [1, 1] else "missed"] if is_ours else ["", ""]
        rows.append([name, *map(str, counts), *verdict])
    head = [
        "circuit",
        f"of {CALLERS} tasks reach the server",
        f"of {CALLERS} threads",
        "goal",
        "P5",
    ]
    table("P5: probes of a half-open circuit", head, rows, PACKAGES)


if __name__ == "__main__":
    asyncio.run(main())
