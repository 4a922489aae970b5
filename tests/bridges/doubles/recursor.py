"""ReCursor's bridge as its specification says: sessions with a grace of five minutes, and a replay buffer for each.

Printed are: `auth` first, `session_join`, SESS_NOT_FOUND, the grace, `replay_buffer` when a session comes back, `request_replay` with
`timestamp > since`, the buffer of 100 KB as texts, and the rules of a message. This double's own are `message_ack`, `server_id` and what
it says of `dedupes` (with `answers`), the names of its events, and that a connection whose session another one takes is closed with 4409.
"""

from __future__ import annotations

import json
import random
from collections import deque
from typing import Any

from tests.bridges.doubles.base import Double, last
from tests.bridges.doubles.connection import Connection, decoded


CONTROL = ("auth", "session_join", "request_replay", "heartbeat_ping")


class _Client(Connection):
    is_known = False  # authenticated
    session: _Session | None = None


class _Session:
    """What the bridge has of one: the newest messages as texts, who is connected, and the keys that it has seen."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.buffer: deque[str] = deque()
        self.client: _Client | None = None
        self.detached_at = 0.0
        self.keys: set[str] = set()


class Recursor(Double):
    """The bridge. `answers`: it names its process, acknowledges each message, and runs one with a known key once and says so.

    `grace` seconds a session without a connection lives, `buffer_bytes` its buffer holds. `effects` are the messages that were acted upon.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        token: str = "secret",
        answers: bool = False,
        grace: float = 300.0,
        buffer_bytes: int = 100 * 1024,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.token_wanted, self.answers, self.grace, self.buffer_bytes = (
            token,
            answers,
            grace,
            buffer_bytes,
        )
        self.sessions: dict[str, _Session] = {}
        self.process = self.uuid()

    # ---- what it says ------------------------------------------------------------------------------------------

    def _message(self, kind: str, payload: dict[str, Any], identity: Any = None) -> dict[str, Any]:
        stamp = (
            self.stamp()[:-4] + "Z"
        )  # milliseconds, as JavaScript has: several messages share one
        return {"type": kind, "id": identity or self.uuid(), "timestamp": stamp, "payload": payload}

    def _say(
        self, client: _Client, kind: str, payload: dict[str, Any], identity: Any = None
    ) -> None:
        client.say(self._message(kind, payload, identity))

    def _refuse(self, client: _Client, message: dict[str, Any], code: str, text: str) -> None:
        self._say(client, "error", {"code": code, "message": text}, message.get("id"))

    async def publish(self, number: int, channel: str | None = None) -> None:
        """A message to each session: into its buffer, and to whoever is connected."""
        self.record(number, channel)
        for session in self._alive():
            text = json.dumps(
                self._message("claude_event", {"number": number}), separators=(",", ":")
            )
            session.buffer.append(text)
            while sum(map(len, session.buffer)) > self.buffer_bytes:
                session.buffer.popleft()
            if session.client is not None:
                session.client.say(text)

    def _alive(self) -> list[_Session]:
        """The sessions whose grace is not over."""
        for name, session in [*self.sessions.items()]:
            if session.client is None and self.now() - session.detached_at > self.grace:
                del self.sessions[name]
        return [*self.sessions.values()]

    # ---- its process -------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Sessions and buffers were in memory."""
        self.sessions.clear()
        self.process = self.uuid()

    def trim(self, keep: int) -> None:
        """Let the oldest messages of each buffer go."""
        for session in self.sessions.values():
            session.buffer = deque(last(session.buffer, keep))

    def gone(self, connection: Any) -> None:
        """The grace of its session begins."""
        session = connection.session
        if session is not None and session.client is connection:
            session.client, session.detached_at = None, self.now()

    # ---- what it hears -----------------------------------------------------------------------------------------

    async def attend(self, connection: _Client) -> None:
        """Answer one frame after the other; a wrong token ends the connection."""
        async for frame in connection.frames():
            message = decoded(frame)
            if not isinstance(message, dict) or not isinstance(message.get("payload"), dict):
                self._refuse(connection, {}, "PROTO_INVALID_MESSAGE", "Message validation failed")
            elif not connection.is_known:
                if not self._authenticates(connection, message):
                    return
            else:
                self._act(connection, message, message["payload"])

    def _authenticates(self, client: _Client, message: dict[str, Any]) -> bool:
        if message.get("type") != "auth":
            self._refuse(client, message, "PROTO_SEQUENCE_ERROR", "auth expected first")
            return True
        if message["payload"].get("token") != self.token_wanted:
            refusal = {
                "code": "AUTH_INVALID_TOKEN",
                "message": "Invalid token",
                "recoverable": False,
            }
            self._say(client, "connection_error", refusal)
            return False
        client.is_known = True
        hello: dict[str, Any] = {
            "server_version": "1.0.0",
            "active_sessions": [s.name for s in self._alive()],
        }
        self._say(
            client, "connection_ack", hello | ({"server_id": self.process} if self.answers else {})
        )
        return True

    def _act(self, client: _Client, message: dict[str, Any], payload: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "heartbeat_ping":
            self._say(client, "heartbeat_pong", {}, message.get("id"))
        elif kind == "session_join":
            self._join(client, message, payload)
        elif client.session is None:
            self._refuse(client, message, "PROTO_SEQUENCE_ERROR", "session_join expected first")
        elif kind == "request_replay":
            since = payload.get("since")
            texts = [
                text
                for text in client.session.buffer
                if not since or _stamp_of(text) > _plain(since)
            ]
            self._say(client, "replay_buffer", {"messages": texts}, message.get("id"))
        elif kind not in CONTROL:
            self._take(client, client.session, message, payload)

    def _join(self, client: _Client, message: dict[str, Any], payload: dict[str, Any]) -> None:
        name = payload.get("session_id")
        session = next((each for each in self._alive() if each.name == name), None)
        if session is None and payload.get("resume"):
            self._refuse(client, message, "SESS_NOT_FOUND", f"Session '{name}' not found")
            return
        if session is None:
            session = self.sessions[str(name)] = _Session(str(name))
        older = session.client
        session.client, client.session = client, session
        if older is not None and older is not client:
            older.close(4409, "another connection has taken this session")
        joined = {"session_id": name} | ({"dedupes": True} if self.answers else {})
        self._say(client, "session_joined", joined, message.get("id"))
        if session.buffer:
            self._say(client, "replay_buffer", {"messages": [*session.buffer]})

    def _take(
        self, client: _Client, session: _Session, message: dict[str, Any], payload: dict[str, Any]
    ) -> None:
        key = str(payload.get("idempotency_key") or message.get("id"))
        is_repeated = self.answers and key in session.keys
        session.keys.add(key)
        if not is_repeated:
            self.effects.append(message)
        if self.answers:
            status = "already_processed" if is_repeated else "applied"
            self._say(client, "message_ack", {"message_id": message.get("id"), "status": status})


def _stamp_of(text: str) -> str:
    return _plain(json.loads(text)["timestamp"])


def _plain(stamp: str) -> str:
    """ISO text that sorts as its time: a client may write more digits, or none."""
    seconds, _, fraction = stamp.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:<06}"
