"""The retry rows of the feature matrix, each in a scenario that some library fails; R7 to R12 and R17 are in test_matrix_limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, http_error
from tests.rows import each_row


class ThrottlingError(Exception):
    """Somebody's."""


class LockedError(Exception):
    """Somebody's, too."""


@both
def test_r1_each_class_has_its_own_count_and_schedule(form):
    """A, B, A, B, A: A's waits are 1, 2, 3 and B's 10, 20, each counted by its own rule; nested decorators reset each other
    (tenacity#407).
    """
    server = Server(*[ThrottlingError, LockedError] * 2, ThrottlingError)
    rules = {
        ThrottlingError: rb.Rule(attempts=4, backoff=rb.Backoff.steps(1, 2, 3)),
        LockedError: rb.Rule(attempts=9, backoff=rb.Backoff.steps(10, 20)),
    }
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(rules=rules))(form.of(server.get), idempotent=True)
        assert form.run(get) == "ok"
    assert clock.slept == [1, 10, 2, 20, 3]


@everywhere
def test_r1_the_cap_of_one_class_is_not_used_up_by_another(form):
    """Caps of 2 and 3: A, B, B, A ends at the second A, whatever B did in between."""
    server = Server(ThrottlingError, LockedError, LockedError, ThrottlingError)
    rules = {ThrottlingError: rb.Rule(attempts=2), LockedError: rb.Rule(attempts=5)}
    with form.world():
        get = rb.Policy(at_once(rules=rules))(form.of(server.get), idempotent=True)
        with pytest.raises(ThrottlingError):
            form.run(get)
    assert server.calls == 4


@both
def test_r2_the_schedule_sees_the_failure(form):
    """A function of the attempt reads the exception it waits for, and what the server said; in redress and hyx it does not."""
    seen = []

    def schedule(attempt):
        seen.append((attempt.number, attempt.failure and attempt.failure.code))
        return timedelta(seconds=5)

    server = Server(http_error(429, retry_after="3"), ConnectionRefusedError("down"))
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(backoff=schedule))(form.of(server.get), idempotent=True)
        assert form.run(get) == "ok"
    assert all(5 <= wait < 5.5 for wait in clock.slept)
    assert seen == [(1, "SYS_RATE_LIMITED"), (2, "CONN_REFUSED")]


@everywhere
def test_r3_a_returned_value_is_repeated(form):
    """`on_result` names it; after the last attempt the value is returned, not an error."""
    answers = iter(["pending", "pending", "done", "pending", "pending", "pending"])
    with form.world():
        get = rb.Policy(at_once(attempts=3, on_result=lambda answer: answer == "pending"))(
            form.of(lambda: next(answers)), idempotent=True
        )
        assert form.run(get) == "done"
        assert form.run(get) == "pending"


@everywhere
def test_r3_a_returned_failure_is_repeated(form):
    """A 503 that is returned and not raised is a failure, too."""
    answers = iter([httpx.Response(503), httpx.Response(503), httpx.Response(200)])
    with form.world():
        get = rb.Policy(at_once())(form.of(lambda: next(answers)), idempotent=True)
        assert form.run(get).status_code == 200


@both
def test_r4_retry_after_is_read_as_seconds_and_as_a_date(form):
    """Both forms of the header are waits; failsafe-go and others know whole seconds at most. The date is read by the same clock that waits."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    date = format_datetime(start + timedelta(seconds=30), usegmt=True)
    server = Server(http_error(503, retry_after="20"), http_error(429, retry_after=date))
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(1)))(
            form.of(server.get), idempotent=True
        )
        assert form.run(get) == "ok"
    assert clock.slept == [20, 10]  # 20 s of the 30 have passed


@both
@pytest.mark.parametrize(
    ("reported", "waits"),
    [
        (f"{rb.Retry().max_retry_after:.0f}", rb.Retry().attempts - 1),
        (f"{rb.Retry().max_retry_after + 1:.0f}", 0),
        ("86400", 0),
    ],
)
def test_r5_a_wait_above_the_ceiling_is_surfaced(form, reported, waits):
    """Up to `max_retry_after` it is obeyed, above it the error comes out at once with the hint, never repeated earlier."""
    server = Server(always=http_error(429, retry_after=reported))
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0)))(
            form.of(server.get), idempotent=True
        )
        with pytest.raises(httpx.HTTPStatusError) as raised:
            form.run(get)
    assert clock.slept == [float(reported)] * waits
    assert server.calls == waits + 1
    assert rb.classify(raised.value).retry_after == float(reported)


@both
def test_r6_a_budget_bounds_the_load_of_an_outage(form):
    """100 calls in an outage, 10 attempts each: at most 20 % and the floor of 10 on top, and not 1,000."""
    server = Server(always=ConnectionRefusedError)
    with rb.testing.virtual_time():
        get = rb.Policy(rb.Retry(attempts=10, backoff=rb.Backoff.constant(0)))(
            form.of(server.get), idempotent=True
        )
        for _ in range(100):
            with pytest.raises(ConnectionRefusedError):
                form.run(get)
    assert 120 <= server.calls <= 130


def test_r6_a_budget_with_a_key_is_shared(key):
    """Two policies, one key: the second finds the tokens spent."""
    budget = rb.RetryBudget(ratio=0, floor=3, key=key)
    servers = [Server(always=ConnectionRefusedError) for _ in range(2)]
    with rb.testing.virtual_time():
        for server in servers:
            with pytest.raises(ConnectionRefusedError):
                rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0), budget=budget))(
                    idempotent=True
                ).call(server.get)
    assert [server.calls for server in servers] == [4, 1]


def test_r13_no_delay_overflows():
    """Wait 1,100 of an exponential schedule is its cap; R13's OverflowError comes at 2 ** 1024."""
    assert rb.Backoff.exponential(1, cap=60).delays(1_100)[-1] == 60


