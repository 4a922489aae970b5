"""What socket.io with connection state recovery does on the wire, seen by a plain client."""

from __future__ import annotations

import json

import pytest

from tests.bridges.servers import socketio
from tests.bridges.servers.wire import refused, until, wire


pytestmark = pytest.mark.real


@pytest.fixture
async def engine(tmp_path):
    """A socket.io server."""
    async with socketio.running(tmp_path) as server:
        yield server


def packet(text):
    """`("42", ["tick", 1, "offset"])`, with the namespace and the packet id left in the prefix."""
    start = next((index for index, sign in enumerate(text) if sign in '[{"'), len(text))
    return text[:start], json.loads(text[start:] or "null")


async def joined(client, **session):
    """Open the default namespace; the frames before the answer, and the answer."""
    assert (await client.hear())[0] == "0"
    await client.say(f"40{json.dumps(session)}" if session else "40")
    *missed, (_, answer) = await client.hear_until(lambda heard: heard[0] == "40")
    return missed, answer


async def test_socketio_replays_before_it_answers(engine):
    """After a reset with `pid` and `offset`: the missed events, then the answer with an equal pid, then live."""
    async with wire(engine.url, decode=packet) as client:
        _, session = await joined(client)
        await engine.publish(1)
        prefix, (name, number, offset) = await client.hear()
        assert (prefix, name, number) == ("42", "tick", 1)
        client.cut()
    await until(engine.connected, 0)
    await engine.publish(2)
    await engine.publish(3)
    async with wire(engine.url, decode=packet) as client:
        missed, answer = await joined(client, pid=session["pid"], offset=offset)
        assert [event[:2] for _, event in missed] == [["tick", 2], ["tick", 3]]
        assert answer == session
        await engine.publish(4)
        assert (await client.hear())[1][:2] == ["tick", 4]


async def test_socketio_recovers_nothing_while_the_old_socket_is_open(engine):
    """A client that is back before the server noticed that it left gets another pid, and none of the events."""
    async with wire(engine.url, decode=packet) as old, wire(engine.url, decode=packet) as new:
        _, session = await joined(old)
        await engine.publish(1)
        offset = (await old.hear())[1][2]
        await engine.publish(2)
        missed, answer = await joined(new, pid=session["pid"], offset=offset)
        assert missed == []
        assert answer["pid"] != session["pid"]


async def test_socketio_forgets_its_sessions_in_a_restart(engine):
    """The same address, another pid, no error and no events; what clients did is still in the ledger."""
    async with wire(engine.url, decode=packet) as client:
        _, session = await joined(client)
        await engine.publish(1)
        offset = (await client.hear())[1][2]
        await client.say('421["do",7]')
        assert await client.hear() == ("431", [{"done": 7}])
        engine.kill()
        assert await client.closed() is None
    assert await refused(engine.url) == 0
    assert engine.processes() == []
    await engine.start()
    async with wire(engine.url, decode=packet) as client:
        missed, answer = await joined(client, pid=session["pid"], offset=offset)
        assert missed == []
        assert answer["pid"] != session["pid"]
    await engine.stop()
    assert engine.processes() == []
    assert await engine.ledger() == [7]


async def repeated_and_refused(client):
    """Answer a ping, say one thing twice, and ask for two namespaces that are refused; return the answers."""
    await joined(client)
    await client.hear_until(lambda heard: heard == ("2", None))
    await client.say("3")
    answers = []
    for frame in ('425["echo","a"]', '425["echo","a"]', "40/nope,", "40/private,"):
        await client.say(frame)
        answers += (await client.hear_until(lambda heard: heard[0] != "2"))[-1:]
    return answers


async def test_socketio_acknowledges_by_packet_id_and_does_everything_twice(tmp_path):
    """A repeat is done again; a namespace that is wrong or wants a token is refused on an open socket; `2` wants `3`."""
    async with (
        socketio.running(tmp_path, ping_interval=0.2) as engine,
        wire(engine.url, decode=packet) as client,
    ):
        answers = await repeated_and_refused(client)
        assert answers[:2] == [("435", ["got a"])] * 2
        assert answers[2:] == [
            ("44/nope,", {"message": "Invalid namespace"}),
            ("44/private,", {"message": "wrong token"}),
        ]
        assert await engine.ledger() == ["a", "a"]
