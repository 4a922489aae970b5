"""Fallbacks after a final failure: tried in order, reported as events, and confirmed by `acknowledge` if it is set."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, settle
from tests.rows import each_row


REFUSED = ConnectionRefusedError


def rung(answer, calls=None):
    """A rung that returns `answer`, or raises it if it is an error."""

    def call(*args, **kwargs):
        if calls is not None:
            calls.append((args, kwargs))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return call


@everywhere
def test_the_rungs_are_tried_in_order_with_the_arguments_of_the_call(form):
    """Rungs run after the last attempt; the first that succeeds ends the call."""
    server, calls = Server(always=REFUSED), []
    with form.world(), rb.testing.record() as recorded:
        policy = rb.Policy(
            rb.Fallback(
                rung(LookupError("empty"), calls), rung("second", calls), rung("third", calls)
            ),
            at_once(attempts=3),
            name="models",
        )
        get = policy(form.of(lambda *_, **__: server.get()), idempotent=True)
        assert form.run(get, 1, model="large") == "second"
    assert server.calls == 3
    assert calls == [((1,), {"model": "large"})] * 2
    fell = [event for event in recorded if isinstance(event, rb.events.FellBack)]
    assert [(event.name, event.rung, event.failure.code) for event in fell] == [
        ("models", 1, "CONN_REFUSED"),
        ("models", 2, "CONN_REFUSED"),
    ]


@everywhere
def test_a_success_needs_none(form):
    """After a success, also after a retry, no rung is called and no event is emitted."""
    calls = []
    with form.world(), rb.testing.record() as recorded:
        get = rb.Policy(rb.Fallback(rung("other", calls)), at_once())(
            form.of(Server(REFUSED).get), idempotent=True
        )
        assert form.run(get) == "ok"
    assert calls == []
    assert not [event for event in recorded if isinstance(event, rb.events.FellBack)]


@everywhere
def test_the_last_rungs_error_is_raised(form):
    """It has the earlier error as its context, so that nothing is hidden."""
    last = LookupError("last")
    with form.world():
        get = rb.Policy(rb.Fallback(rung(KeyError("first")), rung(last)), at_once())(
            form.of(Server(always=REFUSED).get), idempotent=True
        )
        with pytest.raises(LookupError) as raised:
            form.run(get)
    assert raised.value is last
    chain, error = [], raised.value
    while error is not None:
        chain.append(type(error))
        error = error.__context__
    assert REFUSED in chain


@everywhere
@each_row(
    ("error", "falls"),
    [(REFUSED("x"), True), (ValueError("x"), False), (ConnectionResetError("x"), True)],
    ids=repr,
)
def test_on_says_for_which_failures(form, error, falls):
    """A failure that `on` does not name is raised unchanged."""
    with form.world():
        policy = rb.Policy(rb.Fallback(rung("other"), on=rb.Category.TRANSPORT), at_once())
        get = policy(form.of(Server(always=error).get), idempotent=True)
        if falls:
            assert form.run(get) == "other"
        else:
            with pytest.raises(ValueError) as raised:
                form.run(get)
            assert raised.value is error


@everywhere
@each_row("yes", [True, False])
def test_the_switch_is_asked_for(form, yes):
    """`acknowledge` gets the failure once, before the first rung; if it returns False the call's own error is raised (V4)."""
    asked = []

    def acknowledge(failure):
        asked.append((failure.code, len(failure.history), failure.stopped))
        return yes

    error = REFUSED("mine")
    with form.world():
        policy = rb.Policy(
            rb.Fallback(rung(KeyError()), rung("other"), acknowledge=acknowledge),
            at_once(attempts=2),
        )
        get = policy(form.of(Server(always=error).get), idempotent=True)
        if yes:
            assert form.run(get) == "other"
        else:
            with pytest.raises(REFUSED) as raised:
                form.run(get)
            assert raised.value is error
    assert asked == [("CONN_REFUSED", 1, "attempts")]


async def test_an_async_function_may_have_async_rungs_and_ask_async():
    """On an async function rungs and `acknowledge` may be sync or async."""

    async def ask(failure):
        await asyncio.sleep(0)
        return failure.code == "CONN_REFUSED"

    async def other(value):
        await asyncio.sleep(0)
        return value * 2

    @rb.Policy(rb.Fallback(rung(KeyError()), other, acknowledge=ask), at_once())(idempotent=True)
    async def get(value):
        raise REFUSED

    assert await get(4) == 8


