"""The limits under seeded orders of calls, failures, refusals, cancellations and clock jumps: no order of tasks exceeds one, leaks
a place or a probe, or lets one call overtake another.

A seed draws the traffic and the order of its tasks. A row of `LIMITS` says what a limit promises; `judge` gets what was seen.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

import resilient_bridge as rb
from resilient_bridge.testing import simulate
from tests.samples import IS_ALL


SAMPLE, CAMPAIGN = range(25), range(1_000)
CALLS = 24
INSTANTS = (0.0, 0.0, 0.5, 1.0, 1.0, 2.0, 3.0)  # few, so that much happens at once
SECONDS = (0.0, 0.5, 0.5, 1.0, 1.0, 2.0)


@dataclass
class Call:
    """One call of a run: what it is to do, and what became of it. `number` is the order of arrival."""

    number: int = -1
    seconds: float = 0.0
    fails: type[Exception] | None = None
    is_refused: bool = False
    probe_of: int = 0  # the half-open time in which it started
    cancelled_at: float | None = None
    arrived: float = -1.0
    starts: list[float] = field(default_factory=list)
    ended: float = -1.0
    outcome: str = "never called"


@dataclass
class Run:
    """What was seen of one run."""

    calls: list[Call]
    most: int = 0
    inside: int = 0
    problems: list[str] = field(default_factory=list)
    function: Any = None
    times: list[float] = field(default_factory=list)  # when the function was reached
    refusals: int = 0
    half_opened: int = 0  # how often the circuit has become half open
    blocked: float = 0.0  # seconds in which the loop was blocked

    def now(self) -> float:
        """The time without that in which nothing ran: an instant that a block divides stays one."""
        return round(asyncio.get_running_loop().time() - self.blocked, 6)

    def saw(self, event: object) -> None:
        """Count the half-open times."""
        is_half_open = isinstance(event, rb.events.CircuitChanged) and event.state == "half_open"
        self.half_opened += is_half_open

    def began(self, call: Call) -> None:
        """A call has reached the function."""
        call.starts.append(self.now())
        self.times.append(asyncio.get_running_loop().time())
        self.inside += 1
        self.most = max(self.most, self.inside)


@dataclass
class Limit:
    """A limit, and what holds of every run under it."""

    policy: Callable[[], rb.Policy]
    judge: Callable[[Run], None]
    free_again: Callable[[Run], Any]  # a coroutine function: everything is free after a run
    watch: Callable[[Run, Call], None] = lambda run, call: (
        None
    )  # called where the function is reached


# ---- what is promised


def at_most(number: int) -> Callable[[Run], None]:
    """Never more than so many at once."""

    def judge(run: Run) -> None:
        if run.most > number:
            run.problems.append(f"{run.most} at once, {number} allowed")

    return judge


def no_overtaking(run: Run) -> None:
    """A call that came earlier and waited is not still waiting when a later one has begun.

    Within one instant the steps of two tasks that both have a permit come in any order.
    """
    for earlier in run.calls:
        for later in run.calls:
            if later.number <= earlier.number or not later.starts or earlier.arrived < 0:
                continue
            waited_until = earlier.starts[0] if earlier.starts else earlier.ended
            if waited_until > later.starts[0] >= earlier.arrived:
                run.problems.append(f"{later} overtook {earlier}")
                return


def paced(number: int, per: float) -> Callable[[Run], None]:
    """In no span of time more than the bucket holds and what flows into it meanwhile."""

    def judge(run: Run) -> None:
        starts = run.times
        for first, at in enumerate(starts):
            for last in range(first, len(starts)):
                allowed = number + (starts[last] - at) * number / per + 1e-6
                if last - first + 1 > allowed:
                    run.problems.append(f"{last - first + 1} calls from {at} to {starts[last]}")
                    return

    return judge


def both(*judges: Callable[[Run], None]) -> Callable[[Run], None]:
    """Each of them."""
    return lambda run: [judge(run) for judge in judges] and None


async def _probe(run: Run, number: int, seconds: float) -> list[Call]:
    probes = [Call(seconds=seconds) for _ in range(number)]
    await asyncio.gather(*(run.function(probe) for probe in probes), return_exceptions=True)
    return probes


def all_places(number: int) -> Callable[[Run], Any]:
    """So many calls run at once, at once."""

    async def check(run: Run) -> None:
        run.most = 0
        began = run.now()
        probes = await _probe(run, number, 1.0)
        if run.most != number or any(probe.starts != [began] for probe in probes):
            run.problems.append(f"{run.most} of {number} places are left")

    return check


def full_bucket(number: int, per: float) -> Callable[[Run], Any]:
    """After a rest so many calls start at once."""

    async def check(run: Run) -> None:
        await asyncio.sleep(per * (CALLS + 2))
        await all_places(number)(run)

    return check


async def closes_again(run: Run) -> None:
    """Once the server is well the circuit closes: no probe is lost."""
    for _ in range(4):
        await asyncio.sleep(60)
        await _probe(run, 1, 0.0)
    state = rb.calls.circuit(run.function).state
    if state != "closed":
        run.problems.append(f"the circuit is {state} for good")


def only_probes(number: int) -> Callable[[Run], None]:
    """Nothing starts while the circuit is open, and no more than the probes while it is half open."""

    def watch(run: Run, call: Call) -> None:
        state = rb.calls.circuit(run.function).state
        call.probe_of = run.half_opened if state == "half_open" else 0
        probing = [
            other
            for other in run.calls
            if other.probe_of and other.probe_of == call.probe_of and other.outcome == "runs"
        ]
        if state == "open":
            run.problems.append("a call started while the circuit was open")
        elif len(probing) > number:
            run.problems.append(f"{len(probing)} probes at once")

    return watch


LIMITS = {
    "bulkhead": Limit(
        lambda: rb.Policy(rb.Bulkhead(3, queue=CALLS)),
        both(at_most(3), no_overtaking),
        all_places(3),
    ),
    "bulkhead with a short queue and little patience": Limit(
        lambda: rb.Policy(rb.Bulkhead(2, queue=3, max_wait=1)),
        both(at_most(2), no_overtaking),
        all_places(2),
    ),
    "bulkhead of one": Limit(
        lambda: rb.Policy(rb.Bulkhead(1, queue=CALLS, max_wait=2)),
        both(at_most(1), no_overtaking),
        all_places(1),
    ),
    "rate limit": Limit(
        lambda: rb.Policy(rb.RateLimit(3, per=1, max_wait=30)),
        paced(3, 1),
        full_bucket(3, 1),
    ),
    "rate limit with little patience": Limit(
        lambda: rb.Policy(rb.RateLimit(2, per=1, max_wait=1)),
        paced(2, 1),
        full_bucket(2, 1),
    ),
    "breaker": Limit(
        lambda: rb.Policy(rb.Breaker.consecutive(2, open_for=1)),
        lambda run: None,
        closes_again,
        only_probes(1),
    ),
    "breaker with three probes": Limit(
        lambda: rb.Policy(rb.Breaker(rate=0.5, window=4, open_for=1, probes=3)),
        lambda run: None,
        closes_again,
        only_probes(3),
    ),
    "everything": Limit(
        lambda: rb.Policy(
            rb.Deadline(8),
            rb.Retry(attempts=3),
            rb.Breaker(rate=0.9, window=10, open_for=1),
            rb.RateLimit(50, per=1, max_wait=5),
            rb.Bulkhead(2, queue=CALLS, max_wait=3),
            rb.Timeout(1.5),
        ),
        at_most(2),
        closes_again,
    ),
}


# ---- the limit that is learnt


class RefusedError(Exception):
    """A refusal, as a client with a response raises it."""

    def __init__(self) -> None:
        super().__init__("429 Too Many Requests")
        self.response = httpx.Response(429)


RefusedError.__module__, RefusedError.__qualname__ = "httpx", "HTTPStatusError"


def refuses_above(number: int) -> Callable[[Run, Call], None]:
    """The server takes so many calls at once."""

    def watch(run: Run, call: Call) -> None:
        call.is_refused = run.inside >= number
        run.refusals += call.is_refused

    return watch


def no_call_is_lost(run: Run) -> None:
    """A refusal costs time: each call that was not cancelled and did not fail by itself has ended well."""
    for call in run.calls:
        if call.fails is None and call.cancelled_at is None and call.outcome != "answered":
            run.problems.append(f"lost: {call}")
            return


async def nothing_is_held(run: Run) -> None:
    """When all calls have ended no limit has one that runs or waits, and calls go through one by one."""
    for name, status in rb.calls.adaptive_limits().items():
        if status.running or status.waiting:
            run.problems.append(f"{name}: {status.running} run, {status.waiting} wait")
    await asyncio.sleep(60)
    for _ in range(3):
        (probe,) = await _probe(run, 1, 0.0)
        if len(probe.starts) != 1:
            run.problems.append(f"one alone started {len(probe.starts)} times")


def learnt(**options: Any) -> Callable[[], rb.Policy]:
    """A policy with an adaptive limit, which a few attempts are enough for."""
    return lambda: rb.Policy(rb.Retry(attempts=1), rb.AdaptiveLimit(**options))


LIMITS |= {
    "adaptive limit of a server that takes three": Limit(
        learnt(), no_call_is_lost, nothing_is_held, refuses_above(3)
    ),
    "adaptive limit of a server that takes one": Limit(
        learnt(), no_call_is_lost, nothing_is_held, refuses_above(1)
    ),
    "adaptive limit that begins with two and has no more than three": Limit(
        learnt(start=2, most=3), both(at_most(3), no_call_is_lost, no_overtaking), nothing_is_held
    ),
}


# ---- one run


def traffic(seed: int) -> tuple[list[tuple[float, Call]], list[tuple[float, float]]]:
    """The calls with when each is made, and when the loop is blocked and how long."""
    rng = random.Random(f"{seed}/traffic")
    errors = [None, None, None, ConnectionRefusedError, TimeoutError]
    calls = []
    for _ in range(CALLS):
        at = rng.choice(INSTANTS)
        cancelled = at + rng.choice(SECONDS) if rng.random() < 0.35 else None
        calls.append(
            (
                at,
                Call(seconds=rng.choice(SECONDS), fails=rng.choice(errors), cancelled_at=cancelled),
            )
        )
    jumps = [(rng.choice(INSTANTS), rng.choice((0.3, 1.0, 4.0))) for _ in range(rng.choice((0, 0, 1, 2)))]  # fmt: skip
    return calls, jumps


def protected(limit: Limit, run: Run) -> Any:
    """The function behind the limit, which takes the call that it has to play."""

    async def function(call: Call) -> None:
        call.outcome = "runs"
        limit.watch(run, call)
        run.began(call)
        try:
            if call.is_refused:
                await asyncio.sleep(0.1)
                raise RefusedError
            await asyncio.sleep(call.seconds)
            if call.fails is not None:
                raise call.fails("injected")
        finally:
            run.inside -= 1
            call.outcome = "over"
        call.outcome = "answered"

    policy = limit.policy()
    has_retry = any(isinstance(layer, rb.Retry) for layer in policy.layers)
    return (policy(idempotent=True) if has_retry else policy)(function)


def play(limit: Limit, seed: int, orders: str) -> Run:
    """One run, with what does not hold in `problems`."""
    plan, jumps = traffic(seed)
    run = Run([call for _, call in plan])
    arrivals = iter(range(CALLS))

    async def one(at: float, call: Call) -> None:
        await asyncio.sleep(at)
        call.number, call.arrived = next(arrivals), run.now()
        try:
            with suppress(Exception):
                await run.function(call)
        finally:
            call.ended = run.now()

    async def cancel(task: asyncio.Task[None], at: float) -> None:
        await asyncio.sleep(at)
        task.cancel()

    async def jump(at: float, seconds: float) -> None:
        await asyncio.sleep(at)
        loop: Any = asyncio.get_running_loop()
        loop.stall(seconds)
        run.blocked += seconds

    async def main() -> None:
        run.function = protected(limit, run)
        tasks = [asyncio.create_task(one(at, call)) for at, call in plan]
        others = [
            asyncio.create_task(cancel(task, call.cancelled_at))
            for task, call in zip(tasks, run.calls, strict=True)
            if call.cancelled_at is not None
        ]
        others += [asyncio.create_task(jump(*each)) for each in jumps]
        with rb.listen(run.saw):
            await asyncio.wait([*tasks, *others])
        if run.inside:
            run.problems.append(f"{run.inside} are still inside")
        limit.judge(run)
        await limit.free_again(run)

    simulate(main, server=None, seed=seed, orders=orders)  # type: ignore[call-overload]
    return run


def broken(name: str, seeds: range, orders: str) -> list[str]:
    """What does not hold, of all seeds."""
    found = []
    for seed in seeds:
        problems = play(LIMITS[name], seed, orders).problems
        found += [f"play(LIMITS[{name!r}], {seed}, {orders!r}): {problem}" for problem in problems]
    return found


@pytest.mark.parametrize("orders", ["seeded", "pct"])
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_holds_in_a_sample_of_orders(name, orders):
    assert broken(name, SAMPLE, orders) == []


@pytest.mark.simulation
@pytest.mark.timeout(300)
@pytest.mark.parametrize("orders", ["seeded", "pct"])
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_holds_in_a_thousand_orders(name, orders):
    assert broken(name, CAMPAIGN if IS_ALL else range(200), orders) == []
