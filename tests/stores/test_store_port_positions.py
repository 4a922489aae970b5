"""What every store keeps of how far a session was read, whatever the store is made of. Rule: as in test_store_port.py."""

from __future__ import annotations

import asyncio

from tests.redis_server import redis_server_fixture
from tests.stores.port_suite import DURABLE, PLACES, WALL, backend_fixture, done, now, read


server = redis_server_fixture(scope="module")
backend = backend_fixture(PLACES)
durable = backend_fixture(DURABLE)


async def test_a_position_goes_on(backend):
    """A closed client's position: what was read, the anchor, what to ask for, whether it had joined, the server's epoch."""
    async with backend.opened() as store:
        watermark = store.session("s")
        watermark.asked_to_join = watermark.joined = True
        watermark.epoch = "server-1"
        read(watermark, 1, 100)
        read(watermark, 101, 102, kind="stream_chunk")
        store.touch(102)
    async with backend.opened() as store:
        found = store.session("s")
        found.rollback()
        assert (found.asked_to_join, found.joined, found.replaces, found.epoch) == (
            True,
            True,
            False,
            "server-1",
        )
        assert (found.accepted, found.taken) == (102, 102)
        anchor, after = found.anchor()
        assert (anchor.key, anchor.text) == (("tool_call", "m100"), '{"n":100}')
        assert [mark.text for mark in after] == ['{"n":101}', '{"n":102}']
        assert found.since(0, None) == "2026-03-20T10:00:39Z"
        assert ("tool_call", "m1") in found
        assert not found.was_in_hand(("tool_call", "m103"), "{}")


async def test_a_new_session_is_fresh(backend):
    """A session that nobody had has no position, and does not look as if it had joined."""
    async with backend.opened() as store:
        assert store.session("new").asked_to_join is False
        assert store.session("new").accepted == 0


async def test_what_was_in_hand_is_known(durable):
    """What the consumer had in his hands, without asking for the next, is not taken, and was in his hands."""
    async with durable.opened() as store:
        watermark = store.session("s")
        read(watermark, 1, 3)
        read(watermark, 4, 4, taken=False)
        watermark.accept(("tool_call", "m5"), "{}", None, now().mono)
    async with durable.opened() as store:
        found = store.session("s")
        found.rollback()
        assert found.taken == found.accepted == 3
        assert found.was_in_hand(("tool_call", "m4"), '{"n":4}')
        assert not found.was_in_hand(("tool_call", "m5"), "{}")


async def test_a_crash_leaves_the_first_64_in_doubt(durable):
    """After a crash the next 64 messages may have been in the consumer's hands; after a close they were not."""
    async with durable.opened() as store:
        watermark = store.session("s")
        read(watermark, 1, 3)
        await done(store.keep(watermark))
        crashed = await durable.crashed()
    async with crashed.opened() as store:
        found = store.session("s")
        assert [found.was_in_hand(("tool_call", f"m{n}"), "{}") for n in range(4, 69)] == [
            True
        ] * 64 + [False]
    async with durable.opened() as store:
        assert not store.session("s").was_in_hand(("tool_call", "m4"), "{}")


async def test_a_doubt_outlives_a_client_that_did_nothing(durable):
    """A crash, then a client that opens and closes without a join: what was in doubt still is."""
    async with durable.opened() as store:
        watermark = store.session("s")
        read(watermark, 1, 3)
        await done(store.keep(watermark))
        crashed = await durable.crashed()
    async with crashed.opened() as store:
        store.session("s")
    async with crashed.opened() as store:
        assert store.session("s").was_in_hand(("tool_call", "m4"), "{}")


async def test_a_position_is_saved_before_the_64th_is_handed_out(durable):
    """What the store says before it is waited for by the reader: with the one that he gets then, 64 can come again."""
    async with durable.opened() as store:
        watermark = store.session("s")
        await done(store.keep(watermark))
        for n in range(1, 64):
            await done(store.touch(1))
            read(watermark, n, n)
        await done(store.touch(1))
        crashed = await durable.crashed()
    async with crashed.opened() as store:
        assert store.session("s").taken == 63


