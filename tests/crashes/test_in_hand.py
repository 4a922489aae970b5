"""Messages that a consumer had when its process ended: by a crash, and by a close with a full inbox."""

from __future__ import annotations

import pytest

from resilient_bridge.testing import BridgeServer
from tests.crashes.lives import Nursery


pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(60)]

MANY = 60
LONG = 200
BOUND = 64  # messages that a crash may repeat; the consumer has one more while these are written in a thread
WITHIN = 0.5  # seconds: half as long as a slow disk takes for one transaction


@pytest.mark.parametrize("durability", ["process", "machine"])
async def test_a_close_leaves_what_was_not_read_and_what_is_in_doubt(tmp_path, durability):
    """After a crash 60 messages are in doubt; the next process reads some and closes: the third gets only the others, all flagged."""
    async with BridgeServer() as server, Nursery() as nursery:
        order = {
            "url": server.url,
            "store": str(tmp_path / "bridge.db"),
            "durability": durability,
            "last": 0,
        }
        crashed = nursery.start(**order, dawdles=0, variant="position_seldom_saved")
        assert await crashed.until(lambda: crashed.is_idle), crashed
        for n in range(1, MANY + 1):
            await server.push("news", {"n": n})
        assert await crashed.until(lambda: len(crashed.consumed) == MANY), crashed
        crashed.kill()
        await crashed.end()
        closed = nursery.start(**order, dawdles=1, drain=0)
        assert await closed.until(lambda: len(closed.consumed) >= 5), closed
        closed.ask_to_close()
        assert await closed.end() == 0
        third = nursery.start(**order, dawdles=0)
        assert await third.until(lambda: third.consumed and third.consumed[-1][0] == MANY), third
        third.ask_to_close()
        await third.end()
    assert len(closed.consumed) < MANY
    assert all(flagged for _, flagged in (*closed.consumed, *third.consumed))
    assert third.consumed[0][0] in {closed.consumed[-1][0], closed.consumed[-1][0] + 1}


async def _crash(directory, durability, **order):
    """Read 200 messages, kill the process and start again; return what both processes consumed."""
    async with BridgeServer() as server, Nursery() as nursery:
        order |= {
            "url": server.url,
            "store": str(directory / "bridge.db"),
            "durability": durability,
        }
        order |= {"last": 0, "dawdles": 0, "patience": 8}
        first = nursery.start(**order)
        assert await first.until(lambda: first.is_idle, 20), first
        for n in range(1, LONG + 1):
            await server.push("news", {"n": n})
        assert await first.until(lambda: len(first.consumed) == LONG, WITHIN) or first.consumed, (
            first
        )
        first.kill()
        await first.end()
        second = nursery.start(**order | {"die": None, "variant": None})
        await _read_all(second, server, LONG)
    return first.consumed, second.consumed


async def _read_all(life, server, last):
    """Let a process read what it gets again, and close: one message more than the `last` comes behind all of that, which may be nothing."""
    assert await life.until(lambda: life.is_idle, 20), life
    await server.push("news", {"n": last + 1})
    assert await life.until(lambda: life.consumed and life.consumed[-1][0] == last + 1), life
    life.ask_to_close()
    await life.end()


def _judge(first, second):
    before = {n for n, _ in first}
    again = [(n, flagged) for n, flagged in second if n in before]
    assert len(first) >= BOUND - 1  # as far as the consumer may be ahead
    assert len(again) <= BOUND
    assert [n for n, flagged in again if not flagged] == []


async def test_a_crash_repeats_at_most_64_messages(tmp_path):
    """A consumer that does nothing but read is killed after 200 messages: the next process gets at most 64 of them again, flagged."""
    _judge(*await _crash(tmp_path, "process"))


async def test_a_position_that_is_seldom_saved_is_caught(tmp_path):
    """The test above catches a position that is saved only with other writes: all 200 are repeated."""
    with pytest.raises(AssertionError):
        _judge(*await _crash(tmp_path, "process", variant="position_seldom_saved"))


async def test_a_crash_repeats_at_most_64_messages_however_slow_the_disk_is(tmp_path):
    """With the promise "machine" positions are written in a thread, and the consumer is at most 64 messages ahead of it."""
    _judge(*await _crash(tmp_path, "machine", die={"slow": 2 * WITHIN}))


async def test_what_is_taken_while_a_position_is_written_counts_as_well(tmp_path):
    """60 messages during a slow transaction and 60 after it: at the crash at most 64 of them are unsaved, and flagged."""
    slow = 1.0
    async with BridgeServer() as server, Nursery() as nursery:
        order = {"url": server.url, "store": str(tmp_path / "bridge.db"), "durability": "machine"}
        order |= {"last": 0, "dawdles": 0, "patience": 8}
        first = nursery.start(**order, die={"slow": slow})
        assert await first.until(lambda: first.is_idle, 20), first
        pushed = 0
        for count, pause in ((1, 0.3), (60, slow + 0.1), (60, 0.3)):
            for _ in range(count):
                pushed += 1
                await server.push("news", {"n": pushed})
            await first.until(
                lambda: False, pause
            )  # the transactions begin 0.1 s after the first message
        first.kill()
        await first.end()
        second = nursery.start(**order)
        await _read_all(second, server, pushed)
    _judge(first.consumed, second.consumed)
