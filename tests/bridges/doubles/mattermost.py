"""Mattermost (server 0289139, web client 115e37a): `/api/v4/websocket`; the absence of a hello is the success of a resume.

How a wrong token is refused, how long a lost session stays (`inactive_for`), and that it cannot be resumed before the
loss was noticed (unless `resumes_unnoticed`) are this double's own.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.bridges.doubles.base import Double, last
from tests.bridges.doubles.connection import Connection, decoded


class _Event:
    """An event that has no number yet: that comes when it is written. `hidden`: it is numbered, and not written."""

    def __init__(self, fields: dict[str, Any], *, hidden: bool = False) -> None:
        self.fields, self.hidden = fields, hidden


class _Session:
    """What the server has of a connection, and for a while after it."""

    def __init__(self, connection_id: str, dead_queue: int) -> None:
        self.id = connection_id
        self.sequence = 0  # of the next event
        self.dead: deque[dict[str, Any]] = deque(maxlen=dead_queue)  # written, maybe lost
        self.unsent: list[_Event] = []  # what came while nobody was connected
        self.connection: _Client | None = None
        self.losses = 0

    def number(self, event: _Event) -> dict[str, Any]:
        """Number an event as it is written."""
        numbered = {**event.fields, "seq": self.sequence}
        self.sequence += 1
        self.dead.append(numbered)
        return numbered

    def has(self, sequence: int) -> bool:
        """Whether everything from this number on is still here."""
        first = self.dead[0]["seq"] if self.dead else self.sequence
        return first <= sequence <= self.sequence


class _Client(Connection):
    session: _Session | None = None
    authenticated = False

    def take(self) -> Any:
        frame = super().take()
        if not isinstance(frame, _Event) or self.session is None:
            return frame
        numbered = self.session.number(frame)
        return None if frame.hidden else numbered

    def unsent(self) -> list[_Event]:
        """Return the events that wait for their number."""
        return [frame for frame in self.waiting if isinstance(frame, _Event)]


class Mattermost(Double):
    """One node. A channel is a channel; None is "town-square". Posts are on disk, and `rest` has them.

    `dead_queue`: how many written events a resume can repeat. `send_queue`: how many may wait; one more ends the session.
    `resumes_unnoticed`: a session can be resumed before the server has noticed that its socket is gone.
    `effects` are the requests that do something: all but pings.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        token: str = "secret",
        dead_queue: int = 128,
        send_queue: int = 256,
        inactive_for: float = 300.0,
        auth_within: float = 5.0,
        resumes_unnoticed: bool = False,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.token_wanted, self.dead_queue, self.send_queue = token, dead_queue, send_queue
        self.inactive_for, self.auth_within = inactive_for, auth_within
        self.resumes_unnoticed = resumes_unnoticed
        self.sessions: dict[str, _Session] = {}
        self.posts: list[dict[str, Any]] = []
        self._hidden = 0

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """One page; a wrong token is refused on the socket."""
        return None if urlsplit(path).path == "/api/v4/websocket" else 404

    async def attend(self, connection: _Client) -> None:
        """Auth by header, cookie or first frame; then a hello, or the replay of a session that was found."""
        if connection.headers.get(
            "authorization"
        ) == f"Bearer {self.token_wanted}" or self._has_cookie(connection):
            self._begin(connection)
        while True:
            request = decoded(await self._next(connection))
            if not isinstance(request, dict):
                continue
            self._answer(connection, request)

    async def publish(self, number: int, channel: str | None = None) -> None:
        """Somebody posts the number."""
        self.record(number, channel)
        where = channel or "town-square"
        post = {"id": self.token(26).lower(), "create_at": int(self.moment().timestamp() * 1000)}
        post |= {"channel_id": where, "message": f"message {number}", "props": {"number": number}}
        self.posts.append(post)
        data = {"channel_name": where, "sender_name": "@ann", "post": json.dumps(post)}
        fields = {"event": "posted", "data": data, "broadcast": {"channel_id": where}}
        hidden = self._hidden > 0
        self._hidden -= hidden
        for session in [*self.sessions.values()]:
            self._queue(session, _Event(fields, hidden=hidden))
        await asyncio.sleep(
            0
        )  # the writers run between two posts: only who does not read has a full queue

    def hide(self, count: int = 1) -> None:
        """Lose the next events on their way: a hole in the numbers of every connection, which a resume can fill."""
        self._hidden = count

    def forget(self) -> None:
        """Sessions and their queues were in memory."""
        self.sessions.clear()

    def trim(self, keep: int) -> None:
        """Shorten the dead queues; a session with more unsent than that is lost."""
        for session in [*self.sessions.values()]:
            session.dead = deque(last(session.dead, keep), self.dead_queue)
            if session.connection is None and len(session.unsent) > keep:
                del self.sessions[session.id]

    def gone(self, connection: _Client) -> None:
        """What was not written is stored with the session."""
        session = connection.session
        if session is not None and self.sessions.get(session.id) is session:
            session.connection, session.unsent = None, connection.unsent()
            session.losses += 1
            self.later(self.inactive_for, self._expire, session, session.losses)

    def rest(self, method: str, target: str, headers: Mapping[str, str]) -> tuple[int, Any] | None:
        """`GET /api/v4/channels/{id}/posts?since=<ms>` or `?after=<post id>`: newest first, as Mattermost has it."""
        parts = urlsplit(target)
        query, words = dict(parse_qsl(parts.query)), parts.path.strip("/").split("/")
        if words[:3] != ["api", "v4", "channels"] or words[4:] != ["posts"]:
            return None
        lower = {name.lower(): value for name, value in headers.items()}
        if lower.get("authorization") != f"Bearer {self.token_wanted}":
            return 401, {"id": "api.context.session_expired.app_error", "status_code": 401}
        posts = [post for post in self.posts if post["channel_id"] == words[3]]
        if "after" in query:
            ids = [post["id"] for post in posts]
            posts = posts[ids.index(query["after"]) + 1 :] if query["after"] in ids else []
        else:
            posts = [post for post in posts if post["create_at"] >= int(query.get("since", "0"))]
        order = [post["id"] for post in reversed(posts)]
        return 200, {"order": order, "posts": {post["id"]: post for post in posts}}

    def _has_cookie(self, connection: _Client) -> bool:
        return f"MMAUTHTOKEN={self.token_wanted}" in connection.headers.get("cookie", "")

    async def _next(self, connection: _Client) -> str | bytes:
        if connection.authenticated:
            return await connection.receive()
        try:
            return await asyncio.wait_for(connection.receive(), self.auth_within)
        except TimeoutError:
            connection.close(1005)
            return await connection.receive()

    def _answer(self, connection: _Client, request: dict[str, Any]) -> None:
        action, about = request.get("action"), request.get("seq")
        if action == "authentication_challenge":
            if (request.get("data") or {}).get("token") != self.token_wanted:
                self._fail(connection, about, "api.web_socket_router.not_authenticated.app_error")
                connection.close(1005)
                return
            if not connection.authenticated:
                self._begin(connection)
            connection.say({"status": "OK", "seq_reply": about})
        elif not connection.authenticated:
            self._fail(connection, about, "api.web_socket_router.not_authenticated.app_error")
        elif action == "ping":
            data = {"text": "pong", "version": "10.0.0", "node_id": ""}
            connection.say({"status": "OK", "data": data, "seq_reply": about})
        elif action in {"user_typing", "presence", "posted_ack", "user_update_active_status"}:
            self.effects.append(request)
            connection.say({"status": "OK", "seq_reply": about})
        else:
            self._fail(connection, about, "api.web_socket_router.bad_action.app_error")

    def _fail(self, connection: _Client, about: Any, error: str) -> None:
        connection.say(
            {"status": "FAIL", "error": {"id": error, "message": error}, "seq_reply": about}
        )

    def _begin(self, connection: _Client) -> None:
        connection.authenticated = True
        session = self._found(connection.query)
        if session is not None:
            wanted = int(connection.query["sequence_number"])
            missed: list[Any] = [event for event in session.dead if event["seq"] >= wanted]
            missed += session.unsent  # numbered as they are written
        else:
            session = _Session(self.token(26).lower(), self.dead_queue)
            self.sessions[session.id] = session
            data = {
                "connection_id": session.id,
                "server_version": "10.0.0",
                "server_hostname": "one",
            }
            missed = [_Event({"event": "hello", "data": data, "broadcast": {}})]
        connection.session, session.connection, session.unsent = session, connection, []
        for event in missed:
            connection.say(event)

    def _found(self, query: Mapping[str, str]) -> _Session | None:
        session = self.sessions.get(query.get("connection_id", ""))
        if session is None or (session.connection is not None and not self.resumes_unnoticed):
            return None
        try:
            wanted = int(query.get("sequence_number", "0"))
        except ValueError:
            return None
        if not session.has(wanted):
            return None
        if session.connection is not None:
            earlier, session.unsent = session.connection, session.connection.unsent()
            earlier.session = None
            earlier.close(1005, at_once=True)
        return session

    def _queue(self, session: _Session, event: _Event) -> None:
        client = session.connection
        waiting = session.unsent if client is None else client.unsent()
        if len(waiting) >= self.send_queue:
            del self.sessions[session.id]
            if client is not None:
                client.close(1005, at_once=True)
        elif client is None:
            session.unsent.append(event)
        else:
            client.say(event)

    def _expire(self, session: _Session, losses: int) -> None:
        unused = session.connection is None and session.losses == losses
        if unused and self.sessions.get(session.id) is session:
            del self.sessions[session.id]
