"""The waits between attempts: where they come from, how long they are, and which are skipped."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, http_error, settle
from tests.rows import each_row


REFUSED = ConnectionRefusedError


def waits(form, retry, *script, always=None, outcome=None, seed=0, layers=()):
    """Return the waits of one call."""
    with rb.testing.virtual_time(seed=seed) as clock:
        get = rb.Policy(*layers, retry)(
            form.of(Server(*script, always=always).get), idempotent=True
        )
        try:
            form.run(get)
        except Exception as error:  # noqa: BLE001
            if outcome is not None:
                outcome.append(error)
    return clock.slept


@both
def test_no_wait_is_no_sleep(form, monkeypatch):
    """A wait of zero neither calls `time.sleep` nor yields to the loop, which would take longer than the whole call."""

    def refused(seconds):
        pytest.fail("slept")

    monkeypatch.setattr(time, "sleep", refused)
    monkeypatch.setattr(asyncio, "sleep", refused)
    policy, server = rb.Policy(at_once()), Server(REFUSED, REFUSED)

    async def loop():
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                server.get()

    assert form.run(policy(form.of(Server(REFUSED, REFUSED).get), idempotent=True)) == "ok"
    if form.is_async:
        form.run(loop)
    else:
        for attempt in policy.attempts(idempotent=True):
            with attempt:
                server.get()
    assert server.calls == 3


@both
@pytest.mark.real
def test_a_wait_is_slept(form):
    """30 ms in real time, sync and async."""
    began = time.monotonic()
    retry = at_once(backoff=rb.Backoff.constant(0.03))
    assert form.run(rb.Policy(retry)(form.of(Server(REFUSED).get), idempotent=True)) == "ok"
    assert 0.025 < time.monotonic() - began < 5


@both
def test_waits_are_between_attempts(form):
    """Three waits for four attempts, none after the last."""
    assert waits(form, rb.Retry(attempts=4, backoff=rb.Backoff.steps(1, 2, 4)), always=REFUSED) == [
        1,
        2,
        4,
    ]


@both
def test_chance_comes_from_the_seed(form):
    """The same seed gives the same jitter, another seed another."""
    retry = rb.Retry(attempts=5, backoff=rb.Backoff.exponential(1))
    runs = [waits(form, retry, always=REFUSED, seed=seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    assert all(wait <= longest for wait, longest in zip(runs[0], [1, 2, 4, 8], strict=True))


@both
def test_decorrelated_waits_know_the_one_before(form):
    """Each is drawn between the base and three times the one before it."""
    slept = waits(
        form,
        rb.Retry(attempts=10, backoff=rb.Backoff.decorrelated(1, cap=1_000), budget=None),
        always=REFUSED,
    )
    assert len(slept) == 9
    assert all(1 <= wait <= 3 * before for before, wait in zip([1.0, *slept], slept, strict=False))


@both
@pytest.mark.parametrize(
    ("header", "own", "least", "most"),
    [("10", 1, 10, 10), ("1", 10, 10, 10), ("0", 2, 2, 2)],
)
def test_retry_after_is_a_lower_bound(form, header, own, least, most):
    """The wait is the longer of `Retry-After` and the schedule; exact if the schedule is."""
    (wait,) = waits(
        form, rb.Retry(backoff=rb.Backoff.constant(own)), http_error(429, retry_after=header)
    )
    assert least <= wait <= most


@both
def test_clients_with_the_same_retry_after_do_not_return_together(form):
    """With jitter in the schedule the server's wait has jitter too: up to a tenth longer, never shorter."""
    retry = rb.Retry(backoff=rb.Backoff.decorrelated(1))
    slept = [
        waits(form, retry, http_error(429, retry_after="10"), seed=seed)[0] for seed in range(30)
    ]
    assert all(10 <= wait <= 11 for wait in slept)
    assert len(set(slept)) > 20


@both
def test_e22_the_spread_never_passes_the_most_that_is_waited(form):
    """With `Retry-After: 120` and `max_retry_after=120` the wait is 120, without jitter on top."""
    retry = rb.Retry(backoff=rb.Backoff.decorrelated(1), max_retry_after=120)
    slept = {
        waits(form, retry, http_error(429, retry_after="120"), seed=seed)[0] for seed in range(30)
    }
    assert slept == {120.0}


