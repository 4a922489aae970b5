"""What all doubles have: a log, effects, connections, a clock that never stands still, and ids from the rng they get."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from tests.bridges.doubles.connection import Connection
from tests.bridges.doubles.socket import Socket


START = datetime(2026, 1, 1, tzinfo=UTC)  # the server's date when the loop's clock is at 0
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def last(items: Iterable[Any], count: int) -> list[Any]:
    """Return the last so many items; none for 0."""
    listed = list(items)
    return listed[max(0, len(listed) - count) :]


class Double:
    """A scripted server. A subclass answers in `attend` and `publish`, and says in `forget` what was only in memory.

    `notices_after`: for so many seconds the server believes in a socket that was lost without a close frame.
    """

    connection_class: ClassVar[type[Connection]] = Connection

    def __init__(self, rng: random.Random, *, notices_after: float = 0.0) -> None:
        self.rng = rng
        self.notices_after = notices_after
        self.log: dict[str | None, list[int]] = {}
        self.effects: list[Any] = []
        self.connections: list[Connection] = []  # those that the server believes in
        self._timers: set[asyncio.TimerHandle] = set()
        self._last_microsecond = 0

    def refuse(self, path: str, headers: Mapping[str, str]) -> int | None:
        """Return the HTTP status that refuses the upgrade; None if it goes on."""

    def rest(self, method: str, target: str, headers: Mapping[str, str]) -> tuple[int, Any] | None:
        """Answer an ordinary HTTP request with a status and JSON; None where the system has no such page."""

    async def serve(self, socket: Socket) -> None:
        """Serve one connection until it has ended, and the server has noticed that."""
        connection = self.connection_class(socket)
        self.connections.append(connection)
        connection.start()
        try:
            await self._attend(connection)
        finally:
            if connection in self.connections:
                self.connections.remove(connection)
                self.gone(connection)
            await connection.stop()

    async def _attend(self, connection: Connection) -> None:
        try:
            await self.attend(connection)
        except ConnectionError as gone:
            await connection.noticed(gone, self.notices_after)
        else:
            connection.close()
            await connection.written()

    async def attend(self, connection: Any) -> None:
        """Talk with one client; return to close the connection."""
        raise NotImplementedError

    def gone(self, connection: Any) -> None:
        """The server has noticed that a connection is over, or has closed it."""

    async def publish(self, number: int, channel: str | None = None) -> None:
        """The system says something that carries this number."""
        raise NotImplementedError

    def restart(self) -> None:
        """The process dies, and a new one starts. The harness drops the sockets."""
        for connection in self.connections:
            connection.end()
        self.connections.clear()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self.forget()

    def forget(self) -> None:
        """Empty what the process had in memory."""

    def trim(self, keep: int) -> None:
        """Drop what can be replayed, but for the last so many events; nothing where the system has no such limit."""

    def record(self, number: int, channel: str | None) -> None:
        """Note that a number was published."""
        self.log.setdefault(channel, []).append(number)

    def later(self, delay: float, act: Callable[..., None], *args: Any) -> None:
        """Act after so many seconds, unless the process dies before."""

        def run() -> None:
            self._timers.discard(timer)
            act(*args)

        timer = asyncio.get_running_loop().call_later(delay, run)
        self._timers.add(timer)

    def now(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def moment(self) -> datetime:
        """Return the server's date and time; no two readings are equal."""
        self._last_microsecond = max(int(self.now() * 1e6), self._last_microsecond + 1)
        return START + timedelta(microseconds=self._last_microsecond)

    def stamp(self) -> str:
        """Return the same as ISO text with a Z."""
        return self.moment().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def uuid(self) -> str:
        """Return a fresh uuid from the rng."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def token(self, length: int) -> str:
        """Return a fresh id of letters and digits."""
        return "".join(self.rng.choices(LETTERS, k=length))
