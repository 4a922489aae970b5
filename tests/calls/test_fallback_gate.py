"""A Fallback is one more door to doing it again: it asks for the same permission, and it sees returned failures."""

from __future__ import annotations

from functools import partial

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both


@both
def test_a14_a_fallback_is_the_same_gate(form):
    """After a call that may have run the other way needs permission, or to be one that does no harm."""
    for options, idempotent, expected in (
        ({}, None, "raised"),
        ({}, False, "raised"),
        ({}, True, "instead"),
        ({"may_have_run": True}, None, "instead"),
    ):
        protected = rb.Policy(rb.Fallback(lambda: "instead", **options))(
            form.of(Server(always=ConnectionResetError).get), idempotent=idempotent
        )
        outcome = form.run(partial(rb.capture, protected))
        assert (outcome.value if outcome.ok else "raised") == expected
        if not outcome.ok:
            assert any("may_have_run" in note for note in outcome.error.__notes__)


@both
def test_a14_of_several_rungs_those_that_do_no_harm_are_tried(form):
    """A cache may be asked, the other mail server may not."""
    asked = []

    def other():
        asked.append("other")

    def cache():
        asked.append("cache")
        return "old"

    protected = rb.Policy(rb.Fallback(other, cache, may_have_run=[cache]))(
        form.of(Server(always=ConnectionResetError).get)
    )
    assert form.run(protected) == "old"
    assert asked == ["cache"]


@both
def test_what_our_own_layer_refused_is_replaced_without_a_word(form):
    """Nothing was called: the rung does it for the first time."""
    circuit = rb.Breaker.consecutive(1)
    protected = rb.Policy(rb.Fallback(lambda: "instead"), circuit)(
        form.of(Server(always=ConnectionResetError).get)
    )
    assert not form.run(partial(rb.capture, protected)).ok
    assert form.run(protected) == "instead"


@both
def test_e06_a_returned_failure_is_replaced_like_a_raised_one(form):
    """A 503 that was returned, and a result that was never accepted."""
    down, up = httpx.Response(503), httpx.Response(200)
    policy = rb.Policy(rb.Fallback(lambda: up), at_once(attempts=2), rb.Breaker.consecutive(9))
    assert form.run(policy(form.of(lambda: down), idempotent=True)) is up
    poll = rb.Policy(
        rb.Fallback(lambda: "old"), at_once(attempts=2, on_result=lambda value: value is None)
    )
    assert form.run(poll(form.of(lambda: None), idempotent=True)) == "old"


@both
def test_e06_a_result_that_was_never_accepted_is_no_success(form):
    """`capture` tells it as the failure that the log tells it as."""
    policy = rb.Policy(at_once(attempts=2, on_result=lambda value: value is None))
    outcome = form.run(partial(rb.capture, policy(form.of(lambda: None), idempotent=True)))
    assert (outcome.ok, outcome.attempts, outcome.failure.code) == (False, 2, "SYS_RESULT_REJECTED")
    assert outcome.value is None


@both
def test_e07_an_acknowledge_that_raises_does_not_lose_the_failure(form):
    """V4 "never silently", S9 "no wrapped-away error": the caller's own error comes out, with a note."""

    def boom(_):
        raise RuntimeError("board down")

    protected = rb.Policy(rb.Fallback(lambda: 1, acknowledge=boom, may_have_run=True))(
        form.of(Server(always=ConnectionRefusedError).get)
    )
    outcome = form.run(partial(rb.capture, protected))
    assert type(outcome.error) is ConnectionRefusedError
    assert outcome.error.__notes__ == ["not replaced: acknowledge raised RuntimeError: board down"]


@both
def test_e06_when_a_rung_for_an_answer_raises_it_is_not_called_again(form):
    """The last rung's error is the end, and the ladder is climbed once."""
    rungs = []

    def rung():
        rungs.append(1)
        raise LookupError

    protected = rb.Policy(rb.Fallback(rung), at_once(attempts=1))(
        form.of(lambda: httpx.Response(503)), idempotent=True
    )
    with pytest.raises(LookupError):
        form.run(protected)
    assert rungs == [1]
