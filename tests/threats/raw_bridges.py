"""Servers below the protocol: one that remembers every byte and answers nothing, one that answers HTTP by hand, one that
shakes hands properly and then does as told. Rule: loopback only, and nothing is left when the context ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed


class Recorder(asyncio.Protocol):
    """Accepts, remembers, answers with `answer` once a request's head has come, if there is an answer."""

    def __init__(self, answer=b""):
        self.answer = answer
        self.connections = 0
        self.received = b""
        self.port = 0
        self._transports = []

    def connection_made(self, transport):
        """Count it."""
        self.connections += 1
        self._transports.append(transport)

    def data_received(self, data):
        """Keep it, and answer a whole request."""
        self.received += data
        if self.answer and self.received.endswith(b"\r\n\r\n"):
            for transport in self._transports:
                if not transport.is_closing():
                    transport.write(self.answer)
                    transport.close()

    @contextlib.asynccontextmanager
    async def listening(self, context=None):
        """Be there, on loopback, with TLS if a context is given."""
        server = await asyncio.get_running_loop().create_server(
            lambda: self, "127.0.0.1", 0, ssl=context
        )
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for transport in self._transports:
                transport.abort()
            await asyncio.sleep(0)


def http(status, *headers, body=b""):
    """An HTTP answer as bytes."""
    lines = [
        f"HTTP/1.1 {status}",
        *headers,
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        "",
    ]
    return "\r\n".join(lines).encode() + body


class HandBridge:
    """A WebSocket server that speaks just enough: auth, join, ping, replay; then `script(bridge, ws)` has the connection."""

    def __init__(self, script=None):
        self.script = script
        self.connects = 0
        self.frames = []
        self.port = 0

    @property
    def url(self):
        """Where it is."""
        return f"ws://127.0.0.1:{self.port}/ws"

    async def handle(self, ws):
        """One connection."""
        self.connects += 1
        background = None
        with contextlib.suppress(ConnectionClosed, ConnectionError):
            async for text in ws:
                frame = json.loads(text)
                self.frames.append(frame)
                answer = self.answer(frame)
                if answer is not None:
                    await ws.send(json.dumps(answer))
                if (
                    frame["type"] == "heartbeat_ping"
                    and background is None
                    and self.script is not None
                ):
                    background = asyncio.create_task(self._run(ws))
        if background is not None:
            background.cancel()
            await asyncio.wait([background])

    async def _run(self, ws):
        with contextlib.suppress(ConnectionClosed, ConnectionError):
            await self.script(self, ws)

    def answer(self, frame):
        """What the protocol has to say to a frame."""
        payload, ident = frame["payload"], frame.get("id")
        match frame["type"]:
            case "auth":
                return {
                    "type": "connection_ack",
                    "id": ident,
                    "payload": {"server_id": "hand", "active_sessions": []},
                }
            case "session_join":
                return {
                    "type": "session_joined",
                    "id": ident,
                    "payload": {"session_id": payload["session_id"]},
                }
            case "heartbeat_ping":
                return {"type": "heartbeat_pong", "payload": {}}
            case "request_replay":
                return {"type": "replay_buffer", "id": ident, "payload": {"messages": []}}
        return None

    @contextlib.asynccontextmanager
    async def listening(self):
        """Be there."""
        async with serve(
            self.handle,
            "127.0.0.1",
            0,
            compression=None,
            max_size=None,
            ping_interval=None,
            close_timeout=0.2,
            write_limit=65_536,
        ) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self
