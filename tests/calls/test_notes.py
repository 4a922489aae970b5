"""The note and history that a policy adds to a caller's exception, which is otherwise unchanged."""

from __future__ import annotations

import attrs
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, http_error, steady
from tests.rows import each_row


REFUSED = ConnectionRefusedError


def noted(form, policy, *script, idempotent=True, always=None):
    """Return the notes of the error that a call raises, and its failure."""
    server = Server(*script, always=always)
    with pytest.raises(Exception) as raised:
        form.run(policy(form.of(server.get), idempotent=idempotent))
    notes = getattr(raised.value, "__notes__", [])
    return notes if form.is_virtual else steady(notes), rb.classify(raised.value)


@both
def test_attempts_used_up(form):
    """The note says how many calls were made, in how many seconds, and why it stopped."""
    with rb.testing.virtual_time():
        policy = rb.Policy(rb.Retry(attempts=4, backoff=rb.Backoff.steps(1, 3, 5.1)))
        notes, failure = noted(form, policy, always=REFUSED)
    assert notes == ["gave up after 4 calls in 9.1 s: attempts used up"]
    assert failure.stopped == "attempts"
    assert [earlier.code for earlier in failure.history] == ["CONN_REFUSED"] * 3


@everywhere
def test_the_call_may_have_run(form):
    """The note says that one call was made, and which option allows another."""
    with form.world():
        notes, failure = noted(
            form, rb.Policy(at_once()), always=ConnectionResetError, idempotent=False
        )
    assert notes == [
        "not repeated: it may have run; find out before you call it again. If twice does no harm: @policy(idempotent=True)"
    ]
    assert failure.stopped == "not_idempotent"


@everywhere
def test_an_ordinary_error_says_that_it_is_not_known(form):
    """An error that is not retried says so in its note, and its failure why it stopped."""
    with form.world():
        notes, failure = noted(form, rb.Policy(at_once()), always=ValueError)
    assert notes == [
        "not repeated: ValueError is not known to be transient; name it in Retry(on=…)"
    ]
    assert failure.stopped == "not_retryable"


@everywhere
def test_an_ordinary_error_after_a_repeat_says_so(form):
    """After retries the note says how many calls were made, and what failed before."""
    with form.world():
        notes, failure = noted(form, rb.Policy(at_once()), REFUSED, ValueError)
    assert notes == ["gave up after 2 calls in 0.0 s: the policy does not repeat it"]
    assert [earlier.code for earlier in failure.history] == ["CONN_REFUSED"]


@both
def test_no_time_remains(form):
    """The next wait would not fit."""
    with rb.testing.virtual_time():
        policy = rb.Policy(rb.Deadline(10), rb.Retry(backoff=rb.Backoff.constant(6)))
        notes, failure = noted(form, policy, always=REFUSED)
    assert notes == ["gave up after 2 calls in 6.0 s: no time left before the deadline"]
    assert failure.stopped == "deadline"


@everywhere
def test_the_budget_is_used_up(form):
    """Other calls have used up the retries."""
    with form.world():
        policy = rb.Policy(
            rb.Retry(backoff=rb.Backoff.constant(0), budget=rb.RetryBudget(ratio=0, floor=1))
        )
        notes, failure = noted(form, policy, always=REFUSED)
    assert notes == ["gave up after 2 calls in 0.0 s: retry budget used up"]
    assert failure.stopped == "budget"


@everywhere
def test_the_server_wants_more_patience(form):
    """The note has the server's wait and our limit."""
    with form.world():
        notes, failure = noted(
            form, rb.Policy(at_once()), always=http_error(429, retry_after="600")
        )
    assert notes == [
        "gave up after 1 call in 0.0 s: the server asks for 600 s, more than max_retry_after=120"
    ]
    assert failure.stopped == "retry_after"


@everywhere
def test_the_next_one_was_not_admitted(form):
    """The circuit opened in between: two calls were made, and the caller gets the last one's error, not the rejection."""
    with form.world():
        notes, failure = noted(
            form, rb.Policy(at_once(), rb.Breaker.consecutive(2)), always=REFUSED
        )
    assert notes == ["gave up after 2 calls in 0.0 s: the next one was not admitted"]
    assert (failure.code, failure.stopped) == ("CONN_REFUSED", "rejected")
    assert len(failure.history) == 1


@everywhere
def test_nested_policies_leave_one_note(form):
    """The note is that of the outermost policy, which counts all calls."""
    error = REFUSED("mine")
    with form.world():
        policy = rb.Policy(at_once(attempts=3))
        inner = policy(Server(always=error).get, idempotent=True)
        with pytest.raises(REFUSED):
            form.run(policy(form.of(inner), idempotent=True))
    assert steady(error.__notes__) == ["gave up after 3 calls in 0.0 s: attempts used up"]


@everywhere
def test_the_callers_own_notes_stay(form):
    """Notes that were there are not touched, and ours comes last."""
    error = REFUSED("mine")
    error.add_note("from the caller")
    with form.world():
        for _ in range(3):
            with pytest.raises(REFUSED):
                form.run(
                    rb.Policy(at_once(attempts=2))(
                        form.of(Server(always=error).get), idempotent=True
                    )
                )
    assert steady(error.__notes__) == [
        "from the caller",
        "gave up after 2 calls in 0.0 s: attempts used up",
    ]


@attrs.frozen
class FrozenError(Exception):
    """Takes no attribute."""

    why: str = "frozen"


class SlottedError(Exception):
    """Refuses notes."""

    def add_note(self, note):
        raise TypeError("no notes")


@everywhere
@each_row("error", [FrozenError(), SlottedError()], ids=["frozen", "refuses notes"])
def test_an_exception_that_takes_nothing_comes_out_all_the_same(form, error):
    """It is raised unchanged, without note and record."""
    with form.world():
        get = rb.Policy(at_once(attempts=2, on=type(error)))(
            form.of(Server(always=error).get), idempotent=True
        )
        with pytest.raises(type(error)) as raised:
            form.run(get)
    assert raised.value is error


def test_the_notes_are_part_of_the_printed_traceback():
    """What a person sees: the error as it is, and our line below it."""
    import traceback

    with pytest.raises(REFUSED) as raised:
        rb.Policy(at_once(attempts=2))(idempotent=True).call(Server(always=REFUSED("no route")).get)
    printed = steady(traceback.format_exception_only(raised.value))
    assert printed == [
        "ConnectionRefusedError: no route\n",
        "gave up after 2 calls in 0.0 s: attempts used up\n",
    ]


@everywhere
def test_the_report_tells_the_story(form):
    """`classify(error).explain()`: each attempt, then why it stopped."""
    with form.world():
        _, failure = noted(form, rb.Policy(at_once(attempts=3)), REFUSED, http_error(429), REFUSED)
    report = failure.explain().splitlines()
    assert "attempt 1: connection refused (TRANSPORT)" in report
    assert any(line.startswith("attempt 2: rate limited") for line in report)
    assert "stopped: attempts" in report
