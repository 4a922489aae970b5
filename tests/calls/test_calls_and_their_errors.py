"""After a call nothing is left of it: no exception that only the garbage collector frees, and nothing that its frames held."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from contextlib import contextmanager, suppress

import pytest

import resilient_bridge as rb
from tests.calls.forms import at_once, both, everywhere, settle
from tests.internals.telemetry import muted


async def hang(*_):
    """Wait for what never comes."""
    await asyncio.Event().wait()


class LostError(ConnectionRefusedError):
    """Can be watched: a class of ours takes weak references."""


class MistakeError(Exception):
    """Nothing that is repeated."""


@contextmanager
def no_collector():
    """Only reference counts free anything inside."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def unheard():
    """Nothing is logged: pytest keeps every record."""
    with muted():
        yield


def let_end(form, call, *errors):
    """Make a call whose errors nobody keeps: not even the loop, which an error that ends `asyncio.run` goes through."""

    async def main():
        with suppress(*errors):
            await call()

    if form.is_async:
        asyncio.run(main())
    else:
        with suppress(*errors):
            call()


class Watched:
    """A function that raises new exceptions of a class, the first `times` calls or always, and watches what becomes of them."""

    def __init__(self, kind=LostError, times=10**9):
        self.kind = kind
        self.times = times
        self.raised: list[weakref.ref] = []

    def get(self):
        if len(self.raised) == self.times:
            return "ok"
        error = self.kind("down")
        self.raised.append(weakref.ref(error))
        try:
            raise error
        finally:
            del error

    @property
    def alive(self):
        return [ref() for ref in self.raised if ref() is not None]


def next_rung(rungs):
    """A rung that fails."""
    return rungs["none"]


SCENES = {
    "given up": ([at_once(), rb.Breaker()], LostError, 10**9),
    "recovered": ([at_once(), rb.Breaker()], LostError, 2),
    "not repeated": ([at_once(), rb.Breaker()], MistakeError, 10**9),
    "no retry": ([rb.Breaker()], LostError, 10**9),
    "rejected in between": ([at_once(), rb.Breaker.consecutive(2)], LostError, 10**9),
    "bulkhead": ([at_once(), rb.Bulkhead(1)], LostError, 10**9),
    "fallback": ([rb.Fallback(lambda: "ok"), at_once()], LostError, 10**9),
    "fallback fails": ([rb.Fallback(lambda: next_rung({})), at_once()], LostError, 10**9),
    "deadline": ([rb.Deadline(60), at_once()], LostError, 10**9),
}


@everywhere
@pytest.mark.parametrize("scene", SCENES)
def test_no_exception_is_held(form, scene):
    """When the caller lets go of the error, it and those of all attempts are gone at once, and with them what their frames held."""
    layers, kind, times = SCENES[scene]
    watched = Watched(kind, times)
    with form.world(), no_collector():
        get = rb.Policy(*layers)(form.of(watched.get), idempotent=True)
        let_end(form, get, kind, KeyError)
        if scene == "rejected in between":  # the circuit says why it opened, without the exception
            assert rb.calls.circuit(get).state == "open"
        assert watched.raised
        assert watched.alive == []


@pytest.mark.parametrize("times", [2, 10**9], ids=["recovered", "given up"])
@both
def test_no_exception_is_held_by_a_loop(form, times):
    """Nor by the block form."""
    watched = Watched(times=times)
    policy = rb.Policy(at_once(), rb.Breaker())

    def loop():
        for attempt in policy.attempts(idempotent=True):
            with attempt:
                watched.get()

    async def async_loop():
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                watched.get()

    async def async_loop_and_a_turn():
        # asyncio closes an abandoned generator in its next turn. Python 3.12 and later hold the
        # frame of any such generator if the event loop ends before that turn.
        with suppress(LostError):
            await async_loop()
        await asyncio.sleep(0)

    with no_collector():
        let_end(form, async_loop_and_a_turn if form.is_async else loop, LostError)
        assert watched.raised
        assert watched.alive == []


@pytest.mark.parametrize("times", [2, 10**9], ids=["recovered", "given up"])
@both
def test_no_exception_is_held_by_a_stream(form, times):
    """Nor by a generator."""
    watched = Watched(times=times)

    def items():
        yield watched.get()

    async def async_items():
        yield watched.get()

    async def collect(stream):
        return [item async for item in stream()]

    stream = rb.Policy(at_once(), rb.Breaker())(
        async_items if form.is_async else items, idempotent=True
    )
    with no_collector():
        let_end(form, lambda: collect(stream) if form.is_async else list(stream()), LostError)
        assert watched.raised
        assert watched.alive == []


@both
def test_no_exception_is_held_by_capture(form):
    """An Outcome holds its error, and nobody else does."""
    watched = Watched()
    with no_collector():
        get = rb.Policy(at_once())(form.of(watched.get), idempotent=True)

        async def main():
            # Inside of the loop: from 3.12 on, the frames of asyncio.run keep what a task raised or returned.
            outcome = rb.capture(get)
            if form.is_async:
                outcome = await outcome
            assert len(watched.alive) == 4
            del outcome
            assert watched.alive == []

        asyncio.run(main())


async def test_no_exception_is_held_by_a_timeout():
    """A call that was cut off, by its Timeout or its Deadline, leaves nothing either."""
    cancelled: list[weakref.ref] = []

    class Held:
        """What the frame of the call holds."""

    for layers, error in [
        ([rb.Timeout(5)], rb.errors.AttemptTimeoutError),
        ([rb.Deadline(5), at_once()], rb.DeadlineExceededError),
        ([at_once(attempts=2), rb.Timeout(5)], rb.errors.AttemptTimeoutError),
    ]:

        @rb.Policy(*layers)(idempotent=False)
        async def get():
            held = Held()
            cancelled.append(weakref.ref(held))
            await asyncio.get_running_loop().create_future()

        with rb.testing.virtual_time() as clock, no_collector():
            task = asyncio.create_task(get())
            await settle()
            clock.advance(5)
            await asyncio.wait([task])
            assert isinstance(task.exception(), error)
            del task
            await settle()
            assert [ref() for ref in cancelled if ref() is not None] == []


@pytest.mark.parametrize(
    "policy",
    [
        rb.Policy(rb.Bulkhead(5)),
        rb.Policy(rb.Fallback(hang)),
        rb.Policy(rb.Retry(rules={ConnectionError: rb.Rule(before=hang)})),
    ],
    ids=["a layer that may wait", "a rung", "a refresh"],
)
async def test_an_abandoned_call_is_closed_in_another_context(policy):
    """As the garbage collector closes it: nothing is raised, wherever it waits."""

    async def work():
        if not isinstance(policy.layers[0], rb.Bulkhead):
            raise ConnectionRefusedError
        await hang()

    coroutine = policy(work, idempotent=True)()
    contextvars.copy_context().run(coroutine.send, None)
    coroutine.close()
