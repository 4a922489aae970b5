"""Where a test's daemons live: a free port, what starts them, and what is still there of them. None outlives its test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

from resilient_bridge.agent import Daemon, DaemonHealth
from tests.peers.processes import is_alive


PROGRAM = Path(__file__).parent / "daemon_program.py"
PYTHON = [sys.executable, "-I", "-S"]  # without site-packages: a daemon should be up soon


class DaemonBed:
    """A free port, a file with the process ids of all that was started for it, and a flag that daemons may wait for."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/health"
        self.flag = folder / "flag"
        self._file = folder / "pids"
        self._file.touch()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def command(self, *words: str) -> list[str]:
        """What starts the daemon here."""
        return [*PYTHON, str(PROGRAM), str(self.port), f"pids={self._file}", *words]

    def daemon(self, *words: str, **options) -> Daemon:
        """The daemon here. Patient: the machine that runs the tests may be slow, and what is ready is ready at once."""
        return Daemon(*self.command(*words), health=self.url, **{"startup_timeout": 30, **options})

    def shell(self, script: str, **options) -> Daemon:
        """A daemon that is a script of the shell: up, and mostly gone, at once."""
        noted = f'echo $$ >> "{self._file}"; {script}'
        return Daemon("/bin/sh", "-c", noted, health=self.url, **options)

    @property
    def pids(self) -> list[int]:
        """The process ids of all that was started, in their order."""
        return [int(line) for line in self._file.read_text().split()]

    @property
    def alive(self) -> list[int]:
        """Those that are still there; a zombie, which nobody reaped, is."""
        return [pid for pid in self.pids if is_alive(pid)]

    async def first_other_than(self, health: DaemonHealth, daemon: Daemon) -> DaemonHealth:
        """Look until there is something else to see."""
        async with asyncio.timeout(20):
            while (found := await daemon.health()) is health:
                await asyncio.sleep(0.01)
        return found

    async def looks(self, daemon: Daemon) -> None:
        """Let time for some looks of another task pass."""
        for _ in range(5):
            await asyncio.sleep(0.05)
            await daemon.health()


def command_line(pid: int) -> bytes:
    """What a process runs; empty for one that has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def until(condition, seconds: float = 20) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)
