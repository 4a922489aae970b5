"""One accepted connection: it reads frames, writes answers, and can be cut in every way.

Rule: writing never waits, because a push must not hang on a dead link. Reading waits while the
client does not read. A black hole holds frames in both directions and passes them on when it ends.
"""

from __future__ import annotations

import asyncio
import heapq
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from .server_dialogue import Dialogue
from .server_session import BridgeMemory


# bytes unsent to a client that reads too slowly: then it is cut, as a server would do
_BACKLOG: Final = 64 << 20
_EMPTY_CLOSE: Final = b"\x88\x00"
_NO_CODE, _RESET = 1005, 1006
_Then = Callable[[], None] | None


class Tasks:
    """The bridge's background tasks, kept in order so that they end in order."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def reset(connection: ServerConnection) -> None:
    sock = connection.transport.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError, AttributeError):  # closed meanwhile, or not a real socket
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.transport.abort()


class AcceptedConnection:
    """A connection; a subclass has the conversation: `opened`, `read` for a frame, `lost`."""

    def __init__(self, connection: ServerConnection, tasks: Tasks) -> None:
        self.connection = connection
        self._tasks = tasks
        self._light = asyncio.Event()
        self._light.set()
        self._held: list[str | bytes] = []
        self._delayed: list[tuple[float, int, str | Callable[[], str], _Then]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._dawn: asyncio.TimerHandle | None = None
        self._backlog = 0
        self._gone = asyncio.Event()
        self.is_ended = False

    # ---- the conversation
    def opened(self) -> None:
        """Send the bridge's first frame, if it has one."""

    def read(self, frame: str | bytes) -> None:
        raise NotImplementedError

    def lost(self) -> None:
        """Handle the end of the connection."""

    # ---- reading
    async def run(self) -> None:
        connection, read = self.connection, self.read
        try:
            self.opened()
            while True:
                frame = await connection.recv()
                if not self._light.is_set():
                    await self._light.wait()
                if not self.is_ended:
                    read(frame)
                if connection.paused:
                    await connection.drain()
        except ConnectionClosed:
            pass
        finally:
            self._close_down()

    def _close_down(self) -> None:
        for timer in (self._timer, self._dawn):
            if timer is not None:
                timer.cancel()
        self.lost()
        self._gone.set()

    async def gone(self) -> None:
        """Wait until the bridge has noticed the end, for at most a second.

        A peer may keep a stream half open.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._gone.wait()

    # ---- writing
    def send(self, text: str) -> None:
        """Write a text frame now; on a dead link it is lost, as on a real one."""
        self.send_raw(text)

    def send_raw(self, frame: str | bytes) -> None:
        if not self._light.is_set():
            self._held.append(frame)
            return
        if self.is_ended:
            return
        self._write(frame)
        if self.connection.paused:
            self._backlog += len(frame)
            if self._backlog > _BACKLOG:
                self.reset()
        else:
            self._backlog = 0

    def _write(self, frame: str | bytes) -> None:
        # Done by hand: `broadcast` accepts no text with a lone surrogate before websockets 17.
        protocol = self.connection.protocol
        if protocol.state is not State.OPEN:
            return
        if isinstance(frame, str):
            protocol.send_text(frame.encode("utf-8", "surrogatepass"))
        else:
            protocol.send_binary(frame)
        self.connection.transport.write(b"".join(protocol.data_to_send()))

    def later(self, delay: float, text: str | Callable[[], str], then: _Then = None) -> None:
        """Write a text after a delay, then call `then`; equal delays keep their order.

        A function is called for its text at that moment.
        """
        loop = asyncio.get_running_loop()
        # not a timer each: the loop does not promise an order among equal ones
        heapq.heappush(self._delayed, (loop.time() + delay, self._count, text, then))
        self._count += 1
        self._arm(loop)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._delayed and not self.is_ended:
            self._timer = loop.call_at(self._delayed[0][0], self._send_due)

    def _send_due(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._delayed and self._delayed[0][0] <= now:
            _, _, text, then = heapq.heappop(self._delayed)
            self.send(text if isinstance(text, str) else text())
            if then is not None:
                then()
        self._timer = None
        self._arm(loop)

    # ---- ending
    def end(self, code: int, reason: str) -> None:
        """Close with this code, in the background.

        1006 is a reset, 1005 a close frame without a code.
        """
        if not self.is_ended:
            self.is_ended = True
            self._tasks.start(self.close(code, reason))

    async def close(self, code: int, reason: str) -> None:
        """Close and wait until the connection has ended (bounded by the close timeout)."""
        self.is_ended = True
        if code == _RESET or not self._light.is_set():
            self.reset()  # an orderly close of a black hole would hang
        elif code == _NO_CODE:
            self.connection.transport.write(_EMPTY_CLOSE)
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self.connection.wait_closed()
            self.connection.transport.abort()
        else:
            await self.connection.close(code, reason)

    def reset(self) -> None:
        """Reset the TCP connection; held frames are lost."""
        self.is_ended = True
        self._held.clear()
        reset(self.connection)
        self._light.set()

    def fin(self) -> None:
        """TCP end of stream without a close frame."""
        self.is_ended = True
        self.connection.transport.close()

    def darken(self, seconds: float) -> None:
        """Pass nothing in either direction, unnoticed by both ends; 0 seconds: until the end."""
        self._light.clear()
        if seconds > 0:
            self._dawn = asyncio.get_running_loop().call_later(seconds, self.lighten)
        with suppress(RuntimeError):  # closing meanwhile
            self.connection.transport.pause_reading()

    def lighten(self) -> None:
        """End the black hole: held frames are passed on now, as TCP would retransmit them."""
        if self._light.is_set():
            return
        self._light.set()
        with suppress(RuntimeError):
            self.connection.transport.resume_reading()
        held, self._held = self._held, []
        for frame in held:
            self.send_raw(frame)


class Link(AcceptedConnection):
    """A connection that speaks the protocol of ReCursor's page."""

    def __init__(self, connection: ServerConnection, memory: BridgeMemory, tasks: Tasks) -> None:
        super().__init__(connection, tasks)
        self._memory = memory
        self._dialogue = Dialogue(self, memory)

    def read(self, frame: str | bytes) -> None:
        self._dialogue.read(frame)

    def lost(self) -> None:
        self._dialogue.lost()

    async def run(self) -> None:
        """Read until the connection ends; close it at once if the bridge is set to."""
        behaviour = self._memory.behaviour
        if behaviour.accept_then_close is not None and behaviour.close_at == "accept":
            await self.close(behaviour.accept_then_close, "scripted close at accept")
        else:
            await super().run()
