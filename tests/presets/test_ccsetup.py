"""ccsetup's numbers for a call: which failures are transient, and how they are retried."""

from __future__ import annotations

import logging
import re

import pytest

import resilient_bridge as rb
from resilient_bridge.presets import ccsetup
from resilient_bridge.testing import inject, virtual_time

from .driving import drive


EXAMPLE = """\
Attempt 1: Network timeout → Wait 2s → Retry
Attempt 2: Network timeout → Wait 4s → Retry
Attempt 3: Success → Log "Recovered after 2 retries" → Continue
"""
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

    waits = [int(seconds) for seconds in re.findall(r"Wait (\d+)s", EXAMPLE)]
    failures = [RuntimeError(text) for text in re.findall(r"\d: (.*) → Wait", EXAMPLE)]
    with virtual_time() as time, inject(ask, *failures):
        assert ask() == "answer"
    assert time.slept == waits == [2, 4]
    first, second, last = (record.getMessage() for record in caplog.records)
    assert first.startswith("retrying fetch in 2 s (attempt 2 of 4): ")
    assert second.startswith("retrying fetch in 4 s (attempt 3 of 4): ")
    (logged,) = re.findall(r'Log "(.*)"', EXAMPLE)
    assert last == f"fetch {logged.lower()}"


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
    """The failure is permanent, and a record of the log says so: "Escalating to permanent after 3 failed retries"."""

    @ccsetup.calls(idempotent=True, name="fetch")
    def ask() -> None:
        """Go as the script says."""

    with virtual_time(), inject(ask, *[TimeoutError] * 4):
        failure = rb.capture(ask).failure
    assert (failure.kind, failure.stopped) == (rb.Kind.PERMANENT, "attempts")
    assert [earlier.kind for earlier in failure.history] == [rb.Kind.TRANSIENT] * 3
    assert (
        caplog.records[-1].getMessage().startswith("gave up on fetch after 4 attempts in 14.0 s: ")
    )
    assert caplog.records[-1].getMessage().endswith("; escalated to permanent")
    assert caplog.records[-1].failure_kind == "permanent"


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
    """Each record has the kind of its failure, beside what was decided."""
    caplog.set_level(logging.DEBUG, "resilient_bridge")

    @ccsetup.calls(idempotent=True)
    def ask() -> None:
        """Go as the script says."""

    with virtual_time(), inject(ask, error, error):
        rb.capture(ask)
    assert caplog.records[0].failure_kind == kind


def test_k13_no_record_says_permanent_and_retryable(caplog):
    """Once its attempts are used up: neither the record in the log nor the data."""
    caplog.set_level(logging.INFO, "resilient_bridge")

    @ccsetup.calls(idempotent=True, name="fetch")
    def ask() -> None:
        """Go as the script says."""

    with virtual_time(), inject(ask, *[TimeoutError] * 4):
        failure = rb.capture(ask).failure
    line = caplog.records[-1]
    assert (line.failure_kind, line.retryable) == ("permanent", False)
    data = failure.to_dict()
    assert (data["kind"], data["retryable"]) == ("transient", True)
