"""OpenHands agent-server 1.58.0: the legacy socket (`/sockets/events/{id}`) and the session socket (`/sockets/session/{id}`).

Both have one log per conversation on disk, which survives everything but `reset`. The frames of items that are being
made (`item_started`, `delta`, `item_aborted`) and the `sync` without `after_seq` are this double's own reading.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from tests.bridges.doubles.base import Double
from tests.bridges.doubles.connection import Close, Connection, decoded, encoded


class _Client(Connection):
    """A subscriber of one conversation; `pending` counts the bytes that wait for it."""

    conversation = ""
    subscribed = False
    pending = 0
    limit: int | None = None

    def say(self, frame: Any) -> None:
        text = encoded(frame)
        self.pending += len(text)
        super().say(text)
        if self.limit is not None and self.pending > self.limit:
            self.close(1013, "too much pending", at_once=True)

    def take(self) -> Any:
        frame = super().take()
        if not isinstance(frame, Close):
            self.pending -= len(frame)
        return frame


class _Server(Double):
    """What both sockets share: auth, the log, runs.

    `key`: the session API key, None for none. `busy`: so many of the next connections find the credentials not ready.
    `runs`: a message of a client starts a run of the agent, with so many seconds of `step` between its events.
    `utc_offset`: hours between the server's local time, which its stamps carry without a zone, and UTC.
    Channels are conversations; None is `conversation`. `effects` are the stored messages of clients, as they came.
    """

    connection_class = _Client
    prefix: ClassVar[str]

    def __init__(
        self,
        rng: random.Random,
        *,
        key: str | None = None,
        conversation: str = "main",
        max_subscribers: int | None = None,
        max_pending: int | None = None,
        auth_within: float = 10.0,
        utc_offset: float = 0.0,
        runs: bool = False,
        step: float = 0.0,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.key, self.conversation, self.busy = key, conversation, 0
        self.max_subscribers, self.max_pending, self.auth_within = (
            max_subscribers,
            max_pending,
            auth_within,
        )
        self.zone, self.runs, self.step = timedelta(hours=utc_offset), runs, step
        self.stored: dict[str, list[dict[str, Any]]] = {conversation: []}

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """403 for a wrong key in the query or a header, and just the same for a query that cannot be read."""
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        lower = {name.lower(): value for name, value in headers.items()}
        key = query.get("session_api_key", lower.get("x-session-api-key", self.key))
        fits = parts.path.startswith(self.prefix) and self.readable(query)
        return None if fits and (self.key is None or key == self.key) else 403

    def readable(self, query: Mapping[str, str]) -> bool:
        """Whether the server understands the query."""
        raise NotImplementedError

    async def attend(self, connection: _Client) -> None:
        """Auth, then the replay, and only then the frames of the client."""
        connection.conversation = connection.path.removeprefix(self.prefix)
        if not await self._authenticated(connection):
            return connection.close(4001, "Authentication failed")
        if connection.conversation not in self.stored:
            return connection.close(4004, "Conversation not found")
        if self.busy or self._crowded(connection.conversation):
            self.busy = max(0, self.busy - 1)
            return connection.close(1013, "Try again later")
        connection.limit = self.max_pending
        connection.subscribed = True
        await self.replay(connection)
        async for frame in connection.frames():
            self.hear(connection, frame)
        return None

    async def replay(self, connection: _Client) -> None:
        """Say what a new subscriber gets before anything that is live."""
        raise NotImplementedError

    def say_stored(self, connection: _Client, event: dict[str, Any], index: int) -> None:
        """Say an event of the log."""
        raise NotImplementedError

    def say_fleeting(self, connection: _Client, event: dict[str, Any]) -> None:
        """Say an event that is never stored."""
        raise NotImplementedError

    def refuse_frame(self, connection: _Client, detail: str) -> None:
        """Answer a frame that is no message."""
        raise NotImplementedError

    def hear(self, connection: _Client, frame: str | bytes) -> None:
        """Store a message, again each time it comes; the echo is its only confirmation."""
        message = decoded(frame)
        if isinstance(message, dict) and message.get("type") == "auth":
            return
        if not isinstance(message, dict) or not isinstance(message.get("content"), list):
            detail = f"1 validation error for Message\nrole\n  Field required [type=missing, input_value={message}]"
            self.refuse_frame(connection, detail)  # as the server does, it quotes what it refuses
            return
        self.effects.append(message)
        content = {"role": message.get("role", "user"), "content": message["content"]}
        self._store(
            connection.conversation, kind="MessageEvent", source="user", llm_message=content
        )
        if self.runs:
            self._run(connection.conversation)

    async def publish(self, number: int, channel: str | None = None) -> None:
        """A tool of the agent observes the number."""
        self.record(number, channel)
        observation = {"kind": "CountObservation", "number": number}
        self._store(channel or self.conversation, kind="ObservationEvent", observation=observation)
        await asyncio.sleep(
            0
        )  # the writers run between two events: only for who does not read anything waits

    def reset(self, conversation: str | None = None) -> None:
        """The log of a conversation is lost or made anew: it starts at the first event again."""
        self.stored[conversation or self.conversation] = []

    def event(self, **fields: Any) -> dict[str, Any]:
        """Return an event with a fresh id and the local time of now."""
        stamp = (self.moment() + self.zone).strftime("%Y-%m-%dT%H:%M:%S.%f")
        return {"id": self.uuid(), "timestamp": stamp, "source": "environment"} | fields

    def full_state(self, conversation: str) -> dict[str, Any]:
        """Return the frame that is newer than all that is replayed behind it."""
        value = {"execution_status": "idle", "events": len(self.stored[conversation])}
        return self.event(kind="ConversationStateUpdateEvent", key="full_state", value=value)

    def subscribers(self, conversation: str) -> list[_Client]:
        """Return who hears a conversation."""
        clients = [client for client in self.connections if isinstance(client, _Client)]
        return [
            client
            for client in clients
            if client.subscribed and client.conversation == conversation
        ]

    async def _authenticated(self, connection: _Client) -> bool:
        early = "session_api_key" in connection.query or "x-session-api-key" in connection.headers
        if self.key is None or early:
            return True
        try:
            first = decoded(await asyncio.wait_for(connection.receive(), self.auth_within))
        except TimeoutError:
            return False
        return first == {"type": "auth", "session_api_key": self.key}

    def _crowded(self, conversation: str) -> bool:
        limit = self.max_subscribers
        return limit is not None and len(self.subscribers(conversation)) >= limit

    def _store(self, conversation: str, **fields: Any) -> None:
        log = self.stored.setdefault(conversation, [])
        log.append(self.event(**fields))
        for client in self.subscribers(conversation):
            self.say_stored(client, log[-1], len(log) - 1)

    def _run(self, conversation: str) -> None:
        def state(key: str, value: Any) -> dict[str, Any]:
            return {"kind": "ConversationStateUpdateEvent", "key": key, "value": value}

        reply = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}
        events = [
            state("last_user_message_id", self.stored[conversation][-1]["id"]),
            state("execution_status", "running"),
            state("stats", {"tokens": 1}),
            state("stats", {"tokens": 2}),
            {"kind": "MessageEvent", "source": "agent", "llm_message": reply},
            state("execution_status", "finished"),
        ]
        for index, fields in enumerate(events):
            self.later(index * self.step, lambda fields=fields: self._store(conversation, **fields))
        self.later(len(events) * self.step, self._say_full_state, conversation)

    def _say_full_state(self, conversation: str) -> None:
        state = self.full_state(conversation)
        for client in self.subscribers(conversation):
            self.say_fleeting(client, state)


class LegacySocket(_Server):
    """Socket A: first a fresh full_state, then the replay by timestamp (inclusive); nothing marks its end.

    `pause`: seconds between two events of a replay, which was read before; live events come between them, as the server has it.
    """

    prefix = "/sockets/events/"

    def __init__(self, rng: random.Random, *, pause: float = 0.0, **options: Any) -> None:
        super().__init__(rng, **options)
        self.pause = pause

    def readable(self, query: Mapping[str, str]) -> bool:
        """A known mode, and a time that is one."""
        try:
            self._utc(query.get("after_timestamp", "2026-01-01"))
        except ValueError:
            return False
        return query.get("resend_mode") in {None, "all", "since"}

    async def replay(self, connection: _Client) -> None:
        """Everything, what is not older than the time asked for, or nothing at all."""
        self.say_fleeting(connection, self.full_state(connection.conversation))
        mode, after = connection.query.get("resend_mode"), connection.query.get("after_timestamp")
        for index, event in enumerate([*self.stored[connection.conversation]]):
            newer = mode == "since" and after and self._utc(event["timestamp"]) >= self._utc(after)
            if mode == "all" or newer:
                self.say_stored(connection, event, index)
                if self.pause:
                    await asyncio.sleep(self.pause)

    def say_stored(self, connection: _Client, event: dict[str, Any], index: int) -> None:
        """One event a frame."""
        connection.say(event)

    def say_fleeting(self, connection: _Client, event: dict[str, Any]) -> None:
        """Looks like any other event."""
        connection.say(event)

    def refuse_frame(self, connection: _Client, detail: str) -> None:
        """The socket stays open."""
        connection.say(self.event(kind="ServerErrorEvent", code="ValidationError", detail=detail))

    def rest(self, method: str, target: str, headers: Mapping[str, str]) -> tuple[int, Any] | None:
        """`GET /api/conversations/{id}/events/search?timestamp__gte=&limit=&page_id=`."""
        parts = urlsplit(target)
        query, words = dict(parse_qsl(parts.query)), parts.path.strip("/").split("/")
        if words[:2] != ["api", "conversations"] or words[3:] != ["events", "search"]:
            return None
        lower = {name.lower(): value for name, value in headers.items()}
        if self.key is not None and lower.get("x-session-api-key") != self.key:
            return 401, {"detail": "Unauthorized"}
        if words[2] not in self.stored:
            return 404, {"detail": "Not Found"}
        since = self._utc(query.get("timestamp__gte", "2000-01-01"))
        found = [event for event in self.stored[words[2]] if self._utc(event["timestamp"]) >= since]
        ids = [event["id"] for event in found]
        first = ids.index(query["page_id"]) if query.get("page_id") in ids else 0
        end = first + int(query.get("limit", "100"))
        return 200, {
            "items": found[first:end],
            "next_page_id": ids[end] if end < len(ids) else None,
        }

    def _utc(self, stamp: str) -> datetime:
        time = datetime.fromisoformat(stamp)
        return time if time.tzinfo else time.replace(tzinfo=UTC) - self.zone


class SessionSocket(_Server):
    """Socket B: `sync {from_seq, through_seq}`, exactly the events between, a full_state without a seq, then live.

    `seq` is the index in the log. A position beyond the log gets `sync` from there through the head, and silence.
    `max_frame` bytes of a client's frame close with 1009, `max_pending` bytes that wait for a client with 1013.
    """

    prefix = "/sockets/session/"

    def __init__(
        self,
        rng: random.Random,
        *,
        max_frame: int = 2**22,
        max_pending: int | None = 2**24,
        **options: Any,
    ) -> None:
        super().__init__(rng, max_pending=max_pending, **options)
        self.max_frame = max_frame

    def readable(self, query: Mapping[str, str]) -> bool:
        """An integer, or nothing."""
        try:
            int(query.get("after_seq", "0"))
        except ValueError:
            return False
        return True

    async def replay(self, connection: _Client) -> None:
        """-1 asks for everything, the absence of a position for nothing."""
        log = self.stored[connection.conversation]
        head = len(log) - 1
        after = int(connection.query.get("after_seq", head))
        connection.say({"type": "sync", "from_seq": after, "through_seq": head})
        for index in range(max(after, -1) + 1, head + 1):
            self.say_stored(connection, log[index], index)
        if after <= head:
            self.say_fleeting(connection, self.full_state(connection.conversation))

    def hear(self, connection: _Client, frame: str | bytes) -> None:
        """As on the other socket, up to a size."""
        if len(frame) > self.max_frame:
            connection.close(1009, "message too big")
        else:
            super().hear(connection, frame)

    def stream_item(
        self, number: int, channel: str | None = None, *, aborted: bool = False
    ) -> None:
        """The agent makes an item piece by piece: frames that have no seq and are never replayed."""
        item = self.uuid()
        frames: list[dict[str, Any]] = [
            {"type": "item_started", "item_id": item},
            {"type": "delta", "item_id": item, "delta": {"number": number}},
        ]
        if aborted:
            frames.append({"type": "item_aborted", "item_id": item})
        for client in self.subscribers(channel or self.conversation):
            for frame in frames:
                client.say(frame)

    def say_stored(self, connection: _Client, event: dict[str, Any], index: int) -> None:
        """With its position."""
        connection.say({"type": "durable", "seq": index, "event": event})

    def say_fleeting(self, connection: _Client, event: dict[str, Any]) -> None:
        """Without one: it must not move a cursor."""
        connection.say({"type": "transient", "event": event})

    def refuse_frame(self, connection: _Client, detail: str) -> None:
        """The socket stays open."""
        connection.say({"type": "error", "code": "ValidationError", "detail": detail})
