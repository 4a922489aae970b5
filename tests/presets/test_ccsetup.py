"""ccsetup's numbers for a call: which failures are transient, and how they are retried."""

from __future__ import annotations

import logging

import pytest

import resilient_bridge as rb
from resilient_bridge.presets import ccsetup
from resilient_bridge.testing import inject, virtual_time

from .driving import drive


TRANSIENT = [TimeoutError, ConnectionRefusedError, BlockingIOError, 429]
PERMANENT = [FileNotFoundError, PermissionError, 404, 403, ValueError]


@pytest.mark.requirement("C2")
@pytest.mark.parametrize("error", TRANSIENT, ids=str)
def test_a_transient_failure_is_repeated_three_times(error):
    """It waits 2 s, 4 s, 8 s (Max Retries 3), and then gives up."""
    driven = drive(ccsetup.calls, *[error] * 5)
    assert driven.slept == [2, 4, 8]
    assert (driven.calls, driven.stopped) == (4, "attempts")
    assert driven.event_names == [*["RetryScheduled"] * 3, "GaveUp"]


@pytest.mark.requirement("C2")
def test_the_example_of_the_specification(caplog):
    """Attempt 1 times out, wait 2 s; attempt 2 times out, wait 4 s; attempt 3 works: "recovered after 2 retries"."""
    caplog.set_level(logging.INFO, "resilient_bridge")

    @ccsetup.calls(idempotent=True, name="fetch")
    def ask() -> str:
        return "answer"

    with virtual_time() as time, inject(ask, TimeoutError, TimeoutError):
        assert ask() == "answer"
    assert time.slept == [2, 4]
    first, second, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("fetch: attempt 2 in 2 s after a transient failure: ")
    assert second.startswith("fetch: attempt 3 in 4 s after a transient failure: ")
    assert last == "fetch recovered after 2 retries"


@pytest.mark.requirement("C2")
def test_the_same_call_is_repeated():
    """Identical parameters, the very same objects."""
    seen = []

    @ccsetup.calls(idempotent=True)
    def ask(query: list[str], *, limit: int) -> None:
        seen.append((id(query), limit))
        if len(seen) < 3:
            raise TimeoutError

    with virtual_time():
        ask(["x"], limit=7)
    assert len(seen) == 3
    assert len(set(seen)) == 1


@pytest.mark.requirement("C2")
def test_after_the_last_retry_it_is_permanent(caplog):
    """The failure is permanent, and a line is logged: "Escalating to permanent after 3 failed retries"."""

    @ccsetup.calls(idempotent=True, name="fetch")
    def ask() -> None:
        """Go as the script says."""

    with virtual_time(), inject(ask, *[TimeoutError] * 4):
        failure = rb.capture(ask).failure
    assert (failure.kind, failure.stopped) == (rb.Kind.PERMANENT, "attempts")
    assert [earlier.kind for earlier in failure.history] == [rb.Kind.TRANSIENT] * 3
    assert caplog.records[-1].getMessage().endswith("stopped after 4 calls: attempts, escalated to permanent")


@pytest.mark.requirement("C1")
@pytest.mark.parametrize("error", PERMANENT, ids=str)
def test_a_permanent_failure_is_not_repeated(error):
    """Max Retries 0; what no pattern matches is permanent."""
    driven = drive(ccsetup.calls, error)
    assert (driven.calls, driven.slept) == (1, [])
    assert driven.outcome.failure.kind is rb.Kind.PERMANENT


@pytest.mark.requirement("C1")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TimeoutError("no answer"), "transient"),
        (FileNotFoundError(2, "ENOENT"), "permanent"),
        (Exception("Unexpected token } in JSON"), "corruption"),
        (Exception("Operation incomplete"), "partial"),
        (Exception("nothing we know"), "permanent"),
    ],
    ids=str,
)
def test_the_decision_is_logged(caplog, error, kind):
    """The log has the kind of every failure."""
    caplog.set_level(logging.DEBUG, "resilient_bridge")

    @ccsetup.calls(idempotent=True)
    def ask() -> None:
        """Go as the script says."""

    with virtual_time(), inject(ask, error, error):
        rb.capture(ask)
    assert f"after a {kind} failure: " in caplog.records[0].getMessage()


def test_k13_no_record_says_permanent_and_retryable(caplog):
    """Once escalated: not the line of the log, nor its fields, nor the data."""
    caplog.set_level(logging.INFO, "resilient_bridge")

    @ccsetup.calls(idempotent=True, name="fetch")
    def ask() -> None:
        """Go as the script says."""

    with virtual_time(), inject(ask, *[TimeoutError] * 4):
        failure = rb.capture(ask).failure
    line = caplog.records[-1]
    assert line.getMessage().startswith("fetch gave up after a transient failure: ")
    assert line.getMessage().endswith("escalated to permanent")
    assert line.retryable is False
    data = failure.to_dict()
    assert (data["kind"], data["retryable"]) == ("transient", True)


def test_k13_what_never_could_pass_is_not_escalated(caplog):
    """An error that `on=` names is repeated, and when its attempts are used up nothing changes its kind."""
    caplog.set_level(logging.INFO, "resilient_bridge")

    @rb.Policy(rb.Retry(attempts=2, on=ValueError, backoff=rb.Backoff.constant(0)))(idempotent=True)
    def ask() -> None:
        raise ValueError("no")

    rb.capture(ask)
    assert caplog.records[-1].getMessage().endswith("stopped after 2 calls: attempts")
