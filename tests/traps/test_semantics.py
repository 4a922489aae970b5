"""Traps of semantics: functions silently unprotected, one call too many, and which error the caller gets."""

from __future__ import annotations

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere
from tests.rows import each_row


# ---- functions that only look protected ------------------------------------------------------------------------------


@everywhere
def test_tenacity_a_generator_function_is_protected(form):
    """It is retried until its first item; tenacity, backoff, redress and interlock silently do nothing."""
    calls = 0

    def items():
        nonlocal calls
        calls += 1
        if calls < 3:
            raise ConnectionRefusedError
        yield from (1, 2, 3)

    async def async_items():
        for item in items():
            yield item

    async def collected(stream):
        return [item async for item in stream()]

    stream = rb.Policy(at_once())(async_items if form.is_async else items, idempotent=True)
    with form.world():
        got = form.run(lambda: collected(stream)) if form.is_async else list(stream())
    assert got == [1, 2, 3]
    assert calls == 3


@everywhere
def test_stamina_an_item_is_never_handed_out_twice(form):
    """A stream that fails after two items is not started again: stamina replays and yields 1, 1, 1."""
    calls, got = 0, []

    def items():
        nonlocal calls
        calls += 1
        yield 1
        yield 2
        raise ConnectionRefusedError

    async def async_items():
        for item in items():
            yield item

    async def collect(stream):
        async for item in stream():
            got.append(item)  # noqa: PERF401 -- it ends in an error

    stream = rb.Policy(at_once())(async_items if form.is_async else items, idempotent=True)
    with form.world(), pytest.raises(ConnectionRefusedError):
        if form.is_async:
            form.run(lambda: collect(stream))
        else:
            got.extend(stream())
    assert calls == 1
    assert got == [1, 2]


async def test_pybreaker_7_an_async_def_opens_its_circuit():
    """10 failures of a coroutine function open it after 5; in pybreaker it stays closed for ever (pybreaker#7)."""

    @rb.Policy(rb.Breaker.consecutive(5))
    async def get():
        raise ConnectionRefusedError

    for expected in [ConnectionRefusedError] * 5 + [rb.CircuitOpenError] * 5:
        with pytest.raises(expected):
            await get()
    assert rb.calls.circuit(get).state == "open"


def test_circuitbreaker_a_with_block_does_not_run_while_open():
    """`with circuit:` rejects while it is open; in circuitbreaker the block runs, and closes it."""
    circuit = rb.calls.circuit("with block")
    with circuit:
        pass
    circuit.isolate()
    ran = False
    with pytest.raises(rb.CircuitOpenError), circuit:
        ran = True
    assert not ran
    assert circuit.state == "isolated"


# ---- how often, and how it ends --------------------------------------------------------------------------------------


@everywhere
def test_redress_a_dead_server_gets_no_more_requests_within_one_call(form):
    """Threshold 2, 4 attempts, 3 calls: 2 requests reach the dead server. redress puts the breaker outside and sends 12."""
    server = Server(always=ConnectionRefusedError)
    with form.world():
        get = rb.Policy(at_once(attempts=4), rb.Breaker.consecutive(2))(
            form.of(server.get), idempotent=True
        )
        for expected in (ConnectionRefusedError, rb.CircuitOpenError, rb.CircuitOpenError):
            with pytest.raises(expected):
                form.run(get)
    assert server.calls == 2


@both
def test_envoy_30205_the_budget_is_asked_before_the_wait(form):
    """With the budget used up there is no wait, and the call's own error is raised; failsafe-go sleeps first and replaces it."""
    server = Server(always=ConnectionRefusedError)
    budget = rb.RetryBudget(ratio=0, floor=2)
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Retry(attempts=10, backoff=rb.Backoff.constant(1), budget=budget))(
            form.of(server.get), idempotent=True
        )
        with pytest.raises(ConnectionRefusedError) as raised:
            form.run(get)
    assert server.calls == 3
    assert clock.slept == [1, 1]
    assert rb.classify(raised.value).stopped == "budget"


@everywhere
def test_hyx_attempts_counts_calls_and_the_error_is_shown(form):
    """attempts=3 makes 3 calls, and the last error itself is raised; hyx makes 4 and hides it (`__cause__` is None)."""
    error = ConnectionRefusedError("the real one")
    server = Server(always=error)
    with form.world():
        get = rb.Policy(at_once(attempts=3))(form.of(server.get), idempotent=True)
        with pytest.raises(ConnectionRefusedError) as raised:
            form.run(get)
    assert raised.value is error
    assert server.calls == 3


@everywhere
@each_row("error", [ValueError("x"), RuntimeError("x"), KeyError("x"), AssertionError()], ids=repr)
def test_redress_an_unknown_error_is_not_repeated(form, error):
    """An unknown error is permanent, so there is one call; redress retries it twice, bare tenacity for ever."""
    server = Server(always=error)
    with form.world():
        get = rb.Policy(at_once())(form.of(server.get), idempotent=True)
        with pytest.raises(type(error)):
            form.run(get)
    assert server.calls == 1


class Labelled(type):
    """A user's metaclass."""


class LabelledError(Exception, metaclass=Labelled):
    """An exception whose class has a class of its own."""


@both
def test_pybreaker_an_ignored_class_with_a_metaclass_excludes_nothing_else(form):
    """It is treated as a class; pybreaker treats it as a predicate, whose result is truthy, and ignores EVERY error."""
    server = Server(LabelledError(), LabelledError(), always=ConnectionRefusedError)
    get = rb.Policy(rb.Breaker.consecutive(2, ignore=[LabelledError]))(form.of(server.get))
    for expected in (LabelledError, LabelledError, ConnectionRefusedError):
        with pytest.raises(expected):
            form.run(get)
        assert rb.calls.circuit(get).state == "closed"
    with pytest.raises(ConnectionRefusedError):
        form.run(get)
    assert rb.calls.circuit(get).state == "open"


@everywhere
def test_interlock_nothing_loops_on_an_open_circuit(form):
    """`on=Exception` does not retry an open circuit: the call is rejected at once."""
    server = Server()
    with form.world():
        get = rb.Policy(at_once(on=Exception, attempts=9), rb.Breaker())(
            form.of(server.get), idempotent=True
        )
        rb.calls.circuit(get).isolate()
        with rb.testing.record() as recorded, pytest.raises(rb.CircuitOpenError):
            form.run(get)
    assert server.calls == 0
    assert not [event for event in recorded if isinstance(event, rb.events.RetryScheduled)]


@everywhere
def test_httpx_retries_an_answer_that_is_repeated_is_closed(form):
    """A streamed 503 is closed before a retry, or its connection would never return to the pool (0.4.4).

    The last response goes to the caller, open, and not masked by StreamConsumed.
    """
    answers = []

    def get():
        request = httpx.Request("GET", "http://127.0.0.1/")
        answers.append(httpx.Response(503, stream=httpx.ByteStream(b"busy"), request=request))
        return answers[-1]

    with form.world():
        last = form.run(rb.Policy(at_once(attempts=3))(form.of(get), idempotent=True))
    assert last is answers[2]
    assert [answer.is_closed for answer in answers] == [True, True, False]
    assert last.read() == b"busy"
