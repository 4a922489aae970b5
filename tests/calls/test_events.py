"""What a policy tells: a turn of a call each, in order, never an argument or a secret, and nothing for what simply works."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime

import pytest
import tenacity

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere


REFUSED = ConnectionRefusedError


def kinds(reported):
    """The names of the events."""
    return [type(event).__name__ for event in reported]


@everywhere
def test_what_simply_works_is_not_reported(form):
    """Nothing, through all layers."""
    with form.world(), rb.testing.record() as reported:
        policy = rb.Policy(
            rb.Deadline(60),
            rb.Fallback(print),
            at_once(),
            rb.Bulkhead(5),
            rb.RateLimit(5),
            rb.Breaker(),
        )
        form.run(policy(form.of(Server().get), idempotent=True))
    assert reported == []


@both
def test_a_repeat_names_the_call_that_comes_and_its_wait(form):
    """`attempt` is the number of the attempt that comes, `wait` the seconds until then, `failure` how the last one ended."""
    with rb.testing.virtual_time(), rb.testing.record() as reported:
        policy = rb.Policy(rb.Retry(backoff=rb.Backoff.steps(1, 2)), name="get")
        form.run(policy(form.of(Server(REFUSED, ConnectionResetError).get), idempotent=True))
    first, second, recovered = reported
    assert kinds(reported) == ["RetryScheduled", "RetryScheduled", "RetryRecovered"]
    assert [
        (event.name, event.attempt, event.wait, event.failure.code) for event in (first, second)
    ] == [
        ("get", 2, 1, "CONN_REFUSED"),
        ("get", 3, 2, "CONN_RESET"),
    ]
    assert (recovered.name, recovered.attempt) == ("get", 3)
    assert recovered.at == datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)


@everywhere
def test_a_giving_up_says_why(form):
    """The last failure, with the history and the reason."""
    with form.world(), rb.testing.record() as reported:
        get = rb.Policy(at_once(attempts=3), name="get")(
            form.of(Server(always=REFUSED).get), idempotent=True
        )
        with pytest.raises(REFUSED):
            form.run(get)
    (gave_up,) = [event for event in reported if isinstance(event, rb.events.GaveUp)]
    assert gave_up.name == "get"
    assert gave_up.failure.stopped == "attempts"
    assert len(gave_up.failure.history) == 2


@everywhere
def test_a_circuit_tells_of_its_changes(form):
    """Opened with the reason and the failure, half-open, closed."""
    server = Server(REFUSED, REFUSED)
    with form.world(), rb.testing.record() as reported:
        get = rb.Policy(rb.Breaker.consecutive(2, open_for=0), name="database")(form.of(server.get))
        for _ in range(2):
            with pytest.raises(REFUSED):
                form.run(get)
        form.run(get)
    assert kinds(reported) == ["CircuitChanged"] * 3
    assert [event.state for event in reported] == ["open", "half_open", "closed"]
    assert [event.reason for event in reported] == [
        "consecutive_failures_2",
        "reset_timeout_elapsed",
        "request_success",
    ]
    assert {event.key for event in reported} == {"database"}
    assert reported[0].failure.code == "CONN_REFUSED"


@everywhere
def test_the_order_is_the_order_of_things(form):
    """A repeat, an opening, which ends the call, the rung that is tried instead."""
    with form.world(), rb.testing.record() as reported:
        policy = rb.Policy(rb.Fallback(lambda: "other"), at_once(), rb.Breaker.consecutive(2))
        form.run(policy(form.of(Server(always=REFUSED).get), idempotent=True))
    assert kinds(reported) == ["RetryScheduled", "CircuitChanged", "GaveUp", "FellBack"]


@everywhere
def test_names(form):
    """The function's own, or the policy's, or that of the decoration, the nearest first."""
    with form.world(), rb.testing.record() as reported:
        body = form.of(Server(always=ValueError).get)
        for protected in (
            rb.Policy(at_once())(body, idempotent=True),
            rb.Policy(at_once(), name="policy")(body, idempotent=True),
            rb.Policy(at_once(), name="policy")(body, name="here", idempotent=True),
        ):
            with pytest.raises(ValueError):
                form.run(protected)
    assert [event.name for event in reported] == ["tests.calls.forms.Server.get", "policy", "here"]


SECRET = "s3cr3t-canary"


@everywhere
def test_no_argument_is_ever_reported(form, caplog):
    """Neither to a listener nor to the log, in none of the events of a call with a secret for an argument."""
    with form.world(), caplog.at_level(logging.DEBUG, "resilient_bridge"):
        policy = rb.Policy(
            rb.Fallback(lambda *_, **__: "other"), at_once(), rb.Breaker.consecutive(2)
        )
        get = policy(form.of(lambda *_, **__: server.get()), idempotent=True)
        server = Server(always=REFUSED)
        with rb.testing.record() as reported:
            form.run(get, SECRET, token=SECRET)
        form.run(get, SECRET, token=SECRET)
    assert SECRET not in repr(reported)
    assert SECRET not in caplog.text


@both
def test_without_a_listener_waits_and_the_end_are_logged(form, caplog):
    """Each wait, a long one as a warning, and a giving up, to the logger `resilient_bridge`."""
    with rb.testing.virtual_time(), caplog.at_level(logging.INFO, "resilient_bridge"):
        policy = rb.Policy(rb.Retry(attempts=3, backoff=rb.Backoff.steps(0.5, 5)), name="get")
        with pytest.raises(REFUSED):
            form.run(policy(form.of(Server(always=REFUSED).get), idempotent=True))
    what = "connection refused (TRANSPORT)"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"retrying get in 0.5 s (attempt 2 of 3): {what}"),
        ("WARNING", f"retrying get in 5 s (attempt 3 of 3): {what}"),
        ("ERROR", f"gave up on get after 3 attempts in 5.5 s: {what}; escalated to permanent"),
    ]


class Busy(Exception):  # noqa: N818 -- as a user would call it
    """An error that only its policy knows."""


@everywhere
def test_c06_the_log_tells_the_decision_and_not_what_the_error_is_without_the_policy(form, caplog):
    """A failure that `on=` names is repeated: no line and no text of the error calls it permanent or not retryable."""
    with form.world(), caplog.at_level(logging.DEBUG, "resilient_bridge"):
        policy = rb.Policy(
            rb.Retry(attempts=3, on=Busy, backoff=rb.Backoff.constant(0.1)), name="f"
        )
        f = policy(form.of(Server(always=Busy("busy")).get), idempotent=True)
        with pytest.raises(Busy) as caught:
            form.run(f)
    failure = rb.classify(caught.value)
    assert [
        re.sub(r"after 3 attempts in 0\.\d s", "after 3 attempts in T s", line)
        for line in caplog.messages
    ] == [
        "retrying f in 0.1 s (attempt 2 of 3): Busy: busy",
        "retrying f in 0.1 s (attempt 3 of 3): Busy: busy",
        "gave up on f after 3 attempts in T s: Busy: busy",
    ]
    assert "not retryable" not in f"{failure}{failure.explain()}"


@everywhere
def test_c06_a_recovery_is_never_logged_without_its_retries(form, caplog):
    """Whatever the level, a log that shows the success shows each attempt before it."""
    with form.world(), caplog.at_level(logging.INFO, "resilient_bridge"):
        policy = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(0)), name="get")
        form.run(policy(form.of(Server(REFUSED, REFUSED).get), idempotent=True))
    assert [(line.levelname, line.getMessage().split(":")[0]) for line in caplog.records] == [
        ("INFO", f"retrying get in 0 s (attempt 2 of {rb.Retry().attempts})"),
        ("INFO", f"retrying get in 0 s (attempt 3 of {rb.Retry().attempts})"),
        ("INFO", "get recovered after 2 retries"),
    ]


@pytest.mark.parametrize(
    ("rules", "stop", "numbers"),
    [({}, 4, [(2, 4), (3, 4), (4, 4)]), ({REFUSED: rb.Rule(attempts=2)}, 4, [(2, 2)]), ({}, tenacity.stop_after_attempt(2), [(2, None)])],
)  # fmt: skip
def test_c06_a_retry_says_how_many_there_can_be(rules, stop, numbers):
    """Those of the rule that counts the failure; nobody knows what a `stop=` of tenacity will say."""
    retry = rb.Retry(attempts=stop, rules=rules, backoff=rb.Backoff.constant(0))
    with rb.testing.record() as reported:
        rb.capture(rb.Policy(retry)(Server(always=REFUSED).get, idempotent=True))
    reports = [event for event in reported if isinstance(event, rb.events.RetryScheduled)]
    assert [(event.attempt, event.attempts) for event in reports] == numbers


@everywhere
def test_a_listener_that_fails_disturbs_no_other(form):
    """What it raises stays with it."""

    def broken(event):
        raise LookupError

    with form.world(), rb.listen(broken):
        get = rb.Policy(at_once())(form.of(Server(REFUSED, REFUSED).get), idempotent=True)
        assert form.run(get) == "ok"
