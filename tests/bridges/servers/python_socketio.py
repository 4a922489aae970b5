"""python-socketio on uvicorn: the wire of socket.io without connection state recovery, so nothing that was missed comes again.

It says `tick` with a number; it answers `echo` and `do` and writes them down; `/private` asks for `{"token": "t"}`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bridges.servers import socketio
from tests.bridges.servers.install import program
from tests.bridges.servers.process import started


class PythonSocketIoServer(socketio.SocketIoServer):
    """The same addresses and words as npm's, without recovery."""

    name = "python_socketio"

    def __init__(
        self, folder: Path, *, ping_interval: float = 25, ping_timeout: float = 20
    ) -> None:
        """Seconds between the server's pings, and for an answer to one."""
        super().__init__(folder)
        self._options = {"ping_interval": ping_interval, "ping_timeout": ping_timeout}

    def command(self) -> list[str]:
        """-P: the folder of the script has modules that are called as the packages are."""
        script = str(Path(__file__).with_name("python_socketio_app.py"))
        python = program(self.name, "python")
        return [python, "-P", script, str(self.port), str(self._ledger), json.dumps(self._options)]


@asynccontextmanager
async def running(folder: Path, **options: float) -> AsyncIterator[PythonSocketIoServer]:
    """A server that answers; the options are those of `PythonSocketIoServer`."""
    async with started(PythonSocketIoServer, folder, **options) as server:
        yield server
