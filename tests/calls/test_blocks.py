"""Attempts as a loop: the same decisions as around a function, and everything is released however the loop ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, http_error, settle, steady


REFUSED = ConnectionRefusedError


async def looped(policy, body, *, is_async, **how):
    """Run `body(attempt)` in a sync or async loop; return the numbers of the attempts."""
    numbers = []
    if is_async:
        async for attempt in policy.attempts(**{"idempotent": True, **how}):
            with attempt:
                numbers.append(attempt.number)
                body(attempt)
    else:
        for attempt in policy.attempts(**{"idempotent": True, **how}):
            with attempt:
                numbers.append(attempt.number)
                body(attempt)
    return numbers


each_loop = pytest.mark.parametrize("is_async", [False, True], ids=["for", "async for"])


@each_loop
async def test_a_block_is_repeated_until_it_succeeds(is_async):
    """Each iteration is an attempt with its number and the previous failure; the loop ends with the first success."""
    server, failures = Server(REFUSED, REFUSED), []

    def body(attempt):
        failures.append(attempt.failure and attempt.failure.code)
        server.get()

    with rb.testing.virtual_time() as clock:
        policy = rb.Policy(rb.Retry(backoff=rb.Backoff.steps(1, 2)))
        assert await looped(policy, body, is_async=is_async) == [1, 2, 3]
    assert clock.slept == [1, 2]
    assert failures == [None, "CONN_REFUSED", "CONN_REFUSED"]


@each_loop
async def test_the_last_failure_is_raised(is_async):
    """The caller's own error, with a note and its history; the loop is over."""
    error = REFUSED("mine")
    server = Server(always=error)
    with pytest.raises(REFUSED) as raised:
        await looped(rb.Policy(at_once(attempts=3)), lambda _: server.get(), is_async=is_async)
    assert raised.value is error
    assert server.calls == 3
    assert steady(error.__notes__) == ["gave up after 3 calls in 0.0 s: attempts used up"]
    assert len(rb.classify(error).history) == 2


@each_loop
@pytest.mark.parametrize(("idempotent", "calls"), [(False, 1), (True, 3)])
async def test_permission_belongs_to_the_loop(is_async, idempotent, calls):
    """A call that may have run is retried only with `attempts(idempotent=True)`, each time with the same key."""
    keys = []

    def body(attempt):
        keys.append(attempt.idempotency_key)
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await looped(rb.Policy(at_once(attempts=3)), body, is_async=is_async, idempotent=idempotent)
    assert len(keys) == calls
    assert len(set(keys)) == 1


@each_loop
async def test_every_layer_is_taken_for_each_attempt(is_async):
    """Two failures open the circuit, which rejects the third attempt: the block runs twice, and its own error is raised."""
    server = Server(always=REFUSED("mine"))
    policy = rb.Policy(at_once(attempts=9), rb.Breaker.consecutive(2))
    with pytest.raises(REFUSED, match="mine"):
        await looped(policy, lambda _: server.get(), is_async=is_async)
    assert server.calls == 2
    assert rb.calls.circuit(policy).state == "open"
    with pytest.raises(rb.CircuitOpenError):
        await looped(policy, lambda _: server.get(), is_async=is_async)


@each_loop
@pytest.mark.parametrize("layers", ["bulkhead inside", "bulkhead outside", "rate"])
async def test_a_layer_is_taken_once_an_attempt(is_async, layers):
    """Three attempts use three tokens of three, and one permit of one, at any position of the layer."""
    server = Server(REFUSED, REFUSED)
    with rb.testing.virtual_time():
        if layers == "bulkhead outside":
            with pytest.warns(UserWarning, match="Bulkhead outside"):
                policy = rb.Policy(rb.Bulkhead(1), at_once())
        else:
            layer = rb.Bulkhead(1) if layers == "bulkhead inside" else rb.RateLimit(3, per=3600)
            policy = rb.Policy(at_once(), layer)
        assert await looped(policy, lambda _: server.get(), is_async=is_async) == [1, 2, 3]


def free(policy):
    """Return whether the bulkhead of a policy is free."""
    try:
        return policy(idempotent=True).call(lambda: True)
    except rb.errors.BulkheadFullError:
        return False


@pytest.mark.parametrize(
    "where", ["break before", "break inside", "return inside", "raise before", "raise inside"]
)
def test_a_loop_that_ends_early_releases_everything(where):
    """After break, return or an error, before the block or in it, the permit is free and no attempt is current."""
    policy = rb.Policy(at_once(), rb.Bulkhead(1), rb.Breaker())

    def leave():
        for attempt in policy.attempts(idempotent=True):
            if where == "break before":
                break
            if where == "raise before":
                raise LookupError
            with attempt:
                assert not free(policy)
                assert rb.current_attempt() is attempt
                if where == "return inside":
                    return
                if where == "raise inside":
                    raise LookupError
                break

    if where.startswith("raise"):
        with pytest.raises(LookupError):
            leave()
    else:
        leave()
    assert free(policy)
    assert rb.current_attempt() is None


