"""Sessions and their records: a life of one, a restart, what is listed, what is unknown.

Rule: a store stands for a disk; whoever comes later is a new `Sessions` that knows nothing but the store.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import MemoryStore, RedisStore, Sessions
from tests.bridges.session_disk import BROKEN, START, Clock, Disk, code_of
from tests.internals.protocol import SessionCheckpoint, SessionRecord
from tests.redis_server import redis_server_fixture
from tests.stores.port_suite import done


server = redis_server_fixture(scope="module")


def _redis(request):
    server = request.getfixturevalue("server")
    with server.client() as client:
        client.flushall()
    return server.url


SHARED = [
    pytest.param(lambda request: request.getfixturevalue("tmp_path") / "bridge.db", id="sqlite"),
    pytest.param(_redis, id="redis", marks=pytest.mark.real),
]


@pytest.fixture(
    params=[
        pytest.param(lambda request: MemoryStore(), id="memory"),
        pytest.param(lambda request: Disk(), id="slow"),
        *SHARED,
    ]
)
def store(request):
    """What `Sessions` is given: a store that keeps at once, one that takes its time, a file, and a Redis, opened anew each time."""
    return request.param(request)


# ---- a life --------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R10")
@pytest.mark.requirement("R16")
async def test_a_session_survives_a_restart(store):
    """What one process created, checkpointed and paused, another resumes, with all that the first one knew of it; then it is closed."""
    clock = Clock()
    async with Sessions(store) as sessions:
        made = await sessions.create("claude", PurePosixPath("/work"), session_id="s1")
        assert (made.state, made.checkpoint, made.resumable) == ("created", None, True)
        assert (made.agent_type, made.working_directory) == ("claude", "/work")
        assert (await sessions.activate("s1")).state == "active"
        clock.at(60)
        snapshot = {"files": ["a.py"], "turn": None}
        await sessions.checkpoint(
            "s1", message_count=3, last_message_id="m3", context_snapshot=snapshot
        )
        clock.at(90)
        paused = await sessions.pause("s1")

    async with Sessions(store) as sessions:
        assert await sessions.get("s1") == paused
        later = clock.at(3_600)
        resumed = await sessions.resume("s1")
        assert (resumed.state, resumed.created_at, resumed.last_activity_at) == (
            "active", datetime.fromtimestamp(START, UTC), later,
        )  # fmt: skip
        checkpoint = SessionCheckpoint(
            message_count=3, last_message_id="m3", context_snapshot=snapshot
        )
        assert resumed.checkpoint == checkpoint
        await sessions.close("s1")

    async with Sessions(store) as sessions:
        assert (await sessions.get("s1")).state == "closed"
        for operation in (
            sessions.activate,
            sessions.checkpoint,
            sessions.pause,
            sessions.resume,
            sessions.close,
        ):
            with pytest.raises(rb.errors.SessionError) as caught:
                await operation("s1")
            assert code_of(caught) == "SESS_CLOSED"


@pytest.mark.requirement("S8")
async def test_a06_a_caller_may_close_what_is_closed_or_unknown(store):
    """sessions_close: "returns silently if session already closed or doesn't exist", where the caller says so; else it raises."""
    Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="s1")
        closed = await sessions.close("s1", missing_ok=True)
        assert closed.state == "closed"
        assert await sessions.close("s1", missing_ok=True) == closed == await sessions.get("s1")
        assert await sessions.close("s2", missing_ok=True) is None
        assert [record.id for record in await sessions.list()] == ["s1"]
        for name, code in (("s1", "SESS_CLOSED"), ("s2", "SESS_NOT_FOUND")):
            with pytest.raises(rb.errors.SessionError) as caught:
                await sessions.close(name)
            assert code_of(caught) == code
        with pytest.raises(rb.ConfigError, match="missing_ok"):
            await sessions.close("s1", missing_ok="yes")


@pytest.mark.requirement("R10")
@pytest.mark.parametrize("state", ["created", "active", "asleep", "error"])
async def test_only_a_paused_resumable_session_is_resumed(store, state):
    """SESS_NOT_RESUMABLE for every other one, and the record stays as it was."""
    Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="s1", resumable=state != "asleep")
        if state != "created":
            await sessions.activate("s1")
        if state == "asleep":
            await sessions.pause("s1")
        if state == "error":
            await sessions.fail("s1", BROKEN)
        before = await sessions.get("s1")
        with pytest.raises(rb.errors.SessionError) as caught:
            await sessions.resume("s1")
        assert code_of(caught) == "SESS_NOT_RESUMABLE"
        assert await sessions.get("s1") == before


async def test_a_session_whose_process_was_killed_is_taken_over(store):
    """Nobody paused it, so it is active: `activate` goes on from its checkpoint."""
    Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="s1")
        await sessions.activate("s1")
        await sessions.checkpoint("s1", message_count=3)
    async with Sessions(store) as sessions:
        taken = await sessions.activate("s1")
        assert (taken.state, taken.checkpoint.message_count) == ("active", 3)


WORKER = """
import asyncio, os, signal, sys
from resilient_bridge.stores import Sessions
from resilient_bridge.stores import RedisStore

