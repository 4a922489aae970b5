"""The breaker rows of the feature matrix (B1 to B17, without B8 and B12). B3 to B6 are in test_half_open, test_eras, test_cancellation."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, http_error, settle


REFUSED = ConnectionRefusedError


def fail(form, protected, times=1, error=REFUSED):
    """Make `times` calls that fail."""
    for _ in range(times):
        with pytest.raises(error):
            form.run(protected)


@everywhere
def test_b1_a_rate_of_the_last_calls_opens_it(form):
    """4 failures of the last 5 calls, with successes in between, which a consecutive count never sees."""
    server = Server(REFUSED, REFUSED, None, REFUSED, REFUSED)
    with form.world():
        get = rb.Policy(rb.Breaker(rate=0.8, window=5))(form.of(server.get))
        fail(form, get, 2)
        form.run(get)
        fail(form, get, 2)
        assert rb.calls.circuit(get).state == "open"


@both
def test_b1_a_rate_in_a_span_of_time_opens_it(form):
    """Half of at least 10 calls in the last minute; those of an hour ago do not count."""
    server = Server(*[REFUSED] * 9, *[None] * 9, REFUSED, *[REFUSED] * 9)
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Breaker(rate=0.5, window=timedelta(minutes=1)))(form.of(server.get))
        fail(form, get, 9)
        clock.advance(3600)
        for _ in range(9):
            form.run(get)
        fail(form, get)
        assert rb.calls.circuit(get).state == "closed"
        fail(form, get, 8)
        assert rb.calls.circuit(get).state == "open"


@both
def test_b2_slow_calls_open_it(form):
    """Calls that succeed after `slow_after` count as failed, faster ones do not."""
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Breaker.consecutive(3, slow_after=2))(form.of(clock.advance))
        for seconds in (2, 2, 1.9, 2, 2):
            form.run(get, seconds)
        assert rb.calls.circuit(get).state == "closed"
        form.run(get, 2)
        assert rb.calls.circuit(get).state == "open"


@pytest.mark.parametrize("probes", [1, 2, 5])
async def test_b3_half_open_admits_exactly_n_and_closes_after_n(probes):
    """N probes at a time; the circuit closes when as many have succeeded, not after the first."""
    gate = asyncio.Event()
    entered = []

    @rb.Policy(rb.Breaker.consecutive(1, open_for=1, probes=probes))
    async def get(number):
        if number is None:
            raise REFUSED
        entered.append(number)
        await gate.wait()

    with rb.testing.virtual_time() as clock:
        with pytest.raises(REFUSED):
            await get(None)
        clock.advance(1)
        callers = [asyncio.create_task(get(number)) for number in range(10)]
        await settle()
        assert len(entered) == probes
        assert rb.calls.circuit(get).state == "half_open"
        gate.set()
        await asyncio.gather(*callers, return_exceptions=True)
        assert rb.calls.circuit(get).state == "closed"


async def test_b4_a_probe_that_never_ends_costs_one_lease():
    """A probe blocks for at most `lease` seconds, whatever it does: the end of each lease admits another."""
    entered = 0

    @rb.Policy(rb.Breaker.consecutive(1, open_for=1, lease=20))
    async def get(*, fails=False):
        nonlocal entered
        if fails:
            raise REFUSED
        entered += 1
        await asyncio.get_running_loop().create_future()

    with rb.testing.virtual_time() as clock:
        with pytest.raises(REFUSED):
            await get(fails=True)
        clock.advance(1)
        probes = []
        for number in range(1, 4):
            probes.append(asyncio.create_task(get()))
            await settle()
            assert entered == number
            with pytest.raises(rb.CircuitOpenError):
                await get()
            clock.advance(20)
        for probe in probes:
            probe.cancel()
        await asyncio.gather(*probes, return_exceptions=True)


async def test_b5_outcomes_of_an_older_era_are_dropped():
    """Of two calls admitted while it was closed one opens it; the other's failure does not extend the open time."""
    ends = {name: asyncio.get_running_loop().create_future() for name in "ab"}

    @rb.Policy(rb.Breaker.consecutive(1, open_for=10))
    async def get(name):
        return await ends[name]

    with rb.testing.virtual_time() as clock:
        calls = [asyncio.create_task(get(name)) for name in "ab"]
        await settle()
        ends["a"].set_exception(REFUSED())
        await settle()
        clock.advance(9)
        ends["b"].set_exception(REFUSED())
        await asyncio.gather(*calls, return_exceptions=True)
        assert rb.calls.circuit(get).retry_after == pytest.approx(1)


async def test_b6_cancellation_is_neutral_and_returns_the_probes_permit():
    """A cancelled probe neither closes nor opens it, and the next caller may probe without waiting for the lease."""
    steps = iter(["fail", "hang", "well"])

    @rb.Policy(rb.Breaker.consecutive(1, open_for=1))
    async def get():
        step = next(steps)
        if step == "fail":
            raise REFUSED
        if step == "hang":
            await asyncio.get_running_loop().create_future()

    with rb.testing.virtual_time() as clock:
        with pytest.raises(REFUSED):
            await get()
        clock.advance(1)
        probe = asyncio.create_task(get())
        await settle()
        probe.cancel()
        await settle()
        assert rb.calls.circuit(get).state == "half_open"
        await get()
        assert rb.calls.circuit(get).state == "closed"


