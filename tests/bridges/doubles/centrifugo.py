"""Centrifugo (centrifuge 1d8f99f), JSON protocol: epoch and offset per channel, what was missed rides inside the reply.

Fields that are false, 0 or empty are absent, as in its JSON. Replies and publications that wait at the same time share
one frame, one object a line. How long the server waits for a pong (`pong_within`) is this double's own.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.bridges.doubles.base import Double, last
from tests.bridges.doubles.connection import Close, Connection, decoded, encoded


class _Stream:
    """The history of one channel."""

    def __init__(self, epoch: str, size: int) -> None:
        self.epoch, self.offset, self.changed_at = epoch, 0, 0.0
        self.publications: deque[tuple[dict[str, Any], bool]] = deque(
            maxlen=size
        )  # and whether clients may see it


class _Client(Connection):
    connected = False
    answered = True  # the last ping

    def __init__(self, socket: Any) -> None:
        super().__init__(socket)
        self.channels: set[str] = set()

    def take(self) -> Any:
        lines = []
        while self.waiting and not isinstance(self.waiting[0], Close):
            lines.append(encoded(super().take()))
        return "\n".join(lines) if lines else super().take()


class Refusal(Exception):  # noqa: N818 - an answer
    """A command is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _present(**fields: Any) -> dict[str, Any]:
    """Return the fields that the JSON has: not the empty ones."""
    return {name: value for name, value in fields.items() if value}


