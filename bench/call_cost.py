"""P1, P2, P3, P4: what a policy costs on a call, against bounds written by hand and what people would use instead.

    python bench/call_cost.py [rounds]

P1: everything (retry, circuit that watches the latency, budget, time limit), async success <= 2.0 x the bound that does as much.
P2: retry + circuit, async <= 2.0 x its bound; everything, sync <= 2.0 x its bound.
P3: rejected by an open circuit, caught by the caller <= 2.0 x the bound.
P4: failure, repeat at once, success <= 0.30 x tenacity's own, <= 0.45 x with a circuit and a time limit.

The function itself does nothing, so all of it is overhead. Every case runs in every round, in a shuffled order. In P1, P2 and
P4 ours returns an int, a dict, a list and an object of 20 fields in turn: each has to hold.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

import _bounds
from _measure import Samples, holds, interleave, per_call, per_call_sync, rounds_asked, table
from _peers import (
    ASYNC_CIRCUITS,
    ASYNC_RETRIES,
    ASYNC_STACKS,
    CIRCUITS,
    FOREVER,
    NEVER,
    PACKAGES,
    RETRIES,
    STACKS,
    our_breaker,
    our_retry,
    ours_full,
    ours_full_sync,
    ours_guarded,
    within,
)

import resilient_bridge as rb


BOUND = "lower bound"


class Part(NamedTuple):
    """One comparison: its cases, the one that is 1, and how much each of ours may be."""

    title: str
    cases: dict
    base: str
    goals: dict[str, float]


class Record:
    """An object of 20 fields."""

    def __init__(self):
        for number in range(20):
            setattr(self, f"field{number}", number)


KINDS = {
    "": 1,
    ", a dict": {f"field{number}": number for number in range(20)},
    ", a list": [{"field": number} for number in range(20)],
    ", 20 fields": Record(),
}
"""What ours returns in turn."""


def ours_of(protect, make, name="ours"):
    """Return a case of ours for each kind of result: `make(result)` is the function, `protect` the policy."""
    return {
        f"{name}{kind}": protect()(make(result), idempotent=True) for kind, result in KINDS.items()
    }


def each(name, goal):
    """Return the goal of these cases."""
    return {f"{name}{kind}": goal for kind in KINDS}


async def target(number):
    """Succeed."""
    return number


def target_sync(number):
    """Succeed."""
    return number


def answering(result):
    """Return an async function that returns this."""

    async def call(_number):
        return result

    return call


def answering_sync(result):
    """Return a function that returns this."""

    def call(_number):
        return result

    return call


def flaky(result=1):
    """Return an async function that fails on every first of two calls."""
    is_due = False

    async def call(_number):
        nonlocal is_due
        is_due = not is_due
        if is_due:
            raise ConnectionRefusedError
        return result

    return call


def flaky_sync(result=1):
    """Return a function that fails on every first of two calls."""
    is_due = False

    def call(_number):
        nonlocal is_due
        is_due = not is_due
        if is_due:
            raise ConnectionRefusedError
        return result

    return call


def success() -> Part:
    """P1, beside what the parts cost elsewhere."""
    cases = {
        BOUND: _bounds.full(target),
        **ours_of(ours_full, answering),
        "no policy at all": target,
        "asyncio.timeout alone": within(30)(target),
        **{name: protect(target) for name, protect in ASYNC_STACKS.items()},
    }
    cases = {name: per_call(function) for name, function in cases.items()}
    return Part("P1 all, async, success", cases, BOUND, each("ours", 2.0))


def guarded() -> Part:
    """P2, async."""
    cases = {
        BOUND: _bounds.guarded(target),
        **ours_of(ours_guarded, answering),
        "ours, Retry() and Breaker() as they come": rb.Policy(rb.Retry(), rb.Breaker())(
            target, idempotent=True
        ),
        **{f"{name}, retry": protect(target) for name, protect in ASYNC_RETRIES.items()},
        **{f"{name}, circuit": make(NEVER, 30)(target) for name, make in ASYNC_CIRCUITS.items()},
    }
    cases = {name: per_call(function) for name, function in cases.items()}
    return Part("P2 retry + circuit, async, success", cases, BOUND, each("ours", 2.0))


def sync() -> Part:
    """P2, sync."""
    cases = {
        BOUND: _bounds.full_sync(target_sync),
        **ours_of(ours_full_sync, answering_sync),
        "ours, retry + circuit": ours_guarded()(target_sync, idempotent=True),
        "lower bound, retry + circuit": _bounds.guarded_sync(target_sync),
        "no policy at all": target_sync,
        **{f"{name}, retry": protect(target_sync) for name, protect in RETRIES.items()},
        **{f"{name}, circuit": make(NEVER, 30)(target_sync) for name, make in CIRCUITS.items()},
        **{name: protect(target_sync) for name, protect in STACKS.items()},
    }
    cases = {name: per_call_sync(function) for name, function in cases.items()}
    return Part("P2 all, sync, success", cases, BOUND, each("ours", 2.0))


async def _opened(function):
    """Return a case that is rejected by the circuit of `function`, which is open from now on, and catches that."""
    for number in range(5):
        with suppress(Exception):
            await function(number)

    async def caught(number):
        try:  # noqa: SIM105 -- `suppress` costs more than what is measured
            await function(number)
        except Exception:  # noqa: BLE001
            pass

    return per_call(caught)


async def rejected() -> Part:
    """P3."""

    async def down(_number):
        raise ConnectionRefusedError

    async def bare(_number):
        raise _bounds.OpenError

    functions = {
        BOUND: _bounds.guarded(down, attempts=1, limit=2, open_for=FOREVER),
        "ours": rb.Policy(our_retry(attempts=1), our_breaker(2, FOREVER))(down, idempotent=True),
        "ours, circuit alone": rb.Policy(our_breaker(2, FOREVER))(down, idempotent=True),
        "ours, inside a Deadline": rb.Policy(
            rb.Deadline(60), our_retry(attempts=1), our_breaker(2, FOREVER)
        )(down, idempotent=True),
        "nothing but raise": bare,
        **{name: make(2, FOREVER)(down) for name, make in ASYNC_CIRCUITS.items()},
    }
    cases = {name: await _opened(function) for name, function in functions.items()}
    return Part("P3 rejected by an open circuit, async", cases, BOUND, {"ours": 2.0})


def repeated() -> Part:
    """P4, async."""
    cases = {
        **ours_of(lambda: rb.Policy(our_retry()), flaky, "ours, retry"),
        "ours, retry + circuit": ours_guarded()(flaky(), idempotent=True),
        "ours, all": ours_full()(flaky(), idempotent=True),
        BOUND: _bounds.full(flaky()),
        **{name: protect(flaky()) for name, protect in ASYNC_RETRIES.items()},
        **{name: protect(flaky()) for name, protect in ASYNC_STACKS.items()},
    }
    cases = {name: per_call(function) for name, function in cases.items()}
    goals = {**each("ours, retry", 0.30), "ours, all": 0.45}
    return Part("P4 failure, repeat, success, async", cases, "tenacity", goals)


def repeated_sync() -> Part:
    """P4, sync."""
    cases = {
        **ours_of(lambda: rb.Policy(our_retry()), flaky_sync, "ours, retry"),
        "ours, retry + circuit": ours_guarded()(flaky_sync(), idempotent=True),
        BOUND: _bounds.full_sync(flaky_sync()),
        **{name: protect(flaky_sync()) for name, protect in RETRIES.items()},
    }
    cases = {name: per_call_sync(function) for name, function in cases.items()}
    return Part("P4 failure, repeat, success, sync", cases, "tenacity", each("ours, retry", 0.30))


def rows_of(part: Part, samples: Samples) -> list[list]:
    """Return the rows of one comparison, the cheapest first."""
    names = {name: f"{part.title}: {name}" for name in part.cases}
    base = names[part.base]
    rows = []
    for name, full_name in sorted(names.items(), key=lambda item: samples.low(item[1])):
        ratio = samples.ratio(full_name, base)
        goal = part.goals.get(name)
        shown = name if goal is None else f"**{name}**"
        verdict = ["", ""] if goal is None else [goal, holds(ratio, goal)]
        rows.append(
            [
                part.title,
                shown,
                samples.low(full_name),
                ratio,
                samples.paired(full_name, base),
                *verdict,
            ]
        )
    return rows


async def main() -> None:
    """Measure, then print."""
    rounds = rounds_asked(201)
    parts = [success(), guarded(), sync(), await rejected(), repeated(), repeated_sync()]
    cases = {f"{part.title}: {name}": case for part in parts for name, case in part.cases.items()}
    samples = await interleave(cases, rounds)
    head = ["", "case", "ns a call, min", "x base, min/min", "x base, paired median", "goal <=", ""]
    rows = [row for part in parts for row in rows_of(part, samples)]
    table(f"P1 to P4: {rounds} rounds; base: the bound, for P4 tenacity", head, rows, PACKAGES)


if __name__ == "__main__":
    asyncio.run(main())
