"""One connection as a server has it: a queue of frames, and a task that writes them. Rule: nobody waits for a slow socket.

Frames for a socket that is gone are taken off the queue and lost, as they are in the buffers of a real server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.bridges.doubles.socket import Closed, Socket


class Close(NamedTuple):
    """Stands in the queue behind the last frame."""

    code: int
    reason: str


def encoded(frame: Any) -> str | bytes:
    """Return text and bytes as they are, anything else as JSON."""
    return frame if isinstance(frame, str | bytes) else json.dumps(frame, separators=(",", ":"))


def decoded(frame: str | bytes) -> Any:
    """Return what JSON a frame has; None if it has none."""
    try:
        return json.loads(frame)
    except ValueError:
        return None


class Connection:
    """A subclass adds what its server knows of a client; `take` says what is written next."""

    def __init__(self, socket: Socket) -> None:
        parts = urlsplit(socket.path)
        self.socket, self.path = socket, parts.path
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.headers = {name.lower(): value for name, value in socket.headers.items()}
        self.waiting: deque[Any] = deque()
        self.closing = False  # the server has closed it; what the client still sends is not read
        self.ended = False  # the process that had it is dead
        self._lost = False  # nothing arrives any more, and the server may not know
        self._over = asyncio.Event()
        self._awake = asyncio.Event()
        self._writer: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []

    def start(self) -> None:
        """Write what is queued, from now on."""
        self._writer = asyncio.get_running_loop().create_task(self._write())

    def say(self, frame: Any) -> None:
        """Queue a frame: text, bytes, or what becomes JSON."""
        if not (self.closing or self.ended):
            self.waiting.append(frame)
            self._awake.set()

    def close(self, code: int = 1000, reason: str = "", *, at_once: bool = False) -> None:
        """Close behind what is queued, or at once: then what is queued is lost."""
        if self.closing or self.ended:
            return
        if at_once:
            self.waiting.clear()
        self.waiting.append(Close(code, reason))
        self.closing = True
        self._over.set()
        self._awake.set()
        if at_once and self._writer is not None:  # it may be stuck in a send
            self._writer.cancel()
            self.start()

    def end(self) -> None:
        """The process dies: nothing more is said, and what the client says is not heard."""
        self.ended = True
        self.waiting.clear()
        self._over.set()
        self._cancel_timers()

    def later(self, delay: float, act: Callable[..., None], *args: Any) -> None:
        """Act after so many seconds, unless the server has lost or closed the connection by then."""
        self._timers.append(asyncio.get_running_loop().call_later(delay, self._act, act, args))

    def _act(self, act: Callable[..., None], args: tuple[Any, ...]) -> None:
        if not (self.closing or self.ended):
            act(*args)

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()

    def take(self) -> Any:
        """Take the next frame off the queue; None is not written."""
        return self.waiting.popleft()

    async def _write(self) -> None:
        while True:
            while self.waiting:
                frame = self.take()
                if isinstance(frame, Close):
                    with contextlib.suppress(ConnectionError):
                        await self.socket.close(frame.code, frame.reason)
                    return
                if frame is not None and not self._lost:
                    await self._send(encoded(frame))
            self._awake.clear()
            await self._awake.wait()

    async def _send(self, frame: str | bytes) -> None:
        try:
            await self.socket.send(frame)
        except ConnectionError:
            self._lost = True

    async def receive(self) -> str | bytes:
        """Return the next frame of the client; raise ConnectionError when the socket is gone."""
        while True:
            frame = await self.socket.recv()
            if not (self.closing or self.ended):
                return frame

    async def frames(self) -> AsyncIterator[str | bytes]:
        """Yield the frames of the client until the socket is gone."""
        while True:
            yield await self.receive()

    async def noticed(self, gone: ConnectionError, after: float) -> None:
        """Wait until the server notices that the socket is gone; until then it believes in it, and writes to it."""
        self._lost = True
        if after and not isinstance(gone, Closed) and not self._over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), after)

    async def written(self) -> None:
        """Wait until everything up to the close frame is written."""
        if self._writer is not None:
            await self._writer

    async def stop(self) -> None:
        """End the writer and the timers; raise what was wrong in the writer."""
        self._cancel_timers()
        if self._writer is not None:
            self._writer.cancel()
            (outcome,) = await asyncio.gather(self._writer, return_exceptions=True)
            if isinstance(outcome, Exception):
                raise outcome
