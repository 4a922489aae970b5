"""Cancellation from outside, at every point where a call can wait: it ends at once and releases everything."""

from __future__ import annotations

import asyncio
import gc
import threading
from contextlib import suppress

import httpx
import pytest

import resilient_bridge as rb
from tests.calls.forms import Server, at_once, http_error, interrupted_in, settle
from tests.internals.calls import BULKHEADS


class WaitingCall:
    """A policy and a function whose call waits at the point `where` it is cancelled."""

    def __init__(self, where):
        self.where = where
        self.calls = 0
        self.hold = asyncio.Event()
        self.policy = {
            "call": rb.Policy(
                rb.Deadline(60), at_once(), rb.Bulkhead(1), rb.Breaker(), rb.Timeout(30)
            ),
            "second attempt": rb.Policy(at_once(), rb.Bulkhead(1), rb.Breaker()),
            "backoff": rb.Policy(
                rb.Retry(backoff=rb.Backoff.constant(3600)), rb.Bulkhead(1), rb.Breaker()
            ),
            "queue": rb.Policy(at_once(), rb.Bulkhead(1, queue=1), rb.Breaker()),
            "rate": rb.Policy(at_once(), rb.RateLimit(1, per=3600, max_wait=3600), rb.Bulkhead(1)),
            "before": rb.Policy(
                at_once(rules={401: rb.Rule(attempts=2, before=self._wait)}), rb.Bulkhead(1)
            ),
            "fallback": rb.Policy(rb.Fallback(self._rung), at_once(attempts=1), rb.Bulkhead(1)),
            "acknowledge": rb.Policy(
                rb.Fallback(Server().get, acknowledge=self._rung),
                at_once(attempts=1),
                rb.Bulkhead(1),
            ),
        }[where]
        self.get = self.policy(self._get, idempotent=True)

    async def _wait(self):
        await asyncio.get_running_loop().create_future()

    async def _rung(self, *_):
        await self._wait()

    async def _get(self, what=""):
        self.calls += 1
        if what == "hold":
            await self.hold.wait()
        elif what == "well":
            return "ok"
        elif self.where == "before":
            raise http_error(401)
        elif self.where == "call" or (self.where == "second attempt" and self.calls > 1):
            await self._wait()
        elif self.where == "rate":
            return "ok"
        else:
            raise ConnectionRefusedError
        return "held"

    async def occupied(self):
        """Fill the bulkhead if the call is to wait in its queue; use up the rate limit if it is to wait for that."""
        tasks = []
        if self.where == "queue":
            tasks.append(asyncio.create_task(self.get("hold")))
        if self.where == "rate":
            await self.get()
        await settle()
        return tasks


PLACES = ["call", "second attempt", "backoff", "queue", "rate", "before", "fallback", "acknowledge"]
everywhere_in_a_call = pytest.mark.parametrize("where", PLACES)


@everywhere_in_a_call
async def test_cancelled_it_ends_at_once_and_gives_back_what_it_had(where):
    """It raises CancelledError, makes no further attempt, and the bulkhead of one is free afterwards."""
    waiting = WaitingCall(where)
    others = await waiting.occupied()
    call = asyncio.create_task(waiting.get())
    await settle()
    made = waiting.calls
    call.cancel("stop")
    with pytest.raises(asyncio.CancelledError, match="stop"):
        await call
    assert call.cancelled()
    assert waiting.calls == made
    waiting.hold.set()
    assert await asyncio.gather(*others) == ["held"] * len(others)
    if where == "rate":
        return
    assert await waiting.get("well") == "ok"


@everywhere_in_a_call
async def test_cancelled_by_a_group_around(where):
    """A sibling fails: the call is cancelled, the group raises the sibling's error and nothing else."""
    waiting = WaitingCall(where)
    others = await waiting.occupied()

    async def sibling():
        await settle()
        raise LookupError

    calls = []

    async def main():
        async with asyncio.TaskGroup() as group:
            calls.append(group.create_task(waiting.get()))
            group.create_task(sibling())

    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.create_task(main())
    assert [type(error) for error in raised.value.exceptions] == [LookupError]
    assert calls[0].cancelled()
    waiting.hold.set()
    await asyncio.gather(*others)


@everywhere_in_a_call
@pytest.mark.real
async def test_cancelled_by_asyncio_timeout_around(where):
    """asyncio.timeout ends the call with its own TimeoutError; no cancellation is pending afterwards."""
    waiting = WaitingCall(where)
    others = await waiting.occupied()
    with pytest.raises(TimeoutError) as raised:
        async with asyncio.timeout(0.01):
            await waiting.get()
    assert type(raised.value) is TimeoutError
    assert asyncio.current_task().cancelling() == 0
    waiting.hold.set()
    await asyncio.gather(*others)


@everywhere_in_a_call
async def test_closed_without_being_cancelled(where):
    """A coroutine that is closed half-way (GeneratorExit) releases everything, from any context."""
    waiting = WaitingCall(where)
    others = await waiting.occupied()
    call = waiting.get()

    async def drive():
        with suppress(StopIteration):
            call.send(None)
        call.close()

    if where == "acknowledge":
        call.close()
    else:
        await asyncio.create_task(drive())
    waiting.hold.set()
    await asyncio.gather(*others)
    if where != "rate":
        assert await waiting.get("well") == "ok"


