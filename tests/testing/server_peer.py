"""The simplest clients there are: frames by hand, over a bare WebSocket or straight into a dialogue.

Rule: they decide nothing, so that a test sees everything.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
from websockets.asyncio.client import ClientConnection, connect

from tests.internals.testing import BridgeMemory, Dialogue


T = TypeVar("T")


def frame(kind: str, payload: Any = None, **fields: Any) -> str:
    """An envelope that breaks no rule, unless a field given here does."""
    body = {
        "type": kind,
        "id": str(uuid.uuid4()),
        "timestamp": "2026-03-20T14:32:00Z",
        "payload": {} if payload is None else payload,
    }
    return json.dumps({**body, **fields})


class Peer:
    """A bare connection with the words of the protocol."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, kind: str, payload: Any = None, **fields: Any) -> str:
        """Send one message; its id."""
        text = frame(kind, payload, **fields)
        await self.connection.send(text)
        return str(json.loads(text)["id"])

    async def hear(self) -> dict[str, Any]:
        """The next message, whatever it is."""
        async with asyncio.timeout(5):
            return json.loads(await self.connection.recv())  # type: ignore[no-any-return]

    async def ask(self, kind: str, payload: Any = None, **fields: Any) -> dict[str, Any]:
        """Send one message and hear one."""
        await self.say(kind, payload, **fields)
        return await self.hear()

    async def join(self, session: str, *, resume: bool = False) -> dict[str, Any]:
        """Auth and join; the answer to the join."""
        hello = await self.ask("auth")
        assert hello["type"] == "connection_ack"
        return await self.ask("session_join", {"session_id": session, "resume": resume})

    async def closed(self) -> tuple[int | None, str | None]:
        """Wait for the end; its code and reason."""
        async with asyncio.timeout(5):
            await self.connection.wait_closed()
        return self.connection.close_code, self.connection.close_reason


@asynccontextmanager
async def peer(url: str, **options: Any) -> AsyncIterator[Peer]:
    """A bare connection to that address."""
    async with connect(
        url, proxy=None, ping_interval=None, close_timeout=1, **options
    ) as connection:
        yield Peer(connection)


class Line:
    """Keeps what was sent, and for how long it was held back."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.delays: list[float] = []
        self.ended: tuple[int, str] | None = None

    def send(self, text: str) -> None:
        """Take it as sent."""
        self.sent.append(json.loads(text))

    def later(
        self, delay: float, text: str | Callable[[], str], then: Callable[[], None] | None = None
    ) -> None:
        """Take it as sent, and note the delay."""
        self.delays.append(delay)
        self.send(text if isinstance(text, str) else text())
        if then is not None:
            then()

    def end(self, code: int, reason: str) -> None:
        """Note how it ended."""
        self.ended = (code, reason)


class Voice:
    """A client of a dialogue without a socket."""

    def __init__(self, memory: BridgeMemory) -> None:
        self.line = Line()
        self.dialogue = Dialogue(self.line, memory)
        self.id = ""

    def say(self, kind: str, payload: Any = None, **fields: Any) -> list[dict[str, Any]]:
        """Send a message; what came back."""
        self.line.sent.clear()
        text = frame(kind, payload, **fields)
        self.dialogue.read(text)
        self.id = json.loads(text)["id"]
        return list(self.line.sent)

    def join(self, session: str = "s", **payload: Any) -> list[dict[str, Any]]:
        """Auth and join; what came back for the join."""
        self.say("auth")
        return self.say("session_join", {"session_id": session, **payload})


def change(memory: BridgeMemory, **changes: Any) -> None:
    """Set some fields of the behaviour."""
    memory.behaviour = attrs.evolve(memory.behaviour, **changes)


def codes(answers: list[dict[str, Any]]) -> list[str]:
    """The error codes in what came back."""
    return [answer["payload"]["code"] for answer in answers]


class _Jump(selectors.SelectSelector):
    """Where a loop would wait, its clock jumps instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a loop that never waits; nothing in it may need a socket."""
    jump = _Jump()

    class Loop(asyncio.SelectorEventLoop):
        def time(self) -> float:
            return jump.now

    with asyncio.Runner(loop_factory=lambda: Loop(jump)) as runner:
        return runner.run(main())
