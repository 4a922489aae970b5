"""The Node bridge, met by the same bare client: two servers written apart must agree on the wire."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.testing.server_peer import peer


HERE = Path(__file__).parent
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (HERE / "node_modules" / "ws").is_dir(),
        reason="npm's ws is missing: run `npm ci` in tests/node",
    ),
]


class NodeBridge:
    """The process and its commands."""

    def __init__(self, process, port):
        self._process = process
        self.url = f"ws://127.0.0.1:{port}/ws"

    async def tell(self, command):
        """Write a command; its answer."""
        self._process.stdin.write(f"{command}\n".encode())
        async with asyncio.timeout(10):
            return json.loads(await self._process.stdout.readline())


@asynccontextmanager
async def node_bridge():
    """Start it, and see it end when its stdin does."""
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        str(HERE / "bridge.mjs"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        async with asyncio.timeout(20):
            port = int(await process.stdout.readline())
        yield NodeBridge(process, port)
    finally:
        process.stdin.close()
        async with asyncio.timeout(10):
            await process.wait()


async def test_it_speaks_the_same_wire():
    """Greeting, join, heartbeat, confirmation, answer, dedupe: the types and ids the Python bridge gives."""
    async with node_bridge() as bridge, peer(bridge.url) as client:
        hello = await client.ask("auth")
        assert (hello["type"], set(hello["payload"])) == (
            "connection_ack",
            {"server_id", "active_sessions", "dedupes"},
        )
        joined = await client.ask("session_join", {"session_id": "s"})
        assert (joined["type"], joined["payload"]) == ("session_joined", {"session_id": "s"})
        assert "id" not in await client.ask("heartbeat_ping")
        ident = await client.say("save_request", {"idempotency_key": "k"})
        ack, answer = await client.hear(), await client.hear()
        assert ack["payload"] == {"message_id": ident, "status": "applied"}
        assert (answer["type"], answer["id"]) == ("save_response", ident)
        again = await client.ask("save_request", {"idempotency_key": "k"})
        assert again["payload"]["status"] == "already_processed"
        assert await client.hear() == answer
        assert len((await bridge.tell("received"))["received"]) == 1


@pytest.mark.requirement("R14")
async def test_its_replay_is_inclusive_and_bounded():
    """After a reset the missed messages come unasked and from `since` on; an overflow keeps the newest."""
    async with node_bridge() as bridge:
        async with peer(bridge.url) as client:
            await client.join("s")
            await bridge.tell("cut")
            assert (await client.closed())[0] == 1006
        pushed = (await bridge.tell("push 5"))["pushed"]
        async with peer(bridge.url) as client:
            await client.join("s", resume=True)
            assert (await client.hear())["payload"]["messages"] == pushed
            since = pushed[2]["timestamp"]
            answer = await client.ask("request_replay", {"since": since})
            expected = [message for message in pushed if message["timestamp"] >= since]
            assert answer["payload"]["messages"] == expected
            await bridge.tell("cut 1011")
            assert (await client.closed())[0] == 1011
        many = (await bridge.tell("push 3000"))["pushed"]
        async with peer(bridge.url) as client:
            await client.join("s", resume=True)
            saved = (await client.hear())["payload"]["messages"]
            assert saved == many[-len(saved) :]
            assert 80_000 < len(json.dumps(saved, separators=(",", ":"))) <= 102_400


@pytest.mark.requirement("R4")
async def test_it_forgets_sessions_on_request():
    """Expired: 4404 and SESS_NOT_FOUND. Restarted: 1012 and another server_id."""
    async with node_bridge() as bridge:
        async with peer(bridge.url) as client:
            identity = (await client.ask("auth"))["payload"]["server_id"]
            await client.ask("session_join", {"session_id": "s"})
            await bridge.tell("expire")
            assert (await client.closed())[0] == 4404
        async with peer(bridge.url) as client:
            assert (await client.join("s", resume=True))["payload"]["code"] == "SESS_NOT_FOUND"
            await client.ask("session_join", {"session_id": "s"})
            await bridge.tell("restart-sessions")
            assert (await client.closed())[0] == 1012
        async with peer(bridge.url) as client:
            assert (await client.ask("auth"))["payload"]["server_id"] != identity


async def test_it_refuses_what_the_seed_refuses():
    """Every violation at once under the message's own id, and a sequence error that names the phase."""
    async with node_bridge() as bridge, peer(bridge.url) as old, peer(bridge.url) as new:
        answer = await old.ask("session_message")
        assert answer["payload"]["code"] == "PROTO_SEQUENCE_ERROR"
        assert (answer["payload"]["expected"], answer["payload"]["current_phase"]) == (
            ["auth"],
            "connected",
        )
        answer = await old.ask("Bad", [], id="msg-123", timestamp="2026-03-20 14:32:00")
        fields = [
            (wrong["field"], wrong["constraint"]) for wrong in answer["payload"]["violations"]
        ]
        assert answer["id"] == "msg-123"
        assert fields == [
            ("type", "matches"),
            ("id", "uuid"),
            ("timestamp", "iso8601"),
            ("payload", "object"),
        ]
        await old.join("s")
        await new.join("s", resume=True)
        assert (await old.closed())[0] == 4409
