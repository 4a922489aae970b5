"""What python-socketio does on the wire, seen by a plain client: socket.io, and no recovery."""

from __future__ import annotations

import pytest

from tests.bridges.servers import python_socketio
from tests.bridges.servers.test_socketio import joined, packet, repeated_and_refused
from tests.bridges.servers.wire import refused, until, wire


pytestmark = pytest.mark.real


@pytest.fixture
async def engine(tmp_path):
    """A python-socketio server."""
    async with python_socketio.running(tmp_path) as server:
        yield server


async def test_python_socketio_names_no_session_and_no_offset(engine):
    """After a reset a given `pid` and `offset` are ignored without a word: a new sid, and only what is said from now on."""
    async with wire(engine.url, decode=packet) as client:
        _, session = await joined(client)
        assert [*session] == ["sid"]
        await engine.publish(1)
        assert await client.hear() == ("42", ["tick", 1])
        client.cut()
    await until(engine.connected, 0)
    await engine.publish(2)
    async with wire(engine.url, decode=packet) as client:
        missed, answer = await joined(client, pid=session["sid"], offset="1")
        assert missed == []
        assert [*answer] == ["sid"]
        assert answer != session
        await engine.publish(3)
        assert await client.hear() == ("42", ["tick", 3])


async def test_python_socketio_keeps_its_ledger_over_a_kill(engine):
    """What was done is acknowledged and written down; the address is the same after a restart."""
    async with wire(engine.url, decode=packet) as client:
        await joined(client)
        await client.say('421["do",7]')
        assert await client.hear() == ("431", [{"done": 7}])
        engine.kill()
        assert await client.closed() is None
    assert await refused(engine.url) == 0
    assert engine.processes() == []
    await engine.start()
    async with wire(engine.url, decode=packet) as client:
        assert (await joined(client))[0] == []
    await engine.stop()
    assert engine.processes() == []
    assert await engine.ledger() == [7]


async def test_python_socketio_acknowledges_by_packet_id_and_does_everything_twice(tmp_path):
    """A repeat is done again; a namespace that is wrong or wants a token is refused on an open socket; `2` wants `3`."""
    async with (
        python_socketio.running(tmp_path, ping_interval=0.2) as engine,
        wire(engine.url, decode=packet) as client,
    ):
        answers = await repeated_and_refused(client)
        assert answers[:2] == [("435", ["got a"])] * 2
        assert [where for where, _ in answers[2:]] == ["44/nope,", "44/private,"]
        assert [body["message"] if isinstance(body, dict) else body for _, body in answers[2:]] == [
            "Unable to connect",
            "wrong token",
        ]
        assert await engine.ledger() == ["a", "a"]
