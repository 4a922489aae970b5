"""What entering, leaving and losing its session do to a client's record of it. Rule: the position is a real Watermark."""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.protocol import Watermark
from resilient_bridge.stores import MemoryStore, Sessions
from tests.bridges.session_disk import BROKEN, Clock, Disk, code_of
from tests.internals.protocol import SessionCheckpoint, SessionRecord
from tests.internals.stores import on_enter, on_exit, on_lost, on_renamed


@pytest.fixture(params=[MemoryStore, Disk])
def store(request):
    """A store that keeps at once, and one that takes its time."""
    return request.param()


def read_up_to(count, session_id="s1", *, ids=True):
    """A position after so many messages taken; one more is in hand, and one not yet handed."""
    watermark = Watermark(session_id)
    for n in range(1, count + 3):
        key = ("tool_call", f"m{n}") if ids and n % 2 else None
        watermark.accept(key, f"text {n}", None, 0.0)
        if n <= count + 1:
            watermark.hand()
        if n == count:
            watermark.take()
    return watermark


@pytest.mark.requirement("R16")
async def test_a_client_keeps_a_record_of_its_session(store):
    """Entering makes it active, of nobody in particular; leaving pauses it with what was taken; entering again resumes it."""
    clock = Clock()
    entered = await on_enter(store, "s1", clock.now)
    assert (entered.state, entered.agent_type, entered.working_directory) == ("active", None, None)
    assert (entered.checkpoint, entered.resumable) == (None, True)
    clock.at(60)
    remaining = await on_exit(store, read_up_to(4), clock.now)
    assert remaining.state == "paused"
    assert remaining.checkpoint == SessionCheckpoint(message_count=4, last_message_id="m3")
    clock.at(90)
    again = await on_enter(store, "s1", clock.now)
    assert (again.state, again.checkpoint, again.created_at) == (
        "active",
        remaining.checkpoint,
        entered.created_at,
    )
    assert again.last_activity_at == clock.now.at


@pytest.mark.requirement("R10")
async def test_a_client_enters_no_session_that_is_over(store):
    """SESS_CLOSED for a closed one; SESS_NOT_RESUMABLE for one in error, and for one paused and not resumable."""
    clock = Clock()
    async with Sessions(store) as sessions:
        for session_id in ("closed", "error", "asleep", "made"):
            await sessions.create(
                "claude", "/work", session_id=session_id, resumable=session_id != "asleep"
            )
        await sessions.close("closed")
        await sessions.fail("error", BROKEN)
        await sessions.activate("asleep")
        await sessions.pause("asleep")
        for session_id, code in (
            ("closed", "SESS_CLOSED"), ("error", "SESS_NOT_RESUMABLE"), ("asleep", "SESS_NOT_RESUMABLE"),
        ):  # fmt: skip
            before = await sessions.get(session_id)
            with pytest.raises(rb.errors.SessionError) as caught:
                await on_enter(store, session_id, clock.now)
            assert code_of(caught) == code
            assert await sessions.get(session_id) == before
        assert (await on_enter(store, "made", clock.now)).agent_type == "claude"


async def test_leaving_keeps_the_snapshot_and_what_the_position_cannot_tell(store):
    """The user's snapshot stays; with nothing taken, or no ids, so does what an earlier checkpoint knew."""
    clock = Clock()
    await on_enter(store, "s1", clock.now)
    async with Sessions(store) as sessions:
        await sessions.checkpoint(
            "s1", message_count=12, last_message_id="m12", context_snapshot={"a": 1}
        )
    saved = await on_exit(store, read_up_to(0), clock.now)
    assert (saved.state, saved.checkpoint.message_count, saved.checkpoint.last_message_id) == (
        "paused",
        12,
        "m12",
    )
    saved = await on_exit(store, read_up_to(13, ids=False), clock.now)
    assert (saved.checkpoint.message_count, saved.checkpoint.last_message_id) == (13, "m12")
    saved = await on_exit(store, read_up_to(15), clock.now)
    assert saved.checkpoint == SessionCheckpoint(
        message_count=15, last_message_id="m15", context_snapshot={"a": 1}
    )
    assert (await on_enter(store, "s2", clock.now)).checkpoint is None
    assert (await on_exit(store, Watermark("s2"), clock.now)).checkpoint == SessionCheckpoint()


