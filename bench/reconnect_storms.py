"""P16: 10,000 clients lose their server together, and reconnect together.

    python bench/reconnect_storms.py [seeds]

The server is down from 0 on (every client notices within 0.1 s), is back after the outage, and then accepts 500 connections a
second with a backlog of 250; an attempt while it is down or full fails after 20 to 200 ms. Perfect is 99 % back after 19.3 s.

Goals for `Reconnect()`: 99 % back <= 1.6 x perfect and <= 0.05 failed attempts a client after the return, for outages of 60 and
600 s; <= 1.9 x for 2 and 10 s; <= 1.6 x at 60 s if the server sends a Retry-After. Our schedules are called as the client calls them:
`Backoff.next` with the attempt, the previous wait and a random source, a Retry-After as a lower bound. Nothing sleeps, and a seed
gives the same numbers every time.
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
from collections import Counter
from itertools import count
from math import inf
from typing import NamedTuple

import tenacity
from _measure import holds, table
from websockets.client import backoff as websockets_backoff

import resilient_bridge as rb


CLIENTS, PER_SECOND, BACKLOG = 10_000, 500.0, 250.0
PERFECT = (0.99 * CLIENTS - BACKLOG) / PER_SECOND
SOON = 0.1  # seconds: a server with Retry-After accepts a client at once if its wait would be shorter
HORIZON = 3_600.0


def ours(policy: rb.Reconnect):
    """Return the waits of a policy: name -> generator of them, and the policy's end, if it has one."""
    backoff = policy.backoff
    most = policy.attempts if policy.on_exhausted == "raise" else None

    def waits(rng: random.Random):
        previous = None
        for attempt in count(1):
            if most is not None and attempt > most:
                return
            previous = backoff.next(attempt, previous, rng)
            yield previous

    return waits


def of_websockets(rng: random.Random):
    """Return what `async for connection in websockets.connect(...)` waits."""
    random.seed(rng.random())
    return websockets_backoff()


def of_tenacity(wait, stop=None):
    """Return what a wait of tenacity waits, until its stop."""

    def waits(rng: random.Random):
        random.seed(rng.random())
        state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        while True:
            seconds = wait(state)
            if stop is not None and stop(state):
                return
            state.attempt_number += 1
            yield seconds

    return waits


FOREVER = {"attempts": None, "on_exhausted": "suspend"}
SCHEDULES = {
    "Reconnect()": ours(rb.Reconnect()),
    "presets.default": ours(rb.presets.default.reconnect),
    "Backoff.exponential(1): full jitter": ours(rb.Reconnect(backoff=rb.Backoff.exponential(1))),
    "Backoff.exponential(1, jitter='equal')": ours(
        rb.Reconnect(backoff=rb.Backoff.exponential(1, jitter="equal"))
    ),
    "presets.recursor: 1, 2, 5, 10, 30, then gives up": ours(rb.presets.recursor.reconnect),
    "the same, never giving up": ours(rb.Reconnect(backoff=rb.presets.recursor.reconnect.backoff, **FOREVER)),
    "presets.openviber: 1, 2, 4, 8, 16": ours(rb.presets.openviber.reconnect),
    "presets.gasoline: 0, 1, 2, 4, 8, 30": ours(rb.presets.gasoline.reconnect),
    "websockets, connect() as an iterator": of_websockets,
    "tenacity wait_exponential_jitter(max=30)": of_tenacity(tenacity.wait_exponential_jitter(max=30)),
    "tenacity wait_random_exponential(max=30)": of_tenacity(tenacity.wait_random_exponential(max=30)),
    "tenacity wait_exponential(max=30), 10 attempts": of_tenacity(
        tenacity.wait_exponential(max=30), tenacity.stop_after_attempt(10)
    ),
}


class Server:
    """Down until `back`, then a token bucket of connections; with `says_when` it accepts each client at its appointed time."""

    def __init__(self, back: float, *, says_when: bool) -> None:
        self.back = back
        self.says_when = says_when
        self.credit, self.last = BACKLOG, back
        self.turn = back  # the time of its next free connection
        self.appointed: set[int] = set()

    def answer(self, now: float, client: int) -> tuple[bool, float]:
        """Return whether the client is in, and the Retry-After if it is not."""
        if now < self.back:
            return False, 0.0
        if self.says_when:
            return self._appoint(now, client)
        self.credit = min(BACKLOG, self.credit + (now - self.last) * PER_SECOND)
        self.last = now
        if self.credit < 1:
            return False, 0.0
        self.credit -= 1
        return True, 0.0

    def _appoint(self, now: float, client: int) -> tuple[bool, float]:
        if client in self.appointed:
            return True, 0.0
        self.turn = max(self.turn, now)
        wait = self.turn - now
        self.turn += 1 / PER_SECOND
        if wait < SOON:
            return True, 0.0
        self.appointed.add(client)
        return False, wait


