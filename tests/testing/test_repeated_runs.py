"""A seed repeats everything: the times of events, waits, ids, order. In virtual time, in a simulation, and as far as it can in real time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

import resilient_bridge as rb
from resilient_bridge.world import current_world
from tests.internals.testing import virtual_clock


ALIKE = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.steps(0.01, 0.02)))
DRAWN = rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.decorrelated(1)))


async def _work(policy: rb.Policy) -> list[Any]:
    """Five calls at once, each refused twice: every event as data, and the keys and ids that were made."""
    keys: list[Any] = []

    async def one(number: int) -> None:
        refused = 0

        @policy(idempotent=True, name=f"call{number}")
        async def fetch() -> None:
            nonlocal refused
            attempt = rb.current_attempt()
            keys.append((number, attempt and attempt.idempotency_key))
            refused += 1
            if refused < 3:
                raise ConnectionRefusedError(111, "refused")

        await fetch()

    with rb.testing.record(calls=True) as events:
        await asyncio.gather(*(one(number) for number in range(5)))
    facts = [
        [getattr(event, name, None) for name in ("at", "name", "wait", "attempt", "seconds")]
        for event in events
    ]
    for each in (
        facts
    ):  # a difference of two readings of a clock, whose last digits depend on where it began
        each[4] = None if each[4] is None else round(each[4], 6)
    kinds = [type(event).__name__ for event in events]
    return [list(zip(kinds, facts, strict=True)), keys, current_world().new_id()]


def _virtual(seed: int, policy: rb.Policy = DRAWN) -> list[Any]:
    async def main() -> list[Any]:
        with rb.testing.virtual_time(seed=seed) as clock:
            return [*await _work(policy), clock.slept, current_world().wall()]

    return asyncio.run(main())


def _simulated(seed: int, policy: rb.Policy = DRAWN) -> list[Any]:
    async def main(_: rb.testing.BridgeServer) -> list[Any]:
        return await _work(policy)

    return rb.testing.simulate(main, seed=seed)


@pytest.mark.requirement("X13")
@pytest.mark.parametrize("run", [_virtual, _simulated])
def test_a_seed_repeats_times_waits_ids_and_order(run, monkeypatch):
    """Two runs are equal to the last microsecond, whatever the host's clock says; another seed gives another run."""
    first = run(7)
    monkeypatch.setattr(virtual_clock, "monotonic", lambda: 987_654_321.9)
    assert run(7) == first
    assert run(8) != first


@pytest.mark.real
@pytest.mark.requirement("X13")
def test_the_same_test_gives_the_same_result_in_real_time():
    """What happens, how often, with which waits and in which order for each call: only the times differ, and the ids, which have no seed."""

    def shape(found: list[Any]) -> Any:
        events = [(kind, *facts[1:4]) for kind, facts in found[0]]
        return sorted(events, key=str), sorted(number for number, _ in found[1])

    real = shape(asyncio.run(_work(ALIKE)))
    assert shape(_virtual(7, ALIKE)) == shape(_simulated(7, ALIKE)) == real


def test_the_date_begins_where_the_test_says():
    """With the year 2026, or at `start`; a naive one is refused."""
    with rb.testing.virtual_time() as clock:
        clock.advance(5)
        assert current_world().now() == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    with rb.testing.virtual_time(start=datetime(2030, 2, 3, tzinfo=UTC)):
        assert current_world().now() == datetime(2030, 2, 3, tzinfo=UTC)
    with pytest.raises(rb.ConfigError, match=r"virtual_time\.start"):
        rb.testing.virtual_time(start=datetime(2030, 2, 3))  # noqa: DTZ001 -- that is the mistake
