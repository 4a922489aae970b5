"""Timeout and Deadline on a task, with the requirements that CPython's test_timeouts.py has for asyncio.timeout."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.calls.forms import at_once, settle


async def hang():
    """Never ends by itself."""
    await asyncio.get_running_loop().create_future()


class Block:
    """A Deadline as a block around the functions that it decorates."""

    def __init__(self, seconds):
        self.limit = rb.Deadline(seconds)

    def __call__(self, function):
        async def call(*args):
            async with self.limit:
                return await function(*args)

        return call


def limited(kind, seconds=5):
    """A policy with one time limit, or a block under one, and the error that it raises."""
    return {
        "block": (Block(seconds), rb.DeadlineExceededError),
        "timeout": (rb.Policy(rb.Timeout(seconds)), rb.errors.AttemptTimeoutError),
        "deadline": (rb.Policy(rb.Deadline(seconds)), rb.DeadlineExceededError),
    }[kind]


each_limit = pytest.mark.parametrize("kind", ["timeout", "deadline", "block"])


@pytest.fixture
def clock():
    with rb.testing.virtual_time() as clock:
        yield clock


async def started(call):
    """Run a call in its own task until it waits."""
    task = asyncio.create_task(call)
    await settle()
    return task


@each_limit
async def test_it_ends_what_takes_too_long(kind, clock):
    """It ends exactly at the limit; the error is a TimeoutError that names the limit, with the cancellation as its cause."""
    policy, error = limited(kind)
    task = await started(policy(hang)())
    clock.advance(4.99)
    await settle()
    assert not task.done()
    clock.advance(0.01)
    with pytest.raises(error, match="5 s") as raised:
        await task
    assert isinstance(raised.value, TimeoutError)
    assert isinstance(raised.value.__cause__, asyncio.CancelledError)
    assert raised.value.failure.executed is rb.errors.Executed.MAYBE
    assert task.cancelling() == 0


@each_limit
async def test_a_call_that_ends_in_time_is_not_cancelled(kind, clock):
    """Its result or its own error is passed on, and nothing is cancelled later."""
    policy, _ = limited(kind)

    @policy
    async def get(error=None):
        await asyncio.sleep(0)
        if error is not None:
            raise error
        return "ok"

    assert await get() == "ok"
    with pytest.raises(ValueError, match="mine"):
        await get(ValueError("mine"))
    clock.advance(100)
    await settle()
    assert asyncio.current_task().cancelling() == 0


@each_limit
async def test_a_cancellation_from_outside_stays_one(kind, clock):
    """A task cancelled from outside ends as cancelled, however close its limit was."""
    policy, _ = limited(kind)
    task = await started(policy(hang)())
    clock.advance(4.9)
    task.cancel("by hand")
    with pytest.raises(asyncio.CancelledError, match="by hand"):
        await task
    assert task.cancelled()


@each_limit
@pytest.mark.parametrize("first", ["limit", "cancel"])
async def test_cancelled_at_the_same_instant_it_stays_cancelled(kind, first, clock):
    """With both in one iteration of the loop, in either order, the cancellation wins, as with asyncio.timeout."""
    policy, _ = limited(kind)
    task = await started(policy(hang)())
    if first == "cancel":
        task.cancel()
    clock.advance(5)
    if first == "limit":
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert task.cancelling() == 1  # the request from outside stays


@each_limit
async def test_a_function_that_swallows_the_cancellation_keeps_its_result(kind, clock):
    """A function may catch the cancellation and return: its result counts, and no cancellation request stays on the task."""
    policy, _ = limited(kind)
    cancelling = []

    @policy
    async def stubborn():
        try:
            await hang()
        except asyncio.CancelledError:
            return "anyway"

    async def main():
        result = await stubborn()
        cancelling.append(asyncio.current_task().cancelling())
        await asyncio.sleep(0)
        return result

    task = await started(main())
    clock.advance(5)
    assert await task == "anyway"
    assert cancelling == [0]


@each_limit
async def test_an_error_on_the_way_out_comes_out(kind, clock):
    """A function that fails during its cancellation raises its own error."""
    policy, _ = limited(kind)

    @policy
    async def get():
        try:
            await hang()
        except asyncio.CancelledError:
            raise ValueError("while cleaning up") from None

    task = await started(get())
    clock.advance(5)
    with pytest.raises(ValueError, match="while cleaning up"):
        await task
    assert task.cancelling() == 0


@pytest.mark.parametrize(("inner", "outer"), [(5, 9), (9, 5), (5, 5)])
@pytest.mark.parametrize(
    "kinds",
    [
        f"{outer}-{inner}"
        for outer in ("timeout", "deadline", "block")
        for inner in ("timeout", "deadline", "block")
    ],
)
async def test_nested_limits_the_shorter_one_speaks(inner, outer, kinds, clock):
    """Of nested limits the shorter one raises; of two at the same instant the outer one."""
    outer_kind, inner_kind = kinds.split("-")
    inner_policy, inner_error = limited(inner_kind, inner)
    outer_policy, outer_error = limited(outer_kind, outer)
    task = await started(outer_policy(inner_policy(hang))())
    clock.advance(min(inner, outer))
    expected = inner_error if inner < outer else outer_error
    with pytest.raises(expected, match=f"{min(inner, outer)} s"):
        await task
    assert task.cancelling() == 0


@each_limit
@pytest.mark.real
@pytest.mark.parametrize("ours", [0.01, 9])
async def test_inside_of_asyncio_timeout(kind, ours):
    """The shorter one raises, and no cancellation request stays on the task; in real time, because asyncio has no virtual time."""
    policy, error = limited(kind, ours)
    expected = error if ours < 1 else TimeoutError
    with pytest.raises(TimeoutError) as raised:
        async with asyncio.timeout(0.05 if ours > 1 else 9):
            await policy(hang)()
    assert type(raised.value) is expected
    assert asyncio.current_task().cancelling() == 0


@each_limit
@pytest.mark.real
async def test_around_asyncio_timeout(kind):
    """The TimeoutError of an inner asyncio.timeout is raised as the function's own error."""
    policy, _ = limited(kind, 9)

    @policy
    async def get():
        async with asyncio.timeout(0.01):
            await hang()

    with pytest.raises(TimeoutError) as raised:
        await get()
    assert type(raised.value) is TimeoutError
    assert asyncio.current_task().cancelling() == 0


