"""The Python SDK's MCP server over streamable HTTP with an event store, so that a stream can be taken up again: the app of mcp_events_app.py.

Its tool `order` writes to the ledger at once, and answers when a number is published.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bridges.servers.install import program
from tests.bridges.servers.process import ServerProcess, started
from tests.peers.ports import HOST


class McpEventsServer(ServerProcess):
    """`url` is the endpoint; sessions and events are forgotten in a restart."""

    name = "mcp_events"

    def __init__(self, folder: Path, *, keeps: bool = True) -> None:
        """Nothing is ordered yet. `keeps`: with an event store."""
        super().__init__(folder)
        self._options = [] if keeps else ["--forget"]
        self._ledger = folder / "ledger.txt"

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://{HOST}:{self.port}/mcp"

    def command(self) -> list[str]:
        """-P: the folder of the script has modules that are called as the packages are."""
        script = str(Path(__file__).with_name("mcp_events_app.py"))
        return [
            program(self.name, "python"),
            "-P",
            script,
            str(self.port),
            str(self._ledger),
            *self._options,
        ]

    async def publish(self, number: int) -> None:
        """Let every call that waits answer with this number."""
        await self.offer(number)

    async def offer(self, number: int) -> int:
        """The same; how many calls there were."""
        return (await self.http("POST", f"/publish/{number}")).raise_for_status().json()

    async def replays(self) -> int:
        """How often streams were taken up again in this life of the server."""
        return (await self.http("GET", "/replays")).raise_for_status().json()

    async def ledger(self) -> list[str]:
        """The marker of each order that ran."""
        return self._ledger.read_text().split() if self._ledger.exists() else []


@asynccontextmanager
async def running(folder: Path, *, keeps: bool = True) -> AsyncIterator[McpEventsServer]:
    """A server that answers; the option is that of `McpEventsServer`."""
    async with started(McpEventsServer, folder, keeps=keeps) as server:
        yield server
