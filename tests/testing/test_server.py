"""BridgeServer over real sockets, met by a bare WebSocket client."""

from __future__ import annotations

import asyncio
import random
import ssl
import warnings

import pytest
import trustme
from websockets.exceptions import ConnectionClosedError, InvalidMessage

from resilient_bridge.testing import BridgeServer
from tests.rows import each_row
from tests.testing.server_peer import peer


pytestmark = pytest.mark.real


async def test_a_message_goes_each_way():
    """Join, push, send, ask: each is answered as the seed says, and the records hold the truth."""
    async with BridgeServer(rng=random.Random(1)) as server, peer(server.url) as client:
        assert (await client.join("s"))["payload"] == {"session_id": "s", "dedupes": True}
        message = await server.push("tool_call", {"text": "hello"})
        assert await client.hear() == message
        chunk = await server.push("stream_chunk", {"text": "hel"})
        assert "id" not in await client.hear()
        ident = await client.say("note", {"text": "hi"})
        assert (await client.hear())["payload"] == {"message_id": ident, "status": "applied"}
        assert server.pushed == server.pushed_to("s") == [message, chunk]
        assert [each["id"] for each in server.received] == [ident]
        assert [each["type"] for each in server.frames] == ["auth", "session_join", "note"]
        assert (server.session, server.connections, len(server.connect_times)) == ("s", 1, 1)


@pytest.mark.requirement("R14")
async def test_what_was_pushed_without_a_client_is_replayed():
    """After a reset: everything once, unasked, and from `since` on when asked."""
    async with BridgeServer() as server:
        async with peer(server.url) as client:
            await client.join("s")
            first = await server.push("tool_call", {"n": 0})
            await client.hear()
            await server.cut("abort")
        missed = [await server.push("stream_chunk", {"n": n}) for n in range(1, 4)]
        async with peer(server.url) as client:
            await client.join("s", resume=True)
            assert (await client.hear())["payload"]["messages"] == [first, *missed]
            answer = await client.ask("request_replay", {"since": first["timestamp"]})
            assert answer["payload"]["messages"] == [first, *missed]


@pytest.mark.parametrize(
    ("how", "code"),
    [("abort", 1006), ("fin", 1006), ("close", 1013)],
    ids=["abort", "fin", "close"],
)
async def test_a_cut_ends_the_link_in_its_way(how, code):
    """A reset and an end of stream have no close frame; a close has the given code. The session stays."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        await server.cut(how, code=1013)
        assert (await client.closed())[0] == code
        assert server.connections == 0
        async with peer(server.url) as again:
            assert (await again.join("s", resume=True))["type"] == "session_joined"


async def test_an_abort_is_a_reset():
    """RST, not FIN: the reader sees ConnectionResetError."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        await server.cut("abort")
        with pytest.raises(ConnectionClosedError) as caught:
            await client.hear()
        assert isinstance(caught.value.__cause__, ConnectionResetError)


async def test_a_black_hole_holds_both_directions_until_it_ends():
    """Nothing arrives meanwhile, on either side; afterwards everything does, in order."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        await server.cut("blackhole", seconds=0.3)
        pushed = [await server.push("tool_call", {"n": n}) for n in range(3)]
        ident = await client.say("note")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.connection.recv(), 0.1)
        assert server.received == []
        assert [await client.hear() for _ in range(3)] == pushed
        assert (await client.hear())["payload"]["message_id"] == ident


async def test_while_a_cut_lasts_no_client_gets_in():
    """After an abort of 0.3 s the next connect is reset; in a black hole it hangs, and then succeeds."""
    async with BridgeServer() as server:
        await server.cut("abort", seconds=0.3)
        with pytest.raises((ConnectionResetError, InvalidMessage)):
            async with peer(server.url):
                pass
        await server.cut("blackhole", seconds=0.3)
        start = asyncio.get_running_loop().time()
        async with peer(server.url) as client:
            assert asyncio.get_running_loop().time() - start > 0.25
            assert (await client.join("s"))["type"] == "session_joined"
        assert len(server.attempt_times) == 2
        assert len(server.connect_times) == 1


@pytest.mark.requirement("R4")
async def test_an_expired_session_is_not_found():
    """The link is closed with 4404, and a resume gets SESS_NOT_FOUND; a fresh join works."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        server.expire_sessions()
        assert await client.closed() == (4404, "session expired")
        async with peer(server.url) as again:
            assert (await again.join("s", resume=True))["payload"]["code"] == "SESS_NOT_FOUND"
            assert (await again.ask("session_join", {"session_id": "s"}))[
                "type"
            ] == "session_joined"


@pytest.mark.requirement("R4")
async def test_the_grace_time_runs_on_a_real_clock():
    """With 50 ms of grace a session ends by itself after its link did."""
    async with BridgeServer(grace=0.05) as server:
        async with peer(server.url) as client:
            await client.join("s")
        async with asyncio.timeout(5):
            while True:
                async with peer(server.url) as client:
                    answer = await client.ask("auth")
                if not answer["payload"]["active_sessions"]:
                    break


async def test_a_closed_session_says_so():
    """SESS_CLOSED for an operation; LookupError where there is no session to close."""
    async with BridgeServer() as server, peer(server.url) as client:
        with pytest.raises(LookupError):
            server.close_session()
        await client.join("s")
        server.close_session()
        assert (await client.ask("note"))["payload"]["code"] == "SESS_CLOSED"


