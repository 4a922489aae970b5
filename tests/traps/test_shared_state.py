"""Traps of state that is shared by accident: between calls, tests, tasks, loops, threads and functions of one name."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from contextvars import ContextVar

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, settle
from tests.internals.telemetry import name_in_words


async def test_hyx_concurrent_calls_have_a_schedule_each():
    """Two calls of one function fail alternately: each waits 1, 2, 4. In hyx they share an iterator and wait 1, 1, 2, 3, 4, 5."""
    waits: dict[str, list[float]] = {"a": [], "b": []}

    @rb.Policy(at_once(backoff=rb.Backoff.exponential(1, jitter="none")))(idempotent=True)
    async def get(name):
        await asyncio.sleep(0)
        raise ConnectionRefusedError(name)

    with rb.testing.virtual_time(), rb.testing.record() as recorded:
        await asyncio.gather(get("a"), get("b"), return_exceptions=True)
    for event in recorded:
        if isinstance(event, rb.events.RetryScheduled):
            waits[str(event.failure.cause)].append(event.wait)
    assert waits == {"a": [1, 2, 4], "b": [1, 2, 4]}


async def test_tenacity_statistics_of_concurrent_calls_do_not_mix():
    """Each call's error has only its own attempts; tenacity's `.statistics` is shared by concurrent calls."""

    @rb.Policy(at_once(attempts=3))(idempotent=True)
    async def get(name):
        number = rb.current_attempt().number
        await asyncio.sleep(0)
        raise ConnectionRefusedError(f"{name}{number}")

    errors = await asyncio.gather(get("a"), get("b"), return_exceptions=True)
    for name, error in zip("ab", errors, strict=True):
        assert [str(earlier.cause) for earlier in rb.classify(error).history] == [
            f"{name}1",
            f"{name}2",
        ]
        assert str(error) == f"{name}3"


def test_stamina_test_mode_holds_for_its_own_context_only():
    """Virtual time, injection and `disabled` do not reach another thread; stamina's switch and Polly v7's clock (Polly#2041) are
    the process's, and break tests that run side by side.
    """
    server = Server()
    get = rb.Policy(rb.Breaker.consecutive(1))(server.get)
    outcomes = []

    def elsewhere():
        outcomes.append(get())
        outcomes.append(rb.calls.circuit(get).state)

    with rb.testing.virtual_time(), rb.testing.inject(get, ConnectionRefusedError):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with pytest.raises(ConnectionRefusedError):
            get()
    assert outcomes == ["ok", "closed"]


async def test_stamina_test_mode_does_not_reach_a_task_beside_it(key):
    """A task started before is not in virtual time, one started inside is."""
    begin = asyncio.Event()

    @rb.Policy(rb.RateLimit(1, per=3600, key=key))
    async def get():
        return "ok"

    async def call_after(event):
        await event.wait()
        return await get()

    outside = asyncio.create_task(call_after(begin))
    await get()
    with rb.testing.virtual_time() as clock:
        clock.advance(3600)
        inside = asyncio.create_task(call_after(begin))
        begin.set()
        assert await inside == "ok"
        with pytest.raises(rb.errors.ThrottledError):
            await outside


async def test_interlock_a_circuit_is_exited_in_another_task_than_it_was_entered():
    """`with circuit:` on an exit stack that another task closes: interlock's ContextVar stack raises IndexError there."""
    circuit = rb.calls.circuit("left elsewhere")
    stack = AsyncExitStack()

    async def enter():
        stack.enter_context(circuit)

    await asyncio.create_task(enter())
    await asyncio.create_task(stack.aclose())
    assert repr(circuit) == "<Circuit left elsewhere closed, 0/1 failed>"


async def test_interlock_an_attempt_is_exited_in_another_task_than_it_was_entered():
    """`with attempt:` around the `yield` of an async generator that another task closes, as fixtures do: its permit is returned."""
    policy = rb.Policy(at_once(), rb.Bulkhead(1))

    async def items():
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                yield attempt.number

    opened = items()
    assert await asyncio.create_task(anext(opened)) == 1
    await asyncio.create_task(opened.aclose())
    assert policy(idempotent=True).call(Server().get) == "ok"
    assert rb.current_attempt() is None


@pytest.mark.real
def test_redress_a_worker_thread_sees_the_callers_context():
    """A sync function under a thread timeout reads the caller's context variables; in redress and interlock they are lost."""
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen = rb.Policy(rb.Timeout(10, thread=True))(
        lambda: (tenant.get(), threading.current_thread())
    )
    tenant.set("acme")
    name, thread = seen()
    assert name == "acme"
    assert thread is not threading.current_thread()


@pytest.mark.real
def test_interlock_an_abandoned_thread_is_reported():
    """Python cannot stop a thread: the caller goes on, and an event reports it. redress and interlock report nothing."""
    release, done = threading.Event(), threading.Event()

    @rb.Policy(rb.Timeout(0.02, thread=True), name="stuck")
    def stuck():
        release.wait(10)
        done.set()

    with rb.testing.record() as recorded, pytest.raises(rb.errors.AttemptTimeoutError):
        stuck()
    assert [(name_in_words(event), event.name, event.seconds) for event in recorded] == [
        ("thread left behind", "stuck", 0.02)
    ]
    assert not done.is_set()
    release.set()
    assert done.wait(10)


@both
def test_purgatory_every_rejection_is_an_exception_of_its_own(form):
    """1,000 rejections are 1,000 objects, each with a short traceback; purgatory raises one object, 5,000 frames deep."""
    server = Server(always=ConnectionRefusedError)
    get = rb.Policy(rb.Breaker.consecutive(1, open_for=3600))(form.of(server.get))
    with pytest.raises(ConnectionRefusedError):
        form.run(get)
    depths, errors = set(), []
    for _ in range(1_000 if not form.is_async else 50):
        with pytest.raises(rb.CircuitOpenError) as rejected:
            form.run(get)
        errors.append(rejected.value)
        depths.add(depth(rejected.value))
    assert len({id(error) for error in errors}) == len(errors)
    assert len(depths) == 1
    assert server.calls == 1


def depth(error: BaseException) -> int:
    """Return the number of entries of the traceback."""
    trace, entries = error.__traceback__, 0
    while trace is not None:
        trace, entries = trace.tb_next, entries + 1
    return entries


def test_hyx_a_policy_needs_no_loop_and_works_in_many():
    """Made and decorated at import, then used in three loops one after the other; hyx's token bucket raises RuntimeError at import."""
    policy = rb.Policy(
        rb.Deadline(60),
        at_once(),
        rb.Bulkhead(1, queue=9),
        rb.RateLimit(1_000),
        rb.Breaker(),
        rb.Timeout(10),
    )

    @policy(idempotent=True)
    async def get(number):
        await asyncio.sleep(0)
        return number

    async def main():
        return await asyncio.gather(*map(get, range(5)))

    with rb.testing.record():
        assert [asyncio.run(main()) for _ in range(3)] == [[0, 1, 2, 3, 4]] * 3


def test_interlock_a_bulkhead_serves_two_loops_at_once():
    """Two loops in two threads share two permits: never three calls run, and every waiter is served; interlock's semaphore belongs to one loop."""
    counted = threading.Lock()
    at_work, most, done = 0, 0, []

    @rb.Policy(rb.Bulkhead(2, queue=100))
    async def work(name):
        nonlocal at_work, most
        with counted:
            at_work += 1
            most = max(most, at_work)
        await asyncio.sleep(0)
        with counted:
            at_work -= 1
        done.append(name)

    async def main():
        await asyncio.gather(*map(work, range(40)))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(done) == sorted([*range(40), *range(40)])
    assert most == 2


def test_circuitbreaker_functions_of_one_name_have_a_circuit_each():
    """Two functions of one qualified name do not share: circuitbreaker's monitor keeps one by `__qualname__`."""

    def made(server):
        @rb.Policy(rb.Breaker.consecutive(1))
        def get():
            return server.get()

        return get

    bad, good = made(Server(always=ConnectionRefusedError)), made(Server())
    with pytest.raises(ConnectionRefusedError):
        bad()
    assert good() == "ok"
    assert (rb.calls.circuit(bad).state, rb.calls.circuit(good).state) == ("open", "closed")
    assert sum("made.<locals>.get" in name for name in rb.calls.circuits()) == 2


def test_interlock_the_registry_of_keys_is_bounded(key):
    """With a key for each of 3,000 hosts idle circuits are evicted and an open one stays; interlock's dict only grows."""
    down = rb.Policy(rb.Breaker.consecutive(1, open_for=3600, key=f"{key} down"))
    with pytest.raises(ConnectionRefusedError):
        down.call(Server(always=ConnectionRefusedError).get)
    for number in range(3_000):
        rb.Policy(rb.Breaker(key=f"{key} {number}")).call(Server().get)
    assert len([name for name in rb.calls.circuits() if name.startswith(key)]) <= 1_024
    assert rb.calls.circuit(f"{key} down").state == "open"


def test_interlock_what_is_counted_survives_threads():
    """8 threads of 250 calls each: every outcome is counted once, and no permit is lost; under the GIL other suites cannot tell."""
    policy = rb.Policy(rb.Bulkhead(8), rb.Breaker(rate=1, window=10_000))

    @policy
    def get():
        raise ConnectionRefusedError

    def call():
        for _ in range(250):
            with pytest.raises(ConnectionRefusedError):
                get()

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "2000/10000 failed" in repr(rb.calls.circuit(get))


async def test_stamina_nothing_grows_with_the_calls():
    """After 100 loops nothing is stored: stamina's list of context managers grows for ever (6 enters, 51 exits)."""
    policy = rb.Policy(at_once(), rb.Bulkhead(1))
    for _ in range(100):
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                if attempt.number == 1:
                    raise ConnectionRefusedError
    await settle()
    assert policy(idempotent=True).call(Server().get) == "ok"
