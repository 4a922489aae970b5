"""Python programs in processes of their own, forked from one that has imported the MCP SDK: its import takes a second of each start.

Rule: what runs is a process like any other: killed by its id, its output in its log, its stdin at its end when whoever started it is gone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["mcp.server.mcpserver", "uvicorn", "tests.peers.forked"])


class Forked:
    """A program that was started: what the tests use of asyncio's Process."""

    stdin = None  # its end is the end of whoever started it, and cannot be brought about sooner

    def __init__(self, program: Path, arguments: Sequence[str], log: Path) -> None:
        """Run it as `python PROGRAM *ARGUMENTS`."""
        self._process = _FORKS.Process(target=_run, args=(str(program), list(arguments), str(log)))
        self._process.start()
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    async def wait(self) -> int:
        """Return when it is reaped."""
        while (code := self.returncode) is None:
            await asyncio.sleep(0.002)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Nothing happens if it is gone."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _run(program: str, arguments: list[str], log: str) -> None:
    os.setsid()
    parent = multiprocessing.parent_process()
    assert parent is not None
    os.dup2(parent.sentinel, 0)
    number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(number, 1)
    os.dup2(number, 2)
    os.close(number)
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")
