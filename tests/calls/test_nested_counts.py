"""Nested retries neither multiply nor vanish: the innermost policy retries, and the others count its attempts."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere
from tests.rows import each_row


class OwnError(Exception):
    """An exception of the user's."""


@everywhere
@each_row(
    ("inner", "outer", "calls"), [(3, 4, 4), (4, 3, 4), (6, 2, 6), (2, 6, 6), (3, 3, 3), (1, 4, 4)]
)
def test_e01_nested_retries_neither_multiply_nor_vanish(form, inner, outer, calls):
    """The number of calls is the largest number of attempts in the chain."""
    server = Server(always=ConnectionResetError)
    with form.world():
        step = rb.Policy(at_once(attempts=inner))(server.get, idempotent=True)
        with pytest.raises(ConnectionResetError):
            form.run(rb.Policy(at_once(attempts=outer))(form.of(lambda: step()), idempotent=True))  # noqa: PLW0108
    assert server.calls == calls


@both
@pytest.mark.parametrize("way", ["handled", "translated"])
def test_e01_an_inner_failure_that_does_not_come_out_is_repeated_inside(form, way):
    """A function handles or translates the error, so only the inner policy sees the failure to retry."""
    server = Server(ConnectionResetError, ConnectionResetError)
    step = rb.Policy(at_once())(server.get, idempotent=True)

    def fetch():
        try:
            return step()
        except ConnectionResetError as error:
            if way == "handled":
                return "unavailable"
            raise OwnError from error

    assert form.run(rb.Policy(at_once())(form.of(fetch), idempotent=True)) == "ok"
    assert server.calls == 3


@both
def test_e01_operations_inside_one_call_do_not_use_up_each_others_attempts(form):
    """Five steps that each fail once, of five functions and of the same one."""
    for servers in ([Server(ConnectionResetError) for _ in range(5)], None):
        if servers is None:
            one = Server(*[ConnectionResetError, None] * 5)
            step = rb.Policy(at_once())(one.get, idempotent=True)
            steps = [step] * 5
        else:
            steps = [rb.Policy(at_once())(server.get, idempotent=True) for server in servers]

        def work(steps=steps):
            return [step() for step in steps]

        assert form.run(rb.Policy(at_once())(form.of(work), idempotent=True)) == ["ok"] * 5


async def test_e01_the_same_in_parallel_and_in_threads():
    """The count belongs to the chain of calls, not to the task or the thread."""
    servers = [Server(ConnectionResetError) for _ in range(5)]
    steps = [rb.Policy(at_once())(server.get, idempotent=True) for server in servers]

    @rb.Policy(at_once())(idempotent=True)
    async def work():
        return await asyncio.gather(*(asyncio.to_thread(step) for step in steps))

    assert await work() == ["ok"] * 5
    server = Server(always=ConnectionResetError)
    step = rb.Policy(at_once(attempts=3))(server.get, idempotent=True)

    @rb.Policy(at_once(attempts=4))(idempotent=True)
    async def threaded():
        return await asyncio.to_thread(step)

    with pytest.raises(ConnectionResetError):
        await threaded()
    assert server.calls == 4


@both
def test_e01_the_next_call_of_a_function_that_finally_failed_inside_is_not_retried(form):
    """The count is per operation and chain: a hand-written loop around a protected call does not multiply it."""
    server = Server(always=ConnectionResetError)
    step = rb.Policy(at_once(attempts=4))(server.get, idempotent=True)

    def loop():
        for _ in range(3):
            outcome = rb.capture(step)
        return outcome.failure.code

    assert form.run(rb.Policy(at_once(attempts=4))(form.of(loop), idempotent=True)) == "CONN_RESET"
    assert server.calls == 6  # 4, then one call each
