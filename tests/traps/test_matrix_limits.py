"""The retry rows of the feature matrix that are about time, permission and nesting (R7 to R12, R17, R19 under a deadline)."""

from __future__ import annotations

import asyncio
import time

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, interrupted_in, settle
from tests.rows import each_row


async def test_r7_a_deadline_interrupts_the_attempt_in_flight():
    """An attempt that hangs ends with the deadline; stamina's timeout of 0.1 s waits 0.5 s, redress's 0.6 s."""
    with rb.testing.virtual_time() as clock:
        hung = asyncio.create_task(hang_behind(rb.Policy(rb.Deadline(10), at_once())))
        await settle()
        clock.advance(9.9)
        await settle()
        assert not hung.done()
        clock.advance(0.1)
        with pytest.raises(rb.DeadlineExceededError):
            await hung


async def hang_behind(policy):
    """A call that never ends."""

    @policy(idempotent=True)
    async def get():
        await asyncio.get_running_loop().create_future()

    return await get()


async def test_r8_each_attempt_has_its_own_time():
    """3 attempts of 5 s each take 15 s in all."""
    with rb.testing.virtual_time() as clock:
        calls = []

        @rb.Policy(at_once(attempts=3), rb.Timeout(5))(idempotent=True)
        async def get():
            calls.append(clock.now)
            await asyncio.get_running_loop().create_future()

        protected = rb.Policy(at_once(attempts=3), rb.Timeout(5))(get.__wrapped__, idempotent=True)
        task = asyncio.create_task(protected())
        for _ in range(3):
            await settle()
            clock.advance(5)
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await task
    assert [at - calls[0] for at in calls] == [0, 5, 10]


@both
def test_r9_a_wait_that_cannot_fit_is_not_started(form):
    """With 5 s to the deadline and a wait of 6 s it stops at once, with the call's own error, instead of a shorter wait and another call."""
    server = Server(always=ConnectionRefusedError)
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Deadline(5), rb.Retry(backoff=rb.Backoff.constant(6)))(
            form.of(server.get), idempotent=True
        )
        with pytest.raises(ConnectionRefusedError) as raised:
            form.run(get)
    assert (server.calls, clock.slept) == (1, [])
    assert rb.classify(raised.value).stopped == "deadline"


@both
def test_r10_the_callee_and_nested_policies_see_the_remaining_time(form):
    """Of an outer deadline of 60 s, 40 are used: the function has 20, and a nested policy of 30 s does not start a wait of 25."""
    with rb.testing.virtual_time() as clock:
        server = Server(always=ConnectionRefusedError)
        remaining = []
        inner = rb.Policy(rb.Deadline(30), rb.Retry(backoff=rb.Backoff.constant(25)))(
            server.get, idempotent=True
        )

        def body():
            clock.advance(40)
            remaining.append(rb.current_attempt().remaining)
            with pytest.raises(ConnectionRefusedError):
                inner()

        form.run(rb.Policy(rb.Deadline(60))(form.of(body)))
    assert remaining == [20]
    assert (server.calls, clock.slept) == (1, [])


@everywhere
def test_r11_three_layers_of_three_make_three_calls(form):
    """Nested retries share their attempts: 3 calls, not 27."""
    server = Server(always=ConnectionRefusedError)
    with form.world():
        policy = rb.Policy(at_once(attempts=3))
        innermost = policy(server.get, idempotent=True)
        middle = policy(innermost, idempotent=True)
        outer = policy(form.of(middle), idempotent=True)
        with pytest.raises(ConnectionRefusedError):
            form.run(outer)
    assert server.calls == 3


@everywhere
@each_row("idempotent", [False, True])
@each_row("error", [ConnectionRefusedError, ConnectionResetError])
def test_r12_what_may_have_run_is_repeated_only_with_permission(form, error, idempotent):
    """An error of a function proves nothing about the whole: retried only if idempotent, with one key for all attempts."""
    keys = []

    def body():
        keys.append(rb.current_attempt().idempotency_key)
        raise error

    with form.world():
        get = rb.Policy(at_once(attempts=3))(form.of(body), idempotent=idempotent)
        for _ in range(2):
            with pytest.raises(error):
                form.run(get)
    each = 3 if idempotent else 1
    assert len(keys) == 2 * each
    assert len(set(keys[:each])) == len(set(keys[each:])) == 1
    assert keys[0] != keys[-1]


@pytest.mark.real
def test_r17_an_interrupt_during_the_backoff_of_a_sync_call_returns_at_once():
    """Ctrl-C in the middle of an hour's wait ends it, and the call."""
    server = Server(always=ConnectionRefusedError)
    began = time.monotonic()
    with interrupted_in(0.02), pytest.raises(KeyboardInterrupt):
        rb.Policy(rb.Retry(backoff=rb.Backoff.constant(3600)))(idempotent=True).call(server.get)
    assert time.monotonic() - began < 5
    assert server.calls == 1


async def test_r19_a_deadline_error_carries_the_attempts_before_it():
    """Two attempts failed, the deadline cut off the third: its error has the first two, and the reason it stopped."""
    with rb.testing.virtual_time() as clock:
        calls = 0

        @rb.Policy(rb.Deadline(10), at_once())(idempotent=True)
        async def get():
            nonlocal calls
            calls += 1
            if calls < 3:
                raise ConnectionRefusedError(str(calls))
            await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(get())
        await settle()
        clock.advance(10)
        with pytest.raises(rb.DeadlineExceededError) as raised:
            await task
    failure = rb.classify(raised.value)
    assert [str(earlier.cause) for earlier in failure.history] == ["1", "2"]
    assert failure.stopped == "deadline"
