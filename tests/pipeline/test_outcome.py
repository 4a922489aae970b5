"""Errors as data: what `capture` returns, for whatever it calls."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

import resilient_bridge as rb
from tests.pipeline.forms import Server, at_once, both, everywhere, settle


REFUSED = ConnectionRefusedError


@everywhere
def test_a_success(form):
    """The value, one call, no failure; for a function without any policy, too."""
    with form.world():
        for get in (form.of(lambda x: x * 2), rb.Policy(at_once())(form.of(lambda x: x * 2))):
            outcome = form.run(rb.capture, get, 4)
            assert (outcome.value, outcome.failure, outcome.attempts) == (8, None, 1)
            assert outcome.seconds >= 0
            assert json.loads(outcome.to_llm()) == {"ok": True, "result": 8}


@everywhere
def test_a_failure(form):
    """Its Failure, with why it stopped and the history; `.value` raises the very error."""
    error = REFUSED("mine")
    with form.world():
        get = rb.Policy(at_once(attempts=3))(form.of(Server(always=error).get))
        outcome = form.run(rb.capture, get)
    assert outcome.attempts == 3
    assert (outcome.failure.code, outcome.failure.stopped) == ("CONN_REFUSED", "attempts")
    assert len(outcome.failure.history) == 2
    with pytest.raises(REFUSED) as raised:
        _ = outcome.value
    assert raised.value is error
    assert json.loads(outcome.to_llm())["recoverable"] is True
    assert "connection refused" in repr(outcome)
    assert "3 calls" in repr(outcome)


@everywhere
def test_a_late_success_says_how_many_calls_it_took(form):
    """Two failures and a success are three calls."""
    with form.world():
        outcome = form.run(rb.capture, rb.Policy(at_once())(form.of(Server(REFUSED, REFUSED).get)))
    assert (outcome.value, outcome.attempts) == ("ok", 3)


@everywhere
def test_what_was_never_called_took_no_call(form):
    """Rejected by an open circuit: no attempt was made."""
    with form.world():
        get = rb.Policy(at_once(), rb.Breaker())(form.of(Server().get))
        rb.circuit(get).isolate()
        outcome = form.run(rb.capture, get)
    assert outcome.failure.code == "SYS_CIRCUIT_OPEN"
    assert outcome.attempts == 0


@both
def test_a_returned_failure_is_both(form):
    """A 503 that is returned: the value is there, and the failure it stands for."""
    answer = httpx.Response(503)
    outcome = form.run(rb.capture, rb.Policy(at_once())(form.of(lambda: answer)))
    assert outcome.value is answer
    assert outcome.failure.code == "SYS_UNAVAILABLE"


@both
def test_seconds_are_those_of_the_policies(form):
    """Waits in virtual time count."""
    with rb.testing.virtual_time():
        get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(7)))(form.of(Server(REFUSED).get))
        outcome = form.run(rb.capture, get)
    assert outcome.seconds == pytest.approx(7)


@both
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(2), asyncio.CancelledError()], ids=repr)
def test_what_is_no_failure_passes_through(form, error):
    """The end of the program, or of the task, is not data."""
    with pytest.raises(type(error)):
        form.run(rb.capture, rb.Policy(at_once())(form.of(Server(always=error).get)))


async def test_cancellation_passes_through():
    """A task that is cancelled inside of `capture` is cancelled."""

    async def hang():
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(rb.capture(rb.Policy(at_once())(hang)))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@everywhere
def test_capture_is_invisible_to_what_it_calls(form):
    """Inside of a protected call it changes neither the deadline nor whose repeats count."""
    server, seen = Server(always=REFUSED), []

    with form.world():
        inner = rb.Policy(at_once(attempts=3))(server.get)

        def body():
            outcome = rb.capture(inner)
            seen.append((outcome.attempts, rb.current_attempt().remaining <= 60))
            return outcome.value

        with pytest.raises(REFUSED):
            form.run(rb.Policy(rb.Deadline(60), at_once(attempts=2))(form.of(body)))
    assert seen == [(1, True)] * 2
    assert server.calls == 2


async def test_outcomes_of_calls_side_by_side_do_not_mix():
    """Ten captures at once, each with the number of its own calls."""

    @rb.Policy(at_once(attempts=20))
    async def get(fails):
        await asyncio.sleep(0)
        if rb.current_attempt().number <= fails:
            raise REFUSED
        return fails

    outcomes = await asyncio.gather(*(rb.capture(get, fails) for fails in range(10)))
    assert [outcome.attempts for outcome in outcomes] == list(range(1, 11))
