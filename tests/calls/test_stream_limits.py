"""What bounds a stream after its first item: its Deadline, and the time that it may be idle."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from tests.calls.forms import at_once, settle


async def _drip(clock, seconds, count=100, closed=None):
    """Items that come every so many seconds."""
    try:
        for number in range(count):
            yield number
            await asyncio.sleep(0)
            clock.advance(seconds)
            for _ in range(5):  # a timer that is due has its turn
                await asyncio.sleep(0)
    finally:
        if closed is not None:
            closed.append(True)


@pytest.mark.parametrize(("seconds", "items"), [(0.3, [0, 1, 2, 3]), (5, [0])])
async def test_e05_a_deadline_ends_an_async_stream(seconds, items):
    """In the middle of the wait for an item; the stream is closed, the circuit hears nothing, the note says why it is not repeated."""
    got, closed = [], []
    with rb.testing.virtual_time() as clock:
        stream = rb.Policy(rb.Deadline(1), at_once(), rb.Breaker.consecutive(1))(
            _drip, idempotent=True
        )
        with pytest.raises(rb.DeadlineExceededError, match="deadline of 1 s exceeded") as raised:
            async for item in stream(clock, seconds, closed=closed):
                got += [item]
        assert rb.calls.circuit(stream).state == "closed"
    assert (got, closed) == (items, [True])
    assert raised.value.__notes__ == ["not repeated: items had been handed out"]
    assert raised.value.failure.executed == "maybe"
    assert asyncio.current_task().cancelling() == 0


async def test_e05_a_stream_may_be_idle_for_so_long():
    """`Timeout(3, idle=10)`: 3 s to the first item, 10 s between two, however many come; then a timeout that the circuit hears of."""
    got = []
    with rb.testing.virtual_time() as clock:
        stream = rb.Policy(rb.Breaker.consecutive(1), rb.Timeout(3, idle=10))(_drip)
        async for item in stream(clock, 9, 5):
            got += [item]
        with pytest.raises(
            rb.errors.AttemptTimeoutError, match="timed out after 10 s without an item"
        ):
            async for item in stream(clock, 11):
                got += [item]
        assert rb.calls.circuit(stream).state == "open"
    assert got == [0, 1, 2, 3, 4, 0]


async def test_e05_a_cancellation_of_ones_own_stays_one():
    """Whoever cancels the reader is not told of a deadline."""
    with rb.testing.virtual_time():

        @rb.Policy(rb.Deadline(5), rb.Timeout(3, idle=2))
        async def items():
            yield 1
            await asyncio.get_running_loop().create_future()

        async def read():
            async for _ in items():
                pass

        reading = asyncio.create_task(read())
        await settle()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading


def test_e05_a_sync_stream_is_asked_for_nothing_after_its_deadline():
    """It cannot be interrupted: the item that came late is handed out, the next one is not asked for, and the stream is closed."""
    got, closed = [], []
    with rb.testing.virtual_time() as clock:

        @rb.Policy(rb.Deadline(1))
        def items():
            try:
                for number in range(9):
                    yield number
                    clock.advance(0.6)
            finally:
                closed.append(True)

        with pytest.raises(rb.DeadlineExceededError):
            for item in items():
                got += [item]
                clock.advance(100)  # the reader's time is its own
    assert (got, closed) == ([0, 1, 2], [True])


@pytest.mark.real
async def test_e05_real_time_ends_a_stream_that_hangs():
    """The reproduction: an item at once, the next after 2.5 s, a deadline of 0.3 s."""
    got = []

    @rb.Policy(rb.Deadline(0.3))
    async def items():
        yield 1
        await asyncio.sleep(2.5)
        yield 2

    with pytest.raises(rb.DeadlineExceededError):
        async for item in items():
            got += [item]
    assert got == [1]
