"""Standard input and output for an event loop: a file, pipe or terminal is read and written without
blocking the loop.

Rule: blocking calls run in daemon threads on the bare file descriptors, so that a blocked read or
write can delay neither the heartbeat nor the end of the process.
"""

from __future__ import annotations

import asyncio
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Final

from ...world import REAL


# what `lines_of` yields in place of a line that is too long; a true line is never empty
LINE_TOO_LONG: Final = b""
_CHUNK: Final = 65_536
_AHEAD: Final = 16  # chunks read before the loop asks for them


async def lines_of(fd: int, *, limit: int = 16 * 1024 * 1024) -> AsyncIterator[bytes]:
    """Yield the lines of a file descriptor with their line ends, until its end; the last one may
    lack its line end.

    A line above `limit` bytes is skipped and yields LINE_TOO_LONG once. An unreadable descriptor
    counts as ended.
    """
    splitter = _Splitter(limit)
    async for chunk in _chunks_of(fd):
        for line in splitter.feed(chunk):
            yield line
    if splitter.rest:
        yield bytes(splitter.rest)


class _Splitter:
    """Cuts chunks into lines; `rest` is the line that has not ended yet."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._skipping = False
        self.rest = bytearray()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Return the lines that end in this chunk."""
        for part in io.BytesIO(chunk):  # which splits at b"\n" only
            if not self._skipping:
                self.rest += part
            ended = part.endswith(b"\n")
            if len(self.rest) > self._limit:
                self.rest.clear()
                self._skipping = True
                yield LINE_TOO_LONG
            if ended:
                if not self._skipping:
                    yield bytes(self.rest)
                self.rest.clear()
                self._skipping = False


async def _chunks_of(fd: int) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    chunks: deque[bytes] = deque()
    came, room = asyncio.Event(), threading.Semaphore(_AHEAD)

    def put(chunk: bytes) -> None:
        chunks.append(chunk)
        came.set()

    # A duplicate descriptor: no other code can close it while the thread uses it, so its number
    # cannot be reused for another file.
    try:
        own = os.dup(fd)
    except OSError:  # it is closed already: it has no data
        return

    def read() -> None:
        chunk = b"-"
        try:
            while chunk:
                room.acquire()
                chunk = _read(own)
                loop.call_soon_threadsafe(put, chunk)
        except RuntimeError:  # the loop is closed: there is no reader any more
            pass
        finally:
            os.close(own)

    REAL.start_thread(read, "stdin")
    while True:
        await came.wait()
        came.clear()
        while chunks:
            chunk = chunks.popleft()
            room.release()
            if not chunk:
                return
            yield chunk


def _read(fd: int) -> bytes:
    while True:
        try:
            return os.read(fd, _CHUNK)
        except BlockingIOError:  # the parent process made it non-blocking
            select.select((fd,), (), ())
        except OSError:
            return b""


def _at_once(fd: int) -> Callable[[bytes], int]:
    """Return a function that writes a short line to a pipe or socket if that does not block.

    It returns the number of bytes it wrote, and raises OSError.
    """
    if sys.platform != "win32":
        with suppress(OSError):
            mode = os.fstat(fd).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):  # Node gives its children a socket
                ready = select.poll()
                ready.register(fd, select.POLLOUT)
                # POSIX: a pipe that is ready to write takes PIPE_BUF bytes without blocking.
                return lambda data: (
                    os.write(fd, data) if len(data) <= select.PIPE_BUF and ready.poll(0) else 0
                )
    return _nothing


def _nothing(_: bytes) -> int:
    return 0


class Output:
    """Writes lines to a file descriptor from a thread, which runs from the first line that has to
    wait until `aclose`.

    `is_broken` is true once a write has failed, for example because the reader has closed the pipe.
    Later writes do nothing.

    `is_only_writer`: no other code writes to the descriptor, so a short line is written at once
    where that cannot block; with another writer it could block.
    """

    def __init__(self, fd: int, *, limit: int = 1024 * 1024, is_only_writer: bool = False) -> None:
        self._fd = fd
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._at_once = _at_once(fd) if is_only_writer else _nothing
        self._changed = threading.Condition()
        self._room = asyncio.Event()
        self._room.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closing = False
        self._has_thread = False
        self._has_failed = False
        self.is_broken = False
        self.broken = asyncio.Event()

    def put(self, text: str, *, end: str = "\n") -> None:
        """Write a line as soon as possible, after those before it; never waits."""
        if self.is_broken:
            return
        line = (text + end).encode("utf-8", "backslashreplace")
        # no line is queued before this one; writing it here gets it to the reader sooner than the
        # thread
        if not self._size:
            with suppress(OSError):  # the thread gets the same error, and reports it
                line = line[self._at_once(line) :]
            if not line:
                return
        with self._changed:
            self._waiting.append(line)
            self._size += len(line)
            self._changed.notify()
            if not self._has_thread:
                self._has_thread = True
                REAL.start_thread(self._run, f"output {self._fd}")
        self._idle.clear()
        if self._size > self._limit:
            self._room.clear()

    @property
    def is_full(self) -> bool:
        """Return whether more than `limit` bytes are unwritten."""
        return self._size > self._limit

    async def has_room(self) -> None:
        """Wait until no more than `limit` bytes are unwritten, or a write has failed."""
        await self._room.wait()

    async def write(self, text: str) -> None:
        """Write a line as `put` does, then wait as `has_room` does, so that a slow reader slows
        down the caller.
        """
        self.put(text)
        await self._room.wait()

    async def written(self) -> None:
        """Wait until everything is written, or a write has failed and `is_broken` is true."""
        await self._idle.wait()

    def flush(self, seconds: float) -> bool:
        """Block the caller, and with it the loop, until everything is written, at most `seconds`.

        Returns whether it is. For what must be written before the next step of the caller.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._size or self._has_failed, seconds)
            return not self._size

    async def aclose(self, seconds: float) -> None:
        """Wait until everything is written, at most `seconds`; then the thread ends as soon as it
        has written what is queued.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            pass
        finally:
            with self._changed:
                self._is_closing = True
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._is_closing:
                        self._has_thread = False
                        return
                    self._changed.wait()
                data = b"".join(self._waiting)
                self._waiting.clear()
            try:
                self._write(data)
            except OSError:
                with self._changed:
                    self._has_failed = True
                    self._changed.notify_all()
                self._tell(self._break)
                return
            with self._changed:
                self._size -= len(data)
                self._changed.notify_all()
            if not self._tell(self._relax):
                return

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:  # the parent process made it non-blocking
                select.select((), (self._fd,), ())

    def _tell(self, what: Callable[[], None]) -> bool:
        try:
            self._loop.call_soon_threadsafe(what)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _relax(self) -> None:
        if self._size <= self._limit:
            self._room.set()
        if not self._size:
            self._idle.set()

    def _break(self) -> None:
        self.is_broken = True
        self.broken.set()
        self._room.set()
        self._idle.set()
