"""Traps around cancellation: it is neither a success nor a failure, it always wins, and nothing is lost by it."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, both, everywhere, settle
from tests.internals.telemetry import name_in_words


REFUSED = ConnectionRefusedError


async def cancelled(call):
    """Start a call, cancel it where it waits, and return the task."""
    task = asyncio.create_task(call)
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return task


class Steps:
    """A function that answers, fails or hangs by its script; `calls` counts the calls."""

    def __init__(self):
        self.calls = 0

    async def __call__(self, what="well", error=REFUSED):
        self.calls += 1
        if what == "hang":
            await asyncio.get_running_loop().create_future()
        if what == "fail":
            raise error
        return what


async def test_polly_8_a_cancelled_probe_does_not_heal():
    """A cancelled probe leaves the circuit half-open and returns its permit; Polly 8 closes the circuit."""
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Breaker.consecutive(1, open_for=10))(Steps())
        with pytest.raises(REFUSED):
            await get("fail")
        clock.advance(10)
        await cancelled(get("hang"))
        assert rb.calls.circuit(get).state == "half_open"
        assert await get("well") == "well"
        assert rb.calls.circuit(get).state == "closed"


async def test_hyx_a_cancelled_call_is_no_success():
    """It does not reset the count of consecutive failures: hyx records a success (2 failures become 0), circuitbreaker resets it."""
    get = rb.Policy(rb.Breaker.consecutive(3))(Steps())
    for what in ("fail", "fail", "hang", "fail"):
        if what == "hang":
            await cancelled(get(what))
        else:
            with pytest.raises(REFUSED):
                await get(what)
    assert rb.calls.circuit(get).state == "open"


async def test_purgatory_a_cancelled_call_is_no_failure():
    """It does not add to the count of consecutive failures either; purgatory and pybreaker count it."""
    get = rb.Policy(rb.Breaker.consecutive(3))(Steps())
    for _ in range(2):
        with pytest.raises(REFUSED):
            await get("fail")
    for _ in range(3):
        await cancelled(get("hang"))
    assert rb.calls.circuit(get).state == "closed"


@everywhere
def test_pybreaker_ctrl_c_is_no_failure(form):
    """KeyboardInterrupt says nothing about the server; pybreaker and purgatory count it. It is raised unchanged."""
    server = Server(always=KeyboardInterrupt())
    with form.world():
        get = rb.Policy(at_once(on=BaseException), rb.Breaker.consecutive(1))(
            form.of(server.get), idempotent=True
        )
        with pytest.raises(KeyboardInterrupt):
            form.run(get)
    assert server.calls == 1
    assert rb.calls.circuit(get).state == "closed"


async def test_praisonai_4969_a_tool_that_always_times_out_opens_its_circuit():
    """An outer timeout shows the breaker only a cancellation; past `slow_after` that counts as slow, and opens it."""
    with rb.testing.virtual_time() as clock, rb.testing.record() as recorded:
        tool = rb.Policy(rb.Breaker.consecutive(3, slow_after=5))(Steps())
        for seconds in (6, 1, 6, 6):  # the second is cancelled early: neutral
            task = asyncio.create_task(tool("hang"))
            await settle()
            clock.advance(seconds)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert rb.calls.circuit(tool).state == "open"
    opened = [event for event in recorded if name_in_words(event) == "circuit opened"]
    assert [event.reason for event in opened] == ["slow_consecutive_failures_3"]


@pytest.mark.parametrize("on", [Exception, BaseException, asyncio.CancelledError])
@pytest.mark.parametrize("virtual", [False, True])
async def test_tenacity_529_cancellation_is_never_retried(on, virtual):
    """Whatever `on` names, a cancelled call is made once; tenacity's retry_if_not_exception_type retries it and returns a success."""
    form = rb.testing.virtual_time() if virtual else rb.testing.record()
    steps = Steps()
    with form:
        get = rb.Policy(at_once(on=on))(steps, idempotent=True)
        await cancelled(get("hang"))
    assert steps.calls == 1


@both
def test_tenacity_529_a_cancelled_error_that_is_raised_is_never_retried(form):
    """Also if the function raises it itself, without a cancellation."""
    server = Server(always=asyncio.CancelledError())
    get = rb.Policy(at_once(on=BaseException))(form.of(server.get), idempotent=True)
    with pytest.raises(asyncio.CancelledError):
        form.run(get)
    assert server.calls == 1


async def test_hyx_timeout_takes_its_cancel_request_back():
    """After a Timeout the task is not being cancelled: a TaskGroup and asyncio.timeout around it work. hyx leaves cancelling() == 1."""
    with rb.testing.virtual_time() as clock:
        get = rb.Policy(rb.Timeout(5))(Steps())

        async def call():
            with pytest.raises(rb.errors.AttemptTimeoutError):
                await get("hang")
            return asyncio.current_task().cancelling()

        async with asyncio.timeout(3600), asyncio.TaskGroup() as group:
            task = group.create_task(call())
            await settle()
            clock.advance(5)
        assert task.result() == 0


async def test_cockatiel_an_abort_during_the_backoff_returns_at_once():
    """Cancelled during a wait of an hour, it ends at once; cockatiel sleeps to the end first."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    steps = Steps()
    get = rb.Policy(rb.Retry(backoff=rb.Backoff.constant(3600)))(steps, idempotent=True)
    await cancelled(get("fail"))
    assert loop.time() - began < 5
    assert steps.calls == 1


@pytest.mark.parametrize("virtual", [False, True])
async def test_hyx_bulkhead_cancelled_while_queued_loses_no_permit(virtual):
    """Cancelled in the queue of a full bulkhead, both permits are free afterwards; in hyx one is lost for ever."""
    with rb.testing.virtual_time() if virtual else rb.testing.record():
        gate = asyncio.Event()

        @rb.Policy(rb.Bulkhead(2, queue=5))
        async def work():
            await gate.wait()
            return "done"

        running = [asyncio.create_task(work()) for _ in range(2)]
        await settle()
        for _ in range(3):
            await cancelled(work())
        gate.set()
        await asyncio.gather(*running)
        gate.clear()
        again = [asyncio.create_task(work()) for _ in range(2)]
        await settle()
        gate.set()
        assert await asyncio.gather(*again) == ["done"] * 2


async def test_hyx_bulkhead_cancelled_as_its_turn_comes_passes_it_on():
    """Cancelled in the step in which the permit was granted: the next waiter gets it."""
    releases = [asyncio.Event() for _ in range(3)]

    @rb.Policy(rb.Bulkhead(1, queue=5))
    async def work(number):
        await releases[number].wait()
        return number

    first, second, third = (asyncio.create_task(work(number)) for number in range(3))
    await settle()
    releases[0].set()
    await first  # the second has the permit now, and has not run yet
    second.cancel()
    releases[2].set()
    assert await third == 2
    assert second.cancelled()
