"""socket.io 4.8.4 with connection state recovery; with `recovery=False`, python-socketio 5.18.1: the same wire without it.

Text packets on the namespace "/". What was missed comes before the answer to `40`, and a new pid is the only sign of a
loss. A client's event ["join", room] puts it into a room, as an application would.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.bridges.doubles.base import Double, last
from tests.bridges.doubles.connection import Connection


CONNECT = re.compile(r"40(?:(/[^,{]*),?)?(\{.*\})?", re.DOTALL)
EVENT = re.compile(r"42(\d*)(\[.*\])", re.DOTALL)


class _Packet(NamedTuple):
    """An event that a session can get later."""

    offset: str
    room: str | None
    args: list[Any]
    at: float


class _Session(NamedTuple):
    """What is stored when the server notices that a socket is gone."""

    sid: str
    pid: str
    rooms: frozenset[str]
    until: float


class _Client(Connection):
    sid = ""
    pid = ""
    rooms: frozenset[str] = frozenset()
    joined = False
    stored = True  # whether the session is stored at the end
    answered = True  # the last ping


class SocketIO(Double):
    """A server that emits "tick". A channel is a room; None is everybody.

    `recovery`: sessions and events are stored for `max_disconnection` seconds. `ping_timeout_stores`: also those of a
    client that did not answer pings. `effects` are the events of clients, as lists.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        recovery: bool = True,
        token: str | None = None,
        max_disconnection: float = 120.0,
        ping_interval: float = 25.0,
        ping_timeout: float = 20.0,
        ping_timeout_stores: bool = True,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.recovery, self.token_wanted, self.max_disconnection = (
            recovery,
            token,
            max_disconnection,
        )
        self.ping_interval, self.ping_timeout = ping_interval, ping_timeout
        self.ping_timeout_stores = ping_timeout_stores
        self.packets: list[_Packet] = []
        self.sessions: dict[str, _Session] = {}

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """400 for anything but engine.io 4 over a WebSocket."""
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        fits = query.get("EIO") == ["4"] and query.get("transport") == ["websocket"]
        return None if fits and parts.path.rstrip("/") == "/socket.io" else 400

    async def attend(self, connection: _Client) -> None:
        """Open, ping, and take packets; garbage closes the socket without a code."""
        opening = {
            "sid": self.token(20),
            "upgrades": [],
            "pingInterval": int(self.ping_interval * 1000),
            "pingTimeout": int(self.ping_timeout * 1000),
            "maxPayload": 1_000_000,
        }
        connection.say("0" + json.dumps(opening))
        connection.later(self.ping_interval, self._ping, connection)
        async for frame in connection.frames():
            if not isinstance(frame, str) or not self._take(connection, frame):
                return connection.close(1005)
        return None

    async def publish(self, number: int, channel: str | None = None) -> None:
        """Emit ["tick", number] to a room or to everybody."""
        self.record(number, channel)
        packet = _Packet(self.token(7), channel, ["tick", number], self.now())
        if self.recovery:
            self.packets.append(packet)
        for client in self._hearers(channel):
            client.say(self._event(packet))

    def publish_volatile(self, number: int, channel: str | None = None) -> None:
        """Emit an event that is not stored and has no offset. It is not in the log."""
        for client in self._hearers(channel):
            client.say("42" + json.dumps(["tick", number]))

    def forget(self) -> None:
        """Sessions and events were in memory."""
        self.packets.clear()
        self.sessions.clear()

    def trim(self, keep: int) -> None:
        """Let the older events go: an offset among them is unknown from then on."""
        self.packets = last(self.packets, keep)

    def gone(self, connection: _Client) -> None:
        """Only now can the session be recovered."""
        if self.recovery and connection.joined and connection.stored:
            until = self.now() + self.max_disconnection
            self.sessions[connection.pid] = _Session(
                connection.sid, connection.pid, connection.rooms, until
            )

    def _hearers(self, room: str | None) -> list[_Client]:
        clients = [
            client for client in self.connections if isinstance(client, _Client) and client.joined
        ]
        return [client for client in clients if room is None or room in client.rooms]

    def _event(self, packet: _Packet) -> str:
        args = [*packet.args, packet.offset] if self.recovery else packet.args
        return "42" + json.dumps(args, separators=(",", ":"))

    def _ping(self, connection: _Client) -> None:
        connection.answered = False
        connection.say("2")
        connection.later(self.ping_timeout, self._judge, connection)

    def _judge(self, connection: _Client) -> None:
        if not connection.answered:
            connection.stored = self.ping_timeout_stores
            connection.close(1005, at_once=True)

    def _take(self, connection: _Client, frame: str) -> bool:
        """Act on a packet; False if it is garbage."""
        if frame == "3":
            if not connection.answered:
                connection.answered = True
                connection.later(self.ping_interval, self._ping, connection)
        elif frame == "41":
            connection.joined = False
        elif found := CONNECT.fullmatch(frame):
            return self._join(connection, found[1] or "/", found[2] or "{}")
        elif connection.joined and (found := EVENT.fullmatch(frame)):
            return self._hear(connection, found[1], found[2])
        else:
            return frame.startswith("43")  # an ack that nobody waits for
        return True

    def _join(self, connection: _Client, namespace: str, text: str) -> bool:
        try:
            data = json.loads(text)
        except ValueError:
            return False
        if namespace != "/":
            connection.say(f"44{namespace},{json.dumps({'message': 'Invalid namespace'})}")
        elif self.token_wanted is not None and data.get("token") != self.token_wanted:
            connection.say("44" + json.dumps({"message": "Unauthorized"}))
        elif not connection.joined:
            self._recover(connection, data)
            answer = {"sid": connection.sid} | ({"pid": connection.pid} if self.recovery else {})
            connection.say("40" + json.dumps(answer))
            connection.joined = True
        return True

    def _recover(self, connection: _Client, data: dict[str, Any]) -> None:
        """Say what a stored session missed; a fresh session where any part of that is not there."""
        self._expire()
        session = self.sessions.get(str(data.get("pid")))
        offsets = [packet.offset for packet in self.packets]
        if session is None or data.get("offset") not in offsets:
            connection.sid, connection.pid = self.token(20), self.token(20)
            return
        del self.sessions[session.pid]
        connection.sid, connection.pid, connection.rooms = session.sid, session.pid, session.rooms
        for packet in self.packets[offsets.index(data["offset"]) + 1 :]:
            if packet.room is None or packet.room in session.rooms:
                connection.say(self._event(packet))

    def _expire(self) -> None:
        now = self.now()
        self.packets = [
            packet for packet in self.packets if packet.at + self.max_disconnection >= now
        ]
        self.sessions = {
            pid: session for pid, session in self.sessions.items() if session.until >= now
        }

    def _hear(self, connection: _Client, ack: str, text: str) -> bool:
        try:
            args = json.loads(text)
        except ValueError:
            return False
        if not args or not isinstance(args[0], str):
            return False
        if args[0] == "join":
            connection.rooms |= {args[1]}
        else:
            self.effects.append(args)
        if ack:
            answer = [f"got {args[1]}"] if len(args) > 1 else []
            connection.say(f"43{ack}{json.dumps(answer)}")
        return True