@pytest.mark.parametrize(("seconds", "state"), [(4.9, "closed"), (5, "open")])
async def test_b7_cancelled_after_the_slow_threshold_is_slow(seconds, state):
    """A cancellation after 5 s counts as slow; an earlier one is neutral. No other library does this."""
    with rb.testing.virtual_time() as clock:

        @rb.Policy(rb.Breaker.consecutive(1, slow_after=5))
        async def get():
            await asyncio.get_running_loop().create_future()

        call = asyncio.create_task(get())
        await settle()
        clock.advance(seconds)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert rb.calls.circuit(get).state == state


@everywhere
def test_b9_what_is_ignored_and_what_is_the_callers_fault_counts_neither_way(form):
    """An ignored class, an ignored status and a 4xx neither reset the count of consecutive failures nor add to it."""
    server = Server(REFUSED, KeyError, http_error(404), http_error(503), REFUSED)
    with form.world():
        breaker = rb.Breaker.consecutive(2, ignore=(KeyError, 503))
        get = rb.Policy(breaker)(form.of(server.get))
        for _ in range(4):
            fail(form, get, error=Exception)
        assert rb.calls.circuit(get).state == "closed"
        fail(form, get)
        assert rb.calls.circuit(get).state == "open"


@everywhere
def test_b9_a_class_that_the_retry_names_counts(form):
    """An unknown exception counts for the breaker if the Retry's `on=` names it."""

    class BusyError(Exception):
        """A user's error."""

    for on, state in [((), "closed"), (BusyError, "open")]:
        server = Server(always=BusyError)
        with form.world():
            get = rb.Policy(at_once(attempts=1, on=on), rb.Breaker.consecutive(1))(
                form.of(server.get), idempotent=True
            )
            fail(form, get, error=BusyError)
        assert rb.calls.circuit(get).state == state


@both
def test_b10_it_stays_open_longer_each_time(form):
    """1, 2, 4 s while its probes fail, and 1 s again after it has closed once."""
    server = Server(*[REFUSED] * 3, None, REFUSED)
    waits = []
    with rb.testing.virtual_time() as clock:
        open_for = rb.Backoff.exponential(1, cap=60, jitter="none")
        get = rb.Policy(rb.Breaker.consecutive(1, open_for=open_for))(form.of(server.get))
        for _ in range(3):
            fail(form, get)
            waits.append(rb.calls.circuit(get).retry_after)
            clock.advance(waits[-1])
        form.run(get)
        fail(form, get)
        waits.append(rb.calls.circuit(get).retry_after)
    assert waits == pytest.approx([1, 2, 4, 1])


@everywhere
def test_b11_by_hand(form):
    """Isolated, it admits nothing until a reset; disabled, it admits everything and counts nothing."""
    server = Server(always=REFUSED)
    with form.world():
        get = rb.Policy(rb.Breaker.consecutive(1))(form.of(server.get))
        circuit = rb.calls.circuit(get)
        circuit.disable()
        fail(form, get, 5)
        assert circuit.state == "disabled"
        circuit.isolate()
        fail(form, get, error=rb.CircuitOpenError)
        assert (circuit.state, circuit.retry_after) == ("isolated", None)
        circuit.reset()
        fail(form, get)
        assert circuit.state == "open"
    assert server.calls == 6


@everywhere
def test_b13_a_rejection_says_until_when_and_why(form):
    """The error has `retry_after` and the failure that opened the circuit; its class distinguishes it from other errors."""
    server = Server(always=REFUSED("port 5432"))
    with form.world():
        get = rb.Policy(rb.Breaker.consecutive(1, open_for=30))(
            form.of(server.get), name="database"
        )
        fail(form, get)
        with pytest.raises(rb.CircuitOpenError) as rejected:
            form.run(get)
    error = rejected.value
    assert 29 < error.retry_after <= 30
    assert "connection refused" in error.failure.details["because"]
    assert error.failure.details["circuit"] == "database"
    assert (error.failure.retryable, error.failure.executed) == (True, rb.errors.Executed.NO)
    assert isinstance(error, rb.errors.RejectedError)


def test_b15_every_context_may_have_a_clock_of_its_own():
    """With two clocks an hour passes in one and none in the other, for circuits, rate limits and budgets alike."""
    server = Server(REFUSED, None)
    get = rb.Policy(rb.RateLimit(2, per=60), rb.Breaker.consecutive(1, open_for=60))(server.get)
    with rb.testing.virtual_time():
        with pytest.raises(REFUSED):
            get()
        with rb.testing.virtual_time() as later:
            later.advance(61)
            assert get() == "ok"


def test_b16_calls_run_outside_the_lock():
    """8 threads run the protected function at the same time; in pybreaker one at a time."""
    all_inside = threading.Barrier(8)
    get = rb.Policy(at_once(), rb.Bulkhead(8), rb.Breaker(slow_after=60))(
        lambda: all_inside.wait(10), idempotent=True
    )
    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not all_inside.broken


def test_b17_idle_circuits_are_forgotten_first(key):
    """Beyond 1,024 keys an idle closed circuit is evicted, and an open one stays."""
    policy = rb.Policy(rb.Breaker.consecutive(1, open_for=3600, key=f"{key} open"))
    with pytest.raises(REFUSED):
        policy.call(Server(always=REFUSED).get)
    del policy
    for number in range(1_100):
        rb.calls.circuit(f"{key} {number}")
    stored = {name for name in rb.calls.circuits() if name.startswith(key)}
    assert f"{key} open" in stored
    assert f"{key} 0" not in stored
    assert len(stored) <= 1_024
