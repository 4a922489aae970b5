"""One connection: writing that never waits, delays in order, frames as they are, a client that does not read."""

from __future__ import annotations

import asyncio
import random

import pytest
from websockets.exceptions import ConnectionClosed

from resilient_bridge.testing import Behaviour, BridgeServer
from tests.internals.testing import GARBAGE, BridgeMemory, Tasks, server_link
from tests.internals.testing import server_link_Link as Link
from tests.rows import each_row
from tests.testing.server_peer import in_virtual_time, peer


pytestmark = pytest.mark.real


class Wire:
    """Stands for a connection whose frames a test puts in by hand."""

    paused = False

    def __init__(self):
        self.transport = self
        self.frames = asyncio.Queue()
        self.recv = self.frames.get

    def pause_reading(self):
        """Reading is not what these tests are about."""

    resume_reading = pause_reading


def link_to(wire):
    """A link, and the memory behind it."""
    memory = BridgeMemory(Behaviour(), lambda: 0.0, random.Random(1))
    return Link(wire, memory, Tasks()), memory


def test_equal_delays_keep_their_order(monkeypatch):
    """A hundred frames due at one instant come in the order in which they were given."""
    heard = []

    async def main():
        link, _ = link_to(Wire())
        monkeypatch.setattr(link, "send", heard.append)
        for number in range(100):
            link.later(5.0, str(number))
        link.later(1.0, "first")
        await asyncio.sleep(4.9)
        assert heard == ["first"]
        await asyncio.sleep(0.2)

    in_virtual_time(main)
    assert heard == ["first", *map(str, range(100))]


async def test_a_frame_that_had_arrived_stays_in_the_black_hole(monkeypatch):
    """What the library had read but the bridge had not is held back too, until the hole ends."""
    wire = Wire()
    link, memory = link_to(wire)
    monkeypatch.setattr(link, "send", lambda _text: None)
    running = asyncio.create_task(link.run())
    await asyncio.sleep(0)
    link.darken(0)
    wire.frames.put_nowait("{}")
    for _ in range(5):
        await asyncio.sleep(0)
    assert memory.frames == []
    link.lighten()
    for _ in range(5):
        await asyncio.sleep(0)
    assert memory.frames == [{}]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_background_work_ends_with_the_bridge():
    """stop() cancels what is still running, and is at once done if nothing is."""
    tasks = Tasks()
    await tasks.stop()
    before = asyncio.all_tasks()
    tasks.start(asyncio.sleep(3600))
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == len(before) + 1
    await tasks.stop()
    assert asyncio.all_tasks() == before


async def test_a_slow_replay_holds_what_was_pushed_meanwhile():
    """It is answered after the delay, of what is in the buffer then: nothing that came before it is missing in it."""
    async with BridgeServer(slow=0.05, push_buffer=False) as server, peer(server.url) as client:
        await client.join("s")
        await server.push("note", {"n": 1})
        await client.hear()
        await client.say("request_replay", {"since": None})
        await server.push("note", {"n": 2})
        assert (await client.hear())["payload"] == {"n": 2}
        answer = await client.hear()
        assert [message["payload"]["n"] for message in answer["payload"]["messages"]] == [1, 2]


async def test_slow_answers_keep_their_order():
    """Fifty answers with one delay come in the order of the questions, after the delay."""
    async with BridgeServer(acks="none") as server, peer(server.url) as client:
        await client.join("s")
        server.behave(slow=0.05)
        start = asyncio.get_running_loop().time()
        asked = [await client.say("echo_request", {"n": n}) for n in range(50)]
        assert [(await client.hear())["id"] for _ in asked] == asked
        assert asyncio.get_running_loop().time() - start > 0.04


async def test_nothing_overtakes_the_queue_of_a_slow_bridge():
    """What is pushed while a bridge without sessions is slow to greet comes behind what it had queued, and once."""
    async with BridgeServer(no_session_memory=True, push_queue=10, slow=0.05) as server:
        await server.push("note", {"n": 1})
        async with peer(server.url) as client:
            await client.say("auth")
            while not server.frames:
                await asyncio.sleep(0)
            await server.push("note", {"n": 2})
            assert (await client.hear())["type"] == "connection_ack"
            await server.push("note", {"n": 3})
            assert [(await client.hear())["payload"]["n"] for _ in range(3)] == [1, 2, 3]


async def test_a_late_replay_lets_live_frames_pass():
    """The snapshot is older than what comes before it on the wire."""
    async with BridgeServer(replay_delay=0.05) as server, peer(server.url) as client:
        await client.join("s")
        first = await server.push("tool_call", {"n": 0})
        await client.hear()
        await client.say("request_replay")
        await client.ask("heartbeat_ping")  # the request was read before this pong
        live = await server.push("tool_call", {"n": 1})
        assert await client.hear() == live
        assert (await client.hear())["payload"]["messages"] == [first]


@each_row("name", list(GARBAGE))
async def test_garbage_is_sent_as_it_is(name):
    """push_raw changes nothing, text or binary, and leaves no trace in the replay."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        await server.push_raw(GARBAGE[name])
        assert await client.connection.recv() == GARBAGE[name]
        assert (await client.ask("request_replay"))["payload"]["messages"] == []
        assert server.pushed == []


async def test_text_that_is_no_utf8_ends_the_connection():
    """A lone surrogate in the frame itself is invalid UTF-8: the peer closes with 1007."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        await server.push_raw('"\ud800"')
        with pytest.raises(ConnectionClosed) as caught:
            await client.connection.recv()
        assert caught.value.sent.code == 1007


async def test_bad_frames_from_a_client_are_answered_and_survived():
    """Malformed, deep, binary: an error each, and the session goes on."""
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        for name in ("malformed", "bom", "nan", "deep", "not_an_object", "binary", "null_payload"):
            await client.connection.send(GARBAGE[name])
            assert (await client.hear())["payload"]["code"] == "PROTO_INVALID_MESSAGE", name
        assert (await client.ask("note"))["payload"]["status"] == "applied"


async def test_a_frame_over_the_limit_is_refused_with_1009():
    """max_frame_bytes is the connection's own limit."""
    async with BridgeServer(max_frame_bytes=1000) as server, peer(server.url) as client:
        await client.join("s")
        await client.say("note", {"text": "x" * 1000})
        assert (await client.closed())[0] == 1009


async def test_pushing_to_a_client_that_does_not_read_never_hangs(monkeypatch):
    """The backlog grows to its bound; then the client is cut, as any server would."""
    monkeypatch.setattr(server_link, "_BACKLOG", 1 << 20)
    async with BridgeServer() as server, peer(server.url) as client:
        await client.join("s")
        client.connection.transport.pause_reading()
        async with asyncio.timeout(20):
            while server.connections:
                await server.push("tool_call", {"text": "x" * 50_000})
        assert len(server.pushed) > 10


async def test_a_poisonous_frame_ends_the_connection():
    """With the scripted code, received by the peer."""
    async with (
        BridgeServer(poison="drink me", poison_code=1007) as server,
        peer(server.url) as client,
    ):
        await client.join("s")
        await client.say("note", {"text": "drink me"})
        assert (await client.closed())[0] == 1007
        assert server.received == []
