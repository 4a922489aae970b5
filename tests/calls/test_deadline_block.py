"""`async with rb.Deadline(5):` and `with rb.Deadline(5):`; how it cancels is in test_timers.py."""

from __future__ import annotations

import asyncio
import threading

import pytest

import resilient_bridge as rb
from tests.calls.forms import settle


AT_ONCE = rb.Retry(attempts=3, backoff=rb.Backoff.constant(0))


def remaining():
    """Return what a protected call inside sees of the deadline."""
    return rb.Policy(rb.calls.Breaker())(lambda: rb.current_attempt().remaining)()


@pytest.mark.requirement("X18")
def test_calls_inside_inherit_it():
    with rb.testing.virtual_time() as time:
        assert remaining() is None
        with rb.Deadline(5):
            assert remaining() == 5
            time.advance(2)
            assert remaining() == 3
        assert remaining() is None


@pytest.mark.requirement("X18")
@pytest.mark.parametrize(("outer", "inner", "rest"), [(5, 9, 5), (9, 5, 5)])
def test_nested_ones_are_only_ever_shorter(outer, inner, rest):
    with rb.testing.virtual_time(), rb.Deadline(outer):
        with rb.Deadline(inner):
            assert remaining() == rest
        assert remaining() == outer


def test_no_call_inside_starts_after_it():
    """The call raises before its function and its layers are entered: nothing ran."""
    calls = []
    with rb.testing.virtual_time() as time, rb.Deadline(5):
        work = rb.Policy(rb.calls.Bulkhead(1))(lambda: calls.append(None))
        work()
        time.advance(5)
        with pytest.raises(rb.DeadlineExceededError) as caught:
            work()
        with pytest.raises(rb.DeadlineExceededError), rb.Deadline(1):
            pass
    assert caught.value.failure.executed is rb.errors.Executed.NO
    assert calls == [None]
    work()


def test_the_waits_of_calls_inside_end_before_it():
    """A repeat whose wait could not end before the deadline is not made."""
    calls = []

    def down():
        calls.append(None)
        raise ConnectionRefusedError

    retry = rb.Retry(attempts=9, backoff=rb.Backoff.constant(2), budget=None)
    with rb.testing.virtual_time() as time, rb.Deadline(5):
        with pytest.raises(ConnectionRefusedError) as caught:
            rb.Policy(retry)(down, idempotent=True)()
        assert time.elapsed == 4
    assert len(calls) == 3
    assert "deadline" in caught.value.__notes__[-1]


async def test_waits_for_a_permit_end_with_it():
    """Async, under a sync block: it bounds the waits, and cancels nothing."""
    held = asyncio.Event()
    work = rb.Policy(rb.calls.Bulkhead(1, max_wait=60))(held.wait)
    with rb.testing.virtual_time() as time:
        first = asyncio.create_task(work())
        await settle()

        async def second():
            with rb.Deadline(5):
                await work()

        waiting = asyncio.create_task(second())
        await settle()
        time.advance(5)
        with pytest.raises(rb.errors.BulkheadFullError):
            await waiting
        held.set()
        await first


async def test_an_async_block_inside_of_a_sync_one_ends_with_it():
    with rb.testing.virtual_time() as time:

        async def work():
            with rb.Deadline(2):
                async with rb.Deadline(9):
                    await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(work())
        await settle()
        time.advance(2)
        with pytest.raises(rb.DeadlineExceededError, match="2 s"):
            await task
        assert task.cancelling() == 0


async def test_one_object_bounds_many_tasks_and_the_blocks_of_one():
    limit = rb.Deadline(5)
    with rb.testing.virtual_time() as time:

        async def work(seconds):
            async with limit:
                async with limit:
                    await time.asleep(seconds)
                return remaining()

        tasks = [asyncio.create_task(work(seconds)) for seconds in (1, 2, 4)]
        await asyncio.gather(*tasks)
        assert [task.result() for task in tasks] == [4, 3, 1]
        assert remaining() is None