async def work():
    place = sys.argv[1]
    async with Sessions(RedisStore(place, lease=1) if "://" in place else place) as sessions:
        await sessions.create("claude", "/work", session_id="s1")
        await sessions.activate("s1")
        await sessions.checkpoint("s1", message_count=3, context_snapshot={"files": ["a.py"]})
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(work())
"""


@pytest.mark.real
@pytest.mark.requirement("R16")
@pytest.mark.parametrize("store", SHARED, indirect=True)
async def test_a_session_survives_kill_9(store):
    """A process is killed right after an operation returned: the next one reads the record from the same store, whole.

    In a Redis it waits until the lease of the dead one has run out.
    """
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, str(store)], check=False, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    later = RedisStore(store, wait=10) if isinstance(store, str) else store
    async with Sessions(later) as sessions:
        (saved,) = await sessions.list("active")
        assert (saved.id, saved.agent_type, saved.working_directory) == ("s1", "claude", "/work")
        assert saved.checkpoint == SessionCheckpoint(
            message_count=3, context_snapshot={"files": ["a.py"]}
        )
        assert (await sessions.activate("s1")).checkpoint == saved.checkpoint


async def test_a_failure_is_saved(store):
    """A session in error says why, in a later process too, and can be closed."""
    Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="s1")
        assert (await sessions.fail("s1", BROKEN)).error == BROKEN
    async with Sessions(store) as sessions:
        assert (await sessions.get("s1")).error == BROKEN
        with pytest.raises(rb.errors.SessionError) as caught:
            await sessions.activate("s1")
        assert code_of(caught) == "SESS_NOT_RESUMABLE"
        assert (await sessions.close("s1")).error == BROKEN
        with pytest.raises(
            rb.ConfigError, match=r"Sessions\.fail\.failure: wanted a Failure, got 'ValueError'"
        ):
            await sessions.fail("s1", ValueError("x"))


async def test_a_checkpoint_changes_what_is_restored(store):
    """What is not given stays; None is a snapshot and an id like any other; without a word it is an empty checkpoint."""
    Clock()
    async with Sessions(store) as sessions:
        await sessions.create("claude", "/work", session_id="s1")
        saved = await sessions.checkpoint("s1")
        assert saved.checkpoint == SessionCheckpoint()
        await sessions.checkpoint("s1", message_count=3, last_message_id="m3", context_snapshot=[1])
        saved = await sessions.checkpoint("s1", context_snapshot=[2])
        assert saved.checkpoint == SessionCheckpoint(
            message_count=3, last_message_id="m3", context_snapshot=[2]
        )
        saved = await sessions.checkpoint("s1", last_message_id=None, context_snapshot=None)
        assert saved.checkpoint == SessionCheckpoint(message_count=3)
        with pytest.raises(rb.ConfigError):
            await sessions.checkpoint("s1", context_snapshot={1, 2})
        assert await sessions.get("s1") == saved


# ---- the kept records ----------------------------------------------------------------------------------------------


async def test_the_latest_activity_comes_first(store):
    """`list` begins with what was worked on last, and shows one state if it is asked for."""
    clock = Clock()
    async with Sessions(store) as sessions:
        for second, session_id in enumerate(["a", "b", "c"]):
            clock.at(second)
            await sessions.create("claude", "/work", session_id=session_id)
        clock.at(10)
        await sessions.activate("a")
        assert [saved.id for saved in await sessions.list()] == ["a", "c", "b"]
        assert [saved.id for saved in await sessions.list("created")] == ["c", "b"]
        assert await sessions.list("closed") == []
        with pytest.raises(
            rb.ConfigError, match=r"Sessions\.list\.state: wanted one of created, active"
        ):
            await sessions.list("asleep")


async def test_an_unknown_session_is_answered_with_near_ones(store):
    """SESS_NOT_FOUND for every operation, with the ids that look like it, and what else to look at."""
    Clock()
    async with Sessions(store) as sessions:
        for session_id in ("sess-abc123", "other"):
            await sessions.create("claude", "/work", session_id=session_id)
        for operation in (
            sessions.get,
            sessions.activate,
            sessions.resume,
            sessions.close,
            sessions.forget,
        ):
            with pytest.raises(rb.errors.SessionError) as caught:
                await operation("sess-abc124")
            failure = caught.value.failure
            assert failure.code == "SESS_NOT_FOUND"
            assert failure.message == "no session with the id sess-abc124"
            assert failure.suggestions[0] == "did you mean sess-abc123"
            assert failure.suggestions[1:] == (
                "check the spelling of the session's id",
                "the session may have been forgotten, or be kept by another store",
                "list() shows the sessions that are kept",
            )
        with pytest.raises(rb.ConfigError, match=r"Sessions\.session_id: wanted text, got None"):
            await sessions.get(None)


async def test_an_id_is_issued_once(store):
    """Ids of ours differ; one that is taken is refused, one of a closed session as SESS_CLOSED, until it is forgotten."""
    Clock()
    async with Sessions(store) as sessions:
        made = [await sessions.create("claude", "/work") for _ in range(3)]
        assert len({saved.id for saved in made}) == 3
        taken = made[0].id
        with pytest.raises(
            rb.ConfigError, match=r"create\.session_id: wanted an id that no kept session has"
        ):
            await sessions.create("other", "/", session_id=taken)
        await sessions.close(taken)
        with pytest.raises(rb.errors.SessionError) as caught:
            await sessions.create("other", "/", session_id=taken)
        assert code_of(caught) == "SESS_CLOSED"
        await sessions.forget(taken)
        assert (await sessions.create("other", "/", session_id=taken)).agent_type == "other"


@pytest.mark.requirement("R16")
async def test_a_session_of_the_seed_is_adopted(store):
    """A PersistedSession in its own JSON goes on here: adopted as it is, and resumed with its checkpoint."""
    text = """{"id": "sess-1", "agentType": "claude", "workingDirectory": "/p", "createdAt": "2026-03-20T14:32:00Z",
        "lastActivityAt": "2026-03-20T15:00:00Z",
        "checkpoint": {"messageCount": 12, "lastMessageId": "m12", "contextSnapshot": {"a": 1}}}"""
    Clock()
    async with Sessions(store) as sessions:
        record = SessionRecord.from_json(text)
        assert await sessions.adopt(record) == record
        assert (await sessions.resume("sess-1")).checkpoint == record.checkpoint
        with pytest.raises(
            rb.ConfigError, match=r"adopt\.record\.id: wanted an id that no kept session has"
        ):
            await sessions.adopt(record)
        with pytest.raises(
            rb.ConfigError, match=r"adopt\.record: wanted a SessionRecord, got 'str'"
        ):
            await sessions.adopt(text)


async def test_a_damaged_record_is_named_and_can_be_forgotten(store):
    """A text that is no record, or that of another session, is a StoreError with session and field; `forget` ends it."""
    Clock()
    async with Sessions(store) as sessions:
        other = await sessions.create("claude", "/work", session_id="other")
        for session_id, text in (("bad", "{}"), ("moved", other.to_json())):
            await done(sessions._store.keep_record(session_id, text))
        for session_id, field in (
            ("bad", "format: wanted 1"),
            ("moved", "id: wanted 'moved', got 'other'"),
        ):
            for operation in (sessions.get, sessions.activate):
                with pytest.raises(rb.errors.StoreError) as caught:
                    await operation(session_id)
                assert caught.value.failure.message.startswith(
                    f"session {session_id}: session record: {field}"
                )
                assert code_of(caught) == "SYS_STATE_DAMAGED"
            with pytest.raises(rb.errors.StoreError, match=f"session {session_id}"):
                await sessions.list()
            await sessions.forget(session_id)
        assert [saved.id for saved in await sessions.list()] == ["other"]
