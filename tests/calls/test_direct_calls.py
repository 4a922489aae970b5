"""C08: `policy.call(f)` and `policy.attempts()` are compiled once, as a decorated function is, and leave nothing for the garbage collector."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import sys
import threading
import weakref
from unittest.mock import Mock

import pytest

import resilient_bridge as rb
from tests.calls.forms import at_once, both
from tests.internals.calls import BUDGETS, CallFrame, Plan, bound, deadline_passed


class Lost(Exception):  # noqa: N818 -- as a user would call it
    """What the calls here fail with."""


def fails():
    raise Lost


async def fails_async():
    raise Lost


def works(value=1):
    return value


async def works_async(value=1):
    return value


POLICY = rb.Policy(at_once(attempts=2, on=Lost), rb.Breaker.consecutive(10**6))


def attempts(times):
    """A loop whose block fails so often."""
    for number, attempt in enumerate(POLICY.attempts(idempotent=True)):
        with attempt:
            if number < times:
                raise Lost


async def attempts_async(times):
    """As above, async."""
    number = 0
    async for attempt in POLICY.attempts(idempotent=True):
        with attempt:
            number += 1
            if number <= times:
                raise Lost


def stops_early():
    """A loop that is left after a failure that is repeated."""
    for attempt in POLICY.attempts(idempotent=True):
        with attempt:
            raise Lost
        break


SYNC = {
    "call that works": lambda: POLICY(idempotent=True).call(works),
    "call that fails": lambda: POLICY(idempotent=True).call(fails),
    "decorated": POLICY(fails, idempotent=True),
    "loop that works": lambda: attempts(0),
    "loop that recovers": lambda: attempts(1),
    "loop that fails": lambda: attempts(9),
    "loop that stops early": stops_early,
}
ASYNC = {
    "async call that works": lambda: POLICY(idempotent=True).call(works_async),
    "async call that fails": lambda: POLICY(idempotent=True).call(fails_async),
    "async loop that works": lambda: attempts_async(0),
    "async loop that recovers": lambda: attempts_async(1),
    "async loop that fails": lambda: attempts_async(9),
}


def garbage_of(act):
    """The classes of ours that only the garbage collector would free after `act`."""
    act()  # what is made once is made
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        act()
        gc.collect()
        modules = {type(one).__module__.partition(".")[0]: type(one).__name__ for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    return {
        name: kind for name, kind in modules.items() if name in ("resilient_bridge", "tenacity")
    }


@pytest.mark.parametrize("kind", SYNC)
def test_c08_the_garbage_collector_finds_nothing(kind):
    """Plan, attempts, loop and tenacity's controller are freed with their last reference."""

    def act():
        with contextlib.suppress(Lost):
            SYNC[kind]()

    assert garbage_of(act) == {}


@pytest.mark.parametrize("kind", ASYNC)
def test_c08_the_garbage_collector_finds_nothing_of_a_task(kind):
    """As above, in a task."""
    loop = asyncio.new_event_loop()

    async def main():
        with contextlib.suppress(Lost):
            await ASYNC[kind]()
        await asyncio.sleep(0)  # asyncio closes the loop's generator in a task of its own
        await asyncio.sleep(0)

    try:
        assert garbage_of(lambda: loop.run_until_complete(main())) == {}
    finally:
        loop.close()


def test_c08_neither_the_policy_nor_the_function_is_held():
    """What was compiled for them holds neither, and is freed with the policy."""
    policy = rb.Policy(at_once(), rb.Breaker())

    def function():
        return 1

    assert policy(idempotent=True).call(function) == 1
    for attempt in policy.attempts(idempotent=True):
        with attempt:
            pass
    gc.collect()
    gc.disable()
    try:
        held = weakref.ref(policy.own_states()), weakref.ref(function)
        del policy, function, attempt
        assert [one() for one in held] == [None, None]
    finally:
        gc.enable()


@pytest.fixture
def plans(monkeypatch):
    """The plans that are made."""
    made, make = [], Plan.__init__

    def init(self, *args, **kwargs):
        made.append(self)
        make(self, *args, **kwargs)

    monkeypatch.setattr(Plan, "__init__", init)
    return made


@both
def test_c08_calls_and_loops_are_compiled_once(form, plans):
    """One plan for a function, however often it is called, and one for each place of a loop."""
    policy = rb.Policy(at_once(), rb.Breaker())
    function = works_async if form.is_async else works
    for value in range(3):
        assert form.run(policy(idempotent=True).call, function, value) == value
        assert form.run(policy(idempotent=True).call, functools.partial(function, value)) == value
    assert len(plans) == 1  # a partial object has the name of its function
    for _ in range(3):
        for attempt in policy.attempts(idempotent=True):
            with attempt:
                pass
    assert len(plans) == 2


def test_p20_a_call_makes_few_calls_of_ours():
    """Those of a decorated function, four of its own, and the object that `policy(idempotent=True)` is."""
    protected, direct = POLICY(works, idempotent=True), POLICY(idempotent=True)
    POLICY(idempotent=True).call(works)

    def calls_of(act):
        count = 0

        def profile(frame, event, _):
            nonlocal count
            count += event == "call" and "resilient_bridge" in frame.f_code.co_filename

        sys.setprofile(profile)
        try:
            act()
        finally:
            sys.setprofile(None)
        return count

    alone = calls_of(protected)
    assert calls_of(lambda: direct.call(works)) <= alone + 4
    assert calls_of(lambda: POLICY(idempotent=True).call(works)) <= alone + 7


