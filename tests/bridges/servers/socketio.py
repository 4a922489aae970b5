"""npm's socket.io with connection state recovery: the server of tests/node/socketio_server.mjs.

It says `tick` with a number; it answers `echo` and `do` and writes them down; `/private` asks for `{"token": "t"}`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bridges.servers.install import NODE
from tests.bridges.servers.process import ServerProcess, started
from tests.peers.ports import HOST


class SocketIoServer(ServerProcess):
    """Engine.io 4 at /socket.io/, WebSocket and polling."""

    name = "socketio"

    def __init__(
        self,
        folder: Path,
        *,
        ping_interval: float = 25,
        ping_timeout: float = 20,
        recovery: float = 120,
    ) -> None:
        """Seconds between the server's pings, for an answer to one, and that a lost session is held; 0 turns recovery off."""
        super().__init__(folder)
        self._ledger = folder / "ledger.jsonl"
        self._options = {
            "pingInterval": ping_interval * 1000,
            "pingTimeout": ping_timeout * 1000,
            **(
                {"connectionStateRecovery": {"maxDisconnectionDuration": recovery * 1000}}
                if recovery
                else {}
            ),
        }

    @property
    def url(self) -> str:
        """The address of the default engine, WebSocket from the start."""
        return f"ws://{HOST}:{self.port}/socket.io/?EIO=4&transport=websocket"

    def command(self) -> list[str]:
        """Node, the script, its port, its ledger and the options of socket.io."""
        script = str(NODE / "socketio_server.mjs")
        return ["node", script, str(self.port), str(self._ledger), json.dumps(self._options)]

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
async def running(folder: Path, **options: float) -> AsyncIterator[SocketIoServer]:
    """A server that answers; the options are those of `SocketIoServer`."""
    async with started(SocketIoServer, folder, **options) as server:
        yield server