async def test_a_second_connection_supersedes_the_first():
    """The first is closed with 4409; the session goes on with the second."""
    async with BridgeServer() as server, peer(server.url) as old, peer(server.url) as new:
        await old.join("s")
        await new.join("s", resume=True)
        assert (await old.closed())[0] == 4409
        message = await server.push("tool_call", {})
        assert await new.hear() == message


@pytest.mark.parametrize("lose", [False, True])
async def test_a_restart_keeps_the_address(lose):
    """1012 to everybody; sessions and identity survive unless told otherwise."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        url, identity = server.url, server.server_id
        await server.restart(lose_sessions=lose)
        assert (await client.closed())[0] == 1012
        assert server.url == url
        assert (server.server_id != identity) is lose
        async with peer(server.url) as again:
            answer = await again.join("s", resume=True)
            assert answer["type"] == ("error" if lose else "session_joined")


async def test_a_truncated_replay_stays_truncated():
    """It forgets what it has and what comes, until it is told otherwise."""
    async with BridgeServer(push_buffer=False) as server, peer(server.url) as client:
        await client.join("s")
        await server.truncate_replay(1)
        pushed = [await server.push("tool_call", {"n": n}) for n in range(3)]
        for _ in pushed:
            await client.hear()
        assert (await client.ask("request_replay"))["payload"]["messages"] == pushed[2:]
        await server.truncate_replay(None)
        pushed.append(await server.push("tool_call", {"n": 3}))
        await client.hear()
        assert (await client.ask("request_replay"))["payload"]["messages"] == pushed[2:]


async def test_the_clock_can_be_stepped_back():
    """Later messages carry earlier stamps; the order of the replay is still that of pushing."""
    async with BridgeServer(wall=lambda: 1_774_017_125.0) as server, peer(server.url) as client:
        await client.join("s")
        first = await server.push("tool_call", {})
        server.step_clock(-60)
        second = await server.push("tool_call", {})
        assert first["timestamp"] == "2026-03-20T14:32:05.000Z"
        assert second["timestamp"] == "2026-03-20T14:31:05.000Z"
        for _ in range(2):
            await client.hear()
        answer = await client.ask("request_replay", {"since": second["timestamp"]})
        assert answer["payload"]["messages"] == [first, second]


async def test_a_wrong_token_is_closed_with_4001():
    """connection_error, then the close code."""
    async with BridgeServer(token="right") as server, peer(server.url) as client:
        assert (await client.ask("auth", {"token": "wrong"}))["type"] == "connection_error"
        assert (await client.closed())[0] == 4001


async def test_the_behaviour_can_change_in_mid_connection():
    """The next frame is treated by the new rules."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        server.behave(never_pong=True, pong_twice=True)
        await client.say("heartbeat_ping")
        assert (await client.ask("note"))["type"] == "message_ack"
        server.behave(never_pong=False)
        first = await client.ask("heartbeat_ping")
        assert [first["type"], (await client.hear())["type"]] == ["heartbeat_pong"] * 2


async def test_it_speaks_tls():
    """With a server context the URLs are wss and https."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with BridgeServer(ssl=context) as server, peer(server.url, ssl=trusting) as client:
        assert server.url.startswith("wss://")
        assert server.health_url.startswith("https://")
        assert (await client.join("s"))["type"] == "session_joined"


async def test_the_same_seed_gives_the_same_ids():
    """Identity, sessions and messages repeat from run to run."""

    async def run():
        async with (
            BridgeServer(rng=random.Random(7), wall=lambda: 0.0) as server,
            peer(server.url) as client,
        ):
            await client.join("s")
            return server.server_id, await server.push("tool_call", {})

    assert await run() == await run()


@each_row("how", ["open", "joined", "blackhole", "slow", "abort", "idle TCP", "closing", "busy"])
async def test_nothing_remains(how):
    """After aclose() no task is left and the port refuses, whatever state the links were in."""
    before = asyncio.all_tasks()
    server = BridgeServer(slow=60.0 if how == "slow" else 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await server.start()
        if how == "idle TCP":
            _, writer = await asyncio.open_connection(
                "127.0.0.1", int(server.url.split(":")[2][:-3])
            )
            await asyncio.sleep(0.01)
            await server.aclose()
            writer.close()
        else:
            if how == "busy":
                server._listener._tasks.start(asyncio.sleep(3600))
            async with peer(server.url) as client:
                await client.say("auth")
                if how in {"joined", "blackhole", "abort", "closing"}:
                    await client.hear()
                    await client.ask("session_join", {"session_id": "s"})
                if how in {"blackhole", "abort"}:
                    await server.cut(how)
                if how == "closing":
                    server.expire_sessions()
                async with asyncio.timeout(5):
                    await server.aclose()
    assert asyncio.all_tasks() == before
    with pytest.raises(ConnectionRefusedError):
        async with peer(server.url):
            pass


async def test_it_can_be_started_once_at_a_time():
    """A second start is refused, a start after aclose() takes the same port; without a start there is no URL."""
    server = BridgeServer()
    with pytest.raises(RuntimeError, match="never was"):
        _ = server.url
    await server.start()
    with pytest.raises(RuntimeError, match="stopped bridge"):
        await server.start()
    url = server.url
    await server.aclose()
    await server.aclose()
    async with server:
        assert server.url == url