class Storm(NamedTuple):
    """The result of one simulation."""

    half_back: float  # seconds after the return
    most_back: float
    peak: float  # attempts in the worst second after the return
    failed: float  # attempts a client, in all
    failed_after: float  # of those after the return
    gave_up: float


def storm(schedule, outage: float, seed: int, *, says_when: bool = False) -> Storm:
    """Simulate it once."""
    rng = random.Random(seed)
    server = Server(outage, says_when=says_when)
    waits = [iter(schedule(rng)) for _ in range(CLIENTS)]
    hinted: set[int] = set()  # clients that got a Retry-After in this outage
    events = []
    for client in range(CLIENTS):
        lost = rng.uniform(0, 0.1)
        events.append((lost + next(waits[client]), client))
    heapq.heapify(events)
    back: list[float] = []
    attempts: Counter[int] = Counter()
    failed = failed_after = gave_up = 0
    while events and events[0][0] <= HORIZON + outage:
        now, client = heapq.heappop(events)
        attempts[int(now)] += 1
        is_in, hint = server.answer(now, client)
        if is_in:
            back.append(now - outage)
            continue
        failed += 1
        failed_after += now >= outage
        wait = next(waits[client], None)
        if wait is None:
            gave_up += 1
            continue
        if hint > 0 and client not in hinted:  # as `Reconnection` does: the first one replaces the schedule
            wait = hint
            hinted.add(client)
        heapq.heappush(events, (now + rng.uniform(0.02, 0.2) + max(wait, hint), client))
    back.sort()
    peak = max((many for second, many in attempts.items() if second >= outage), default=0)
    return Storm(
        _share(back, 0.5), _share(back, 0.99), peak, failed / CLIENTS, failed_after / CLIENTS, gave_up
    )


def _share(back: list[float], share: float) -> float:
    index = int(share * CLIENTS) - 1
    return back[index] if index < len(back) else inf


def medians(schedule, outage: float, seeds: int, *, says_when: bool = False) -> Storm:
    """Return the median of each number over the seeds."""
    runs = [storm(schedule, outage, seed, says_when=says_when) for seed in range(seeds)]
    return Storm(*(statistics.median(numbers) for numbers in zip(*runs, strict=True)))


def compared(seeds: int) -> None:
    """Print every schedule at an outage of a minute."""
    rows = []
    for name, schedule in SCHEDULES.items():
        found = medians(schedule, 60.0, seeds)
        rows.append([name, found.most_back / PERFECT, *found])
    head = ["99 % back, x perfect", "50 % back, s", "99 % back, s", "peak attempts/s after the return"]
    head += ["failed attempts each", "of them after the return", "gave up"]
    table(f"One minute, medians of {seeds} seeds", ["schedule", *head], rows, ("websockets", "tenacity"))


def judged(seeds: int) -> None:
    """Print the default against its goals."""
    rows = []
    schedule = SCHEDULES["presets.default"]
    for outage, goal, most_failed in ((2, 1.9, None), (10, 1.9, None), (60, 1.6, 0.05), (600, 1.6, 0.05)):
        found = medians(schedule, float(outage), seeds)
        ratio = found.most_back / PERFECT
        rows.append([f"{outage} s: 99 % back, x perfect", ratio, goal, holds(ratio, goal)])
        if most_failed is not None:
            what = f"{outage} s: failed attempts each after the return"
            rows.append([what, found.failed_after, most_failed, holds(found.failed_after, most_failed)])
    ratio = medians(schedule, 60.0, seeds, says_when=True).most_back / PERFECT
    rows.append(["60 s, with Retry-After: 99 % back, x perfect", ratio, 1.6, holds(ratio, 1.6)])
    head = ["presets.default", "measured", "goal <=", "P16"]
    table(f"P16: medians of {seeds} seeds", head, rows, ("websockets", "tenacity"))


def main(seeds: int) -> None:
    """Simulate, and print."""
    compared(seeds)
    judged(seeds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
