"""Which schedule a wait comes from: the general one, a rule's, a function of yours, tenacity's; and tenacity's stops and conditions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
import tenacity

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, http_error
from tests.rows import each_row


REFUSED = ConnectionRefusedError


class BusyError(Exception):
    """Somebody's own."""


def waits(form, retry, *script, seed=0):
    """Return the waits of one call that succeeds in the end."""
    with rb.testing.virtual_time(seed=seed) as clock:
        get = rb.Policy(retry)(form.of(Server(*script).get), idempotent=True)
        assert form.run(get) == "ok"
    return clock.slept


# ---- ours -----------------------------------------------------------------------------------------------------


@both
def test_a_rule_with_a_schedule_of_its_own_leaves_the_general_one_where_it_was(form):
    """Two waits by the rule in between, and the general schedule goes on with its own second step."""
    rules = {429: rb.Rule(attempts=9, backoff=rb.Backoff.steps(7, 8))}
    retry = rb.Retry(attempts=9, backoff=rb.Backoff.steps(1, 2, 3), rules=rules)
    busy = http_error(429)
    assert waits(form, retry, busy, REFUSED, busy, REFUSED) == [7, 1, 8, 2]


@both
def test_a_rule_without_a_schedule_takes_its_waits_from_the_general_one(form):
    """One schedule for both: each takes the next step."""
    retry = rb.Retry(
        attempts=9, backoff=rb.Backoff.steps(1, 2, 3, 4), rules={429: rb.Rule(attempts=9)}
    )
    busy = http_error(429)
    assert waits(form, retry, busy, REFUSED, busy, REFUSED) == [1, 2, 3, 4]


@both
@pytest.mark.parametrize(
    ("rule", "general"),
    [
        (
            rb.Rule(attempts=9, backoff=rb.Backoff.decorrelated(1, cap=1_000)),
            rb.Backoff.constant(0),
        ),
        (rb.Rule(attempts=9), rb.Backoff.decorrelated(1, cap=1_000)),
    ],
    ids=["of the rule", "general"],
)
def test_a_decorrelated_schedule_grows_from_what_was_waited(form, rule, general):
    """Of the hundred seconds that the server asked for, not of the three at most that were drawn: more often than not the next wait is
    the longest there can be, 9 s, which is next to impossible otherwise.
    """
    retry = rb.Retry(backoff=general, rules={429: rule})
    runs = [
        waits(form, retry, http_error(429, retry_after="100"), http_error(429), seed=n)
        for n in range(9)
    ]
    assert all(100 <= header <= 110 and 1 <= following <= 9 for header, following in runs)
    assert sum(following == 9 for _, following in runs) > len(runs) / 2


@both
@each_row("named", [3, 2.5, 0.25, 0])
def test_a_function_says_the_seconds(form, named):
    """Whole numbers and fractions, a part of a second, and none at all."""
    assert waits(form, rb.Retry(backoff=lambda _: named), REFUSED) == [named]


@both
@each_row("named", [float("nan"), float("inf"), -1, timedelta(seconds=-1)], ids=str)
def test_a_function_that_says_nonsense_does_not_end_the_call(form, named):
    """It is repeated without a wait."""
    assert waits(form, rb.Retry(backoff=lambda _: named), REFUSED) == [0]


@everywhere
def test_a_schedule_is_asked_only_for_a_failure_that_is_repeated(form):
    """A mistake of the caller's is no business of it."""
    asked = []

    def schedule(attempt):
        asked.append(attempt.failure.code)
        return 0

    with form.world():
        get = rb.Policy(at_once(backoff=schedule))(
            form.of(Server(REFUSED, ValueError).get), idempotent=True
        )
        with pytest.raises(ValueError):
            form.run(get)
    assert asked == ["CONN_REFUSED"]


@both
def test_a_date_that_has_passed_is_no_wait(form):
    """A server without a clock of its own names a moment; if that is over, the schedule alone says how long."""
    date = format_datetime(datetime(2026, 1, 1, tzinfo=UTC) - timedelta(hours=1), usegmt=True)
    error = http_error(429, retry_after=date)
    assert waits(form, at_once(), error) == [0]
    assert waits(form, rb.Retry(backoff=rb.Backoff.constant(0.5)), error) == [0.5]


# ---- tenacity's -----------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    ("stop", "calls"),
    [
        (tenacity.stop_after_attempt(3), 3),
        (tenacity.stop_after_delay(10), 4),  # after 0, 4 and 8 s it goes on, after 12 it stops
        pytest.param(
            getattr(tenacity, "stop_before_delay", int)(10),  # the wait from 8 to 12 s is not begun
            3,
            marks=pytest.mark.skipif(
                not hasattr(tenacity, "stop_before_delay"), reason="before tenacity 8.3"
            ),
        ),
        (tenacity.stop_after_attempt(2) | tenacity.stop_after_delay(99), 2),
    ],
    ids=["attempts", "seconds", "seconds ahead", "either"],
)
def test_a_stop_of_tenacity_ends_the_call(form, stop, calls):
    """It knows the attempt, the policies' clock and the wait that would follow; the call ends as with a number of ours."""
    server = Server(*[REFUSED] * 9)
    retry = rb.Retry(attempts=stop, backoff=rb.Backoff.constant(4), budget=None)
    with rb.testing.virtual_time() as clock, pytest.raises(REFUSED) as raised:
        form.run(rb.Policy(retry)(form.of(server.get), idempotent=True))
    assert server.calls == calls
    assert clock.slept == [4] * (calls - 1)
    assert rb.classify(raised.value).stopped == "attempts"
    assert raised.value.__notes__ == [
        f"gave up after {calls} calls in {4.0 * (calls - 1)} s: attempts used up"
    ]