@each_limit
async def test_inside_of_a_task_group(kind, clock):
    """A call that times out fails its group like any error: the others are cancelled, and the group's own task is not."""
    policy, error = limited(kind)
    others = []

    async def main():
        async with asyncio.TaskGroup() as group:
            others.append(group.create_task(hang()))
            group.create_task(policy(hang)())

    task = await started(main())
    clock.advance(5)
    with pytest.raises(ExceptionGroup) as raised:
        await task
    assert [type(member) for member in raised.value.exceptions] == [error]
    assert others[0].cancelled()


@each_limit
async def test_around_a_task_group(kind, clock):
    """A group inside a limit: its children are cancelled, and the limit's error is raised."""
    policy, error = limited(kind)
    children = []

    @policy
    async def get():
        async with asyncio.TaskGroup() as group:
            children.extend(group.create_task(hang()) for _ in range(3))

    task = await started(get())
    clock.advance(5)
    with pytest.raises(error):
        await task
    assert all(child.cancelled() for child in children)
    assert task.cancelling() == 0


@each_limit
async def test_a_limit_works_in_a_task_that_was_cancelled_before(kind, clock):
    """During clean-up after a caught cancellation a limit still applies (test_cancel_in_timeout_after_cancellation)."""
    policy, error = limited(kind)

    async def main():
        try:
            await hang()
        finally:
            with pytest.raises(error):
                await policy(hang)()

    task = await started(main())
    task.cancel()
    await settle()
    clock.advance(5)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1


