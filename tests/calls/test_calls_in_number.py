"""Nothing grows with the number of calls: no memory, no loop, no timer, no task, no chain, no note."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

import resilient_bridge as rb
from tests.calls.forms import ASYNC, SYNC, Server, at_once, both
from tests.internals.calls import CallFrame
from tests.internals.telemetry import muted


@pytest.fixture(autouse=True)
def unheard():
    """Switch logging off, because pytest stores every record."""
    with muted():
        yield


def objects_after(call, times):
    """Return how many more objects there are after that many calls."""
    for _ in range(50):
        call()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(times):
        call()
    gc.collect()
    return len(gc.get_objects()) - before


@both
@pytest.mark.parametrize("fails", [False, True])
def test_memory_does_not_grow_with_calls(form, fails):
    """After 10,000 calls that succeed and 1,000 that fail there are no more objects than before."""
    server = Server(always=ConnectionRefusedError if fails else None)
    policy = rb.Policy(
        rb.Deadline(60), at_once(), rb.Bulkhead(5), rb.Breaker(rate=1, window=100_000)
    )
    get = policy(form.of(server.get), idempotent=True)
    grown = 0

    def call():
        with suppress(ConnectionRefusedError):
            get()

    async def main():
        nonlocal grown
        grown = -len(gc.get_objects())
        for _ in range(10_000 if not fails else 1_000):
            with suppress(ConnectionRefusedError):
                await get()
        gc.collect()
        grown += len(gc.get_objects())

    if form.is_async:
        asyncio.run(main())
    else:
        grown = objects_after(call, 10_000 if not fails else 1_000)
    assert grown < 100


@both
def test_memory_does_not_grow_with_policy_call(form):
    """`policy.call` of a new function each time keeps no function alive."""
    policy = rb.Policy(at_once(), rb.Bulkhead(5), rb.Breaker())
    functions = []

    def call():
        function = form.of(lambda: "ok")
        functions.append(weakref.ref(function))
        assert form.run(policy(idempotent=True).call, function) == "ok"

    for _ in range(20):
        call()
    gc.collect()
    assert [ref() for ref in functions if ref() is not None] == []


def test_a_function_that_is_thrown_away_takes_its_state_along():
    """A circuit without a key lives as long as its function, and then disappears from `circuits()` too."""

    def made():
        @rb.Policy(rb.Retry(), rb.Breaker(), rb.Bulkhead(1))(idempotent=True)
        def short_lived():
            return "ok"

        short_lived()
        return weakref.ref(short_lived)

    ref = made()
    gc.collect()
    assert ref() is None
    assert not [name for name in rb.calls.circuits() if "short_lived" in name]


def test_no_event_loop_stays_alive():
    """A decorated function lives as long as its module; the event loops that ran it are freed, even with timers pending."""
    get = rb.Policy(rb.Deadline(3600), rb.Timeout(60))(ASYNC.of(lambda: "ok"))
    loops: list[weakref.ref] = []

    async def main():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        return await get()

    for _ in range(5):
        asyncio.run(main())
    gc.collect()
    assert sum(ref() is not None for ref in loops) <= 1  # the last one may wait for its successor


async def scheduled():
    """Return the timers that are pending on the loop."""
    return [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]


async def test_a_layer_leaves_one_timer_at_most():
    """500 calls with a Timeout and a Deadline: one timer per layer, whatever the number of calls."""
    get = rb.Policy(rb.Deadline(3600), rb.Timeout(60))(ASYNC.of(lambda: "ok"))
    before = len(await scheduled())
    for _ in range(500):
        await get()
    assert len(await scheduled()) - before <= 2


async def test_loops_of_attempts_leave_no_timer():
    """500 `async for` loops with a Deadline of an hour: no timer remains."""
    policy = rb.Policy(rb.Deadline(3600), at_once())
    before = len(await scheduled())
    for _ in range(500):
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                pass
    assert len(await scheduled()) - before <= 2


async def test_no_task_remains():
    """A call runs in the caller's task: none is made, and none remains, however it ends."""
    before = asyncio.all_tasks()
    seen = []

    async def body():
        seen.append(asyncio.all_tasks() - before)
        raise ConnectionRefusedError

    policy = rb.Policy(
        rb.Deadline(60), at_once(), rb.Bulkhead(1, queue=1), rb.RateLimit(99), rb.Timeout(5)
    )
    with suppress(ConnectionRefusedError):
        await policy(body, idempotent=True)()
    assert seen == [set()] * 4
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    "layers", [[at_once(), rb.Breaker()], [rb.Bulkhead(5)]], ids=["short way", "long way"]
)
async def test_a_call_that_starts_its_successor_leaves_no_chain(layers):
    """A poll that schedules the next one from inside the protected call, 200 times: no attempt references the previous one."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    remaining = 200

    @rb.Policy(*layers)(idempotent=True)
    async def poll():
        nonlocal remaining
        remaining -= 1
        if remaining:
            loop.call_soon(start)
        else:
            gc.collect()
            ended.set_result(sum(isinstance(thing, CallFrame) for thing in gc.get_objects()))

    def start():
        task = loop.create_task(poll())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    tasks: set[asyncio.Task] = set()
    before = sum(isinstance(thing, CallFrame) for thing in gc.get_objects())
    start()
    assert await ended - before < 10


@both
def test_the_same_exception_again_and_again_does_not_grow(form):
    """A constant exception, raised by 300 calls of 3 attempts: one note, two earlier failures, and no history within the history."""
    error = ConnectionRefusedError("constant")
    get = rb.Policy(at_once(attempts=3))(form.of(Server(always=error).get), idempotent=True)
    for _ in range(300 if not form.is_async else 30):
        with pytest.raises(ConnectionRefusedError) as raised:
            form.run(get)
        assert raised.value is error
        error.__traceback__ = None
    assert len(error.__notes__) == 1
    failure = rb.classify(error)
    assert len(failure.history) == 2
    assert [earlier.history for earlier in failure.history] == [(), ()]


def test_an_outcome_may_be_asked_again_and_again():
    """`outcome.value` raises the error each time, and its traceback does not grow."""
    outcome = rb.capture(
        rb.Policy(at_once())(
            SYNC.of(Server(always=ConnectionRefusedError("x")).get), idempotent=True
        )
    )
    depths = set()
    for _ in range(100):
        with pytest.raises(ConnectionRefusedError) as raised:
            _ = outcome.value
        depths.add(len(raised.traceback))
    assert len(depths) == 1
