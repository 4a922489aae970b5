"""Races and shared calls whose callbacks run in any order: times meet on purpose, callers are cancelled, permits are counted."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest

import resilient_bridge as rb
from tests.calls.test_hedge import Server
from tests.internals.calls import Answers


pytestmark = pytest.mark.simulation

ORDERS = [("seeded", range(150)), ("pct", range(100))]
TIMES = (0.5, 1, 1.5, 2)
ERRORS = (
    asyncio.CancelledError,
    ConnectionResetError,
    PermissionError,
    rb.errors.AttemptTimeoutError,
    rb.errors.BulkheadFullError,
    rb.CircuitOpenError,
    rb.DeadlineExceededError,
)


async def caller(rng, call, answer=None):
    """Make a call; half of them are cancelled."""
    task = asyncio.ensure_future(call)
    if rng.random() < 0.5:
        asyncio.get_running_loop().call_later(rng.choice(TIMES), task.cancel)
    with suppress(*ERRORS):
        assert answer in (None, await task)


@pytest.mark.requirement("X16")
@pytest.mark.parametrize(("orders", "seeds"), ORDERS, ids=[name for name, _ in ORDERS])
def test_a_race_leaves_no_task_and_no_permit(orders, seeds):
    for seed in seeds:
        rng = Random(seed)
        failures = (None, None, ConnectionResetError, PermissionError)
        server = Server(*((rng.choice((*TIMES, 3)), rng.choice(failures)) for _ in range(6)))
        policy = rb.Policy(
            rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)),
            rb.Bulkhead(3, queue=5),
            rb.Breaker(),
            rb.Timeout(rng.choice([2, 2.5, 60])),
            rb.calls.Hedge(1, budget=1, most=rng.choice([1, 2])),
        )
        ask = policy(server.answer, idempotent=True)

        async def main(_, rng=rng, ask=ask, server=server):
            await asyncio.gather(*(caller(rng, ask()) for _ in range(4)))
            [bulkhead] = ask.__binding__.operation.used.values()
            assert (server.running, bulkhead.running) == (0, 0)

        rb.testing.simulate(main, seed=seed, orders=orders)


@pytest.mark.requirement("X17")
@pytest.mark.parametrize(("orders", "seeds"), ORDERS, ids=[name for name, _ in ORDERS])
def test_a_shared_call_answers_its_callers_and_is_forgotten(orders, seeds):
    for seed in seeds:
        rng, running = Random(seed), []

        async def search(query, rng=rng, running=running):
            running.append(query)
            try:
                await asyncio.sleep(rng.choice(TIMES))
                if rng.random() < 0.3:
                    raise rng.choice([ConnectionResetError, PermissionError])
                return {"query": query}
            finally:
                running.remove(query)

        policy = rb.Policy(
            rb.Deadline(rng.choice([0.5, 1, 60])),
            rb.calls.Share(
                key=lambda query: query,
                fresh_for=rng.choice([0, 1]),
                stale_for=rng.choice([0, 2]),
            ),
            rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)),
        )
        ask = policy(search, idempotent=True)

        async def later(query, rng=rng, ask=ask):
            await asyncio.sleep(rng.choice((0, *TIMES)))
            await caller(rng, ask(query), {"query": query})

        async def main(_, rng=rng, ask=ask, later=later, running=running):
            await asyncio.gather(*(later(rng.choice("ab")) for _ in range(12)))
            assert running == []
            assert not ask.__binding__.states.owned("share", Answers).flights

        rb.testing.simulate(main, seed=seed, orders=orders)