@pytest.mark.parametrize("done", ["close", "fail", "forget"])
async def test_leaving_changes_nothing_that_is_over(store, done):
    """A session that was closed, failed or forgotten while the client was in it stays so."""
    clock = Clock()
    await on_enter(store, "s1", clock.now)
    async with Sessions(store) as sessions:
        await getattr(sessions, done)("s1", *([BROKEN] if done == "fail" else []))
        before = dict(store.records())
        clock.at(60)
        await on_exit(store, read_up_to(4), clock.now)
        assert dict(store.records()) == before


async def test_a_lost_session_is_closed_and_its_owner_goes_on_in_the_new_one(store):
    """The new one has agent, directory, snapshot and `resumable` of the old one, and begins to count at 0."""
    clock = Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="old", resumable=False)
        await on_enter(store, "old", clock.now)
        await sessions.checkpoint(
            "old", message_count=12, last_message_id="m12", context_snapshot={"a": 1}
        )
        clock.at(60)
        new = await on_lost(store, "old", "new", clock.now)
        assert new == SessionRecord(
            id="new", agent_type="claude", working_directory="/work", state="active", resumable=False,
            created_at=clock.now.at, last_activity_at=clock.now.at, checkpoint=SessionCheckpoint(context_snapshot={"a": 1}),
        )  # fmt: skip
        assert await sessions.get("new") == new
        assert (await sessions.get("old")).state == "closed"
        # What is lost may be unknown, or closed by its owner; the new one may be an earlier one of ours.
        assert (await on_lost(store, "unknown", "newer", clock.now)).agent_type is None
        assert (await on_lost(store, "old", "newer", clock.now)).agent_type is None
        assert sorted(saved.id for saved in await sessions.list("active")) == ["new", "newer"]


async def test_a_loss_half_saved_has_lost_nothing():
    """If the store fails at the first write nothing has changed, at the second one only the old record is not closed yet."""
    clock = Clock()
    store = Disk()
    await on_enter(store, "old", clock.now)
    store.fails = 1
    with pytest.raises(rb.errors.StoreError):
        await on_lost(store, "old", "new", clock.now)
    assert list(store.records()) == ["old"]
    store.fine = store.fails = 1
    with pytest.raises(rb.errors.StoreError):
        await on_lost(store, "old", "new", clock.now)
    assert [SessionRecord.from_json(text).state for text in store.records().values()] == [
        "active",
        "active",
    ]
    await on_lost(store, "old", "new", clock.now)
    assert [SessionRecord.from_json(text).state for text in store.records().values()] == [
        "closed",
        "active",
    ]


async def test_a_session_that_the_server_names_otherwise_keeps_its_record(store):
    """The record goes by the new name, and the old one is free; an earlier record of that name is entered as it is."""
    clock = Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="ours")
        entered = await on_enter(store, "ours", clock.now)
        renamed = await on_renamed(store, "ours", "theirs", clock.now)
        assert (renamed.id, renamed.agent_type, renamed.state) == (
            "theirs",
            entered.agent_type,
            "active",
        )
        await on_enter(store, "other", clock.now)
        assert (await on_renamed(store, "other", "theirs", clock.now)).agent_type == "claude"
        assert (await on_renamed(store, "unknown", "new", clock.now)).agent_type is None
        assert sorted(store.records()) == ["new", "theirs"]


async def test_no_one_refuses_what_the_server_has_done(store):
    """Found in a session whose record is over, by a loss or by a name, a client goes on; the record stays as it was."""
    clock = Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="over")
        closed = await sessions.close("over")
        for ours, happens in (("s1", on_lost), ("s2", on_renamed)):
            await on_enter(store, ours, clock.now)
            clock.at(60)
            assert await happens(store, ours, "over", clock.now) == closed
            assert await sessions.get("over") == closed


async def test_what_a_client_cannot_keep_goes_up():
    """StoreError from entering and from leaving: the client decides what that means."""
    clock = Clock()
    store = Disk()
    store.fails = 1
    with pytest.raises(rb.errors.StoreError):
        await on_enter(store, "s1", clock.now)
    assert (await on_enter(store, "s1", clock.now)).state == "active"
    store.fails = 1
    with pytest.raises(rb.errors.StoreError):
        await on_exit(store, read_up_to(1), clock.now)


async def test_with_no_other_owner_a_record_is_saved_without_waiting():
    """On a store in memory entering and leaving never give up their turn, so that clients of before run as they did."""
    clock = Clock()
    for coroutine in (
        on_enter(MemoryStore(), "s1", clock.now),
        on_exit(MemoryStore(), read_up_to(1), clock.now),
    ):
        with pytest.raises(StopIteration):
            coroutine.send(None)