@pytest.mark.parametrize(
    "where", ["break before", "break inside", "return inside", "raise before", "raise inside"]
)
async def test_an_async_loop_that_ends_early_releases_everything(where):
    """The same; a loop that ends before its block is closed by the event loop, one step later."""
    policy = rb.Policy(rb.Deadline(60), at_once(), rb.Bulkhead(1), rb.Breaker())

    async def leave():
        async for attempt in policy.attempts(idempotent=True):
            if where == "break before":
                break
            if where == "raise before":
                raise LookupError
            with attempt:
                assert rb.current_attempt() is attempt
                if where == "return inside":
                    return
                if where == "raise inside":
                    raise LookupError
                break

    if where.startswith("raise"):
        with pytest.raises(LookupError):
            await leave()
    else:
        await leave()
    gc.collect()
    await settle()
    assert await policy(idempotent=True).call(asyncio.sleep, 0, True)
    assert rb.current_attempt() is None


def test_a_body_without_its_block_is_refused():
    """Without `with attempt:` the second iteration raises ConfigError, instead of looping for ever."""
    with pytest.raises(rb.ConfigError, match="with attempt"):
        for _ in rb.Policy(at_once()).attempts(idempotent=True):
            pass


def test_an_attempt_is_entered_once():
    """A second `with` on the same attempt is refused."""
    with pytest.raises(rb.ConfigError, match="one `with`"):
        for attempt in rb.Policy(at_once()).attempts(idempotent=True):
            with attempt:
                pass
            with attempt:
                pass


@each_loop
async def test_what_a_block_cannot_have_is_refused(is_async):
    """A Fallback is refused, because it would have to replace the block; a Timeout on a sync block cannot interrupt it."""
    with pytest.raises(rb.ConfigError, match="Fallback"):
        await looped(rb.Policy(rb.Fallback(print), at_once()), print, is_async=is_async)
    policy = rb.Policy(at_once(), rb.Timeout(60))
    if is_async:
        assert await looped(policy, lambda _: None, is_async=True) == [1]
    else:
        with pytest.raises(rb.ConfigError, match="Timeout"):
            await looped(policy, print, is_async=False)


async def test_limits_hold_for_a_block():
    """A Timeout bounds each attempt of the loop, the Deadline all of them."""
    policy = rb.Policy(rb.Deadline(12), at_once(attempts=9), rb.Timeout(5))
    started = []

    async def main():
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                started.append((clock.now - start, attempt.remaining))
                await asyncio.get_running_loop().create_future()

    with rb.testing.virtual_time() as clock:
        start = clock.now
        task = asyncio.create_task(main())
        for seconds in (5, 5, 2):
            await settle()
            clock.advance(seconds)
        with pytest.raises(rb.DeadlineExceededError):
            await task
    assert started == [(0, 12), (5, 7), (10, 2)]
    assert task.cancelling() == 0


@each_loop
async def test_a_rules_before_runs_between_the_attempts(is_async):
    """Refresh on 401, then again."""
    refreshed = []
    rule = rb.Rule(attempts=2, before=lambda: refreshed.append(1))
    server = Server(http_error(401))
    policy = rb.Policy(at_once(rules={401: rule}))
    assert await looped(policy, lambda _: server.get(), is_async=is_async) == [1, 2]
    assert refreshed == [1]


@both
def test_a_loop_emits_the_events_of_a_call(form):
    """A loop emits the same events as a call, under the policy's name."""
    server = Server(REFUSED)
    policy = rb.Policy(at_once(), name="block")
    with rb.testing.record() as recorded:
        form.run(
            lambda: looped(policy, lambda _: server.get(), is_async=form.is_async)
        ) if form.is_async else asyncio.run(looped(policy, lambda _: server.get(), is_async=False))
    assert [(type(event).__name__, event.name) for event in recorded] == [
        ("RetryScheduled", "block"),
        ("RetryRecovered", "block"),
    ]


@each_loop
async def test_a_loop_inside_of_a_retry_leaves_the_repeating_to_it(is_async):
    """Inside a Retry that would retry the same failure: one attempt per iteration, three in all."""
    server = Server(always=REFUSED)
    policy = rb.Policy(at_once(attempts=3))

    @policy(idempotent=True)
    async def outer():
        await looped(policy, lambda _: server.get(), is_async=is_async)

    with pytest.raises(REFUSED):
        await outer()
    assert server.calls == 3


def test_one_object_may_be_looped_over_by_many():
    """Each loop calls `policy.attempts()`; the policy stores nothing of it."""
    policy = rb.Policy(at_once(attempts=2))
    for _ in range(3):
        with pytest.raises(REFUSED):
            asyncio.run(looped(policy, lambda _: Server(REFUSED).get(), is_async=False))
