"""A policy is compiled once for all its functions; what they use is theirs."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both


def operation(function):
    """What a decorated function does by its plan."""
    return function.__binding__.operation


def test_functions_of_one_policy_have_one_plan_and_a_state_each():
    """The circuit that one of them opens is not that of the other."""
    policy = rb.Policy(rb.Retry(attempts=1), rb.Breaker.consecutive(1))
    down, up = Server(always=ConnectionResetError), Server()
    failing, working = policy(down.get, idempotent=True), policy(up.get, idempotent=True)
    assert operation(failing).plan is operation(working).plan
    with pytest.raises(ConnectionResetError):
        failing()
    with pytest.raises(rb.CircuitOpenError):
        failing()
    assert working() == "ok"
    assert operation(failing).budget is not operation(working).budget
    assert operation(failing).pause is not operation(working).pause


def test_a_plan_is_for_one_kind_of_function_and_permission():
    """The kind of function, and whether it may run twice."""
    policy = rb.Policy(rb.Retry())

    async def work():
        """Do nothing."""

    plans = {
        operation(policy(len, idempotent=True)).plan,
        operation(policy(len, idempotent=False)).plan,
        operation(policy(work, idempotent=True)).plan,
    }
    assert len(plans) == 3
    assert operation(policy(max, idempotent=True)).plan in plans


@both
def test_functions_of_one_policy_do_not_use_up_each_others_attempts(form):
    """Both fail for good inside of one attempt; each is called as often as the policy says."""
    policy = rb.Policy(at_once(attempts=3))
    servers = [Server(always=ConnectionResetError) for _ in range(2)]
    steps = [policy(server.get, idempotent=True) for server in servers]

    def work():
        for step in steps:
            with pytest.raises(ConnectionResetError):
                step()

    form.run(rb.Policy(at_once(attempts=3))(form.of(work), idempotent=True))
    assert [server.calls for server in servers] == [3, 3]


def test_a_policy_is_freed_with_its_last_reference():
    """What it has compiled does not hold it."""
    gc.disable()
    try:
        policy = rb.Policy(rb.Retry(), rb.Breaker(), rb.Timeout(30))
        freed = []

        class Mark:
            def __del__(self):
                freed.append(True)

        async def work(_mark=Mark()):  # noqa: B008 -- it goes with the function
            """Do nothing."""

        protected = policy(work, idempotent=True)
        asyncio.run(protected())
        del protected, work, policy
        assert freed == [True]
    finally:
        gc.enable()


@pytest.mark.real
@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11) or sys.implementation.name != "cpython",
    reason="counted on CPython 3.11",
)
@pytest.mark.parametrize(("is_shared", "most"), [(True, 2_400), (False, 4_000)])
def test_p7_what_a_decorated_function_takes(is_shared, most):
    """With its circuit, budget and time limit, after one call."""
    many = 300

    def policy():
        breaker = rb.Breaker.consecutive(5, slow_after=10)
        retry = rb.Retry(attempts=3, on=ConnectionError, backoff=rb.Backoff.constant(0))
        return rb.Policy(retry, breaker, rb.Timeout(30))

    async def work():
        """Do nothing."""

    async def made(shared):
        functions = []
        for _ in range(many):
            functions.append((shared or policy())(work, idempotent=True))
            await functions[-1]()
        return functions

    async def measured():
        shared = policy() if is_shared else None
        await made(shared)
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            functions = await made(shared)
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return (after - before) / len(functions)

    assert asyncio.run(measured()) <= most
