"""The simplest client there is: frames by hand over a bare WebSocket. Rule: it decides nothing, so a test sees everything."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from websockets.asyncio.client import ClientConnection, connect


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
    async with connect(url, proxy=None, ping_interval=None, close_timeout=1, **options) as connection:
        yield Peer(connection)
