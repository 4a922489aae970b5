"""Async conditions are awaited if the call is async, and refused if it is not."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once


class OwnError(Exception):
    """An exception of the user's."""


async def no(*_):
    """An async condition that says no."""
    await asyncio.sleep(0)
    return False


async def yes(*_):
    """An async condition that says yes."""
    await asyncio.sleep(0)
    return True


class Asks:
    """A callable object whose call is async."""

    def __init__(self, says):
        self.says = says

    async def __call__(self, *_):
        return self.says


CONDITIONS = {
    "async function": (no, yes),
    "object": (Asks(says=False), Asks(says=True)),
    "partial": (partial(no), partial(yes)),
    "a function that returns a coroutine": (lambda *_: no(), lambda *_: yes()),
}
each_condition = pytest.mark.parametrize("says", CONDITIONS.values(), ids=CONDITIONS)


@each_condition
async def test_a07_conditions_of_a_retry_are_awaited(says):
    """In `on=`, as the key of a rule, and about results."""
    refuses, allows = says
    for condition, calls in ((refuses, 1), (allows, 3)):
        for where in (
            {"on": condition},
            {"on": "CONN_REFUSED", "rules": {condition: rb.Rule(attempts=3)}},
        ):
            server = Server(always=OwnError)

            async def ask(server=server):
                return server.get()

            with pytest.raises(OwnError):
                await rb.Policy(at_once(attempts=3, **where))(ask, idempotent=True)()
            assert server.calls == calls, where
        server = Server()

        async def answer(server=server):
            return server.get()

        await rb.Policy(at_once(attempts=3, on_result=condition))(answer, idempotent=True)()
        assert server.calls == calls


@each_condition
async def test_a07_conditions_of_a_breaker_and_a_fallback_are_awaited(says):
    """`ignore=`, `on=` and the Fallback's `on=`."""
    refuses, allows = says
    for condition, state in ((refuses, "open"), (allows, "closed")):
        protected = rb.Policy(rb.Breaker.consecutive(1, ignore=condition))(_reset)
        with pytest.raises(ConnectionResetError):
            await protected()
        assert rb.calls.circuit(protected).state == state
    for condition, works in ((refuses, False), (allows, True)):
        protected = rb.Policy(rb.Fallback(lambda: "instead", on=condition, may_have_run=True))(
            _reset
        )
        outcome = await rb.capture(protected)
        assert outcome.ok is works


async def _reset():
    raise ConnectionResetError


async def test_a07_tenacitys_own_async_conditions_are_awaited():
    """`tenacity.asyncio.retry_if_exception` and its kin."""
    theirs = pytest.importorskip("tenacity.asyncio", reason="came with tenacity 8.5")
    retry_if_exception, retry_if_result = theirs.retry_if_exception, theirs.retry_if_result

    for condition, calls in ((no, 1), (yes, 3)):
        server = Server(always=OwnError)

        async def ask(server=server):
            return server.get()

        with pytest.raises(OwnError):
            await rb.Policy(at_once(attempts=3, on=retry_if_exception(condition)))(
                ask, idempotent=True
            )()
        assert server.calls == calls
        server = Server()

        async def answer(server=server):
            return server.get()

        await rb.Policy(at_once(attempts=3, on=retry_if_result(condition)))(
            answer, idempotent=True
        )()
        assert server.calls == calls


@pytest.mark.parametrize(
    "layer",
    [
        rb.Retry(on=no),
        rb.Retry(on_result=no),
        rb.Retry(rules={no: rb.Rule()}),
        rb.Breaker(ignore=no),
    ],
    ids=["on", "on_result", "rules", "ignore"],
)
def test_a07_an_async_condition_is_refused_on_a_sync_function(layer):
    """It is refused at decoration; and in blocks, which cannot await at their end."""
    with pytest.raises(rb.ConfigError, match="no async function"):
        rb.Policy(layer)(lambda: 1, idempotent=True)
    with pytest.raises(rb.ConfigError, match="no async function"):
        list(rb.Policy(layer).attempts(idempotent=True))


def test_a07_an_awaitable_answer_is_refused_on_a_sync_function():
    """A plain function may return a coroutine, which is known only after the call: the answer is refused, not taken as true."""
    server = Server(always=OwnError)
    with pytest.raises(rb.ConfigError, match="awaited in async calls alone"):
        rb.Policy(at_once(on=lambda _: no()))(server.get, idempotent=True)()
    assert server.calls == 1


def test_a07_an_async_schedule_is_refused():
    """A schedule is never awaited."""
    with pytest.raises(rb.ConfigError, match="no async function"):
        rb.Retry(backoff=no)
