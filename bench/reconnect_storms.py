"""P16 and P21: 10,000 clients lose their server together, and reconnect together; one client has a server that is restarted.

    python bench/reconnect_storms.py [seeds]

The server is down from 0 on (every client notices within 0.1 s), is back after the outage, and then accepts 500 connections a
second with a backlog of 250; an attempt while it is down or full fails after 20 to 200 ms. Perfect is 99 % back after 19.3 s.

Goals for `Reconnect()`: 99 % back <= 1.6 x perfect and <= 0.05 failed attempts a client after the return, for outages of 60 and
600 s; <= 1.9 x for 2 and 10 s; <= 1.6 x at 60 s if the server sends a Retry-After. Our schedules are called as the client calls them:
`Backoff.next` with the attempt, the previous wait and a random source; the first Retry-After replaces its wait, a later one is added.

*Restart*: one client, whose server is away for 0.6 s, once or every few seconds, as under a reloader. Its waits are those of a whole
`Reconnection`, with the cap on connections that are lost early. The same client meets a server that accepts and closes, which must
stay no storm.

Nothing sleeps, and a seed gives the same numbers every time. The defaults were chosen on the seeds of CHOOSING; what is claimed about
them is judged on those of JUDGING.
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import count
from math import inf
from typing import NamedTuple

import tenacity
from websockets.client import backoff as websockets_backoff

import resilient_bridge as rb
from resilient_bridge.failure import classify_close
from resilient_bridge.protocol import Now
from resilient_bridge.protocol.reconnection import Reconnection


class Crowd(NamedTuple):
    """How many clients come back, and how many of them the server accepts in a second and at once."""

    clients: int = 10_000
    per_second: float = 500.0
    backlog: float = 250.0

    @property
    def perfect(self) -> float:
        return (0.99 * self.clients - self.backlog) / self.per_second


SMALL = Crowd(1_000, 50.0, 25.0)
FULL = SMALL if "--small" in sys.argv[2:] else Crowd()
CHOOSING, JUDGING = range(3), range(100, 103)
SOON = (
    0.1  # seconds: a server with Retry-After accepts a client at once if its wait would be shorter
)
HORIZON = 3_600.0


def ours(policy: rb.bridge.Reconnect):
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
SPREAD = rb.Backoff.decorrelated(1)
CANDIDATES = {
    "decorrelated(1)": SPREAD,
    "decorrelated(0.3)": rb.Backoff.decorrelated(0.3),
    "exponential(0.5)": rb.Backoff.exponential(0.5),
    "exponential(1)": rb.Backoff.exponential(1),
    "steps(0.5, then=decorrelated(1), jitter='full')": rb.Backoff.steps(
        0.5, then=SPREAD, jitter="full"
    ),
    "steps(0.5, 1, then=decorrelated(1), jitter='full'): the default": rb.bridge.Reconnect().backoff,
    "steps(0.3, 1, then=decorrelated(1), jitter='full')": rb.Backoff.steps(
        0.3, 1, then=SPREAD, jitter="full"
    ),
    "steps(0.5, 1, 2, then=decorrelated(1), jitter='full')": rb.Backoff.steps(
        0.5, 1, 2, then=SPREAD, jitter="full"
    ),
}
"""What the default schedule was chosen from."""
SCHEDULES = {
    "Reconnect()": ours(rb.bridge.Reconnect()),
    "presets.default": ours(rb.presets.default.reconnect),
    "Backoff.exponential(1): full jitter": ours(
        rb.bridge.Reconnect(backoff=rb.Backoff.exponential(1))
    ),
    "Backoff.exponential(1, jitter='equal')": ours(
        rb.bridge.Reconnect(backoff=rb.Backoff.exponential(1, jitter="equal"))
    ),
    "presets.recursor: 1, 2, 5, 10, 30, then gives up": ours(rb.presets.recursor.reconnect),
    "the same, never giving up": ours(
        rb.bridge.Reconnect(backoff=rb.presets.recursor.reconnect.backoff, **FOREVER)
    ),
    "presets.openviber: 1, 2, 4, 8, 16": ours(rb.presets.openviber.reconnect),
    "presets.gasoline: 0, 1, 2, 4, 8, 30": ours(rb.presets.gasoline.reconnect),
    "websockets, connect() as an iterator": of_websockets,
    "tenacity wait_exponential_jitter(max=30)": of_tenacity(
        tenacity.wait_exponential_jitter(max=30)
    ),
    "tenacity wait_random_exponential(max=30)": of_tenacity(
        tenacity.wait_random_exponential(max=30)
    ),
    "tenacity wait_exponential(max=30), 10 attempts": of_tenacity(
        tenacity.wait_exponential(max=30), tenacity.stop_after_attempt(10)
    ),
}


class Server:
    """Down until `back`, then a token bucket of connections; with `says_when` it accepts each client at its appointed time."""

    def __init__(self, back: float, crowd: Crowd, *, says_when: bool) -> None:
        self.back = back
        self.crowd = crowd
        self.says_when = says_when
        self.credit, self.last = crowd.backlog, back
        self.turn = back  # the time of its next free connection
        self.appointed: set[int] = set()

    def answer(self, now: float, client: int) -> tuple[bool, float]:
        """Return whether the client is in, and the Retry-After if it is not."""
        if now < self.back:
            return False, 0.0
        if self.says_when:
            return self._appoint(now, client)
        self.credit = min(
            self.crowd.backlog, self.credit + (now - self.last) * self.crowd.per_second
        )
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
        self.turn += 1 / self.crowd.per_second
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


def storm(
    schedule, outage: float, seed: int, *, says_when: bool = False, crowd: Crowd = FULL
) -> Storm:
    """Simulate it once."""
    rng = random.Random(seed)
    server = Server(outage, crowd, says_when=says_when)
    waits = [iter(schedule(rng)) for _ in range(crowd.clients)]
    hinted: set[int] = set()  # clients that got a Retry-After in this outage
    events = []
    for client in range(crowd.clients):
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
        if (
            hint > 0 and client not in hinted
        ):  # as `Reconnection` does: the first one replaces the schedule
            wait = 0.0
            hinted.add(client)
        heapq.heappush(events, (now + rng.uniform(0.02, 0.2) + wait + hint, client))
    back.sort()
    peak = max((many for second, many in attempts.items() if second >= outage), default=0)
    half, most = (_share(back, share, crowd) for share in (0.5, 0.99))
    return Storm(half, most, peak, failed / crowd.clients, failed_after / crowd.clients, gave_up)


def _share(back: list[float], share: float, crowd: Crowd) -> float:
    index = int(share * crowd.clients) - 1
    return back[index] if index < len(back) else inf


def medians(
    schedule, outage: float, seeds: Iterable[int], *, says_when: bool = False, crowd: Crowd = FULL
) -> Storm:
    """Return the median of each number over the seeds."""
    runs = [storm(schedule, outage, seed, says_when=says_when, crowd=crowd) for seed in seeds]
    return Storm(*(statistics.median(numbers) for numbers in zip(*runs, strict=True)))


# ---- one client, and a server that is restarted or broken ----------------------------------------------------------

AWAY, RESTARTS = 0.6, 8
GONE, REFUSED = classify_close(1001, "going away", "peer"), rb.Failure.of("CONN_REFUSED")


def restarts(policy: rb.bridge.Reconnect, every: float, rng: random.Random) -> list[float]:
    """Return how long after each return of its server a client finds it that is away for 0.6 s, then serves for `every` seconds."""
    client = Reconnection(policy, rng, superseded=(), can_refresh=False)
    client.connected()
    client.ready(Now(-100.0, -100.0))
    client.pong()
    now, found = 0.0, []
    for _ in range(RESTARTS):
        back, failure = now + AWAY, GONE
        while now < back:
            now += client.lost(failure, Now(now, now)).wait
            failure = REFUSED
        found.append(now - back)
        client.connected()
        client.ready(Now(now, now))
        now += every
        if every > policy.stable_after:
            client.pong()
    return found


def found_after(
    policy: rb.bridge.Reconnect, every: float, seeds: Iterable[int], clients: int = 200
) -> list[float]:
    """Return the median of each restart."""
    runs = [
        restarts(policy, every, random.Random(1_000 * seed + n))
        for seed in seeds
        for n in range(clients)
    ]
    return [statistics.median(numbers) for numbers in zip(*runs, strict=True)]


def connections(
    policy: rb.bridge.Reconnect, seconds: float, seeds: Iterable[int], clients: int = 50
) -> float:
    """Return how many a client makes in that time with a server that accepts each, says that it is ready, and closes it."""
    made = []
    for seed in seeds:
        for n in range(clients):
            client = Reconnection(
                policy, random.Random(1_000 * seed + n), superseded=(), can_refresh=False
            )
            now, mine = 0.0, 0
            while now < seconds:
                mine += 1
                client.connected()
                client.ready(Now(now, now))
                now += 0.05
                now += client.lost(GONE, Now(now, now)).wait
            made.append(mine)
    return statistics.mean(made)


class Goal(NamedTuple):
    """At most so much, of the default."""

    what: str
    bound: float


GOALS = (
    Goal("2 s: 99 % back, x perfect", 1.9),
    Goal("10 s: 99 % back, x perfect", 1.9),
    Goal("60 s: 99 % back, x perfect", 1.6),
    Goal("60 s: failed attempts each after the return", 0.05),
    Goal("600 s: 99 % back, x perfect", 1.6),
    Goal("600 s: failed attempts each after the return", 0.05),
    Goal("60 s, with Retry-After: 99 % back, x perfect", 1.6),
    Goal("a server away for 0.6 s: found after its return, s", 0.6),
    Goal("the sixth restart within a minute: found after its return, s", 0.7),
    Goal("a server that accepts and closes: connections in the first minute", 7),
    Goal("the same: connections in ten minutes", 7 + 9 * 4),
)
"""P16's seven, then P21's for links."""


def measured(seeds: Iterable[int], crowd: Crowd = FULL) -> list[tuple[Goal, float]]:
    """Return each goal with what the default comes to."""
    policy = rb.presets.default.reconnect
    schedule = ours(policy)
    found = {
        outage: medians(schedule, float(outage), seeds, crowd=crowd) for outage in (2, 10, 60, 600)
    }
    ratio = {outage: storm.most_back / crowd.perfect for outage, storm in found.items()}
    hinted = medians(schedule, 60.0, seeds, says_when=True, crowd=crowd).most_back / crowd.perfect
    values = (
        *(
            ratio[2],
            ratio[10],
            ratio[60],
            found[60].failed_after,
            ratio[600],
            found[600].failed_after,
            hinted,
        ),
        found_after(policy, 60.0, seeds)[0],
        found_after(policy, 10.0, seeds)[5],
        connections(policy, 60.0, seeds),
        connections(policy, 600.0, seeds),
    )
    return list(zip(GOALS, values, strict=True))


def compared(seeds: Iterable[int]) -> None:
    """Print every schedule at an outage of a minute."""
    from _measure import table  # here: a test imports this module as one of a package

    rows = []
    for name, schedule in SCHEDULES.items():
        found = medians(schedule, 60.0, seeds)
        rows.append([name, found.most_back / FULL.perfect, *found])
    head = [
        "99 % back, x perfect",
        "50 % back, s",
        "99 % back, s",
        "peak attempts/s after the return",
    ]
    head += ["failed attempts each", "of them after the return", "gave up"]
    table(
        f"One minute, medians of {len([*seeds])} seeds",
        ["schedule", *head],
        rows,
        ("websockets", "tenacity"),
    )


def candidates() -> None:
    """Print what the defaults were chosen from, on the seeds for that."""
    from _measure import table

    rows = []
    for name, backoff in CANDIDATES.items():
        policy = rb.bridge.Reconnect(backoff=backoff)
        found = [medians(ours(policy), outage, CHOOSING) for outage in (2.0, 10.0, 60.0, 600.0)]
        ratios = [storm.most_back / FULL.perfect for storm in found]
        rows.append([name, found_after(policy, 60.0, CHOOSING)[0], *ratios, found[2].failed_after])
    head = [
        "schedule",
        "away 0.6 s: found after, s",
        "2 s: 99 % back, x perfect",
        "10 s",
        "60 s",
        "600 s",
    ]
    table(
        f"Schedules, seeds {[*CHOOSING]}", [*head, "60 s: failed each after the return"], rows, ()
    )
    rows = []
    for burst in (3, 6, 10):
        for per_minute in (4, 6, 12):
            policy = rb.bridge.Reconnect(connect_burst=burst, connects_per_minute=per_minute)
            sixth = [found_after(policy, every, CHOOSING)[5] for every in (2.0, 4.0, 10.0, 20.0)]
            storms = [connections(policy, seconds, CHOOSING) for seconds in (60.0, 600.0)]
            rows.append([f"{burst}, then {per_minute} a minute", *sixth, *storms])
    head = [
        "cap",
        "sixth restart, every 2 s: found after, s",
        "every 4 s",
        "every 10 s",
        "every 20 s",
    ]
    head += ["accept and close: connections in 1 minute", "in 10 minutes"]
    table(f"Restarts, seeds {[*CHOOSING]}", head, rows, ())


def judged(seeds: Iterable[int]) -> None:
    """Print the default against its goals."""
    from _measure import holds, table

    rows = [
        [goal.what, value, goal.bound, holds(value, goal.bound)] for goal, value in measured(seeds)
    ]
    table(f"P16, P21: seeds {[*seeds]}", ["presets.default", "measured", "goal <=", ""], rows, ())


def main(seeds: Iterable[int]) -> None:
    """Simulate, and print."""
    judged(seeds)
    candidates()
    compared(seeds)


if __name__ == "__main__":
    main(JUDGING[: int(sys.argv[1])] if len(sys.argv) > 1 else JUDGING)
