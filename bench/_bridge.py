"""The peer of the benchmarks, run as a process of its own: just enough of a bridge, so that the client is what is measured.

The URL's path says what it does: `/sink` swallows messages (with `/sink-acks` each is acknowledged), `/source` sends as many
messages as the first one asks for, `/echo` sends everything back. It speaks to a bare client as well as to a bridge client:
whoever begins with `auth` gets the handshake, pings get their pong, and `count_request` is told what came. Rule: it looks at
frames with `startswith`, because a server that decodes would become the bottleneck.
"""

from __future__ import annotations

import asyncio
import json
import sys

import orjson
import picows
from websockets.asyncio.server import serve


HANDSHAKE = {
    b'{"type":"auth"': '{"type":"connection_ack","payload":{"server_id":"bench","active_sessions":[]}}',
    b'{"type":"session_join"': '{"type":"session_joined","payload":{}}',
    b'{"type":"heartbeat_ping"': '{"type":"heartbeat_pong","timestamp":"2026-03-20T14:32:00Z","payload":{}}',
}


def messages(count: int) -> list[bytes]:
    """`count` messages of 100 bytes, each with an id of its own."""
    head = (
        '{"type":"tool_output","id":"m-%06d","timestamp":"2026-03-20T14:32:00Z","payload":{"text":"'
    )
    text = "file written session resumed"
    return [
        f'{head % number}{text[: 100 - len(head % number) - 3]}"}}}}'.encode()
        for number in range(count)
    ]


class Bridge(picows.WSListener):
    """One connection."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.mode = path.strip("/")
        self.pings = self.entries = self.since_ping = self.longest = 0

    def on_ws_frame(self, transport, frame):
        """Answer a control frame, else do what the path says."""
        if frame.msg_type == picows.WSMsgType.CLOSE:
            transport.send_close(picows.WSCloseCode.OK)
            transport.disconnect()
            return
        data = frame.get_payload_as_bytes()
        for beginning, answer in HANDSHAKE.items():
            if data.startswith(beginning):
                if "pong" in answer:
                    self.pings += 1
                    self.since_ping = 0
                transport.send(picows.WSMsgType.TEXT, answer.encode())
                return
        if data.startswith(b'{"type":"count_request"'):
            self.tell(transport, data)
        elif self.mode == "echo":
            transport.send(picows.WSMsgType.TEXT, data.replace(b"_request", b"_response", 1))
        elif self.mode == "source":
            for message in messages(orjson.loads(data)["payload"]["count"]):
                transport.send(picows.WSMsgType.TEXT, message)
        else:
            self.swallow(transport, data)

    def swallow(self, transport, data: bytes) -> None:
        """Count a message; acknowledge it where the path says so. A bare client ends with `last`."""
        self.entries += 1
        self.since_ping += 1
        self.longest = max(self.longest, self.since_ping)
        if self.mode == "sink-acks":
            identity = orjson.loads(data)["id"]
            answer = f'{{"type":"message_ack","payload":{{"message_id":"{identity}","status":"applied"}}}}'
            transport.send(picows.WSMsgType.TEXT, answer.encode())
        if data.startswith(b'{"type":"last"'):
            transport.send(picows.WSMsgType.TEXT, b'{"type":"done"}')

    def tell(self, transport, data: bytes) -> None:
        """What came on this connection so far; the join's ping is among the pings."""
        counted = {"pings": self.pings, "entries": self.entries, "longest": self.longest}
        answer = {"type": "count_response", "id": orjson.loads(data)["id"], "payload": counted}
        transport.send(picows.WSMsgType.TEXT, orjson.dumps(answer))


async def echo(websocket) -> None:
    """The same echo on a websockets server: the round trip that users know."""
    async for message in websocket:
        answer = next(
            (text for start, text in HANDSHAKE.items() if message.startswith(start.decode())), None
        )
        await websocket.send(answer or message.replace("_request", "_response", 1))


async def main() -> None:
    """Serve until the standard input ends."""
    fast = await picows.ws_create_server(
        lambda request: Bridge(request.path.decode()), "127.0.0.1", 0
    )
    plain = await serve(echo, "127.0.0.1", 0, compression=None)
    servers = {"picows": fast, "websockets": plain}
    print(
        json.dumps({kind: server.sockets[0].getsockname()[1] for kind, server in servers.items()}),
        flush=True,
    )
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
