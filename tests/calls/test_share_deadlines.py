"""The deadline inside of a shared call grows with its callers: for all that has inherited it, up to its own."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

import resilient_bridge as rb
from resilient_bridge.calls import Share
from tests.calls.test_share import simulated
from tests.internals.calls import CURRENT
from tests.peers.running import until
from tests.rows import each_row


pytestmark = pytest.mark.requirement("X17")

AT_ONCE = rb.Backoff.constant(0)


def remaining():
    """Return the seconds that the code which runs has, None without a limit."""
    return CURRENT.get().remaining


def asked_by(inside, *callers, begins=1):
    """Share a call of `inside` among callers, one a second, each with its seconds; return how each ended."""

    @rb.Policy(Share(key=str), rb.Retry(attempts=1))(idempotent=True)
    async def search(_):
        return await inside()

    async def caller(number, seconds):
        await asyncio.sleep(begins * number)
        if seconds is None:
            return await search("x")
        return await rb.Policy(rb.Deadline(seconds))(search)("x")

    async def main():
        return await asyncio.gather(
            *(caller(*each) for each in enumerate(callers)), return_exceptions=True
        )

    (first, *others), seconds = simulated(main)
    assert isinstance(first, rb.DeadlineExceededError)
    return *others, seconds


async def loop_for(seconds, sleeps=6):
    rest = None
    async for attempt in rb.Policy(rb.Deadline(seconds)).attempts(idempotent=True):
        with attempt:
            await asyncio.sleep(sleeps)
            rest = remaining()
    return rest


async def nested(seconds, sleeps=6):
    @rb.Policy(rb.Deadline(seconds))(idempotent=True)
    async def inner():
        await asyncio.sleep(sleeps)
        return remaining()

    return await inner()


async def block(seconds, sleeps=6):
    async with rb.Deadline(seconds):
        await asyncio.sleep(sleeps)
        return remaining()


async def read_stream(seconds, sleeps=6):
    @rb.Policy(rb.Deadline(seconds))(idempotent=True)
    async def items():
        yield remaining()
        await asyncio.sleep(sleeps)
        yield remaining()

    return [item async for item in items()][-1]


KINDS = {"loop": loop_for, "nested": nested, "block": block}


@each_row("kind, later, in_a_task", [
    (kind, later, in_a_task)
    for kind in KINDS for later in (None, 20, 7) for in_a_task in (False, True)
])  # fmt: skip
def test_a_deadline_inside_lasts_as_long_as_the_call_up_to_its_own(kind, later, in_a_task):
    """The first caller has 4 s; a later one has more, and then 8 s are 8 s."""

    async def inside():
        work = KINDS[kind](8)
        return await (asyncio.create_task(work) if in_a_task else work)

    assert asked_by(inside, 4, later) == (2, 6)


@each_row("kind", list(KINDS))
def test_it_is_cut_at_its_own_end_and_says_so(kind):
    async def inside():
        await KINDS[kind](8, sleeps=60)

    error, seconds = asked_by(inside, 4, 20)
    assert seconds == 8
    assert "deadline of 8 s exceeded" in str(error)


@each_row("kind", list(KINDS))
def test_one_that_is_as_long_as_the_first_callers_does_not_grow(kind):
    async def inside():
        await KINDS[kind](4, sleeps=60)

    error, seconds = asked_by(inside, 4, 20)
    assert seconds == 4
    assert isinstance(error, rb.DeadlineExceededError)


@each_row("kind", list(KINDS))
def test_it_grows_with_each_caller(kind):
    async def inside():
        return await KINDS[kind](30, sleeps=11)

    # 0 + 4 s, 1 + 6 s, 2 + 10 s: it has 12 s in the end
    second, third, seconds = asked_by(inside, 4, 6, 10)
    assert isinstance(second, rb.DeadlineExceededError)
    assert (third, seconds) == (1, 11)


@each_row("kind", ["loop", "nested"])
def test_repeats_inside_know_the_time_that_they_have_now(kind):
    """One is made after the first caller's time; one that would come after their own is not."""
    made = []

    async def fail():
        made.append(1)
        await asyncio.sleep(5)
        raise ConnectionResetError

    async def inside(wait):
        policy = rb.Policy(
            rb.Deadline(12), rb.Retry(attempts=3, backoff=rb.Backoff.constant(wait), budget=None)
        )
        if kind == "nested":
            await policy(fail, idempotent=True)()
        async for attempt in policy.attempts(idempotent=True):
            with attempt:
                await fail()

    error, seconds = asked_by(lambda: inside(1.5), 4, 20)
    assert (len(made), seconds) == (2, 11.5)
    assert rb.classify(error).stopped == "deadline"
    made.clear()
    _, seconds = asked_by(lambda: inside(7.5), 4, 20)
    assert (len(made), seconds) == (1, 5)


def test_what_is_inside_of_one_that_is_bounded_stays_inside_of_it():
    """A block of 8 s around a call that has a deadline of 30 s."""

    async def inside():
        async with rb.Deadline(8):
            return await nested(30)

    assert asked_by(inside, 4, 20) == (2, 6)


