"""python-socketio on uvicorn: the wire of socket.io without connection state recovery, so nothing that was missed comes again.

It says `tick` with a number; it answers `echo` and `do` and writes them down; `/private` asks for `{"token": "t"}`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bridges.servers.install import program
from tests.bridges.servers.process import ServerProcess, started
from tests.peers.ports import HOST


class PythonSocketIoServer(ServerProcess):
    """Engine.io 4 at /socket.io/, WebSocket and polling."""

    name = "python_socketio"

    def __init__(self, folder: Path, *, ping_interval: float = 25, ping_timeout: float = 20) -> None:
        """Seconds between the server's pings, and for an answer to one."""
        super().__init__(folder)
        self._ledger = folder / "ledger.jsonl"
        self._options = {"ping_interval": ping_interval, "ping_timeout": ping_timeout}

    @property
    def url(self) -> str:
        """The address of the default engine, WebSocket from the start."""
        return f"ws://{HOST}:{self.port}/socket.io/?EIO=4&transport=websocket"

    def command(self) -> list[str]:
        """-P: the folder of the script has modules that are called as the packages are."""
        script = str(Path(__file__).with_name("python_socketio_app.py"))
        python = program(self.name, "python")
        return [python, "-P", script, str(self.port), str(self._ledger), json.dumps(self._options)]

    async def publish(self, number: int) -> None:
        """Emit `tick` with the number to every client of the default namespace."""
        (await self.http("POST", f"/publish/{number}")).raise_for_status()

    async def connected(self) -> int:
        """How many clients the server believes to be connected."""
        return (await self.http("GET", "/connected")).json()

    async def ledger(self) -> list:
        """The first argument of each `echo` and `do` that was handled."""
        if not self._ledger.exists():
            return []
        return [json.loads(line)["value"] for line in self._ledger.read_text().splitlines()]


@asynccontextmanager
async def running(folder: Path, **options: float) -> AsyncIterator[PythonSocketIoServer]:
    """A server that answers; the options are those of `PythonSocketIoServer`."""
    async with started(PythonSocketIoServer, folder, **options) as server:
        yield server
