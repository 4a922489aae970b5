"""The composition rows of the feature matrix (C1 to C14, without C5, C8, C10, C11 and C13)."""

from __future__ import annotations

import asyncio
import inspect
import time

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, settle
from tests.rows import each_row


REFUSED = ConnectionRefusedError


@everywhere
@each_row(("outside", "calls"), [(False, 1), (True, 3)])
def test_c1_layers_are_taken_in_the_order_they_are_written(form, outside, calls):
    """A limit of one call inside the Retry admits one attempt, outside it all three attempts of the call."""
    server = Server(always=REFUSED)
    layers = [at_once(attempts=3), rb.RateLimit(1, per=3600)]
    with form.world():
        if outside:
            with pytest.warns(UserWarning, match="RateLimit outside of Retry"):
                policy = rb.Policy(*reversed(layers))
        else:
            policy = rb.Policy(*layers)
        with pytest.raises(REFUSED):
            form.run(policy(form.of(server.get), idempotent=True))
    assert server.calls == calls


HARMFUL = {
    "Breaker outside of Retry": [rb.Breaker(), rb.Retry()],
    "Timeout outside of Retry": [rb.Timeout(5), rb.Retry()],
    "Deadline inside of Retry": [rb.Retry(), rb.Deadline(5)],
    "RateLimit outside of Retry": [rb.RateLimit(5), rb.Retry()],
    "Bulkhead outside of Retry": [rb.Bulkhead(5), rb.Retry()],
    "never fires": [rb.Deadline(5), rb.Retry(), rb.Timeout(10)],
}


@pytest.mark.parametrize("warning", HARMFUL)
def test_c2_a_harmful_order_warns_when_it_is_built(warning):
    """`explain()` has the same warning; no other library warns."""
    with pytest.warns(UserWarning, match=warning) as warned:
        policy = rb.Policy(*HARMFUL[warning])
    assert warned[0].filename == __file__
    assert any(warning in text for text in policy.explain().warnings)


def test_c2_the_usual_order_is_silent():
    """All seven layers as they usually stand: no warning."""
    policy = rb.Policy(
        rb.Deadline(60),
        rb.Fallback(Server().get),
        rb.Retry(),
        rb.Bulkhead(5),
        rb.RateLimit(5),
        rb.Breaker(),
        rb.Timeout(10),
    )
    assert policy.explain().warnings == ()


def test_c3_a_policy_can_be_looked_at():
    """The layers and their numbers are attributes, equal policies are equal, and a function shows the policy in force."""
    policy = rb.Policy(rb.Deadline(60), rb.Retry(attempts=4), rb.Breaker(), rb.Timeout(10))
    assert [type(layer) for layer in policy.layers] == [
        rb.Deadline,
        rb.Retry,
        rb.Breaker,
        rb.Timeout,
    ]
    assert policy.layers[1].attempts == 4
    assert repr(policy) == "Policy(Deadline(60), Retry(attempts=4), Breaker(), Timeout(10))"
    assert policy == rb.Policy(*policy.layers)

    @policy(idempotent=True)
    async def get(): ...

    assert get.policy is policy


async def test_c4_one_policy_serves_sync_and_async():
    """The same object around both kinds of function, each with a circuit of its own."""
    policy = rb.Policy(at_once(), rb.Breaker.consecutive(9))
    server = Server(REFUSED, None, REFUSED, None)

    @policy(idempotent=True)
    async def fetch():
        return server.get()

    assert policy(server.get, idempotent=True)() == "ok"
    assert await fetch() == "ok"
    assert server.calls == 4


async def test_c6_a_protected_function_is_what_it_was():
    """Signature, name, kind and docstring; create_task takes the coroutine of an `async def` (in interlock it is an Awaitable)."""

    @rb.resilient(idempotent=True)
    async def get(query: str, *, limit: int = 10) -> list[str]:
        """Look something up."""
        return [query] * limit

    assert inspect.iscoroutinefunction(get)
    assert (
        str(inspect.signature(get, eval_str=True))
        == "(query: str, *, limit: int = 10) -> list[str]"
    )
    assert (get.__name__, get.__doc__, get.__module__) == ("get", "Look something up.", __name__)
    assert await asyncio.create_task(get("x", limit=2)) == ["x", "x"]


@everywhere
def test_c7_an_outcome_says_why_it_stopped(form):
    """Errors as data, with the reason no further attempt was made."""
    server = Server(always=ConnectionResetError)
    with form.world():
        get = rb.Policy(at_once())(form.of(server.get), idempotent=False)
        outcome = form.run(rb.capture, get)
    assert outcome.failure.stopped == "not_idempotent"
    assert outcome.attempts == 1
    with pytest.raises(ConnectionResetError):
        _ = outcome.value


async def test_c9_bulkhead_rate_limit_and_fallback_are_layers():
    """Bulkhead, rate limit and fallback work together in one policy."""
    policy = rb.Policy(
        rb.Fallback(lambda: "cached"), at_once(on=()), rb.Bulkhead(1), rb.RateLimit(1, per=60)
    )
    gate = asyncio.Event()

    @policy(idempotent=True)
    async def get():
        await gate.wait()
        return "fresh"

    with rb.testing.virtual_time() as clock, rb.testing.record() as recorded:
        first = asyncio.create_task(get())
        await settle()
        assert await get() == "cached"  # no permit
        gate.set()
        assert await first == "fresh"
        assert await get() == "cached"  # no token
        clock.advance(60)
        assert await get() == "fresh"
    reasons = [event.failure.code for event in recorded if isinstance(event, rb.events.FellBack)]
    assert reasons == ["SYS_BULKHEAD_FULL", "SYS_THROTTLED"]


@everywhere
def test_c12_another_policy_at_run_time_keeps_the_circuit(form):
    """`f.policy = …` with an open circuit: it stays open, and the next opening uses the new settings. Polly loses it."""
    server = Server(always=REFUSED)
    with form.world():
        get = rb.Policy(rb.Breaker.consecutive(2, open_for=3600))(
            form.of(server.get), idempotent=True
        )
        for _ in range(2):
            with pytest.raises(REFUSED):
                form.run(get)
        get.policy = rb.Policy(at_once(), rb.Breaker.consecutive(7, open_for=3600))
        with pytest.raises(rb.CircuitOpenError):
            form.run(get)
        rb.calls.circuit(get).reset()
        get.policy = rb.Policy(rb.Breaker.consecutive(1))
        with pytest.raises(REFUSED):
            form.run(get)
        assert rb.calls.circuit(get).state == "open"
    assert server.calls == 3


@both
def test_c14_the_real_schedule_in_no_time(form):
    """In virtual time the waits are exactly those of the policy, and take no real time."""
    server = Server(*[REFUSED] * 5)
    began = time.monotonic()
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(attempts=6, backoff=rb.Backoff.steps(1, 2, 5, 10, 30)))(
            form.of(server.get), idempotent=True
        )
        assert form.run(get) == "ok"
    assert clock.slept == [1, 2, 5, 10, 30]
    assert time.monotonic() - began < 5