def test_a_later_attempt_has_it_too():
    """An attempt that began before the last caller came, and one that began after it."""
    seen = []

    async def inside():
        @rb.Policy(rb.Deadline(8), rb.Retry(attempts=3, backoff=AT_ONCE))(idempotent=True)
        async def inner():
            await asyncio.sleep(0.75)
            seen.append(remaining())
            if len(seen) < 3:
                raise ConnectionResetError

        await inner()

    asked_by(inside, 2, 20)
    assert seen == [1.25, 6.5, 5.75]


def test_a_further_request_of_a_hedge_has_it_too():
    async def inside():
        calls = []

        @rb.Policy(rb.calls.Hedge(0.5, budget=1))(idempotent=True)
        async def inner():
            calls.append(1)
            if len(calls) == 1:
                await asyncio.sleep(60)
            return await nested(8)

        return await inner()

    assert asked_by(inside, 4, 20) == (2, 6.5)


def test_a_shared_call_inside_of_a_shared_call_grows_with_it():
    @rb.Policy(Share(key=str))(idempotent=True)
    async def inner(_):
        return await loop_for(8)

    assert asked_by(lambda: inner("y"), 4, 20) == (2, 6)


def test_a_fallback_around_a_shared_call_inside_has_it_too():
    """The shared call inside has ended by then: only what replaces it follows."""

    async def instead(_):
        await asyncio.sleep(5)
        return remaining()

    @rb.Policy(rb.Fallback(instead), Share(key=str))(idempotent=True)
    async def inner(_):
        raise ConnectionResetError

    assert asked_by(lambda: inner("y"), 4, 20) == (16, 5)


@pytest.mark.real
@each_row("later", [5, None])
async def test_a_call_in_a_thread_inside_has_it_too(later):
    """In real time: a simulated world has no threads."""

    def inside(is_running, first_is_over):
        @rb.Policy(rb.Timeout(10, thread=True))
        def read():
            is_running.set()
            assert first_is_over.wait(10)
            return "answer"

        return read()

    assert await asked_in_real_time(inside, later) == "answer"


@pytest.mark.real
async def test_a_block_in_the_loop_of_another_thread_inside_has_it_too():
    """asyncio's debug mode sees a timer that is set in another thread than its loop's."""

    def inside(is_running, first_is_over):
        async def read():
            async with rb.Deadline(10):
                is_running.set()
                while not first_is_over.is_set():
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)
                return "answer"

        return asyncio.run(read(), debug=True)

    assert await asked_in_real_time(inside, 5) == "answer"


async def asked_in_real_time(inside, later):
    """Share a call in a thread, of which the first caller has half a second; return what the second one gets."""
    is_running, first_is_over = threading.Event(), threading.Event()

    @rb.Policy(Share(key=str))(idempotent=True)
    async def search(_):
        return await asyncio.to_thread(inside, is_running, first_is_over)

    first = asyncio.create_task(rb.Policy(rb.Deadline(0.5))(search)("x"))
    await until(is_running.is_set, "it runs")
    bounded = search if later is None else rb.Policy(rb.Deadline(later))(search)
    second = asyncio.create_task(bounded("x"))
    with pytest.raises(rb.DeadlineExceededError):
        await first
    first_is_over.set()
    return await second


def test_who_waits_inside_in_a_queue_waits_as_long():
    """The queue is full until the first caller's time is over."""

    async def inside():
        async def hold():
            await asyncio.sleep(6)
            return remaining()

        protected = rb.Policy(rb.Bulkhead(1, queue=1))(hold)
        other = asyncio.create_task(protected())
        try:
            await asyncio.sleep(0)
            return await protected()
        finally:
            await other

    assert asked_by(inside, 4, 20) == (9, 12)


@each_row("later, rest", [(20, 15), (None, None)])
def test_a_stream_inside_has_it_too(later, rest):
    """After its first item its reader has what is left of the shared call."""
    assert asked_by(lambda: read_stream(8), 4, later) == (rest, 6)


def test_a_stream_inside_is_cut_at_its_own_end():
    error, seconds = asked_by(lambda: read_stream(8, sleeps=60), 4, 20)
    assert seconds == 8
    assert "deadline of 8 s exceeded" in str(error)


def test_a_timeout_inside_is_that_of_one_attempt():
    async def inside():
        await rb.Policy(rb.Timeout(6)).call(asyncio.sleep, 60)

    error, seconds = asked_by(inside, 4, 20)
    assert (type(error), seconds) == (rb.errors.AttemptTimeoutError, 6)


def test_a_call_that_is_over_is_not_remembered_by_the_one_around_it():
    frames = []

    async def inside():
        gc.disable()
        for _ in range(100):
            await rb.Policy(rb.Deadline(30)).call(remember)
        assert sum(each() is not None for each in frames) <= 1
        gc.enable()
        return await block(8)

    async def remember():
        frames.append(weakref.ref(CURRENT.get()))

    assert asked_by(inside, 4, 20) == (2, 6)
