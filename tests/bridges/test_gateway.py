"""A gateway that says how often it wants a heartbeat, on aiohttp: the interval is the server's, and the heartbeat carries the position.

Its frames are those that Discord documents: op 10 Hello, 2 Identify, 6 Resume, 1 and 11 heartbeat and its answer, 0 events with a number.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

import resilient_bridge as rb
from tests.bridges.aiohttp_server import serving


pytestmark = [pytest.mark.real, pytest.mark.timeout(30)]
say = rb.dialects
EVERY = 0.05  # seconds


def decode(frame):
    """The facts in a frame of the gateway."""
    body = json.loads(frame)
    match body["op"], body.get("t"):
        case 10, _:
            return (say.Challenge(ping_every=body["d"]["heartbeat_interval"] / 1000),)
        case 11, _:
            return (say.Pong(),)
        case 0, "READY":
            return (say.Hello(session=body["d"]["session_id"]),)
        case 0, "RESUMED":
            return (say.Hello(), say.Replayed(complete=True))
        case 0, name:
            return (say.Received(raw=body, type=name, payload=body["d"], position=body["s"]),)
    raise ValueError(f"no op {body['op']}")


def encode(intent):
    """The frame of an intent."""
    match intent:
        case say.Auth(token=token, record=record) if record.session and record.position is not None:
            asked = {"token": token, "session_id": record.session, "seq": record.position}
            return json.dumps({"op": 6, "d": asked})
        case say.Auth(token=token):
            return json.dumps({"op": 2, "d": {"token": token}})
        case say.Ping(record=record):
            return json.dumps({"op": 1, "d": record.position})
    return None


GATEWAY = rb.bridge.Dialect.envelopes(
    decode=decode,
    encode=encode,
    login="asked",
    waits_for_hello=True,
    pings=True,
    # It knows our numbers in the session that they belong to, or refuses to resume: so they are those of one log.
    positions=say.Positions(contiguous=True, ends="stated", distinct=True),
)


class Gateway:
    """One session with a log; `beats` are the positions that heartbeats have carried, with the time of each."""

    def __init__(self):
        self.log, self.beats, self.asked, self.sockets = [], [], [], []

    async def handle(self, request):
        """Hello, then what the client says."""
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.sockets.append(socket)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": EVERY * 1000}})
        async for message in socket:
            await self.hear(socket, json.loads(message.data))
        return socket

    async def hear(self, socket, frame):
        """Answer one frame."""
        if frame["op"] == 1:
            self.beats.append((asyncio.get_running_loop().time(), frame["d"]))
            await socket.send_json({"op": 11})
        elif frame["op"] == 2:
            self.asked.append(None)
            await socket.send_json({"op": 0, "t": "READY", "d": {"session_id": "s"}})
        elif frame["op"] == 6:
            self.asked.append(frame["d"]["seq"])
            for number in range(frame["d"]["seq"] + 1, len(self.log) + 1):
                await self.event(socket, number)
            await socket.send_json({"op": 0, "t": "RESUMED", "d": {}})

    async def event(self, socket, number):
        """Send one event of the log."""
        await socket.send_json(
            {"op": 0, "t": "MESSAGE_CREATE", "s": number, "d": {"text": self.log[number - 1]}}
        )

    async def publish(self, text):
        """Add an event, and send it to the last connection if that is open."""
        self.log.append(text)
        if not self.sockets[-1].closed:
            await self.event(self.sockets[-1], len(self.log))


async def until(condition):
    """Wait until it holds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.requirement("X1")
async def test_the_server_says_how_often_it_wants_a_heartbeat():
    """Our policy says 15 s, the gateway 50 ms: it gets them, with the position, on each connection; a cut is RECOVERED."""
    gateway, seen = Gateway(), []
    policy = rb.bridge.BridgePolicy(
        reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.02))
    )
    async with (
        serving(gateway.handle) as url,
        rb.BridgeClient(url, dialect=GATEWAY, token="t", policy=policy) as bridge,
    ):
        events = bridge.events()

        def take(message):
            seen.append(message.payload["text"])

        async def read():
            async for message in bridge:
                take(message)

        task = asyncio.ensure_future(read())
        await bridge.wait_ready(5)
        await gateway.publish("a")
        await until(lambda: [at for _, at in gateway.beats].count(1) >= 3)
        gateway.sockets[-1]._writer.transport.abort()
        gateway.log.append("b")
        await until(lambda: seen == ["a", "b"])
        await until(lambda: [at for _, at in gateway.beats].count(2) >= 3)
        verdict = await anext(
            event async for event in events if isinstance(event, rb.events.Resumed)
        )
        task.cancel()
    assert gateway.asked == [None, 1]
    assert (verdict.verdict, verdict.proof) == (rb.bridge.Verdict.RECOVERED, "stated")
