"""A Retry around a circuit: no call waits for a rejection, and overdue calls count while they still run."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, settle
from tests.internals.telemetry import name_in_words


REFUSED = ConnectionRefusedError


@both
def test_e17_the_failure_that_opens_the_circuit_ends_the_call_at_once(form):
    """The sixth attempt would come after 8 s, but the circuit is open for 30: there is no wait for it, and no event."""
    seen = []
    with rb.testing.virtual_time() as clock, rb.listen(seen.append):
        server = Server(always=ConnectionResetError)
        call = rb.presets.gasoline.calls(form.of(server.get), idempotent=True)
        with pytest.raises(ConnectionResetError) as caught:
            form.run(call)
    assert (server.calls, clock.slept) == (5, [0, 1, 2, 4])
    assert rb.classify(caught.value).stopped == "rejected"
    waits = [event.wait for event in seen if isinstance(event, rb.events.RetryScheduled)]
    assert waits == [0, 1, 2, 4]
    assert not [event for event in seen if isinstance(event, rb.events.CallRejected)]


@both
def test_e17_who_names_the_circuit_sits_it_out(form):
    """`on=CircuitOpenError` waits by its schedule, and the probe is admitted."""
    retry = rb.Retry(
        attempts=5,
        on=(REFUSED, rb.CircuitOpenError),
        backoff=rb.Backoff.constant(4, jitter="none"),
        budget=None,
    )
    with rb.testing.virtual_time() as clock:
        server = Server(REFUSED, REFUSED)
        call = rb.Policy(retry, rb.Breaker.consecutive(2, open_for=6))(
            form.of(server.get), idempotent=True
        )
        assert form.run(call) == "ok"
    assert (server.calls, clock.slept) == (3, [4, 4, 4])


@both
def test_e17_a_repeat_that_comes_when_the_circuit_may_be_probed_is_made(form):
    """Open for 6 s, the next attempt in 6: it is the probe."""
    retry = rb.Retry(attempts=3, backoff=rb.Backoff.constant(6, jitter="none"), budget=None)
    with rb.testing.virtual_time() as clock:
        server = Server(REFUSED)
        call = rb.Policy(retry, rb.Breaker.consecutive(1, open_for=6))(
            form.of(server.get), idempotent=True
        )
        assert form.run(call) == "ok"
    assert (server.calls, clock.slept) == (2, [6])


@both
def test_e17_an_isolated_circuit_ends_the_call(form):
    """If it is isolated by hand during the call, there is no time to wait for."""
    breaker = rb.Breaker(key="isolated under way")

    def pull():
        rb.calls.circuit("isolated under way").isolate()
        raise REFUSED

    with rb.testing.virtual_time() as clock:
        with pytest.raises(REFUSED) as caught:
            form.run(rb.Policy(at_once(), breaker)(form.of(pull), idempotent=True))
        rb.calls.circuit("isolated under way").reset()
    assert (rb.classify(caught.value).stopped, clock.slept) == ("rejected", [])


async def test_e19_calls_that_are_overdue_and_under_way_count():
    """Three calls hang for 6 s under `slow_after=5`: the circuit opens, rejects the fourth, and counts nothing twice."""
    hung = asyncio.Event()

    @rb.Policy(rb.Breaker.consecutive(3, slow_after=5, open_for=60))
    async def ask():
        await hung.wait()

    with rb.testing.virtual_time() as clock, rb.testing.record() as recorded:
        calls = [asyncio.create_task(ask()) for _ in range(3)]
        await settle()
        clock.advance(4)
        assert rb.calls.circuit(ask).state == "closed"
        clock.advance(2)
        with pytest.raises(rb.CircuitOpenError, match="slow"):
            await ask()
        hung.set()
        await asyncio.gather(*calls)
        assert rb.calls.circuit(ask).state == "open"
        (opened,) = [event for event in recorded if name_in_words(event) == "circuit opened"]
        clock.advance(60)
        await ask()
        assert rb.calls.circuit(ask).state == "closed"
    assert opened.reason == "slow_consecutive_failures_3"


async def test_e19_overdue_calls_are_not_looked_for_before_one_can_be():
    """Thousands of calls overlap, and the calls under way are looked through once; after `slow_after` they are again."""

    class Counted(dict):
        looks = 0

        def __iter__(self):
            Counted.looks += 1
            return super().__iter__()

    hung = asyncio.Event()

    @rb.Policy(rb.Breaker.consecutive(3, slow_after=5, open_for=60))
    async def ask(event=None):
        if event is not None:
            await event.wait()

    with rb.testing.virtual_time() as clock:
        ask.__binding__.states.current.under_way = Counted()
        calls = [asyncio.create_task(ask(hung)) for _ in range(3)]
        await settle()
        for _ in range(1_000):
            clock.advance(0.001)
            await ask()
        assert Counted.looks == 1
        clock.advance(4)
        assert rb.calls.circuit(ask).state == "open"
        hung.set()
        await asyncio.gather(*calls)


def test_e19_a_call_that_was_counted_while_it_was_under_way_counts_once():
    """Two are overdue and then fail: two failures of three, and the circuit stays closed; a third one opens it."""
    handle = rb.calls.circuit("counts once")

    @rb.Policy(rb.Breaker.consecutive(3, slow_after=5, open_for=60, key="counts once"))
    def nested(depth):
        if depth == 2:
            nested(1)
        elif depth == 1:
            clock.advance(6)
            assert handle.state == "closed"
        raise REFUSED

    with rb.testing.virtual_time() as clock:
        for depth, state in ((2, "closed"), (0, "open")):
            with pytest.raises(REFUSED):
                nested(depth)
            assert handle.state == state


def test_e19_a_block_that_is_overdue_counts():
    """A block `with rb.calls.circuit(…):` counts in the same way."""
    handle = rb.calls.circuit("a block that is overdue")
    call = rb.Policy(
        rb.Breaker.consecutive(1, slow_after=5, open_for=60, key="a block that is overdue")
    )(print)
    with rb.testing.virtual_time() as clock:
        with handle:
            clock.advance(6)
            with pytest.raises(rb.CircuitOpenError):
                call()
            with pytest.raises(rb.CircuitOpenError), handle:
                pass
        assert handle.state == "open"


def test_e19_a_block_that_never_ends_is_freed():
    """A block that never exits counts once, and is then freed."""
    policy = rb.Policy(rb.Breaker.consecutive(9, slow_after=5, key="never ends"))

    def leave_behind():
        attempt = next(iter(policy.attempts()))
        attempt.__enter__()
        return weakref.ref(attempt)

    with rb.testing.virtual_time() as clock:
        remaining = contextvars.copy_context().run(leave_behind)
        clock.advance(6)
        assert rb.calls.circuit("never ends").state == "closed"
        gc.collect()
        assert remaining() is None


def test_an_error_of_a_rejected_call_is_freed_with_its_last_reference():
    """In an outage nearly every call ends in one: none waits for the garbage collector."""
    call = rb.Policy(rb.Breaker.consecutive(1))(Server(always=REFUSED).get)
    with pytest.raises(REFUSED):
        call()
    gc.disable()
    try:
        with pytest.raises(rb.CircuitOpenError) as caught:
            call()
        error = weakref.ref(caught.value)
        del caught
        assert error() is None
    finally:
        gc.enable()
