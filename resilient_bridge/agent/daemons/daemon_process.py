"""The process of a local daemon, which may outlive this process, and is reaped when it ends.

Rule: the daemon has its own session, no stdin, and no pipe to this process, because the pipe would
break when this process ends. A thread waits for the end of the daemon, so no event loop is needed.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO, Final, NamedTuple

from ...adapters.processes.groups import OWN_GROUP, ask_to_end, take_away
from ...failure.exits import tail_of
from ...files.portable import read_at
from ...locks import new_lock
from ...transports.loop_guard import LoopGuard
from ...world import REAL


_READ: Final = 4_096  # bytes from the end of the output, which has the reason of an exit


class OutputEnd(NamedTuple):
    """The end of a daemon's output, redacted, and its last line, which usually has the reason of an
    exit.
    """

    text: str
    last: str


class DaemonProcess:
    """A started process; `exit_code` is None while it runs, and -N if signal N ended it."""

    def __init__(
        self,
        command: tuple[str, ...],
        *,
        env: Mapping[str, str] | None,
        cwd: str | None,
        log: str | None,
    ) -> None:
        """Start the process.

        Its output is appended to the file `log`; without one, stderr goes to a temporary file and
        stdout is discarded. Raises OSError if the process cannot be started, ValueError for a null
        byte or an invalid variable name.
        """
        self.exit_code: int | None = None
        self._lock = new_lock()
        self._output_end = b""
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        # A file, not a pipe: an unread pipe blocks the daemon, and a broken one may kill it.
        self._output, self._reader = _file(log), -1
        try:
            self._reader = _reader(self._output, is_temporary=log is None)
            self._written_before = os.fstat(self._output.fileno()).st_size
            self._process = subprocess.Popen(  # noqa: S603 -- the user's own command, without a shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if log is None else self._output,
                stderr=self._output,
                env=None if env is None else {**os.environ, **env},
                cwd=cwd,
                **OWN_GROUP,
            )
        except BaseException:
            self._close()
            raise
        self.pid = self._process.pid
        self.guard = LoopGuard("Daemon")
        # A daemon thread: our process may end before the daemon does.
        REAL.start_thread(self._reap, f"daemon {self.pid}")

    @property
    def is_running(self) -> bool:
        """Whether the process has not been reaped yet."""
        return self.exit_code is None

    def output_end(self) -> OutputEnd:
        """Return the end of the output since the start; without a log that is stderr alone."""
        with self._lock:
            written = (self._output_end if self._output.closed else self._tail()).strip()
        return OutputEnd(tail_of(written), tail_of(written.rpartition(b"\n")[2]))

    def end(self, *, at_once: bool) -> None:
        """Send SIGTERM to the session, or SIGKILL if `at_once`; do nothing if the process was
        reaped.
        """
        with self._lock:
            # `returncode` is set at the reaping, before `exit_code`. A reaped pid may belong to
            # another process.
            if self._process.returncode is None:
                (take_away if at_once else ask_to_end)(self.pid)

    async def ended(self) -> None:
        loop = asyncio.get_running_loop()
        end = loop.create_future()
        with self._lock:
            if not self.is_running:
                return
            self._waiting.append((loop, end))
        await end

    def _tail(self) -> bytes:
        number = self._reader
        start = max(self._written_before, os.fstat(number).st_size - _READ)
        # `seek` would move the position where the daemon writes
        return read_at(number, _READ, start)

    def _close(self) -> None:
        """Close the descriptor that the output is written to, then the one that it is read from."""
        number = -1 if self._output.closed else self._output.fileno()
        self._output.close()
        if self._reader not in {-1, number}:
            os.close(self._reader)
        self._reader = -1

    def _reap(self) -> None:
        code = self._process.wait()
        with self._lock:
            self._output_end = self._tail()
            self._close()
            self.exit_code = code
        for loop, end in self._waiting:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(_wake, end)


def _file(log: str | None) -> IO[bytes]:
    if log is not None:
        return Path(log).open("a+b")
    # On Windows a file without a name cannot be opened a second time.
    return NamedTemporaryFile() if sys.platform == "win32" else TemporaryFile()


def _reader(output: IO[bytes], *, is_temporary: bool) -> int:
    """Return a descriptor to read the output from.

    On Windows it is a second one, because reading from the first would move the file position of
    the child.
    """
    if sys.platform == "win32":
        # O_TEMPORARY: the file is deleted with its last descriptor.
        return os.open(
            output.name, os.O_RDONLY | os.O_BINARY | (os.O_TEMPORARY if is_temporary else 0)
        )
    return output.fileno()


def _wake(end: asyncio.Future[None]) -> None:
    if not end.done():
        end.set_result(None)
