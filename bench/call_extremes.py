"""P6, P7: thousands of calls at once, and thousands of protected functions.

    python bench/call_extremes.py [rounds]

P6: 5,000 calls in flight, each suspended twice: what a policy adds to one <= 1.5 x what the lower bound adds.
P7: bytes of a protected function, after one call, its circuit, budget and timer included: <= 4,000 with a policy of its own, <= 2,400
with one policy for all. tracemalloc over 1,000 functions, each of which has been called once.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import tracemalloc

import _bounds
from _measure import Clock, Samples, holds, interleave, rounds_asked, table
from _peers import (
    ASYNC_CIRCUITS,
    ASYNC_RETRIES,
    ASYNC_STACKS,
    CIRCUITS,
    NEVER,
    PACKAGES,
    our_breaker,
    our_retry,
    ours_full,
    ours_guarded,
    within,
)

import resilient_bridge as rb


IN_FLIGHT, FUNCTIONS = 5_000, 1_000
BOUND, BARE = "lower bound, all", "no policy at all"
TENACITY = "tenacity + circuitbreaker + asyncio.timeout"


async def suspended(_number):
    """Give way twice."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def target(number):
    """Succeed."""
    return number


def burst(function):
    """Return a case: CPU microseconds per call of many at once, including their tasks. (Wall time would include other processes.)"""

    async def run() -> float:
        gc.collect()
        with Clock() as clock:
            await asyncio.gather(*(function(number) for number in range(IN_FLIGHT)))
        return clock.cpu / IN_FLIGHT * 1e6

    return run


def in_flight() -> dict:
    """P6."""
    protected = {
        BARE: suspended,
        BOUND: _bounds.full(suspended),
        "ours, all": ours_full()(suspended, idempotent=True),
        "ours, retry + circuit": ours_guarded()(suspended, idempotent=True),
        "asyncio.timeout alone": within(30)(suspended),
        "hyx retry + breaker + timeout": ASYNC_STACKS["hyx retry + breaker + timeout"](suspended),
        TENACITY: ASYNC_STACKS[TENACITY](suspended),
    }
    return {name: burst(function) for name, function in protected.items()}


def rows_in_flight(samples: Samples) -> list[list]:
    """Return the rows: what each adds to a call."""
    bare = samples.low(BARE)
    bound = samples.low(BOUND) - bare
    rows = []
    for name in sorted(samples, key=samples.low):
        added = samples.low(name) - bare
        ratio = added / bound
        verdict = [1.5, holds(ratio, 1.5)] if name == "ours, all" else ["", ""]
        rows.append([name, samples.low(name), added, ratio, *verdict])
    return rows


SHARED = ours_full()
SHARED_GUARDED = ours_guarded()
ONE_CIRCUIT = rb.Policy(
    our_retry(),
    rb.Breaker.consecutive(5, key="one for all"),
    rb.Timeout(30),
)
PROTECTED = {  # name -> decorator, goal in bytes
    "ours, all, a policy each": (lambda f: ours_full()(f, idempotent=True), 4_000),
    "ours, retry + circuit, a policy each": (lambda f: ours_guarded()(f, idempotent=True), None),
    "ours, all, one policy": (lambda f: SHARED(f, idempotent=True), 2_400),
    "ours, retry + circuit, one policy": (lambda f: SHARED_GUARDED(f, idempotent=True), None),
    "ours, circuit alone, a policy each": (
        lambda f: rb.Policy(our_breaker())(f, idempotent=True),
        None,
    ),
    "ours, all, one policy, one circuit": (lambda f: ONE_CIRCUIT(f, idempotent=True), None),
    BOUND: (_bounds.full, None),
    "lower bound, retry + circuit": (_bounds.guarded, None),
    **{f"{name}, retry": (protect, None) for name, protect in ASYNC_RETRIES.items()},
    **{f"{name}, circuit": (make(NEVER, 30), None) for name, make in ASYNC_CIRCUITS.items()},
    "pybreaker, circuit": (CIRCUITS["pybreaker"](NEVER, 30), None),
    **{name: (protect, None) for name, protect in ASYNC_STACKS.items()},
}


async def bytes_each(protect) -> tuple[float, float]:
    """Return the bytes of one of many: decorated, and after a call."""
    functions = [protect(target) for _ in range(10)]  # creates what is made once for all
    for function in functions:
        await _call(function)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    functions = [protect(target) for _ in range(FUNCTIONS)]
    gc.collect()
    decorated, _ = tracemalloc.get_traced_memory()
    for function in functions:
        await _call(function)
    gc.collect()
    called, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (decorated - before) / FUNCTIONS, (called - before) / FUNCTIONS


async def _call(function) -> None:
    result = function(1)
    if inspect.isawaitable(result):
        await result


async def main() -> None:
    """Measure, then print."""
    rounds = rounds_asked(31)
    head = ["5,000 at once", "CPU us a call, min", "added us", "x bound, added", "goal <=", "P6"]
    samples = await interleave(in_flight(), rounds)
    table(f"P6: {rounds} rounds", head, rows_in_flight(samples), PACKAGES)
    rows = []
    for name, (protect, goal) in PROTECTED.items():
        decorated, called = await bytes_each(protect)
        verdict = ["", ""] if goal is None else [goal, holds(called, goal)]
        rows.append([name, round(decorated), round(called), *verdict])
    rows.sort(key=lambda row: row[2])
    head = [
        f"one of {FUNCTIONS:,} functions",
        "bytes, decorated",
        "bytes, after a call",
        "goal <=",
        "P7",
    ]
    table("P7", head, rows, PACKAGES)


if __name__ == "__main__":
    asyncio.run(main())
