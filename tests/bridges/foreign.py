"""Bridges that are not ours, on `websockets` alone: nothing of the package is used to make them.

`Mini` speaks auth, ping, join and replay, and can refuse any of them; `only_reads` speaks nothing.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

from websockets.asyncio.server import serve

import resilient_bridge as rb


STAMP = "2026-01-01T00:00:00Z"


class Mini:
    """`refuse` maps a type to an error's payload (or code); `error_ids`: whose id an error carries; `ack` acknowledges."""

    def __init__(self, refuse=None, *, error_ids="fresh", ack=False, token=None, says_type=True):
        self.refuse = refuse or {}
        self.error_ids, self.ack, self.token, self.says_type = error_ids, ack, token, says_type
        self.log, self.frames, self.got, self.tokens, self.connections = [], [], [], [], []
        self.url = ""

    @property
    def types(self):
        return [frame["type"] for frame in self.frames]

    def refusal(self, kind):
        """The payload of an error about a message of this type; None if it is taken."""
        fields = self.refuse.get(kind)
        if isinstance(fields, str):
            fields = {"code": fields, "message": f"Unknown message type: {kind}"}
        return fields if fields is None or not self.says_type else {**fields, "request_type": kind}

    async def attend(self, socket):
        self.connections.append(socket)
        async for raw in socket:
            frame = json.loads(raw)
            self.frames.append(frame)
            await self.answer(socket, frame)

    async def say(self, socket, kind, payload, identity):
        await socket.send(
            json.dumps({"type": kind, "id": identity, "timestamp": STAMP, "payload": payload})
        )

    async def answer(self, socket, frame):
        kind, identity, payload = frame["type"], frame["id"], frame["payload"]
        refusal = self.refusal(kind)
        if refusal is not None:
            about = identity if self.error_ids == "same" else f"e-{identity}"
            await self.say(socket, "error", refusal, about)
        elif kind == "auth":
            self.tokens.append(payload.get("token"))
            await self.authenticate(socket, identity, payload.get("token"))
        elif kind == "heartbeat_ping":
            await self.say(socket, "heartbeat_pong", {}, identity)
        elif kind == "session_join":
            await self.say(
                socket, "session_joined", {"session_id": payload["session_id"]}, identity
            )
        elif kind == "request_replay":
            await self.say(socket, "replay_buffer", {"messages": self.log}, identity)
        else:
            self.got.append(payload)
            if self.ack:
                await self.say(
                    socket, "message_ack", {"message_id": identity, "status": "applied"}, identity
                )

    async def authenticate(self, socket, identity, token):
        if self.token is None or token == self.token:
            await self.say(socket, "connection_ack", {"server_id": "one"}, identity)
        else:  # and the socket stays open
            refusal = {"code": "AUTH_FAILED", "message": "Invalid or expired token"}
            await self.say(socket, "connection_error", refusal, f"e-{identity}")

    async def push(self, number, *, live=True):
        message = {"type": "note", "id": f"n{number}", "timestamp": STAMP, "payload": {"i": number}}
        self.log.append(message)
        if live:
            await self.connections[-1].send(json.dumps(message))

    def cut(self):
        self.connections[-1].transport.abort()

    @asynccontextmanager
    async def running(self):
        async with serve(self.attend, "127.0.0.1", 0, max_size=None) as server:
            self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self


@asynccontextmanager
async def only_reads(frames):
    """The url of a server that reads JSON, keeps it in `frames`, and never says a word."""

    async def attend(socket):
        async for raw in socket:
            frames.append(json.loads(raw))

    async with serve(attend, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def quick(**more):
    """A policy that waits 50 ms before each attempt, whatever came before."""
    reconnect = {
        "backoff": rb.Backoff.constant(0.05),
        "connect_burst": 100,
        "connects_per_minute": 6_000,
        **more.pop("reconnect", {}),
    }
    return rb.bridge.BridgePolicy(reconnect=rb.bridge.Reconnect(**reconnect), **more)


class Watch:
    """A client with a reader: messages and gaps in their order, and all events."""

    def __init__(self, url, **options):
        self.read, self.events = [], []
        options.setdefault("policy", quick())
        self.client = rb.BridgeClient(
            url, on_gap=lambda gap: self.read.append(f"{gap.verdict} {gap.reason}"), **options
        )

    async def __aenter__(self):
        await self.client.__aenter__()
        self._tasks = [
            asyncio.ensure_future(self._listen(self.client.events())),
            asyncio.ensure_future(self._read()),
        ]
        return self

    async def __aexit__(self, *_):
        await self.client.aclose(drain=0)
        await asyncio.wait(self._tasks, timeout=5)

    async def _listen(self, stream):
        async for event in stream:
            self.events.append(event)

    async def _read(self):
        try:
            async for message in self.client:
                self.read.append(message.payload.get("i", message.type))
        except rb.BridgeError as error:
            self.read.append(error)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, what, seconds=10):
        async with asyncio.timeout(seconds):
            while not what():
                await asyncio.sleep(0.01)

    async def back(self):
        """Cut off, and READY again."""
        await self.until(lambda: self.client.state != "READY")
        await self.client.wait_ready(10)