async def test_each_attempt_has_its_own_limit(clock):
    """An escalating timeout grows with the attempts: 2, 5, 30 s, and 30 again."""
    policy = rb.Policy(at_once(attempts=4), rb.Timeout.escalating(2, 5, 30))
    started_at = []

    async def get():
        started_at.append(clock.now)
        await hang()

    task = await started(policy(get, idempotent=True)())
    for seconds in (2, 5, 30, 30):
        clock.advance(seconds)
        await settle()
    with pytest.raises(rb.errors.AttemptTimeoutError, match="30 s"):
        await task
    assert [at - started_at[0] for at in started_at] == [0, 2, 7, 37]


async def test_many_calls_expire_each_in_its_time(clock):
    """One timer serves all: 50 calls started a second apart end a second apart, whatever ended in between."""
    get = rb.Policy(rb.Timeout(100))(hang)
    ended = []

    async def call(number):
        with pytest.raises(rb.errors.AttemptTimeoutError):
            await get()
        ended.append((number, clock.now - start))

    start = clock.now
    tasks = []
    for number in range(50):
        tasks.append(await started(call(number)))
        clock.advance(1)
    for number in range(0, 50, 2):
        tasks[number].cancel()
    for _ in range(100):
        clock.advance(1)
        await settle()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert ended == [(number, number + 100.0) for number in range(1, 50, 2)]


@each_limit
@pytest.mark.real
async def test_it_works_by_the_loops_own_clock(kind):
    """In real time: after 20 ms and not much later."""
    policy, error = limited(kind, 0.02)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(error):
        await policy(hang)()
    assert 0.015 < loop.time() - began < 1


@each_limit
async def test_a_call_that_never_waits_is_not_cut_off(kind, clock):
    """A function that never yields is not interrupted; it returns, and nothing is cancelled afterwards."""
    policy, _ = limited(kind)

    @policy
    async def busy():
        clock.advance(100)
        return "ok"

    async def main():
        result = await busy()
        await asyncio.sleep(0)
        return result, asyncio.current_task().cancelling()

    (done,) = await asyncio.gather(main(), return_exceptions=True)
    assert done == ("ok", 0)


async def test_a_limit_needs_a_task():
    """A coroutine driven outside any task cannot be cancelled, which raises RuntimeError."""
    call = rb.Policy(rb.Timeout(5))(hang)()
    loop = asyncio.get_running_loop()
    failed = loop.create_future()

    def drive():
        try:
            call.send(None)
        except BaseException as error:  # noqa: BLE001
            failed.set_result(error)

    loop.call_soon(drive)
    error = await failed
    assert isinstance(error, RuntimeError)
    assert "needs a running task" in str(error)


async def test_two_limits_of_one_length_in_one_policy_do_not_get_mixed_up(clock):
    """Layers of one duration share a queue, but a Deadline and a Timeout around one attempt are separate: both apply."""
    calls = 0

    async def fail_then_hang():
        nonlocal calls
        calls += 1
        if calls == 1:
            clock.advance(3)
            raise ConnectionRefusedError(111, "refused")
        await hang()

    task = await started(
        rb.Policy(rb.Deadline(5), at_once(), rb.Timeout(5))(fail_then_hang, idempotent=True)()
    )
    assert calls == 2
    clock.advance(2)
    with pytest.raises(rb.DeadlineExceededError):
        await asyncio.wait_for(task, 1)


async def test_functions_of_one_length_end_each_by_itself(clock):
    """Of two functions with one duration the first to start ends first, and the other keeps its whole time."""
    one, other = rb.Policy(rb.Timeout(5))(hang), rb.Policy(rb.Timeout(5))(hang)
    first = await started(one())
    clock.advance(3)
    second = await started(other())
    clock.advance(2)
    with pytest.raises(rb.errors.AttemptTimeoutError):
        await first
    assert not second.done()
    clock.advance(3)
    with pytest.raises(rb.errors.AttemptTimeoutError):
        await second
