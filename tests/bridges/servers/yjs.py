"""npm's y-websocket server on npm's ws: tests/node/yjs_server.mjs. A document lives in memory, and a restart forgets it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.bridges.servers.install import NODE
from tests.bridges.servers.process import ServerProcess, started
from tests.peers.ports import HOST


class YjsServer(ServerProcess):
    """`url` is that of all documents: the path names one."""

    name = "yjs"

    def __init__(self, folder: Path) -> None:
        """Nothing was set yet."""
        super().__init__(folder)
        self._ledger = folder / "ledger.txt"

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"ws://{HOST}:{self.port}"

    def command(self) -> list[str]:
        """Node, the script, its port and its ledger."""
        return ["node", str(NODE / "yjs_server.mjs"), str(self.port), str(self._ledger)]

    async def publish(self, name: str, number: int) -> None:
        """Set a number in the document's map."""
        (await self.http("POST", f"/publish/{name}/{number}")).raise_for_status()

    async def document(self, name: str) -> dict[str, Any]:
        """The document, as a client of npm reads it."""
        return (await self.http("GET", f"/document/{name}")).json()

    async def connected(self, name: str) -> int:
        """How many clients the server believes to be connected to this document."""
        return (await self.http("GET", f"/connected/{name}")).json()

    def ledger(self, name: str) -> Counter[str]:
        """How often each key of "sent" was set in this document, over all lives of the server."""
        lines = self._ledger.read_text().split("\n") if self._ledger.exists() else []
        return Counter(line.split(" ")[1] for line in lines if line.startswith(f"{name} "))


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[YjsServer]:
    """A server that answers."""
    async with started(YjsServer, folder) as server:
        yield server
