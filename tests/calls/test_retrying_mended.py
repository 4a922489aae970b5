"""Regression tests of retry counts: equal rules, calls that were never made, and calls that had not ended."""

from __future__ import annotations

import asyncio

import httpx
import tenacity

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, http_error, settle


REFUSED = ConnectionRefusedError


class ThrottledByAError(Exception):
    """Somebody's."""


class LockedByBError(Exception):
    """Somebody's, too."""


@everywhere
def test_rules_that_look_alike_count_for_themselves(form):
    """Two rules of two attempts each, and one failure for each rule: each allows one retry."""
    rules = {ThrottledByAError: rb.Rule(attempts=2), LockedByBError: rb.Rule(attempts=2)}
    server = Server(ThrottledByAError, LockedByBError)
    with form.world():
        assert (
            form.run(rb.Policy(at_once(rules=rules))(form.of(server.get), idempotent=True)) == "ok"
        )


@both
def test_rules_that_look_alike_have_a_schedule_each(form):
    """A, B, A with the same steps for both: the second A waits its second step, B its first."""
    steps = rb.Backoff.steps(1, 2, 3)
    rules = {ThrottledByAError: rb.Rule(backoff=steps), LockedByBError: rb.Rule(backoff=steps)}
    server = Server(ThrottledByAError, LockedByBError, ThrottledByAError)
    with rb.testing.virtual_time() as clock:
        form.run(rb.Policy(rb.Retry(rules=rules))(form.of(server.get), idempotent=True))
    assert clock.slept == [1, 1, 2]


async def test_a_refresh_that_the_deadline_ends_is_no_call():
    """One call was made, and then a log-in hung: the note and `capture` say one call."""

    async def log_in():
        await asyncio.get_running_loop().create_future()

    server = Server(always=http_error(401))

    @rb.Policy(rb.Deadline(5), at_once(rules={401: rb.Rule(attempts=2, before=log_in)}))(
        idempotent=True
    )
    async def get():
        return server.get()

    with rb.testing.virtual_time() as clock:
        task = asyncio.create_task(rb.capture(get))
        await settle()
        clock.advance(5)
        outcome = await task
    assert outcome.attempts == server.calls == 1


async def test_a_wait_in_the_queue_that_the_deadline_ends_is_no_call():
    """The retry waited for a permit of the bulkhead until the deadline: there was no second call."""
    release, tasks, server = asyncio.Event(), [], Server(always=REFUSED)

    @rb.Policy(rb.Bulkhead(1, queue=5, key="a place in line"))
    async def hog():
        await release.wait()

    @rb.Policy(
        rb.Deadline(5),
        rb.Retry(backoff=rb.Backoff.constant(1)),
        rb.Bulkhead(1, queue=5, key="a place in line"),
    )(idempotent=True)
    async def get():
        tasks.append(asyncio.create_task(hog()))
        server.get()

    with rb.testing.virtual_time() as clock:
        call = asyncio.create_task(rb.capture(get))
        await settle()
        clock.advance(1)  # the wait before the retry
        await settle()
        clock.advance(4)
        outcome = await call
    release.set()
    await asyncio.gather(*tasks)
    assert outcome.attempts == server.calls == 1


@everywhere
def test_giving_up_inside_is_reported_once(form):
    """A returned 503 on which the inner Retry gave up is not reported again by the outer one."""
    with form.world(), rb.testing.record() as recorded:
        inner = rb.Policy(at_once(attempts=2), name="inner")(
            lambda: httpx.Response(503), idempotent=True
        )
        form.run(rb.Policy(at_once(attempts=2), name="outer")(form.of(inner), idempotent=True))
    assert [event.name for event in recorded if isinstance(event, rb.events.GaveUp)] == ["inner"]


@everywhere
def test_a_rejected_call_is_the_same_in_real_and_virtual_time(form):
    """With an open circuit nothing was called, so there is no GaveUp, in real and in virtual time."""
    with form.world(), rb.testing.record() as recorded:
        get = rb.Policy(at_once(), rb.Breaker())(form.of(Server().get), idempotent=True)
        rb.calls.circuit(get).isolate()
        recorded.clear()
        outcome = form.run(rb.capture, get)
    assert isinstance(outcome.failure, rb.Failure)
    assert (outcome.attempts, outcome.failure.stopped, list(recorded)) == (0, None, [])


@everywhere
def test_a_condition_of_tenacity_on_a_plain_value(form):
    """`on=tenacity.retry_if_result(…)` is accepted, and evaluated on plain values."""
    answers = iter([None, None, "done"])
    with form.world():
        get = rb.Policy(at_once(on=tenacity.retry_if_result(lambda answer: answer is None)))(
            form.of(lambda: next(answers)), idempotent=True
        )
        assert form.run(get) == "done"