class Centrifugo(Double):
    """One node. A channel is a channel; None is `channel`.

    `history_size`, `history_ttl`: what a channel remembers. `recovery_limit`: how many can be recovered at most.
    `on_disk`: the engine is Redis, and a restart changes nothing. `ping`, `pong`: the server's pings and whether it
    wants answers. `forbidden`: channels of others. `expired`: tokens that answer 109. `server_side`: channels that
    each client has without asking. `effects` are the commands of clients that publish, send or call.
    """

    connection_class = _Client

    def __init__(
        self,
        rng: random.Random,
        *,
        token: str | None = None,
        expired: frozenset[str] = frozenset(),
        channel: str = "news",
        forbidden: frozenset[str] = frozenset(),
        server_side: tuple[str, ...] = (),
        history_size: int = 100,
        history_ttl: float = 300.0,
        recovery_limit: int = 300,
        on_disk: bool = False,
        ping: float = 25.0,
        pong: bool = True,
        pong_within: float = 8.0,
        notices_after: float = 0.0,
    ) -> None:
        super().__init__(rng, notices_after=notices_after)
        self.token_wanted, self.expired, self.channel = token, expired, channel
        self.forbidden, self.server_side = forbidden, server_side
        self.history_size, self.history_ttl, self.recovery_limit = (
            history_size,
            history_ttl,
            recovery_limit,
        )
        self.on_disk, self.ping, self.pong, self.pong_within = on_disk, ping, pong, pong_within
        self.streams: dict[str, _Stream] = {}

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """One page."""
        return None if urlsplit(path).path == "/connection/websocket" else 404

    async def attend(self, connection: _Client) -> None:
        """Carry out commands, one or several a frame; the first is `connect`."""
        async for frame in connection.frames():
            lines = frame if isinstance(frame, str) else frame.decode(errors="replace")
            for line in lines.split("\n"):
                if connection.closing:
                    break
                command = decoded(line)
                if command == {}:
                    connection.answered = True
                elif not isinstance(command, dict) or not (
                    connection.connected or "connect" in command
                ):
                    connection.close(3501, "bad request")
                else:
                    self._carry_out(connection, command)

    async def publish(self, number: int, channel: str | None = None) -> None:
        """The application publishes the number through the server's API."""
        self.record(number, channel)
        self._publish(channel or self.channel, {"number": number})

    def publish_filtered(self, channel: str | None = None) -> None:
        """A publication that no client may see, and that has an offset all the same. It is not in the log."""
        self._publish(channel or self.channel, {}, visible=False)

    def disconnect(self, code: int, reason: str = "") -> None:
        """Close all connections with a code of the server: 3010 insufficient state, 3014 state invalidated, 3503 force..."""
        for client in [*self.connections]:
            client.close(code, reason)

    def forget(self) -> None:
        """The memory engine starts with new epochs."""
        if not self.on_disk:
            self.streams.clear()

    def trim(self, keep: int) -> None:
        """Shorten the history of each channel."""
        for stream in self.streams.values():
            stream.publications = deque(last(stream.publications, keep), self.history_size)

    def _stream(self, channel: str) -> _Stream:
        if channel not in self.streams:
            self.streams[channel] = _Stream(self.token(4), self.history_size)
        stream = self.streams[channel]
        if self.now() - stream.changed_at > self.history_ttl:
            stream.publications.clear()
        return stream

    def _publish(self, channel: str, data: Any, *, visible: bool = True) -> None:
        stream = self._stream(channel)
        stream.offset += 1
        stream.changed_at = self.now()
        publication = {"data": data, "offset": stream.offset}
        stream.publications.append((publication, visible))
        if visible:
            for client in self.connections:
                if isinstance(client, _Client) and channel in client.channels:
                    client.say({"push": {"channel": channel, "pub": publication}})

    def _carry_out(self, client: _Client, command: dict[str, Any]) -> None:
        kinds = [name for name in command if name != "id"]
        acts = {
            "connect": self._connect,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "history": self._history,
            "publish": self._publish_for,
            "rpc": self._rpc,
            "send": self._send,
        }
        if len(kinds) != 1 or kinds[0] not in acts:
            client.close(3501, "bad request")
            return
        try:
            answer = {kinds[0]: acts[kinds[0]](client, command[kinds[0]] or {}, command)}
        except Refusal as refusal:
            answer = {"error": {"code": refusal.code, "message": str(refusal)}}
        if "id" in command and not client.closing:
            client.say({"id": command["id"], **answer})

    def _connect(
        self, client: _Client, fields: dict[str, Any], command: dict[str, Any]
    ) -> dict[str, Any]:
        if client.connected:
            client.close(3501, "bad request")
        elif fields.get("token") in self.expired:
            raise Refusal(109, "token expired")
        elif self.token_wanted is not None and fields.get("token") != self.token_wanted:
            client.close(3500, "invalid token")
        client.connected = not client.closing
        if client.connected and self.ping:
            client.later(self.ping, self._ping, client)
        wanted = fields.get("subs") or {}
        subs = {name: self._recovered(name, wanted.get(name) or {}) for name in self.server_side}
        client.channels |= set(self.server_side)
        beat = _present(ping=int(self.ping), pong=self.pong)
        return {"client": self.uuid(), "version": "6.0.0", **beat} | _present(subs=subs)

    def _subscribe(
        self, client: _Client, fields: dict[str, Any], command: dict[str, Any]
    ) -> dict[str, Any]:
        channel = fields.get("channel", "")
        if channel in self.forbidden:
            raise Refusal(103, "permission denied")
        if not channel or channel in client.channels:
            raise Refusal(105, "already subscribed") if channel else Refusal(107, "bad request")
        client.channels.add(channel)
        return self._recovered(channel, fields)

    def _recovered(self, channel: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the state of a channel, and all that was missed or nothing of it."""
        stream = self._stream(channel)
        recovering = bool(fields.get("recover"))
        missed = (
            self._missed(stream, fields.get("offset", 0), fields.get("epoch", ""))
            if recovering
            else None
        )
        return _present(
            recoverable=self.history_size > 0,
            positioned=self.history_size > 0,
            epoch=stream.epoch,
            offset=stream.offset,
            was_recovering=recovering,
            recovered=missed is not None,
            publications=[publication for publication, visible in missed or () if visible],
        )

    def _missed(
        self, stream: _Stream, offset: int, epoch: str
    ) -> list[tuple[dict[str, Any], bool]] | None:
        """Return the publications after a position; None if any of them is not there."""
        missed = [entry for entry in stream.publications if entry[0]["offset"] > offset]
        complete = len(missed) == stream.offset - offset
        return (
            missed
            if epoch == stream.epoch and complete and len(missed) <= self.recovery_limit
            else None
        )

    def _unsubscribe(
        self, client: _Client, fields: dict[str, Any], command: dict[str, Any]
    ) -> dict[str, Any]:
        client.channels.discard(fields.get("channel", ""))
        return {}

    def _history(
        self, client: _Client, fields: dict[str, Any], command: dict[str, Any]
    ) -> dict[str, Any]:
        channel, since = fields.get("channel", ""), fields.get("since")
        if channel in self.forbidden:
            raise Refusal(103, "permission denied")
        stream = self._stream(channel)
        found = [*stream.publications]
        if since is not None:
            missed = self._missed(stream, since.get("offset", 0), since.get("epoch", ""))
            if missed is None:
                raise Refusal(112, "unrecoverable position")
            found = missed
        limit = fields.get("limit", 0)  # 0: only the position
        publications = [publication for publication, visible in found if visible]
        publications = publications if limit < 0 else publications[:limit]
        return _present(epoch=stream.epoch, offset=stream.offset, publications=publications)

    def _publish_for(
        self, client: _Client, fields: dict[str, Any], command: dict[str, Any]
    ) -> dict[str, Any]:
        if fields.get("channel", "") in self.forbidden:
            raise Refusal(103, "permission denied")
        self.effects.append(command)
        self._publish(fields["channel"], fields.get("data"))
        return {}

    def _rpc(
        self, client: _Client, fields: dict[str, Any], command: dict[str, Any]
    ) -> dict[str, Any]:
        self.effects.append(command)
        return {"data": fields.get("data")}

    def _send(
        self, client: _Client, fields: dict[str, Any], command: dict[str, Any]
    ) -> dict[str, Any]:
        self.effects.append(command)
        return {}

    def _ping(self, client: _Client) -> None:
        client.answered = not self.pong
        client.say({})
        client.later(self.pong_within, self._judge, client)
        client.later(self.ping, self._ping, client)

    def _judge(self, client: _Client) -> None:
        if not client.answered:
            client.close(3012, "no pong", at_once=True)
