"""Python programs forked from the zygote that are children in all but name: their own id, and reaped before that is said.

Rule: what runs is a process like any other: killed by its id, its output in its log, its stdin at its end when whoever started it is gone.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.peers.stand_in import ask


class Forked:
    """A program that was started: what the tests use of asyncio's Process."""

    stdin = None  # its end is the end of whoever started it, and cannot be brought about sooner

    def __init__(self, zygote: str, program: str, arguments: Sequence[str], log: Path) -> None:
        """Run it as `python PROGRAM *ARGUMENTS`."""
        self._code: int | None = None
        ours, self._stdin = os.pipe()
        number = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._link = ask(zygote, [program, *arguments], (ours, number, number))
        finally:
            os.close(ours)
            os.close(number)
        self.pid = int.from_bytes(self._link.recv(4), "big")

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self._code is None and select.select([self._link], [], [], 0)[0]:
            self._code = os.waitstatus_to_exitcode(int.from_bytes(self._link.recv(4), "big"))
            self._link.close()
            os.close(self._stdin)
        return self._code

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
