"""What a callee sees: its attempt, and the caller's context variables, whose changes stay."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere
from tests.rows import each_row


REFUSED = ConnectionRefusedError
TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


def layers():
    """A policy for the fast path and one for the slow path."""
    return [rb.Policy(at_once()), rb.Policy(at_once(), rb.Bulkhead(5))]


async def test_context_variables_are_seen_and_preserved():
    """A call runs in the caller's own context: variables that it sets stay set, sync and async, also after retries."""
    for policy in layers():
        server = Server(REFUSED)

        def body(server=server):
            before = TENANT.get()
            TENANT.set(f"{before}+")
            server.get()
            return before

        async def async_body(server=server):
            await asyncio.sleep(0)
            return TENANT.get(), TENANT.set("async")

        TENANT.set("acme")
        assert policy(body, idempotent=True)() == "acme+"
        assert TENANT.get() == "acme++"
        await policy(async_body, idempotent=True)()
        assert TENANT.get() == "async"


@everywhere
def test_the_current_attempt(form):
    """It has the number, the previous failure, the remaining time and the key while it runs; outside it is None."""
    seen, server = [], Server(REFUSED, ConnectionResetError)

    def body():
        attempt = rb.current_attempt()
        seen.append((attempt.number, attempt.failure and attempt.failure.code, attempt.remaining))
        return server.get()

    with form.world():
        assert rb.current_attempt() is None
        form.run(rb.Policy(at_once())(form.of(body), idempotent=True))
        assert rb.current_attempt() is None
    assert seen == [(1, None, None), (2, "CONN_REFUSED", None), (3, "CONN_RESET", None)]


@everywhere
@each_row("error", [ValueError, KeyboardInterrupt, REFUSED])
def test_it_is_none_again_after_an_error(form, error):
    """However a call ends, the caller's current attempt is restored."""
    with form.world():
        for policy in layers():
            with pytest.raises(error):
                form.run(policy(form.of(Server(always=error).get), idempotent=True))
            assert rb.current_attempt() is None


@both
def test_remaining_counts_down_and_never_below_zero(form):
    """`remaining` is the seconds to the deadline at the time it is read."""
    seen = []
    with rb.testing.virtual_time() as clock:

        def body():
            for seconds in (0, 4, 100):
                clock.advance(seconds)
                seen.append(rb.current_attempt().remaining)

        form.run(rb.Policy(rb.Deadline(10))(form.of(body)))
    assert seen == [10, 6, 0]


async def test_calls_side_by_side_have_an_attempt_each():
    """Of fifty at once, each sees its own number and key, before and after an await."""

    @rb.Policy(at_once(attempts=60))(idempotent=True)
    async def get(fails):
        attempt = rb.current_attempt()
        key = attempt.idempotency_key
        await asyncio.sleep(0)
        assert rb.current_attempt() is attempt
        if attempt.number <= fails % 5:
            raise REFUSED
        return key, attempt.number

    results = await asyncio.gather(*map(get, range(50)))
    assert [number for _, number in results] == [fails % 5 + 1 for fails in range(50)]
    assert len({key for key, _ in results}) == 50


def test_what_it_prints():
    """The repr shows the number, and the remaining time if there is a deadline."""
    shown = []
    with rb.testing.virtual_time():
        rb.Policy(at_once())(idempotent=True).call(lambda: shown.append(repr(rb.current_attempt())))
        rb.Policy(rb.Deadline(9.5)).call(lambda: shown.append(repr(rb.current_attempt())))
    assert shown == ["<Attempt 1>", "<Attempt 1, 9.5 s left>"]


@everywhere
def test_j05_an_attempt_shows_four_attributes_and_none_can_be_set(form):
    """The internal record is another object; the callee, a schedule and a block see the same view."""
    shown = ["failure", "idempotency_key", "number", "remaining"]
    seen = []

    def body():
        seen.append(rb.current_attempt())
        raise REFUSED

    def schedule(attempt):
        seen.append(attempt)
        return 0

    policy = rb.Policy(rb.Retry(attempts=2, backoff=schedule))
    with form.world():
        with pytest.raises(REFUSED):
            form.run(policy(form.of(body), idempotent=True))
        for attempt in rb.Policy(at_once()).attempts(idempotent=True):
            with attempt:
                seen.append(attempt)
                assert rb.current_attempt() is attempt
    assert len(seen) == 5  # the schedule is asked after the last attempt, too
    for attempt in seen:
        assert [name for name in dir(attempt) if not name.startswith("_")] == shown
        for name in shown:
            with pytest.raises(AttributeError):
                setattr(attempt, name, None)
        with pytest.raises(AttributeError):
            attempt.permit = 1