@both
def test_a_date_is_a_wait_from_now(form):
    """An HTTP date becomes a wait, by the server's own clock if the response has a date."""
    now = datetime(2020, 1, 1, tzinfo=UTC)
    dates = [f"{at:%a, %d %b %Y %H:%M:%S} GMT" for at in (now + timedelta(seconds=40), now)]
    error = http_error(503, retry_after=dates[0], date=dates[1])
    assert waits(form, rb.Retry(backoff=rb.Backoff.constant(1)), error) == [40]


@both
def test_above_the_ceiling_it_stops(form):
    """With `max_retry_after=5`, `Retry-After: 6` ends the call with that hint; `Retry-After: 5` waits 5 s."""
    retry, ended = rb.Retry(backoff=rb.Backoff.constant(1), max_retry_after=5), []
    assert waits(form, retry, http_error(429, retry_after="5")) == [5]
    assert waits(form, retry, http_error(429, retry_after="6"), outcome=ended) == []
    assert rb.classify(ended[0]).stopped == "retry_after"


@both
def test_the_budget_is_asked_before_the_wait(form):
    """Two repeats allowed, two waits made, and no third."""
    budget = rb.RetryBudget(ratio=0, floor=2)
    assert waits(
        form, rb.Retry(attempts=9, backoff=rb.Backoff.constant(1), budget=budget), always=REFUSED
    ) == [1, 1]


@both
def test_what_is_refused_for_another_reason_spends_nothing(form, key):
    """A call that may have run, one past its deadline and an ordinary error spend nothing from the budget."""
    budget = rb.RetryBudget(ratio=0, floor=1, key=key)
    retry = rb.Retry(backoff=rb.Backoff.constant(1), budget=budget)
    with rb.testing.virtual_time() as clock:
        for error, layers in [
            (ConnectionResetError, ()),
            (ValueError, ()),
            (REFUSED, (rb.Deadline(0.5),)),
        ]:
            with pytest.raises(error):
                form.run(
                    rb.Policy(*layers, retry)(
                        form.of(Server(always=error).get),
                        idempotent=error is not ConnectionResetError,
                    )
                )
        assert form.run(rb.Policy(retry)(form.of(Server(REFUSED).get), idempotent=True)) == "ok"
    assert clock.slept == [1]


@both
@each_row("wait", [float("nan"), float("inf"), -1, timedelta(seconds=-1)], ids=str)
def test_a_schedule_that_says_nonsense_does_not_break_the_loop(form, wait):
    """asyncio.sleep(nan) would stop other timers: an invalid wait counts as none."""
    assert waits(form, rb.Retry(backoff=lambda _: wait), REFUSED) in ([], [0])


@both
def test_a_schedule_may_say_a_timedelta(form):
    """A schedule may return a timedelta instead of seconds."""
    assert waits(form, rb.Retry(backoff=lambda _: timedelta(seconds=2)), REFUSED) == [2]


@both
def test_a_wait_that_does_not_fit_is_not_started(form):
    """1 and 2 s fit into 5, the next 4 do not: the call's error is raised at once, two seconds before the deadline."""
    retry = rb.Retry(attempts=9, backoff=rb.Backoff.exponential(1, jitter="none"))
    assert waits(form, retry, always=REFUSED, layers=[rb.Deadline(5)]) == [1, 2]


@both
@pytest.mark.parametrize(("seconds", "slept"), [(5, []), (4.5, [4.5])])
def test_a_wait_that_ends_at_the_deadline_is_not_started(form, seconds, slept):
    """After it there would be no time for the call."""
    retry = rb.Retry(attempts=2, backoff=rb.Backoff.constant(seconds))
    assert waits(form, retry, always=REFUSED, layers=[rb.Deadline(5)]) == slept


async def test_other_tasks_run_while_one_waits():
    """A wait blocks only its own call: while one call waits an hour in real time, the other ends."""
    waiting = asyncio.create_task(
        rb.Policy(rb.Retry(backoff=rb.Backoff.constant(3600)))(idempotent=True).call(failing)
    )
    await settle()
    assert await rb.Policy(at_once())(idempotent=True).call(asyncio.sleep, 0, "other") == "other"
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def failing():
    """Fails each time."""
    raise REFUSED


@everywhere
def test_out_of_memory_is_repeated_once(form):
    """A failure with `max_retries` is retried no more often than that, whatever the policy allows (R11)."""
    server = Server(always=MemoryError)
    with form.world(), pytest.raises(MemoryError):
        form.run(rb.Policy(at_once(attempts=9))(form.of(server.get), idempotent=True))
    assert server.calls == 2
