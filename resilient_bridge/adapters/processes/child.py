"""Runs one child process: reads its lines, writes lines to it, and ends its process tree within a
time limit.

Rules: what the child writes is read in every state, so that it does not block on a full pipe,
unless `set_reading` pauses its stdout. A line never takes more memory than its limit, and one that
is too long does not damage the next. A line counts as handed out as soon as part of it may have
been written, unless the bytes that the ended child left in its pipe prove that it never read the
line's end. Only bytes that were read out of the pipe here count, because no other process can read
them any more. No signal is sent to a process number that may have been reused.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Self, cast

from ...failure import redact
from .groups import OWN_GROUP
from .tree import CLOSE_SECONDS, Calm, ProcessTree


STDERR_BYTES: Final = 8 * 1024
# seconds for its exit code, last lines and stderr to arrive once the child ends
GRACE_SECONDS: Final = 0.5
_CHUNK: Final = 65536
_STDIN, _STDOUT, _STDERR = 0, 1, 2
_LONG_LINE: Final = b"(a line of more than %d bytes was dropped)" % STDERR_BYTES


class ChildProcess(asyncio.SubprocessProtocol):
    """A child that `start()` starts and `close()` ends; in between it is open, or lost for the
    reason in `loss`.

    `program` is the base name of the program: its arguments may hold secrets and are never shown. A
    line of its stdout has at most `max_line` bytes; a longer one is skipped and counted in
    `skipped`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_line: int,
        on_stderr: Callable[[bytes], object] | None = None,
        on_skipped: Callable[[], object] | None = None,
    ) -> None:
        """Store the command, which `start()` runs; `cwd` and `env` are those of `subprocess.Popen`.

        `on_stderr` gets each line of its stderr; in place of one of more than 8 KiB, a line that
        says so. `on_skipped` is called after each chunk of stdout in which a line was too long.
        """
        self.program = os.path.basename(command[0])  # noqa: PTH119 -- a name, not a file
        self.pid = 0
        self.returncode: int | None = None
        self.loss: Exception | None = None
        self._command, self._cwd, self._env = command, cwd, env
        self._lines = Lines(max_line)
        self._queue: deque[Outgoing] = deque()
        self._on_stderr, self._on_skipped = on_stderr, on_skipped
        self._stderr_lines = Lines(STDERR_BYTES)
        self._tail = bytearray()
        self._tail_is_cut = False
        self._open_pipes = {_STDIN, _STDOUT, _STDERR}
        self._is_paused = self._is_closing = False
        self._loop = asyncio.get_running_loop()
        self._verdict: asyncio.TimerHandle | None = None
        # done once it is known whether the start succeeded
        self._started: asyncio.Future[None] | None = None
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()

    async def start(
        self, on_line: Callable[[bytes], object], on_lost: Callable[[], object]
    ) -> None:
        """Start the child in a session of its own, so that its whole process group can be ended;
        the caller must call `close()`.

        `on_line` gets each line of its stdout, the first perhaps before this returns. `on_lost` is
        called once if the child exits, or closes its stdin or stdout, before `close()`; it comes
        after the last line, with `loss` set. Raises the system's error, unchanged
        (FileNotFoundError, PermissionError). A cancelled start leaves no process behind.
        """
        self._on_line, self._on_lost = on_line, on_lost
        calm = Calm()
        self._started = self._loop.create_future()
        starting = asyncio.ensure_future(
            self._loop.subprocess_exec(
                lambda: self,
                *self._command,
                cwd=self._cwd,
                env=self._env,
                **OWN_GROUP,
            )
        )
        await calm.wait(starting)
        try:
            if starting.cancelled() or starting.exception() is not None:
                calm.give_back()
            starting.result()
        finally:
            self._started.set_result(None)
            # Break the cycle of exception and frame, which would live until the next garbage
            # collection.
            del starting
        try:
            calm.give_back()
        except asyncio.CancelledError:
            await self.close(0)
            raise

    def __repr__(self) -> str:
        state = "closed" if self._is_closing else "open" if self.loss is None else "lost"
        return f"<ChildProcess {self.program} pid={self.pid} {state}>"

    @property
    def skipped(self) -> int:
        """Return how many lines of stdout were longer than `max_line`."""
        return self._lines.skipped

    @property
    def stderr(self) -> str:
        """Return the end of what the child wrote to stderr, as text with secrets masked: at most
        8192 characters.
        """
        text = self._tail.decode("utf-8", "replace")
        if self._tail_is_cut:  # a secret that was cut may not be recognised: drop the first word
            text = ([*text.split(None, 1), "", ""])[1]
        shown = "\n".join(redact(line, limit=STDERR_BYTES) for line in text.strip().splitlines())
        return shown[-STDERR_BYTES:]

    # -- lines out ------------------------------------------------------------------------------------------------
    def send(self, data: bytes, wake: Callable[[], object]) -> Outgoing:
        """Queue one line, including its line end, and return it; `wake` is called when it is handed
        out, perhaps before this returns.

        The pipe gets one line at a time, so no part of a queued line has been written. If the pipe
        is broken, the line stays queued until `on_lost`.
        """
        line = Outgoing(data, wake)
        self._queue.append(line)
        self._flush()
        return line

    def withdraw(self, line: Outgoing) -> None:
        """Remove a line from the queue if it has not been handed out; else do nothing."""
        if not line.is_handed and line in self._queue:
            self._queue.remove(line)

    def was_read(self, line: Outgoing) -> bool:
        """Return whether the child may have read a line; False if it was not handed out, or if a
        lost child left the line's end unread in the pipe.
        """
        return line.is_handed and self._unread.may_have_read(line.end)

    def _flush(self) -> None:
        while self._queue and not (
            self._is_paused or self._is_going or self._is_closing or self._stdin.is_closing()
        ):
            line = self._queue[0]
            self._stdin.write(line.data)
            # the pipe was broken, and empty before: no part of the line has left
            if self._stdin.is_closing():
                return
            self._queue.popleft()
            line.end = self._unread.wrote(len(line.data))
            line.handed()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()

    def close_input(self) -> None:
        """Close its stdin once everything handed out is written; most children exit then."""
        self._unread.close()
        if not self._stdin.is_closing():
            self._stdin.close()

    def set_reading(self, *, is_reading: bool) -> None:
        """Resume or pause the reading of its stdout; a paused child that keeps writing blocks. No
        effect before it runs.
        """
        if not self.pid:
            return
        pipe = cast("asyncio.ReadTransport | None", self._transport.get_pipe_transport(_STDOUT))
        if pipe is None or pipe.is_closing() or pipe.is_reading() is is_reading:
            return
        if is_reading:
            pipe.resume_reading()
        else:
            pipe.pause_reading()

    # -- what the child does --------------------------------------------------------------------------------------
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self.pid = self._transport.get_pid()
        self._tree = ProcessTree(self._transport, self._exited)
        self._stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(_STDIN))
        if not self._stdin.is_closing():  # uvloop: the child may have exited before this
            self._stdin.set_write_buffer_limits(high=0)
        self._unread = Unread.of(self._stdin)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self._tail += data
            if len(self._tail) > STDERR_BYTES:
                del self._tail[:-STDERR_BYTES]
                self._tail_is_cut = True
            skipped = self._stderr_lines.skipped
            self._pass_on(self._stderr_lines.feed(data))
            # not its beginning: a secret that is cut may not be recognised
            self._pass_on([_LONG_LINE] * (self._stderr_lines.skipped - skipped))
        elif not self._is_over:
            skipped = self._lines.skipped
            for line in self._lines.feed(data):
                self._on_line(line)
            if self._on_skipped is not None and self._lines.skipped > skipped:
                self._on_skipped()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 -- the exit code says more
        self._open_pipes.discard(fd)
        if fd == _STDOUT and not self._is_over:
            for line in self._lines.end():
                self._on_line(line)
        if fd == _STDERR:
            self._pass_on(self._stderr_lines.end())
        self._look()

    def _pass_on(self, stderr: list[bytes]) -> None:
        if self._on_stderr is not None:
            for line in stderr:
                self._on_stderr(line)

    def process_exited(self) -> None:
        self.returncode = self._transport.get_returncode()
        if not self._exited.done():
            self._exited.set_result(None)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 -- None, always
        if not self._gone.done():
            self._gone.set_result(None)

    # -- the loss -------------------------------------------------------------------------------------------------
    @property
    def _is_over(self) -> bool:
        return self._is_closing or self.loss is not None

    @property
    def _is_going(self) -> bool:
        return self._verdict is not None or self.loss is not None

    def _look(self) -> None:
        """Check for the end: exit and pipe ends arrive in any order, so the first sign starts a
        bounded wait for the others.

        A grandchild can hold the pipes open for ever, and a child can close them and keep running.
        """
        if self._is_over:
            return
        if self.returncode is not None and not self._open_pipes & {_STDOUT, _STDERR}:
            self._lose()
        elif self._verdict is None and (
            self.returncode is not None or not {_STDIN, _STDOUT} <= self._open_pipes
        ):
            self._verdict = self._loop.call_later(GRACE_SECONDS, self._lose)

    def _lose(self) -> None:
        if self._is_over:
            return
        self._stop_waiting()
        if self.returncode:
            self.loss = subprocess.CalledProcessError(
                self.returncode, [self.program], stderr=self.stderr
            )
        elif self.returncode == 0:
            self.loss = EOFError(f"{self.program} ended by itself with exit code 0")
        elif _STDOUT not in self._open_pipes:
            self.loss = EOFError(f"{self.program} closed its output and goes on running")
        else:
            self.loss = BrokenPipeError(
                errno.EPIPE, f"{self.program} closed its input and goes on running"
            )
        self._queue.clear()
        self._unread.take()
        self._on_lost()

    def _stop_waiting(self) -> None:
        if self._verdict is not None:
            self._verdict.cancel()
            self._verdict = None

    # -- the end --------------------------------------------------------------------------------------------------
    async def close(self, seconds: float) -> None:
        """End the child and its process group: its stdin is closed, after `seconds` SIGTERM, after
        as many again SIGKILL.

        Returns when all are gone and the child is reaped, 7 s after the kill at the latest; a
        cancellation is raised only then. A line that was handed out is still written if the child
        reads it in time. A process that moved to another process group or session is not ended.
        """
        calm = Calm()
        self._is_closing = True
        self._stop_waiting()
        self._queue.clear()
        if self._started is not None:
            await calm.wait(self._started)
        if self.pid == 0:  # it was never started
            calm.give_back()
            return
        self._unread.close()
        self._stdin.close()
        if not await self._tree.is_ended_within(calm, seconds):
            await self._tree.end(calm, seconds)
        if (
            self._stdin.get_write_buffer_size()
        ):  # else it is closed already, and must not be closed twice
            self._stdin.abort()
        self._transport.close()
        await calm.wait(self._gone, CLOSE_SECONDS)
        calm.give_back()