async def test_a_position_is_saved_soon(durable):
    """Three messages are kept without anybody asking for it."""
    async with durable.opened() as store:
        watermark = store.session("s")
        await done(store.keep(watermark))
        for n in range(1, 4):
            read(watermark, n, n)
            assert store.touch(1) is None
        async with asyncio.timeout(10):
            while watermark.taken != 3 or not await _has_taken(durable, 3):
                await asyncio.sleep(0.3)


async def _has_taken(durable, messages: int) -> bool:
    crashed = await durable.crashed()
    async with crashed.opened() as store:
        return store.session("s").taken == messages


async def test_a_join_is_saved_before_it_is_sent(durable):
    """When keep() is done, a later process knows of the join."""
    async with durable.opened() as store:
        watermark = store.session("s")
        watermark.asked_to_join = True
        await done(store.keep(watermark))
        crashed = await durable.crashed()
    async with crashed.opened() as store:
        assert store.session("s").asked_to_join is True


async def test_a_tail_has_2048_messages(durable):
    """Of 5,000 messages, kept in parts, the last 2,048 are behind the position."""
    async with durable.opened() as store:
        watermark = store.session("s")
        for start in range(1, 5_001, 1_000):
            read(watermark, start, start + 999)
            await done(store.keep(watermark))
    async with durable.opened() as store:
        tail = store.session("s").tail
        assert (len(tail), tail[0].text, tail[-1].text) == (2_048, '{"n":2953}', '{"n":5000}')


async def test_a_tail_is_half_an_hour_long(durable):
    """A message half an hour older than the last one is no longer behind the position; downtime does not count."""
    async with durable.opened(WALL) as store:
        watermark = store.session("s")
        start = now().mono
        read(watermark, 1, 1, at=start - 1_900)
        read(watermark, 2, 2, at=start - 1_700)
        await done(store.keep(watermark))
        read(watermark, 3, 3, at=start)
    async with durable.opened(WALL + 86_000) as store:
        found = store.session("s")
        assert [mark.text for mark in found.tail] == ['{"n":2}', '{"n":3}']
        read(found, 4, 4, at=now().mono + 60)
        assert [mark.text for mark in found.tail] == ['{"n":2}', '{"n":3}', '{"n":4}']


async def test_answers_are_used_up_for_good(durable):
    """A message that answered a request is no message in the next process, the last 2,048 of them."""
    async with durable.opened() as store:
        watermark = store.session("s")
        for start in range(0, 3_000, 500):
            for n in range(start, start + 500):
                watermark.use_up(("tool_result", f"a{n}"))
            await done(store.keep(watermark))
    async with durable.opened() as store:
        found = store.session("s")
        assert found.is_used_up(("tool_result", "a2999"))
        assert found.is_used_up(("tool_result", "a952"))
        assert not found.is_used_up(("tool_result", "a951"))
        assert found.answers_used == 3_000


async def test_sessions_are_apart(backend):
    """Each session has its own position, whatever its name is made of; the one used last is known."""
    names = ["s", "S", "s:1", "{s}", "a b\n%", "\u00fc\U0001f600", "s" * 250]
    async with backend.opened() as store:
        for count, name in enumerate(names, 1):
            read(store.session(name), 1, count)
    async with backend.opened() as store:
        assert store.last_session() == names[-1]
        assert [store.session(name).taken for name in names] == list(range(1, 8))


async def test_a_dropped_session_is_forgotten(backend):
    """What the server has forgotten is forgotten here; the session in its place says what it replaces."""
    async with backend.opened() as store:
        lost = store.session("old")
        lost.asked_to_join = True
        read(lost, 1, 3)
        await done(store.keep(lost))
        store.drop_session("old")
        store.session("new").replaces = True
    async with backend.opened() as store:
        assert store.last_session() == "new"
        assert store.session("new").replaces is True
        assert store.session("old").accepted == 0
        assert store.session("old").asked_to_join is False


async def test_a_session_that_the_server_named(durable):
    """A session that the server gave another name is found under that, and only under that."""
    async with durable.opened() as store:
        watermark = store.session("ours")
        read(watermark, 1, 3)
        await done(store.keep(watermark))
        watermark.session_id = "theirs"
        read(watermark, 4, 5)
        await done(store.keep(watermark))
    async with durable.opened() as store:
        assert store.last_session() == "theirs"
        assert len(store.session("theirs").tail) == 5
        assert store.session("ours").accepted == 0
