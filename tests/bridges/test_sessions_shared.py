"""Sessions and others on one store: who has it open, what it refuses, two changes at once. Rule: every write takes a turn of the loop."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import Sessions
from tests.bridges.session_disk import AWAY, START, Clock, Disk
from tests.internals.protocol import SessionCheckpoint
from tests.internals.stores import session_record


# ---- the store -----------------------------------------------------------------------------------------------------


async def test_a_store_is_open_while_the_sessions_are():
    """Entering opens it with the time, leaving closes it; outside of that, and twice, is a ConfigError. It can be entered again."""
    clock = Clock()
    clock.at(5)
    store = Disk()
    sessions = Sessions(store)
    for _ in range(2):
        with pytest.raises(
            rb.ConfigError,
            match="wanted sessions entered with `async with`, got 'ones that are not open'",
        ):
            await sessions.list()
        async with sessions:
            assert (store.users, store.opened_at) == (1, START + 5)
            with pytest.raises(rb.ConfigError, match="wanted sessions that are not open"):
                await sessions.__aenter__()
            assert repr(sessions).endswith("open>")
        assert store.users == 0
        assert repr(sessions).endswith("closed>")


async def test_two_share_one_open_store():
    """Two `Sessions` on one store object see each other's work at once, and the first to leave takes nothing from the other."""
    Clock()
    store = Disk()
    async with Sessions(store) as one:
        async with Sessions(store) as other:
            await one.create("claude", "/work", session_id="s1")
            await other.activate("s1")
            assert store.users == 2
        assert (await one.pause("s1")).state == "paused"
        assert store.users == 1


async def test_sessions_that_cannot_be_opened():
    """What the store says comes out as it is, and they are not open afterwards."""
    Clock()

    class Away(Disk):
        async def open(self, now, *, outbox=True):
            raise rb.errors.StoreError(AWAY)

    sessions = Sessions(Away())
    with pytest.raises(rb.errors.StoreError):
        await sessions.__aenter__()
    with pytest.raises(rb.ConfigError):
        await sessions.list()
    with pytest.raises(rb.ConfigError):
        Sessions(5)


async def test_what_the_store_refuses_has_not_happened():
    """A StoreError comes out of each operation, and the record is what it was."""
    Clock()
    store = Disk()
    async with Sessions(store) as sessions:
        made = await sessions.create("claude", "/work", session_id="s1")
        for operation in (sessions.activate, sessions.checkpoint, sessions.close, sessions.forget):
            store.fails = 1
            with pytest.raises(rb.errors.StoreError):
                await operation("s1")
            assert await sessions.get("s1") == made
        store.fails = 1
        with pytest.raises(rb.errors.StoreError):
            await sessions.create("claude", "/work", session_id="s2")
        assert [saved.id for saved in await sessions.list()] == ["s1"]


# ---- two at once ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R10")
async def test_of_two_who_resume_at_once_one_gets_it():
    """The second is told that the session is active, whichever Sessions it came through: nobody works on one twice."""
    Clock()
    store = Disk()
    async with Sessions(store) as one, Sessions(store) as other:
        await one.create("claude", "/work", session_id="s1")
        await one.activate("s1")
        await one.pause("s1")
        results = await asyncio.gather(one.resume("s1"), other.resume("s1"), return_exceptions=True)
        assert [getattr(result, "state", None) for result in results] == ["active", None]
        assert results[1].failure.code == "SESS_NOT_RESUMABLE"


async def test_two_changes_at_once_are_both_saved():
    """A snapshot and a count, a close and an activity: the later one builds on the earlier one, and neither is lost."""
    Clock()
    store = Disk()
    async with Sessions(store) as one, Sessions(store) as other:
        for session_id in ("s1", "s2"):
            await one.create("claude", "/work", session_id=session_id)
        await asyncio.gather(
            one.checkpoint("s1", message_count=3),
            other.checkpoint("s1", context_snapshot=[1]),
            one.activate("s2"),
        )
        assert (await one.get("s1")).checkpoint == SessionCheckpoint(
            message_count=3, context_snapshot=[1]
        )
        results = await asyncio.gather(
            one.close("s1"), other.activate("s1"), return_exceptions=True
        )
        assert results[1].failure.code == "SESS_CLOSED"
        assert (await one.get("s1")).state == "closed"
        made = await asyncio.gather(
            *(each.create("claude", "/", session_id="s3") for each in (one, other)),
            return_exceptions=True,
        )
        assert isinstance(made[1], rb.ConfigError)
        results = await asyncio.gather(
            one.forget("s3"), other.activate("s3"), return_exceptions=True
        )
        assert results[1].failure.code == "SESS_NOT_FOUND"
    assert session_record._QUEUES == {}


async def test_a_cancelled_change_lets_the_next_one_go():
    """Whoever waits for a record that somebody gave up on gets it."""
    Clock()
    store = Disk()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="s1")
        first, second = (asyncio.create_task(sessions.activate("s1")) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).state == "active"
        assert first.cancelled()
    assert session_record._QUEUES == {}