@everywhere
@each_row("wrapped", [False, True], ids=["alone", "nested"])
def test_r14_a_group_is_matched_by_its_members(form, wrapped):
    """A TaskGroup's ExceptionGroup of ThrottlingErrors is what `on=ThrottlingError` names; tenacity PR#501, open since 2024."""
    group = ExceptionGroup(
        "unhandled errors in a TaskGroup", [ThrottlingError(), ThrottlingError()]
    )
    server = Server(ExceptionGroup("outer", [group]) if wrapped else group)
    with form.world():
        get = rb.Policy(at_once(on=ThrottlingError))(form.of(server.get), idempotent=True)
        assert form.run(get) == "ok"


@everywhere
def test_r14_one_hopeless_member_is_enough(form):
    """A group with a ValueError in it is not repeated: repeating would not help that one."""
    server = Server(always=ExceptionGroup("group", [ConnectionRefusedError(), ValueError()]))
    with form.world():
        get = rb.Policy(at_once())(form.of(server.get), idempotent=True)
        with pytest.raises(ExceptionGroup):
            form.run(get)
    assert server.calls == 1


@both
def test_r14_a_group_of_transient_failures_is_repeated(form):
    """Members that all may pass: the group may, and it never ran if none of them did."""
    server = Server(ExceptionGroup("group", [ConnectionRefusedError(), ConnectionRefusedError()]))
    assert form.run(rb.Policy(at_once())(form.of(server.get), idempotent=True)) == "ok"


def test_r16_the_block_form():
    """`for attempt in policy.attempts(): with attempt:` repeats the block like a function."""
    server = Server(ConnectionRefusedError, ConnectionRefusedError)
    for attempt in rb.Policy(at_once()).attempts(idempotent=True):
        with attempt:
            answer = server.get()
    assert (answer, attempt.number) == ("ok", 3)


@both
def test_r18_every_step_of_a_call_is_reported(form):
    """A repeat, a success after all, a giving up with its reason: an event each, and none for a call that simply succeeds."""
    server = Server(ConnectionRefusedError, None, None, *[ConnectionRefusedError] * 2)
    with rb.testing.virtual_time(), rb.testing.record() as reported:
        policy = rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(3)), name="get")
        get = policy(form.of(server.get), idempotent=True)
        for _ in range(2):
            form.run(get)
        with pytest.raises(ConnectionRefusedError):
            form.run(get)
    kinds = [type(event).__name__ for event in reported]
    assert kinds == ["RetryScheduled", "RetryRecovered", "RetryScheduled", "GaveUp"]
    assert {event.name for event in reported} == {"get"}
    assert reported[0].wait == 3
    assert reported[-1].failure.stopped == "attempts"


@everywhere
def test_r19_the_final_error_carries_every_attempts_error(form):
    """Three different ends of three attempts, all readable from the one that comes out."""
    errors = [ConnectionRefusedError("one"), http_error(503), ConnectionResetError("three")]
    server = Server(*errors)
    with form.world():
        get = rb.Policy(at_once(attempts=3))(form.of(server.get), idempotent=True)
        with pytest.raises(ConnectionResetError) as raised:
            form.run(get)
    failure = rb.classify(raised.value)
    assert [earlier.cause for earlier in failure.history] == errors[:2]
    assert "attempt 1: connection refused" in failure.explain()
