"""The process of a local daemon: started so that it outlives us, watched so that it leaves no zombie.

Rule: it has a session of its own, no stdin, and no pipe to us, which would break with us. A thread waits for its end and nothing
else: that works without a loop, and whatever loop comes next.
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
from threading import Lock
from typing import IO, Final, NamedTuple

from ...classification.exits import tail_of
from ...files.portable import read_at
from ...transports.loop_guard import LoopGuard
from ...transports.process_groups import OWN_GROUP, ask_to_end, take_away
from ...world import REAL


_READ: Final = 4_096  # bytes from the end of its output: the end says why


class OutputEnd(NamedTuple):
    """The end of what a daemon wrote, redacted: `text` is all that is kept of it, `last` its last line, which mostly says why."""

    text: str
    last: str


class DaemonProcess:
    """A process that was started just now; `exit_code` is None while it runs, negative when a signal ended it."""

    def __init__(
        self,
        command: tuple[str, ...],
        *,
        env: Mapping[str, str] | None,
        cwd: str | None,
        log: str | None,
    ) -> None:
        """Start it. Raises OSError when the system cannot, ValueError for an argument with a null byte.

        Its output is appended to the file `log`; without one, stderr goes to a file without a name, which ends with it.
        """
        self.exit_code: int | None = None
        self._lock = Lock()
        self._output_end = b""
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        # A file, not a pipe: a pipe that nobody reads blocks the daemon, and one that breaks with us may kill it.
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
        # It must not hold up the end of our program: the daemon is to go on.
        REAL.start_thread(self._reap, f"daemon {self.pid}")

    @property
    def is_running(self) -> bool:
        """Whether it has not been seen to end."""
        return self.exit_code is None

    def output_end(self) -> OutputEnd:
        """Return the end of what it wrote since it started; of its stderr alone if it has no log."""
        with self._lock:
            written = (self._output_end if self._output.closed else self._tail()).strip()
        return OutputEnd(tail_of(written), tail_of(written.rpartition(b"\n")[2]))

    def end(self, *, at_once: bool) -> None:
        """Ask it and everything in its session to end, or take all of that away, if it still runs."""
        with self._lock:
            # Known before `exit_code` is: once reaped, its number may be another's.
            if self._process.returncode is None:
                (take_away if at_once else ask_to_end)(self.pid)

    async def ended(self) -> None:
        """Return when it has ended and is reaped."""
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
        return read_at(number, _READ, start)  # `seek` would move the place where the daemon writes

    def _close(self) -> None:
        """Close what its output is written to, and read by: in that order, because the first may be gone with it."""
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
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(_wake, end)


def _file(log: str | None) -> IO[bytes]:
    if log is not None:
        return Path(log).open("a+b")
    # There a file without a name cannot be opened a second time.
    return NamedTemporaryFile() if sys.platform == "win32" else TemporaryFile()


def _reader(output: IO[bytes], *, is_temporary: bool) -> int:
    """A descriptor to read by. On Windows one of its own: a child writes where the one that it was given stands, and reading moves that."""
    if sys.platform == "win32":
        # O_TEMPORARY says that we know: the file is gone with its last descriptor.
        return os.open(output.name, os.O_RDONLY | os.O_BINARY | (os.O_TEMPORARY if is_temporary else 0))
    return output.fileno()


def _wake(end: asyncio.Future[None]) -> None:
    if not end.done():
        end.set_result(None)
