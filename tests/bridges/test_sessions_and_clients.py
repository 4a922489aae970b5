"""A client and the record of its session: active while it works, paused with its position after it, refused when it is over."""

from __future__ import annotations

import time

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import RedisStore
from resilient_bridge.testing import BridgeServer
from tests.redis_server import redis_server_fixture


pytestmark = pytest.mark.real


server = redis_server_fixture(scope="module")


@pytest.fixture(params=["memory", "file", "redis"])
def reopened(request, tmp_path):
    """The store again, as another process would have it; memory has only one."""
    if request.param == "redis":
        url, name = request.getfixturevalue("server").url, f"t{time.monotonic_ns()}"
        return lambda: RedisStore(url, name=name)
    saved = rb.stores.MemoryStore()
    return (
        (lambda: saved)
        if request.param == "memory"
        else lambda: rb.stores.SQLiteStore(tmp_path / "bridge.db")
    )


@pytest.mark.requirement("R10")
@pytest.mark.requirement("R16")
async def test_the_record_follows_the_client(reopened):
    """Active inside of `async with`; paused after it, at what the consumer took, with the snapshot that the user gave."""
    async with BridgeServer() as server:
        store = reopened()
        async with rb.stores.Sessions(store) as sessions:
            made = await sessions.create("claude", "/work")
            async with rb.BridgeClient(server.url, session_id=made.id, store=store) as bridge:
                await bridge.wait_ready(5)
                assert (await sessions.get(made.id)).state == "active"
                for n in range(3):
                    await server.push("tool_call", {"n": n})
                reader = aiter(bridge)
                taken = [await anext(reader) for _ in range(3)]
                await sessions.checkpoint(made.id, context_snapshot={"plan": 1})
            remaining = await sessions.get(made.id)
        assert (remaining.state, remaining.agent_type, remaining.working_directory) == (
            "paused",
            "claude",
            "/work",
        )
        # The third was handed out, and not done with: he never asked for a fourth.
        assert remaining.checkpoint == rb.stores.SessionCheckpoint(
            message_count=2, last_message_id=taken[1].id, context_snapshot={"plan": 1}
        )

        store = reopened()
        async with rb.stores.Sessions(store) as sessions:
            assert await sessions.get(made.id) == remaining
            async with rb.BridgeClient(server.url, store=store) as bridge:
                assert bridge.session_id == made.id
                again = await anext(aiter(bridge))
        assert (again.id, again.redelivered) == (taken[2].id, True)


@pytest.mark.requirement("R10")
@pytest.mark.parametrize(
    ("end", "code"),
    [("close", "SESS_CLOSED"), ("fail", "SESS_NOT_RESUMABLE"), ("pause", "SESS_NOT_RESUMABLE")],
)
async def test_a_session_that_is_over_is_not_entered(reopened, end, code):
    """Closed, in error, or paused and not resumable: a client that names it is told, and has opened nothing."""
    store = reopened()
    async with rb.stores.Sessions(store) as sessions:
        made = await sessions.create("claude", "/work", resumable=False)
        await sessions.activate(made.id)
        over = getattr(sessions, end)
        await (over(made.id, rb.classify(OSError("gone"))) if end == "fail" else over(made.id))
    client = rb.BridgeClient("ws://127.0.0.1:1/", session_id=made.id, store=store)
    with pytest.raises(rb.errors.SessionError) as caught:
        await client.__aenter__()
    assert caught.value.failure.code == code
    async with rb.stores.Sessions(
        store
    ) as sessions:  # which a file that was still open would refuse
        await sessions.forget(made.id)


async def test_who_names_no_session_gets_a_new_one_after_the_last_was_closed(reopened):
    """The last session was closed by its owner; nobody asked for that one, so the next client begins another, and can work."""
    async with BridgeServer() as server:
        store = reopened()
        async with rb.BridgeClient(server.url, store=store) as bridge:
            await bridge.wait_ready(5)
            first = bridge.session_id
        store = reopened()
        async with rb.stores.Sessions(store) as sessions:
            await sessions.close(first)
        async with rb.BridgeClient(server.url, store=store) as bridge:
            await bridge.wait_ready(5)
            assert bridge.session_id != first
            assert await (await bridge.send("tool_result", {"n": 1})).confirmed(5)


async def test_a_session_that_the_server_forgot_is_closed_and_its_owner_goes_on(reopened):
    """SESS_NOT_FOUND: the old record is closed, the new one is active, with the same owner and snapshot (R4)."""
    store = reopened()
    async with rb.stores.Sessions(store) as sessions:
        made = await sessions.create("claude", "/work")
        await sessions.checkpoint(made.id, context_snapshot=["kept"])
        async with (
            BridgeServer() as one,
            rb.BridgeClient(one.url, session_id=made.id, store=store) as bridge,
        ):
            await bridge.wait_ready(5)
        async with (
            BridgeServer() as other,
            rb.BridgeClient(other.url, session_id=made.id, store=store) as bridge,
        ):
            await bridge.wait_ready(5)  # a bridge that has never heard of it
            new = bridge.session_id
            assert (await sessions.get(new)).state == "active"
        assert new != made.id
        assert (await sessions.get(made.id)).state == "closed"
        record = await sessions.get(new)
        assert (record.agent_type, record.state, record.checkpoint.context_snapshot) == (
            "claude",
            "paused",
            ["kept"],
        )