async def test_a_task_that_outlives_the_block_is_outside_of_it():
    ended = asyncio.Event()

    async def later():
        await ended.wait()
        return remaining()

    with rb.testing.virtual_time() as time:
        async with rb.Deadline(5):
            assert await asyncio.create_task(asyncio.to_thread(remaining)) == 5
            task = asyncio.create_task(later())
        time.advance(9)
        ended.set()
        assert await task is None


async def test_a_task_group_inside_is_cancelled_as_a_whole():
    cancelled = []

    async def child():
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.append(None)
            raise

    async def work():
        async with rb.Deadline(5), asyncio.TaskGroup() as group:
            group.create_task(child())
            group.create_task(child())

    with rb.testing.virtual_time() as time:
        task = asyncio.create_task(work())
        await settle()
        time.advance(5)
        with pytest.raises(rb.DeadlineExceededError):
            await task
    assert cancelled == [None, None]


async def test_a_block_needs_a_task():
    """As asyncio.timeout does: without one there is nothing to cancel, and nothing stays entered."""

    def step():
        with pytest.raises(RuntimeError, match="task"):
            rb.Deadline(5).__aenter__().send(None)
        return remaining()

    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: done.set_result(step()))
    assert await done is None


# ---- inside of an attempt -------------------------------------------------------------------------


def test_code_in_the_block_is_in_the_attempt_around_it():
    """What it asks and reports is the attempt's: number, key, how often calls inside failed."""
    seen = []

    @rb.Policy(AT_ONCE)(idempotent=True)
    def outer():
        outside = rb.current_attempt()
        with rb.Deadline(60):
            inside = rb.current_attempt()
            seen.append((inside.number, inside.idempotency_key == outside.idempotency_key))
            inner()

    @rb.Policy(AT_ONCE)(idempotent=True)
    def inner():
        raise ConnectionRefusedError

    with rb.testing.virtual_time(), pytest.raises(ConnectionRefusedError) as caught:
        outer()
    assert seen == [(1, True)]  # nested repeats do not multiply, as without the block
    assert "3 calls" in str(caught.value.__notes__)


def test_the_deadline_of_a_call_around_applies():
    with rb.testing.virtual_time() as time:

        @rb.Policy(rb.Deadline(5))
        def outer():
            time.advance(1)
            with rb.Deadline(60):
                first = remaining()
            with rb.Deadline(2):
                return first, remaining()

        assert outer() == (4, 2)


def test_the_error_names_the_deadline_that_passed():
    """That of a thread: the block's 2 s, not what was left of it for the attempt."""
    work = rb.Policy(rb.Timeout(9, thread=True))(threading.Event().wait)
    with rb.Deadline(0.05), pytest.raises(rb.DeadlineExceededError, match=r"deadline of 0\.05 s"):
        work(5)


def test_every_kind_of_call_is_bounded():
    """A stream, `policy.call`, a loop of attempts."""

    @rb.Policy(rb.calls.Breaker())
    def stream():
        yield 1

    policy = rb.Policy(AT_ONCE)
    with rb.testing.virtual_time() as time, rb.Deadline(5):
        time.advance(6)
        with pytest.raises(rb.DeadlineExceededError):
            list(stream())
        with pytest.raises(rb.DeadlineExceededError):
            policy(idempotent=True).call(len, "abc")
        with pytest.raises(rb.DeadlineExceededError):
            list(policy.attempts(idempotent=True))


def test_disabled_policies_have_none():
    with rb.testing.virtual_time() as time, rb.testing.disabled(), rb.Deadline(1):
        time.advance(9)
        assert rb.Policy(rb.calls.Breaker())(lambda: "ran")() == "ran"


def test_it_may_be_exited_in_another_context():
    """As fixtures do: what began in one context ends in another, and no deadline stays."""
    import contextvars

    limit = rb.Deadline(5)
    with rb.testing.virtual_time():
        context = contextvars.copy_context()
        context.run(limit.__enter__)
        limit.__exit__(None, None, None)
        assert context.run(remaining) is None
        assert remaining() is None


def test_capture_around_a_block_sees_the_call_inside():
    """`capture` around a block sees the call inside."""
    with rb.testing.virtual_time():
        work = rb.Policy(AT_ONCE)(lambda: 7, idempotent=True)

        def block():
            with rb.Deadline(5):
                return work()

        assert rb.capture(block).value == 7