async def test_a_cancelled_wait_returns_its_token():
    """A token of a rate limit that was reserved and not used goes to the next call."""
    get = rb.Policy(rb.RateLimit(1, per=3600, max_wait=3600))(settle)
    await get()
    waiting = asyncio.create_task(get())
    await settle()
    with pytest.raises(rb.errors.ThrottledError):
        await get()
    waiting.cancel()
    await asyncio.wait([waiting])
    next_one = asyncio.create_task(get())
    await settle()
    assert not next_one.done()  # it waits for the returned token, and is not refused
    next_one.cancel()


async def test_cancelled_calls_emit_no_event_and_are_not_retried():
    """No event of a retry or of giving up, and no note on the error."""
    waiting = WaitingCall("call")
    with rb.testing.record() as recorded:
        call = asyncio.create_task(waiting.get())
        await settle()
        call.cancel()
        with pytest.raises(asyncio.CancelledError) as raised:
            await call
    assert recorded == []
    assert not getattr(raised.value, "__notes__", [])


async def test_uncancel_counts_are_the_callers():
    """Two cancellation requests before, two after: a policy calls `uncancel` only for its own."""
    get = rb.Policy(rb.Deadline(5), at_once(), rb.Timeout(3))(hang, idempotent=False)
    counts = []

    async def main():
        for _ in range(2):
            asyncio.current_task().cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
        counts.append(asyncio.current_task().cancelling())
        with suppress(rb.errors.AttemptTimeoutError):
            await get()
        counts.append(asyncio.current_task().cancelling())

    with rb.testing.virtual_time() as clock:
        task = asyncio.create_task(main())
        await settle()
        clock.advance(3)
        await task
    assert counts == [2, 2]


async def hang():
    """Never ends by itself."""
    await asyncio.get_running_loop().create_future()


@pytest.mark.real
@pytest.mark.parametrize("where", ["queue", "rate", "thread"])
def test_ctrl_c_while_a_sync_call_waits(where):
    """In the queue of a bulkhead, in a rate limit, while a thread works: it ends at once, and the permit is not lost."""
    policy = {
        "queue": rb.Policy(rb.Bulkhead(1, queue=1)),
        "rate": rb.Policy(rb.RateLimit(1, per=3600, max_wait=3600)),
        "thread": rb.Policy(rb.Bulkhead(1), rb.Timeout(60, thread=True)),
    }[where]
    hold = threading.Event()
    if where == "rate":
        policy.call(Server().get)
    holder = threading.Thread(target=policy.call, args=(hold.wait, 10))
    if where == "queue":
        holder.start()
        while policy.own_states().state(BULKHEADS, policy.layers[0]).running == 0:
            pass
    with interrupted_in(0.02), pytest.raises(KeyboardInterrupt):
        policy.call(hold.wait, 10)
    hold.set()
    if where == "queue":
        holder.join()
    if where == "rate":  # the token goes to the next call, which waits for it and is not refused
        with interrupted_in(0.02), pytest.raises(KeyboardInterrupt):
            policy.call(Server().get)
    else:
        assert policy.call(Server().get) == "ok"


@pytest.mark.parametrize(
    "layer",
    [
        rb.Breaker(),
        rb.Breaker(key=lambda name: name),
        rb.calls.Hedge(after=1, budget=1.0),
        rb.AdaptiveLimit(),
    ],
    ids=repr,
)
def test_a_cancelled_call_leaves_nothing_for_the_garbage_collector(layer):
    """Neither its error holds the frames that hold it, nor they it."""

    @rb.Policy(rb.Retry(), layer)(idempotent=True)
    async def wait(_):
        await asyncio.Event().wait()

    async def cancel_one():
        task = asyncio.ensure_future(wait("x"))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    async def main():
        await cancel_one()
        gc.collect()
        gc.disable()
        try:
            await cancel_one()
            return gc.collect()
        finally:
            gc.enable()

    assert asyncio.run(main()) == 0


def test_a_call_that_has_waited_for_its_limit_leaves_nothing_for_the_garbage_collector():
    """Refused, then waiting at its limit: cancelled there, and answered in the end."""
    answers = []

    @rb.Policy(rb.Retry(), rb.AdaptiveLimit())(idempotent=True)
    async def ask(_):
        if answers:
            return answers.pop()
        request = httpx.Request("GET", "http://127.0.0.1/")
        refusal = httpx.Response(429, headers={"retry-after": "0.02"}, request=request)
        raise httpx.HTTPStatusError("429", request=request, response=refusal)

    async def once(*later):
        task = asyncio.ensure_future(ask("x"))
        await asyncio.sleep(0.005)
        answers.extend(later)
        if not later:
            task.cancel()
        await asyncio.wait([task])

    async def main():
        await once()
        await once("answer")
        gc.collect()
        gc.disable()
        try:
            await once()
            await once("answer")
            return gc.collect()
        finally:
            gc.enable()

    assert asyncio.run(main()) == 0