# ---- lines ----------------------------------------------------------------------------------------------------------


class Lines:
    """Splits a stream of bytes into lines, however the stream was cut into chunks.

    A line of more than `longest` bytes is dropped and counted in `skipped`.
    """

    def __init__(self, longest: int) -> None:
        self.skipped = 0
        self._longest = longest
        self._partial = bytearray()
        self._is_skipping = False

    def feed(self, data: bytes | bytearray) -> list[bytes]:
        """Add bytes; return the lines that they complete, without their line ends (LF or CRLF)."""
        *ends, rest = bytes(data).split(b"\n")  # the event loop of Windows passes a bytearray
        lines = [line for end in ends if (line := self._finished(end)) is not None]
        self._keep(rest)
        return lines

    def end(self) -> list[bytes]:
        """Return the last line if it has no line end; else an empty list."""
        line = self._finished(b"")
        return [line] if line else []

    def _finished(self, end: bytes) -> bytes | None:
        if self._partial or self._is_skipping:
            self._keep(end)
            end = bytes(self._partial)
            self._partial = bytearray()
        line = end.removesuffix(b"\r")
        if self._is_skipping:
            self._is_skipping = False
            return None
        if len(line) > self._longest:
            self.skipped += 1
            return None
        return line

    def _keep(self, piece: bytes) -> None:
        if self._is_skipping:
            return
        if (
            len(self._partial) + len(piece) <= self._longest + 1
        ):  # one byte more, for the CR of a CRLF
            self._partial += piece
        else:
            self._is_skipping = True
            self._partial = bytearray()
            self.skipped += 1


