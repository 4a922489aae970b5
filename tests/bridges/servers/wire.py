"""A plain WebSocket client for the tests of these servers: it waits for frames, and never for time to pass."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import websockets


PATIENCE = 30.0  # seconds for a frame, on a busy machine


class Wire:
    """One connection: what it says is text or JSON, what it hears is read by `decode`."""

    def __init__(self, socket: websockets.ClientConnection, decode: Callable[[str], Any]) -> None:
        """Use the socket."""
        self._socket = socket
        self._decode = decode

    async def say(self, frame: Any) -> Self:
        """Send a text as it is and anything else as JSON."""
        await self._socket.send(frame if isinstance(frame, str) else json.dumps(frame))
        return self

    async def hear(self) -> Any:
        """The next frame; a TimeoutError if there is none."""
        async with asyncio.timeout(PATIENCE):
            return self._decode(await self._socket.recv())

    async def hear_until(self, wanted: Callable[[Any], Any]) -> list[Any]:
        """All frames up to the first that is wanted, that one included."""
        heard = [await self.hear()]
        while not wanted(heard[-1]):
            heard.append(await self.hear())
        return heard

    async def closed(self) -> int | None:
        """The code with which the server closes; frames before it are dropped. None for a close without a code."""
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    await self._socket.recv()
        except websockets.ConnectionClosed as end:
            return None if end.rcvd is None else end.rcvd.code

    def cut(self) -> None:
        """Reset the TCP connection."""
        self._socket.transport.abort()


@asynccontextmanager
async def wire(
    url: str, *, decode: Callable[[str], Any] = json.loads, **options: Any
) -> AsyncIterator[Wire]:
    """A connection to the address, closed with 1000 when the block is left; the options are those of websockets."""
    options = {"proxy": None, "open_timeout": PATIENCE, "close_timeout": 5} | options
    async with websockets.connect(url, **options) as socket:
        yield Wire(socket, decode)


async def refused(url: str) -> int:
    """The HTTP status with which the server refuses the address; 0 if it does not listen at all."""
    try:
        async with wire(url):
            raise AssertionError("the server accepted it")
    except websockets.InvalidStatus as refusal:
        return refusal.response.status_code
    except ConnectionRefusedError:
        return 0


async def until(condition: Callable[[], Any], wanted: Any) -> None:
    """Ask an asynchronous question until it has the answer; a TimeoutError if it never does."""
    async with asyncio.timeout(PATIENCE):
        while await condition() != wanted:
            await asyncio.sleep(0.01)
