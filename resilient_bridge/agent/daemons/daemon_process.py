"""The process of a local daemon: started so that it outlives us, watched so that it leaves no zombie.

Rule: it has a session of its own, no stdin, and no pipe to us, which would break with us. A thread waits for its end and nothing
else: that works without a loop, and whatever loop comes next.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from signal import Signals
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Final, NamedTuple

from ...classification.exits import tail_of
from ...transports.loop_guard import LoopGuard
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
        self._output: IO[bytes] = TemporaryFile() if log is None else Path(log).open("a+b")  # noqa: SIM115 -- closed by the thread
        try:
            self._written_before = os.fstat(self._output.fileno()).st_size
            self._process = subprocess.Popen(  # noqa: S603 -- the user's own command, without a shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if log is None else self._output,
                stderr=self._output,
                env=None if env is None else {**os.environ, **env},
                cwd=cwd,
                start_new_session=True,
            )
        except BaseException:
            self._output.close()
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

    def signal(self, signal: Signals) -> None:
        """Send a signal to it and to everything in its session, if it still runs."""
        with self._lock, suppress(OSError):  # gone in this instant
            if (
                self._process.returncode is None
            ):  # known before `exit_code` is: once reaped, its number may be another's
                os.killpg(self.pid, signal)

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
        number = self._output.fileno()
        start = max(self._written_before, os.fstat(number).st_size - _READ)
        return os.pread(number, _READ, start)  # `seek` would move the place where the daemon writes

    def _reap(self) -> None:
        code = self._process.wait()
        with self._lock:
            self._output_end = self._tail()
            self._output.close()
            self.exit_code = code
        for loop, end in self._waiting:
            with suppress(RuntimeError):  # that loop is closed
                loop.call_soon_threadsafe(_wake, end)


def _wake(end: asyncio.Future[None]) -> None:
    if not end.done():
        end.set_result(None)