async def later(*_):
    """Async."""
    return True


@pytest.mark.parametrize("what", ["rung", "acknowledge"])
@pytest.mark.parametrize("virtual", [False, True])
def test_a_sync_function_cannot_wait_for_async_ones(what, virtual):
    """An async rung or an async `acknowledge` on a sync function is refused, and not taken as true."""
    fallback = (
        rb.Fallback(later) if what == "rung" else rb.Fallback(rung("other"), acknowledge=later)
    )
    with rb.testing.virtual_time() if virtual else rb.testing.record():
        get = rb.Policy(fallback, at_once())(Server(always=REFUSED).get, idempotent=True)
        with pytest.raises(rb.ConfigError, match="async"):
            get()


@everywhere
def test_what_is_no_failure_does_not_fall_back(form):
    """Ctrl-C, SystemExit and cancellation do not fall back."""
    calls = []
    for error in (KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError()):
        with form.world():
            get = rb.Policy(rb.Fallback(rung("other", calls)), at_once())(
                form.of(Server(always=error).get), idempotent=True
            )
            with pytest.raises(type(error)):
                form.run(get)
    assert calls == []


@both
def test_rejections_fall_back(form):
    """An open circuit, a full bulkhead and a used-up rate limit fall back."""
    policy = rb.Policy(
        rb.Fallback(rung("cached")), at_once(on=()), rb.RateLimit(1, per=3600), rb.Breaker()
    )
    get = policy(form.of(Server().get), idempotent=True)
    assert [form.run(get) for _ in range(2)] == ["ok", "cached"]
    rb.calls.circuit(get).isolate()
    assert form.run(get) == "cached"


@everywhere
def test_without_a_retry(form):
    """A Fallback may stand alone, or around a Breaker."""
    with form.world():
        for layers in ([], [rb.Breaker()]):
            fallback = rb.Fallback(rung("other"), may_have_run=True)
            get = rb.Policy(fallback, *layers)(form.of(Server(always=ValueError).get))
            assert form.run(get) == "other"


async def test_a_deadline_around_bounds_the_rungs_too():
    """A Deadline outside the Fallback bounds everything; one inside does not bound the rungs."""

    async def hang(*_):
        await asyncio.get_running_loop().create_future()

    with rb.testing.virtual_time() as clock:
        around = asyncio.create_task(
            rb.Policy(rb.Deadline(10), rb.Fallback(hang, may_have_run=True), rb.Breaker()).call(
                hang
            )
        )
        failing = asyncio.create_task(
            rb.Policy(rb.Deadline(10), rb.Fallback(hang, may_have_run=True)).call(later_refused)
        )
        inside = asyncio.create_task(
            rb.Policy(rb.Fallback(rung("other"), may_have_run=True), rb.Deadline(10)).call(hang)
        )
        await settle()
        clock.advance(10)
        assert await inside == "other"
        for task in (around, failing):
            with pytest.raises(rb.DeadlineExceededError):
                await task


async def later_refused():
    """Fails at once."""
    raise REFUSED


@everywhere
def test_a_rung_may_be_protected_itself(form):
    """It retries by its own policy, because the call that it replaces is over."""
    server = Server(REFUSED, REFUSED)
    with form.world():
        spare = rb.Policy(at_once(attempts=3))(form.of(server.get), idempotent=True)
        get = rb.Policy(rb.Fallback(spare), at_once(attempts=2))(
            form.of(Server(always=REFUSED).get), idempotent=True
        )
        assert form.run(get) == "ok"
    assert server.calls == 3


async def test_a_transient_failure_falls_back_after_its_last_attempt():
    """`on=Kind.TRANSIENT` with a Retry inside: the failure is permanent after the last attempt, but was transient."""
    calls = []

    async def other(*_):
        return "from the other"

    @rb.Policy(rb.Fallback(other, on=rb.Kind.TRANSIENT), rb.Retry(attempts=2))(idempotent=True)
    async def call(error):
        calls.append(1)
        raise error

    with rb.testing.virtual_time():
        assert await call(ConnectionRefusedError(111, "refused")) == "from the other"
        assert len(calls) == 2
        with pytest.raises(ValueError, match="wrong"):
            await call(ValueError("wrong"))
