"""ReCursor's real bridge (RecursiveDev/ReCursor, branch dev, b86e86a): no join, no position, no ack, the whole queue pushed.

The names of the events, of the answers to `git_*`, `file_*` and `session_start`, and of the refusal of a frame before
auth are this double's own; the rest is as the code was read and seen.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from tests.bridges.doubles.base import Double, last
from tests.bridges.doubles.connection import Connection, decoded


ANSWERED = ("session_start", "git_", "file_", "health_check")
UNANSWERED = ("message", "approval_response", "session_end", "notification_ack")


class _Client(Connection):
    purpose: str | None = None  # "" and up: authenticated


class RecursorLive(Double):
    """The bridge. Events of the channels None and "notification" are queued, those of "output" (live agent output) are not.

    `insecure`: the bridge finds itself on ws:// and refuses each auth. `queue_size`: how many messages it pushes at most.
    `effects` are the messages of clients that were acted upon, as they came.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        token: str = "secret",
        insecure: bool = False,
        queue_size: int = 1000,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.token_wanted, self.insecure = token, insecure
        self.queue: deque[dict[str, Any]] = deque(maxlen=queue_size)
        self.sessions: list[str] = []

    async def attend(self, connection: _Client) -> None:
        """Answer what is answered; the socket stays open whatever a client says."""
        async for frame in connection.frames():
            message = decoded(frame)
            if not isinstance(message, dict) or not isinstance(message.get("type"), str):
                self._error(connection, "PROTO_INVALID_MESSAGE", "Invalid message", {})
            elif message["type"] == "heartbeat_ping":
                self._say(connection, "heartbeat_pong", {}, message.get("id"))
            elif message["type"] == "auth":
                self._authenticate(connection, message.get("payload") or {})
            elif connection.purpose is None:
                refusal = {"code": "AUTH_REQUIRED", "message": "Authenticate first"}
                self._say(connection, "connection_error", refusal)
            else:
                self._act(connection, message)

    async def publish(self, number: int, channel: str | None = None) -> None:
        """A hook event, a notification, or a piece of live output."""
        self.record(number, channel)
        if channel == "notification":
            message = self._message(
                "notification", {"notification_id": self.uuid(), "number": number}
            )
        elif channel == "output":
            message = self._message("stream_chunk", {"content": f"{number}\n", "number": number})
        else:
            payload = {"event_type": "PostToolUse", "channel": channel, "number": number}
            message = self._message("claude_event", payload)
        if channel != "output":
            self.queue.append(message)
        for client in self.connections:
            if isinstance(client, _Client) and client.purpose is not None:
                client.say(message)

    def forget(self) -> None:
        """The queue and the sessions were in memory; nothing says that they are gone."""
        self.queue.clear()
        self.sessions.clear()

    def trim(self, keep: int) -> None:
        """Let the oldest messages of the queue go."""
        self.queue = deque(last(self.queue, keep), self.queue.maxlen)

    def _message(
        self, kind: str, payload: dict[str, Any], identity: str | None = None
    ) -> dict[str, Any]:
        return {
            "type": kind,
            "id": identity or self.uuid(),
            "timestamp": self.stamp(),
            "payload": payload,
        }

    def _say(
        self, client: _Client, kind: str, payload: dict[str, Any], identity: str | None = None
    ) -> None:
        client.say(self._message(kind, payload, identity))

    def _error(self, client: _Client, code: str, text: str, request: dict[str, Any]) -> None:
        payload = {"code": code, "message": text, "request_type": request.get("type")}
        session = (request.get("payload") or {}).get("session_id")
        self._say(
            client, "error", payload | ({"session_id": session} if session else {})
        )  # a fresh id

    def _authenticate(self, client: _Client, payload: dict[str, Any]) -> None:
        if self.insecure:
            refusal = {
                "code": "INSECURE_TRANSPORT",
                "message": "wss:// is required",
                "remediation": "Use TLS",
            }
            self._say(client, "connection_error", refusal)
        elif payload.get("token") != self.token_wanted:
            refusal = {"code": "AUTH_FAILED", "message": "Invalid or expired token"}
            self._say(client, "connection_error", refusal)
        else:
            client.purpose = payload.get("purpose") or ""
            hello = {
                "server_version": "1.0.0",
                "active_sessions": [*self.sessions],
                "requires_health_verification": True,
            }
            self._say(client, "connection_ack", hello)
            for message in self.queue:  # as if live: no marker, no end
                client.say(message)

    def _act(self, client: _Client, message: dict[str, Any]) -> None:
        kind, payload = message["type"], message.get("payload") or {}
        if kind == "session_start" and client.purpose == "probe":
            self._error(client, "PROTO_SEQUENCE_ERROR", "A probe may not start sessions", message)
            return
        if not kind.startswith(ANSWERED) and kind not in UNANSWERED:
            self._error(client, "PROTO_INVALID_MESSAGE", f"Unknown message type: {kind}", message)
            return
        if kind != "health_check":
            self.effects.append(message)
        if kind == "notification_ack":
            self._settle(payload.get("notification_ids") or [])
        elif kind == "session_end" and payload.get("session_id") in self.sessions:
            self.sessions.remove(payload["session_id"])
        elif kind == "session_start":
            session = payload.get("session_id") or self.uuid()
            self.sessions.append(session)
            self._say(client, "session_ready", {"session_id": session}, message.get("id"))
        elif kind.startswith(ANSWERED):
            self._say(client, f"{kind}_response", {"status": "ok"}, message.get("id"))

    def _settle(self, ids: list[str]) -> None:
        rest = [
            message
            for message in self.queue
            if message["payload"].get("notification_id") not in ids
        ]
        self.queue = deque(rest, self.queue.maxlen)