@both
def test_c08_one_policy_calls_functions_of_every_kind_and_name(form):
    """What one has compiled is not used for another: a name of its own in events, its own kind, its own arguments."""
    policy = rb.Policy(at_once(attempts=2, on=Lost))
    wrapped = functools.wraps(works)(lambda *args: functools.reduce(max, args))
    with rb.testing.record() as reported:
        for function in (fails, fails_async) if form.is_async else (fails,):
            with pytest.raises(Lost):
                form.run(policy(idempotent=True).call, function)
        assert policy(idempotent=True).call(works, value=7) == 7
        assert policy(idempotent=True).call(wrapped, 3, 9) == 9
        assert list(policy(idempotent=True).call(lambda: (n for n in (1, 2)))) == [1, 2]
    names = {
        event.name.rpartition(".")[2] for event in reported if isinstance(event, rb.events.GaveUp)
    }
    assert names == ({"fails", "fails_async"} if form.is_async else {"fails"})


def test_c08_policies_that_share_their_state_keep_their_own_numbers():
    """`replace` shares the circuit; each policy repeats as it says, in turn."""
    two = rb.Policy(at_once(attempts=2, on=Lost))
    three = two.replace(at_once(attempts=3, on=Lost))
    calls = []

    def count():
        calls.append(1)
        raise Lost

    for policy, expected in ((two, 2), (three, 3), (two, 2)):
        calls.clear()
        with pytest.raises(Lost):
            policy(idempotent=True).call(count)
        assert len(calls) == expected


def test_c08_a_script_is_injected_into_calls_that_were_compiled_before():
    """`inject(policy)` reaches `policy.call` and a policy of equal value."""
    policy = rb.Policy(at_once())
    assert policy(idempotent=True).call(works) == 1
    with rb.testing.virtual_time(), rb.testing.inject(policy, ConnectionResetError) as script:
        assert policy(idempotent=True).call(works) == 1
    assert script.calls == 2


def test_c08_a_fallback_gets_the_arguments_of_the_call():
    """Not those of what was compiled."""
    policy = rb.Policy(
        rb.Fallback(lambda *args, **kwargs: (args, kwargs)), at_once(attempts=1, on=Lost)
    )

    def ask(*args, **kwargs):
        raise Lost

    assert policy(idempotent=True).call(ask, 1, b=2) == ((1,), {"b": 2})


def test_c08_an_awaitable_of_a_sync_function_is_refused_by_its_name():
    """Also if it was compiled before."""
    policy = rb.Policy(rb.Breaker())

    def forgets():
        return works_async()

    for _ in range(2):
        with pytest.raises(rb.ConfigError, match="forgets"):
            policy.call(forgets)


# ---- deadlines and budgets ------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.parametrize("is_inherited", [False, True])
def test_c08_a_deadline_that_cuts_a_thread_is_named_with_all_of_its_seconds(is_inherited):
    """Not with what was left of it for the attempt, nor if the call around has set it."""
    in_thread = rb.Timeout(5, thread=True)
    is_over = threading.Event()
    inner = rb.Policy(in_thread) if is_inherited else rb.Policy(rb.Deadline(0.3), in_thread)

    def work():
        return inner.call(is_over.wait, 20)

    ask = rb.Policy(rb.Deadline(0.3)).call if is_inherited else (lambda function: function())
    try:
        with pytest.raises(rb.DeadlineExceededError, match=r"deadline of 0\.3 s exceeded"):
            ask(work)
    finally:
        is_over.set()


@pytest.mark.parametrize("is_inherited", [False, True])
def test_c08_its_seconds_are_counted_from_where_it_began(is_inherited):
    """A call begins before its layers, which on a busy machine may be a while."""
    first = CallFrame()
    first.operation = first.outer = first.deadline_at = None
    first.started = 0.0
    first.world = Mock(monotonic=Mock(return_value=0.25))
    bound(first, 2)
    attempt = CallFrame()  # the second of the call, or of a call inside
    attempt.started, attempt.deadline_at = 1.0, first.deadline_at
    attempt.operation, attempt.outer = Mock(), first
    attempt.first = None if is_inherited else first
    assert "deadline of 2 s exceeded" in str(deadline_passed(attempt))


@both
@pytest.mark.parametrize("more", [(), (rb.Bulkhead(5),)], ids=["short", "with a bulkhead"])
@pytest.mark.parametrize("door", ["decorated", "call", "attempts"])
def test_c08_a_rejected_call_earns_no_repeats(form, door, more):
    """Whatever layers there are: calls that an open circuit rejected are no load that repeats may be a share of."""
    budget = rb.RetryBudget(ratio=1, floor=0, key=f"c08 {form} {door} {len(more)}")
    policy = rb.Policy(rb.Retry(budget=budget), rb.Breaker.consecutive(1, open_for=1000), *more)

    async def loop_async():
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                raise ConnectionResetError

    def loop():
        for attempt in policy.attempts(idempotent=True):
            with attempt:
                raise ConnectionResetError

    def reset():
        raise ConnectionResetError

    async def reset_async():
        raise ConnectionResetError

    function = reset_async if form.is_async else reset
    calls = {
        "decorated": policy(function, idempotent=True),
        "call": lambda: policy(idempotent=True).call(function),
        "attempts": loop_async if form.is_async else loop,
    }
    with rb.testing.virtual_time() as clock:
        for _ in range(5):
            with pytest.raises((ConnectionResetError, rb.CircuitOpenError)):
                form.run(calls[door])
        state = BUDGETS.find(budget.key)
        assert round(state.remaining(clock.now)) == 1
