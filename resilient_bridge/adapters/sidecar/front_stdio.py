"""The front over standard input and output: one client, one message per line.

Rule: only messages go to standard output; everything else that prints goes to stderr. The session
ends with the input, the reader of the output, the parent process, or by a signal. At the end of the
input, requests in progress still get a bounded time. Then the server is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..processes.signals import HANG_UP, TERM, on_signals
from ..processes.standard_streams import LINE_TOO_LONG, Output, lines_of
from . import message
from .message import NotAMessage, parse_line


if TYPE_CHECKING:
    from .message import Key, Message
    from .running import RunningRelay


_MAX_LINE: Final = 64 * 2**20
# bytes queued for a client that does not read; beyond that, reading from the server is paused
_UNWRITTEN: Final = 8 * 2**20
_LAST_ANSWERS: Final = 5.0  # seconds for requests in progress when the input ends
_LAST_BYTES: Final = 2.0
_PARENT: Final = 2.0  # seconds between two checks of our parent process
_PARSE_ERROR: Final = -32700


class StdioClient:
    """The client that is connected to our standard input and output."""

    def __init__(self, relay: RunningRelay, output: Output) -> None:
        self._relay = relay
        self._output = output
        self._pausing: asyncio.Task[None] | None = None

    def deliver(self, message: Message, request: Key | None) -> None:
        """Write a message; while too much is unread, pause reading from the server."""
        del request
        self._output.put(message.text)
        if self._output.is_full and self._pausing is None:
            self._relay.set_reading(is_reading=False)
            self._pausing = asyncio.create_task(self._resume())

    def drop(self, request: Key) -> None:
        """Do nothing: there is no stream to close."""

    async def _resume(self) -> None:
        try:
            await self._output.has_room()
        finally:
            self._pausing = None
            self._relay.set_reading(is_reading=True)


async def serve_stdio(relay: RunningRelay) -> None:
    """Relay between standard input and output and the server, until the client ends or a signal.

    Then end the server.
    """
    own = os.dup(1)
    with suppress(OSError):  # print goes to stderr
        os.dup2(2, 1)
    output = Output(own, limit=_UNWRITTEN, is_only_writer=True)
    client = StdioClient(relay, output)
    relay.connect(client)
    reading = asyncio.create_task(_read(relay, client))
    watching = asyncio.create_task(_watch_parent())
    broken = asyncio.create_task(output.broken.wait())
    stop = asyncio.Event()
    asked = asyncio.create_task(stop.wait())
    tasks: list[asyncio.Task[Any]] = [reading, watching, broken, asked]
    try:
        with on_signals(stop.set, signal.SIGINT, *TERM, *HANG_UP):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not broken.done() and not asked.done():
                finishing = asyncio.create_task(relay.finish(_LAST_ANSWERS))
                tasks.append(finishing)
                await asyncio.wait([finishing, broken, asked], return_when=asyncio.FIRST_COMPLETED)
            await relay.close()
            await output.aclose(_LAST_BYTES)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await relay.close()


async def _read(relay: RunningRelay, client: StdioClient) -> None:
    async for line in lines_of(0, limit=_MAX_LINE):
        if line is LINE_TOO_LONG:
            text = f"parse error: a line of more than {_MAX_LINE} bytes"
            client.deliver(message.error(None, _PARSE_ERROR, text), None)
            continue
        if not line.strip():
            continue
        try:
            messages = parse_line(line)
        except NotAMessage as error:
            client.deliver(message.error(None, _PARSE_ERROR, f"parse error: {error}"), None)
            continue
        for one in messages:
            relay.receive(client, one)


async def _watch_parent() -> None:
    """Return when our parent process has changed: the client that started us has ended."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110 -- no event reports it
        await asyncio.sleep(_PARENT)
