"""The processes of `demo --crash`, seen from their parent: started on one store, one after the other, heard and killed.

Rule: a process that is not ours to see again is waited for and heard to its end, so that no report is lost and none is left behind.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final

from ..transports.process_groups import OWN_GROUP


_COMMAND: Final = (sys.executable, "-m", "resilient_bridge.cli.demo_client")
_LONGEST: Final = 1024 * 1024  # bytes of one report
_SPACING: Final = 10**9  # between the first serials of two processes: no process can send so many


class Lives:
    """One process at a time. `hear` gets each report of each: a list of its kind and its values."""

    def __init__(
        self, url: str, store: str, *, seed: int, rate: float, hear: Callable[[list[Any]], None]
    ) -> None:
        self._target = (url, store)
        self._pace = (str(seed), str(rate))
        self._hear = hear
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self.number = 0
        self.has_died = False  # by itself
        self._may_end = False

    @property
    def pid(self) -> int:
        """The process of this moment."""
        return 0 if self._process is None else self._process.pid

    async def start(self, untold: Iterable[int]) -> None:
        """Start the next one, and have it look up what became of these serials."""
        self.number += 1
        self._process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            *self._target,
            str(self.number * _SPACING + 1),
            *self._pace,
            *map(str, untold),
            stdin=PIPE,
            stdout=PIPE,
            limit=_LONGEST,
            **OWN_GROUP,  # Ctrl-C is for the parent
        )
        self._may_end = False
        self._reader = asyncio.create_task(self._read(self._process))

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None  # noqa: S101 -- it was asked for
        async for line in process.stdout:
            if line.endswith(b"\n"):  # what was cut off by the kill was not said
                self._hear(json.loads(line))
        if process is self._process and not self._may_end:
            self.has_died = True
            self._hear(["said", "ended by itself", "DEAD:"])

    async def kill(self) -> None:
        """Kill it as nothing can be prevented from, and hear what it had said."""
        if self._process is None or self._reader is None:
            return
        self._may_end = True
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._over(self._process, self._reader)

    async def end(self, seconds: float) -> bool:
        """Ask it to end in order. Whether it did, in time; afterwards it is gone in any case."""
        process, reader = self._process, self._reader
        if process is None or process.stdin is None or reader is None:
            return False
        self._may_end = True
        process.stdin.write(b"stop\n")
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(reader)  # its output ends with it
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
        await self._over(process, reader)
        return process.returncode == 0

    async def _over(self, process: Process, reader: asyncio.Task[None]) -> None:
        self._process = self._reader = None
        await process.wait()
        await reader
        assert process.stdin is not None  # noqa: S101 -- it was asked for
        process.stdin.close()