@everywhere
@each_row(("rule", "calls"), [(rb.Rule(attempts=5), 5), (rb.Rule(), 2)], ids=["own", "none"])
def test_a_rule_that_counts_for_itself_does_not_ask_the_stop(form, rule, calls):
    """Its own number holds; one that gives none is under the stop like everything else."""
    server = Server(*[BusyError] * 9)
    retry = at_once(attempts=tenacity.stop_after_attempt(2), rules={BusyError: rule})
    with form.world(), pytest.raises(BusyError):
        form.run(rb.Policy(retry)(form.of(server.get), idempotent=True))
    assert server.calls == calls


@both
@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (tenacity.wait_exponential(multiplier=1), [1, 2, 4]),
        (tenacity.wait_fixed(timedelta(seconds=3)), [3, 3, 3]),
        (
            tenacity.wait_incrementing(start=1, increment=5) + tenacity.wait_fixed(0.5),
            [1.5, 6.5, 11.5],
        ),
        pytest.param(
            getattr(tenacity, "wait_exception", bool)(lambda error: len(str(error))),  # "down"
            [4, 4, 4],
            marks=pytest.mark.skipif(
                not hasattr(tenacity, "wait_exception"), reason="before tenacity 9.1"
            ),
        ),
    ],
    ids=["exponential", "fixed", "sum", "of the exception"],
)
def test_a_wait_of_tenacity_is_waited(form, wait, expected):
    """As the general schedule, and as that of a rule."""
    assert waits(form, rb.Retry(backoff=wait), *[REFUSED] * 3) == expected
    rules = {BusyError: rb.Rule(attempts=4, backoff=wait)}
    assert waits(form, rb.Retry(rules=rules), *[BusyError] * 3) == expected


@everywhere
def test_a_condition_of_tenacity_says_what_is_repeated(form):
    """It names an exception as a class of ours in `on` does, beside what else stands there; another one ends the call."""
    retry = at_once(attempts=9, on=(rb.Kind.TRANSIENT, tenacity.retry_if_exception_type(BusyError)))
    for script, calls in [
        ([BusyError, REFUSED, BusyError], 4),
        ([BusyError, ValueError, BusyError], 2),
    ]:
        server = Server(*script)
        with form.world():
            outcome = form.run(rb.capture, rb.Policy(retry)(form.of(server.get), idempotent=True))
        assert server.calls == calls
        assert (outcome.failure is None) == (calls == 4)


@everywhere
def test_a_condition_of_tenacity_reads_the_answer(form):
    """A 404 that is returned is repeated because the condition says so, and a 410 is not."""
    condition = tenacity.retry_if_result(lambda answer: answer.status_code == 404)
    for statuses, last in [([404, 404, 200], 200), ([404, 410, 200], 410)]:
        answers = iter(map(httpx.Response, statuses))
        with form.world():
            get = rb.Policy(at_once(on=condition))(
                form.of(lambda answers=answers: next(answers)), idempotent=True
            )
            assert form.run(get).status_code == last


class Watching(tenacity.stop.stop_base):
    """A stop that never stops, and notes what it is shown."""

    def __init__(self):
        self.seen = []

    def __call__(self, retry_state):
        self.seen.append(
            {
                "attempt": retry_state.attempt_number,
                "error": type(retry_state.outcome.exception()),
                "since": retry_state.seconds_since_start,
                "ahead": retry_state.upcoming_sleep,
                "slept": retry_state.idle_for,
                "counted": retry_state.retry_object.statistics["attempt_number"],
                "given": (retry_state.fn, retry_state.args, retry_state.kwargs),
            }
        )
        return False


AHEAD = "header from tenacity 8.4 on"


@both
@pytest.mark.skipif(
    not hasattr(tenacity.RetryCallState(tenacity.Retrying(), None, (), {}), "upcoming_sleep"),
    reason=AHEAD,
)
def test_what_tenacitys_objects_are_shown(form):
    """The state that they know from tenacity, by the policies' clock; the function and its arguments, which may be secret, are left out."""
    stop, server = Watching(), Server(REFUSED, BusyError)
    with rb.testing.virtual_time():
        retry = rb.Retry(attempts=stop, on=(REFUSED, BusyError), backoff=rb.Backoff.steps(1, 2))
        get = rb.Policy(retry)(form.of(lambda *_, **__: server.get()), idempotent=True)
        assert form.run(get, "s3cr3t", token="s3cr3t") == "ok"
    nothing = (None, (), {})
    assert stop.seen == [
        {
            "attempt": 1,
            "error": REFUSED,
            "since": 0,
            "ahead": 1,
            "slept": 0,
            "counted": 1,
            "given": nothing,
        },
        {
            "attempt": 2,
            "error": BusyError,
            "since": 1,
            "ahead": 2,
            "slept": 1,
            "counted": 2,
            "given": nothing,
        },
    ]