class Outgoing:
    """One line to write to a pipe.

    `is_handed` is true once part of it may have been written. While it is false, nothing of the
    line has been written.
    """

    __slots__ = ("_wake", "data", "end", "is_handed")

    def __init__(self, data: bytes, wake: Callable[[], object]) -> None:
        self.data = data
        self.end = 0  # where the line ends, in bytes since the start of the pipe
        self.is_handed = False
        self._wake = wake

    def handed(self) -> None:
        self.is_handed = True
        self.data = b""
        self._wake()


# ---- what an ended child left unread -----------------------------------------------------------------------------


class Unread:
    """Counts the bytes written to a pipe and, after its reader has ended, those left unread.

    Linux only; elsewhere every line counts as read.
    """

    def __init__(self, descriptor: int | None) -> None:
        """Take ownership of `descriptor`, a writing end: while it is open, the content of the pipe
        is not lost, and the reader gets no end of input.

        With None, every line counts as read.
        """
        self._descriptor = descriptor
        self._written = 0
        self._unread = 0

    @classmethod
    def of(cls, pipe: asyncio.WriteTransport) -> Self:
        """Return the count for a pipe that nothing was written to yet."""
        file = pipe.get_extra_info("pipe")  # uvloop has none
        if sys.platform != "linux" or file is None:
            return cls(None)
        try:
            return cls(os.dup(file.fileno()))
        except (
            OSError,
            ValueError,
        ):  # no descriptor is free; the child is gone, and its pipe closed
            return cls(None)

    def wrote(self, count: int) -> int:
        """Add this number of written bytes; return the total."""
        self._written += count
        return self._written

    def take(self) -> None:
        """Read and count the unread bytes, and close the descriptor."""
        if sys.platform != "linux" or self._descriptor is None:
            return
        # OSError: there is no /proc, or the pipe is empty and has other writers.
        with suppress(OSError):
            source = os.open(
                f"/proc/self/fd/{self._descriptor}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
            try:
                while count := len(os.read(source, _CHUNK)):
                    self._unread += count
            finally:
                os.close(source)
        self.close()

    def may_have_read(self, end: int) -> bool:
        """Return whether the reader may have acted on the line that ends at this offset: it has
        read all of it but, at most, the line break.
        """
        return self._written - self._unread >= end - 1

    def close(self) -> None:
        """Close the descriptor. Calling it again does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
