"""A bridge of thirty lines on the `websockets` server, as somebody else would write it: none of our code is in it.

It answers auth, ping, join and replay, in that order, and keeps one log for everybody. Tests subclass it to be a server that
sorts its answers, acknowledges nothing, runs a message twice or is slow. It counts what it ran.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.server import serve


class PlainBridge:
    """`refuse` maps a type to the code of an error; `ignore` are types that are read and never answered."""

    ack = False

    def __init__(self) -> None:
        self.refuse: dict[str, str] = {}
        self.ignore: frozenset[str] = frozenset()
        self.log: list[dict[str, Any]] = []
        self.links: list[Any] = []
        self.got: list[dict[str, Any]] = []
        self.asked: list[tuple[float, str, Any]] = []  # when, which control type, its payload
        self.connections = 0

    # ---- to be changed by a test
    def replay(self, since: str | None) -> list[dict[str, Any]]:
        """What the answer to request_replay holds."""
        del since
        return self.log

    def hello(self) -> dict[str, Any]:
        """The payload of connection_ack."""
        return {"server_id": "one"}

    async def took(self, ws: Any, message: dict[str, Any]) -> None:
        """Called after each message of the user's."""

    async def greeted(self, ws: Any) -> None:
        """Called after each auth."""

    # ---- the dialogue
    async def attend(self, ws: Any) -> None:
        self.links.append(ws)
        self.connections += 1
        async for raw in ws:
            m = json.loads(raw)
            kind = m["type"]

            async def say(
                type_: str, payload: Any = None, id_: str | None = m["id"], at: Any = m["timestamp"]
            ):
                body = {"type": type_, "id": id_, "timestamp": at, "payload": payload or {}}
                await self.write(ws, json.dumps(body))

            if kind in {"auth", "session_join", "request_replay"}:
                self.asked.append((asyncio.get_running_loop().time(), kind, m["payload"]))
            if kind in self.ignore:
                continue
            if kind in self.refuse:
                text = {
                    "code": self.refuse[kind],
                    "message": f"Unknown message type: {kind}",
                    "request_type": kind,
                }
                await say("error", text, "e" + m["id"])
            elif kind == "auth":
                await say("connection_ack", self.hello())
                await self.greeted(ws)
            elif kind == "heartbeat_ping":
                await say("heartbeat_pong")
            elif kind == "session_join":
                await say("session_joined", {"session_id": m["payload"]["session_id"]})
            elif kind == "request_replay":
                await say("replay_buffer", {"messages": self.replay(m["payload"].get("since"))})
            else:
                await self.run(ws, m, say)

    async def run(self, ws: Any, m: dict[str, Any], say: Any) -> None:
        """A message of the user's: the effect."""
        self.got.append(m["payload"])
        if self.ack:
            await say("message_ack", {"message_id": m["id"], "status": "applied"})
        await self.took(ws, m)

    async def write(self, ws: Any, text: str) -> None:
        await ws.send(text)

    # ---- what a test does
    def message(self, i: int, stamp: str = "2026-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
        return {"type": "note", "id": f"n{i}", "timestamp": stamp, "payload": {"i": i, **more}}

    def chunk(self, i: int, stamp: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
        return {"type": "chunk", "timestamp": stamp, "payload": {"i": i}}

    async def push(self, message: dict[str, Any], *, live: bool = True) -> None:
        self.log.append(message)
        if live:
            await self.links[-1].send(json.dumps(message))

    def cut(self) -> None:
        self.links[-1].transport.abort()

    @asynccontextmanager
    async def serving(self):
        """Its address, for the time of a `with` block."""
        quiet = logging.getLogger("tests.plain_bridge")  # a cut is no news
        quiet.setLevel(logging.CRITICAL)
        server = await serve(
            self.attend, "127.0.0.1", 0, max_size=None, ping_interval=None, logger=quiet
        )
        try:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            for ws in self.links:
                ws.transport.abort()
            server.close()
            await server.wait_closed()
