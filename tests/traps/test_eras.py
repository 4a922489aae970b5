"""Traps around time passing while a call runs: an outcome belongs to the era in which its call was let in."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.calls.forms import settle


class Line:
    """Calls that end when the test says so: `await line("name")` waits for `line.end("name")`, or `line.end("name", error)`."""

    def __init__(self):
        self._ends: dict[str, asyncio.Future] = {}

    async def __call__(self, name):
        self._ends[name] = asyncio.get_running_loop().create_future()
        return await self._ends[name]

    async def end(self, name, error=None):
        end = self._ends[name]
        end.set_result(name) if error is None else end.set_exception(error)
        await settle()


async def failed(line, call, name):
    """Let a call under way end in a failure."""
    await line.end(name, ConnectionRefusedError("down"))
    with pytest.raises(ConnectionRefusedError):
        await call


async def started(get, *names):
    """Start a call for each name and let it get as far as it can."""
    calls = [asyncio.create_task(get(name)) for name in names]
    await settle()
    return calls


@pytest.fixture
def line():
    return Line()


@pytest.fixture
def get(line):
    return rb.Policy(rb.Breaker.consecutive(1, open_for=10))(line)


async def test_circuitbreaker_a_late_success_does_not_close_an_open_circuit(line, get):
    """A call from before the outage ends well while it is open: it stays open. In circuitbreaker it closes."""
    with rb.testing.virtual_time():
        old, bad = await started(get, "old", "bad")
        await failed(line, bad, "bad")
        await line.end("old")
        assert await old == "old"
        assert rb.calls.circuit(get).state == "open"


async def test_polly_217_a_late_success_does_not_close_a_half_open_circuit(line, get):
    """A call from before the outage ends well while a probe is under way: the probe decides. In redress the late one closes it."""
    with rb.testing.virtual_time() as clock:
        old, bad = await started(get, "old", "bad")
        await failed(line, bad, "bad")
        clock.advance(10)
        (probe,) = await started(get, "probe")
        await line.end("old")
        assert await old == "old"
        assert rb.calls.circuit(get).state == "half_open"
        await failed(line, probe, "probe")
        assert rb.calls.circuit(get).state == "open"


async def test_resilience4j_a_late_failure_does_not_open_another_era(line, get):
    """A call from before the outage fails late: neither the half-open circuit nor the closed one after it takes notice."""
    with rb.testing.virtual_time() as clock:
        bad, late, later = await started(get, "bad", "late", "later")
        await failed(line, bad, "bad")
        clock.advance(10)
        (probe,) = await started(get, "probe")
        await failed(line, late, "late")
        assert rb.calls.circuit(get).state == "half_open"
        await line.end("probe")
        assert await probe == "probe"
        await failed(line, later, "later")
        assert rb.calls.circuit(get).state == "closed"
    assert "0/1 failed" in repr(rb.calls.circuit(get))


async def test_gobreaker_21_an_outcome_from_before_a_reset_is_dropped(line, get):
    """A hand that resets the circuit begins an era, too: a failure of a call that was under way counts for nothing."""
    (old,) = await started(get, "old")
    rb.calls.circuit(get).reset()
    await failed(line, old, "old")
    assert rb.calls.circuit(get).state == "closed"


async def test_circuitbreaker_a_late_success_does_not_end_a_row_in_another_era(line):
    """Two failures after the circuit has closed again, a success from before, a third failure: three in a row, and it opens."""
    get = rb.Policy(rb.Breaker.consecutive(3, open_for=0))(line)
    (old,) = await started(get, "old")
    for name in ("1", "2", "3"):
        (bad,) = await started(get, name)
        await failed(line, bad, name)
    (probe,) = await started(get, "probe")
    await line.end("probe")
    await probe
    for name in ("4", "5"):
        (bad,) = await started(get, name)
        await failed(line, bad, name)
    await line.end("old")
    assert await old == "old"
    assert rb.calls.circuit(get).state == "closed"
    (bad,) = await started(get, "6")
    await failed(line, bad, "6")
    assert rb.calls.circuit(get).state == "open"
