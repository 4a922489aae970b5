"""A JSON-RPC 2.0 server over a WebSocket, as language servers are: requests, notifications, batches, both ask, no replay.

Methods: `echo` (its params back), `do` (has an effect), `wait` ({seconds}: answers later), `fail` ({code, message}),
and the notification `$/cancelRequest` ({id}: the request is answered with -32800). A `wait` in a batch is answered alone.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

from tests.bridges.doubles.base import Double
from tests.bridges.doubles.connection import Connection


class _Client(Connection):
    def __init__(self, socket: Any) -> None:
        super().__init__(socket)
        self.running: set[Any] = set()  # ids of requests that wait for their time
        self.asked: dict[int, asyncio.Future[Any]] = {}  # what we asked the client


def _error(code: int, message: str, identity: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}


class JsonRpc(Double):
    """The server. `publish` is the notification "event" with {number, channel}; who is away misses it.

    `effects` are the params of `do`, once for each time it came.
    """

    connection_class = _Client

    def __init__(self, rng: random.Random, *, notices_after: float = 0.0) -> None:
        super().__init__(rng, notices_after=notices_after)

    async def attend(self, connection: _Client) -> None:
        """Answer each frame with one frame, or with none where only notifications came."""
        async for frame in connection.frames():
            try:
                message = json.loads(frame)
            except ValueError:
                connection.say(_error(-32700, "Parse error"))
                continue
            if isinstance(message, list) and message:
                answers = [answer for one in message if (answer := self._answer(connection, one))]
            else:
                answers = self._answer(connection, message)
            if answers:
                connection.say(answers)

    async def publish(self, number: int, channel: str | None = None) -> None:
        """Notify everybody."""
        self._notify([number], channel)

    async def publish_batch(self, numbers: list[int], channel: str | None = None) -> None:
        """Notify everybody of several events in one frame."""
        self._notify(numbers, channel, batch=True)

    async def ask(self, method: str, params: Any = None) -> Any:
        """Ask the client that came last, with an id that its own requests may have too; return its whole answer."""
        client = self.connections[-1]
        assert isinstance(client, _Client)
        identity = len(client.asked) + 1
        client.asked[identity] = asyncio.get_running_loop().create_future()
        client.say({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})
        return await client.asked[identity]

    def gone(self, connection: _Client) -> None:
        """Who waits for an answer of this client gets an error."""
        for asked in connection.asked.values():
            if not asked.done():
                asked.set_exception(ConnectionError("the client is gone"))

    def restart(self) -> None:
        """Nothing is on disk; questions to clients die as well."""
        for client in self.connections:
            self.gone(client)
        super().restart()

    def _notify(self, numbers: list[int], channel: str | None, *, batch: bool = False) -> None:
        frames = []
        for number in numbers:
            self.record(number, channel)
            params = {"number": number, "channel": channel}
            frames.append({"jsonrpc": "2.0", "method": "event", "params": params})
        for client in self.connections:
            client.say(frames if batch else frames[0])

    def _answer(self, client: _Client, message: Any) -> Any:
        """Return the answer to one message; None if there is none, or not yet."""
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _error(-32600, "Invalid Request")
        identity, method = message.get("id"), message.get("method")
        if not isinstance(identity, str | int | float | None):
            return _error(-32600, "Invalid Request")
        if method is None and ("result" in message or "error" in message):
            asked = client.asked.get(identity)
            if asked is not None and not asked.done():
                asked.set_result(message)
            return None
        if not isinstance(method, str):
            return _error(-32600, "Invalid Request", identity)
        answer = self._call(client, method, message.get("params"), identity)
        return answer if "id" in message else None

    def _call(self, client: _Client, method: str, params: Any, identity: Any) -> Any:
        result = {"jsonrpc": "2.0", "id": identity}
        fields = params if isinstance(params, dict) else {}
        if method == "echo":
            return result | {"result": params}
        if method == "do":
            self.effects.append(params)
            return result | {"result": {"done": len(self.effects)}}
        if method == "fail":
            return _error(fields.get("code", -32000), fields.get("message", "failed"), identity)
        if method == "$/cancelRequest":
            if fields.get("id") in client.running:
                client.running.remove(fields["id"])
                client.say(_error(-32800, "Request cancelled", fields["id"]))
            return None
        if method != "wait":
            return _error(-32601, "Method not found", identity)
        if not isinstance(fields.get("seconds"), int | float):
            return _error(-32602, "Invalid params", identity)
        client.running.add(identity)
        client.later(fields["seconds"], self._finish, client, identity)
        return None

    def _finish(self, client: _Client, identity: Any) -> None:
        if identity in client.running:
            client.running.remove(identity)
            client.say({"jsonrpc": "2.0", "id": identity, "result": {"waited": True}})
