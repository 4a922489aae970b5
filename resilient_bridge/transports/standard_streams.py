"""Standard input and output for an event loop: files, pipes and terminals alike, and none of them may stop the loop.

Rule: what may block runs in daemon threads on the bare file descriptors, so that a reader that never reads, or a
writer that never writes, can hold up neither the heartbeat nor the end of the process.
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

from ..world import REAL


# what `lines_of` yields in place of a line without its end; a true line is never empty
LINE_TOO_LONG: Final = b""
_CHUNK: Final = 65_536
_AHEAD: Final = 16  # chunks read before the loop asks for them


async def lines_of(fd: int, *, limit: int = 16 * 1024 * 1024) -> AsyncIterator[bytes]:
    """The lines of a file descriptor with their ends, until it is at its end; the last one may lack its end.

    A line above `limit` bytes is skipped and yields LINE_TOO_LONG once. An unreadable descriptor counts as its end.
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
        """The lines that end in this chunk."""
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

    # A descriptor of its own: nobody else can close it under the thread, and have its number given to another file.
    try:
        own = os.dup(fd)
    except OSError:  # it is closed already: there is nothing in it
        return

    def read() -> None:
        chunk = b"-"
        try:
            while chunk:
                room.acquire()
                chunk = _read(own)
                loop.call_soon_threadsafe(put, chunk)
        except RuntimeError:  # the loop is closed: nobody reads any more
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
        except BlockingIOError:  # whoever started us made it so
            select.select((fd,), (), ())
        except OSError:
            return b""


def _at_once(fd: int) -> Callable[[bytes], int]:
    """A function that writes a short line to a pipe or a socket that takes it without waiting, and returns how many bytes; it raises OSError."""
    if sys.platform != "win32":
        with suppress(OSError):
            mode = os.fstat(fd).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):  # a socket is what Node gives its children
                ready = select.poll()
                ready.register(fd, select.POLLOUT)
                # One that is ready for anything is ready for as much as this.
                return lambda data: (
                    os.write(fd, data) if len(data) <= select.PIPE_BUF and ready.poll(0) else 0
                )
    return _nothing


def _nothing(_: bytes) -> int:
    return 0


class Output:
    """Writes to a file descriptor from a thread. `is_broken` once the other side has gone: then writing does nothing.

    `is_only_writer`: nobody else writes to it, so that a short line is written at once where that cannot block; with another writer it could.
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
        self.is_broken = False
        self.broken = asyncio.Event()
        REAL.start_thread(self._run, f"output {fd}")

    def put(self, text: str, *, end: str = "\n") -> None:
        """Write a line as soon as possible, after those before it; never waits."""
        if self.is_broken:
            return
        line = (text + end).encode("utf-8", "backslashreplace")
        if not self._size:  # nothing is before it; a thread would have to be waited for by whoever reads
            with suppress(OSError):  # the thread meets it again, and says so
                line = line[self._at_once(line) :]
            if not line:
                return
        with self._changed:
            self._waiting.append(line)
            self._size += len(line)
            self._changed.notify()
        self._idle.clear()
        if self._size > self._limit:
            self._room.clear()

    @property
    def is_full(self) -> bool:
        """Whether more is unwritten than `limit` bytes."""
        return self._size > self._limit

    async def has_room(self) -> None:
        """Wait until no more than `limit` bytes are unwritten, or the other side has gone."""
        await self._room.wait()

    async def write(self, text: str) -> None:
        """The same, but wait while too much is unwritten: this is how a slow reader slows down the source."""
        self.put(text)
        await self._room.wait()

    async def written(self) -> None:
        """Wait until everything is written, or the other side has gone: then `is_broken`."""
        await self._idle.wait()

    async def flush(self, seconds: float) -> None:
        """Wait until everything is written, or the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                data = b"".join(self._waiting)
                self._waiting.clear()
            try:
                self._write(data)
            except OSError:
                self._tell(self._break)
                return
            with self._changed:
                self._size -= len(data)
            if not self._tell(self._relax):
                return

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:  # whoever started us made it so
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
