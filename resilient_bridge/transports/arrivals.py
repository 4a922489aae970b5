"""The received messages of a websockets connection, in order: a caller takes one without waiting,
or waits for the next.

It replaces the Assembler of websockets, which hands out a message only through three coroutines
that cost as much as reading it from the network. Rule: a complete message is returned without
waiting, and too many unread messages pause the reading from the network.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from websockets.exceptions import ConcurrencyError
from websockets.frames import Frame, Opcode


if TYPE_CHECKING:
    from collections.abc import Callable


class Arrivals:
    """The queue of the received messages of one connection.

    `pause` is called when more than `high` messages are unread, `resume` when at most a quarter of
    `high` are left.
    """

    def __init__(
        self, high: int, pause: Callable[[], object], resume: Callable[[], object]
    ) -> None:
        self._high = high
        self._pause, self._resume = pause, resume
        self._whole: deque[Frame] = deque()
        # the fragments received so far of an incomplete message
        self._parts: bytearray | None = None
        self._opcode = Opcode.TEXT
        self._waiter: asyncio.Future[None] | None = None
        self._is_paused = self._is_closed = False

    def __len__(self) -> int:
        return len(self._whole)

    def put(self, frame: Frame) -> None:
        """Add a data frame.

        Fragments are joined, so an incomplete message takes no more memory than its bytes; the
        connection limits its size.
        """
        if self._parts is not None:
            self._parts += frame.data
            if not frame.fin:
                return
            frame, self._parts = Frame(self._opcode, self._parts), None
        elif not frame.fin:
            self._parts, self._opcode = bytearray(frame.data), frame.opcode
            return
        self._whole.append(frame)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if len(self._whole) > self._high and not self._is_paused:
            self._is_paused = True
            self._pause()

    def take(self) -> Frame | None:
        """Take the next message; None if no complete message has arrived."""
        if not self._whole:
            return None
        frame = self._whole.popleft()
        if self._is_paused and len(self._whole) <= self._high // 4:
            self._is_paused = False
            self._resume()
        return frame

    def put_back(self, frame: Frame) -> None:
        """Put the last taken message back at the front."""
        self._whole.appendleft(frame)

    async def get(self, decode: bool | None = None) -> str | bytes:
        """Wait for the next message and return it, as text if `decode` is true, as bytes if it is
        false, and as it was sent if it is None.

        A cancelled call loses no message. Raises EOFError when the connection has ended and every
        message was taken, UnicodeDecodeError for text that is not UTF-8, and ConcurrencyError if
        another call waits already.
        """
        while (frame := self.take()) is None:
            if self._is_closed:
                raise EOFError("the connection has ended")
            if self._waiter is not None:
                raise ConcurrencyError("somebody waits for the next message already")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        data: Any = frame.data
        is_text = frame.opcode is Opcode.TEXT if decode is None else decode
        return data.decode() if is_text else bytes(data)

    def close(self) -> None:
        self._is_closed = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
