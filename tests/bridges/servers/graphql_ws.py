"""npm's graphql-ws on npm's ws: the server of tests/node/graphql_ws_server.mjs.

`subscription { ticks(after: N) }` gives the numbers that are published, `mutation { do(value: N) }` writes to the ledger. A
client asks for the sub-protocol `graphql-transport-ws`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bridges.servers.install import NODE
from tests.bridges.servers.process import ServerProcess, started
from tests.peers.ports import HOST


PROTOCOL = "graphql-transport-ws"


class GraphqlServer(ServerProcess):
    """`url` is the endpoint; what was published is forgotten in a restart."""

    name = "graphql_ws"

    def __init__(self, folder: Path, *, init_timeout: float = 3) -> None:
        """Seconds that a client has for `connection_init`."""
        super().__init__(folder)
        self._ledger = folder / "ledger.txt"
        self._options = {"connectionInitWaitTimeout": init_timeout * 1000}

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"ws://{HOST}:{self.port}/graphql"

    def command(self) -> list[str]:
        """Node, the script, its port, its ledger and the options of graphql-ws."""
        script = str(NODE / "graphql_ws_server.mjs")
        return ["node", script, str(self.port), str(self._ledger), json.dumps(self._options)]

    async def publish(self, number: int) -> None:
        """Give the number to each subscription of `ticks`, now or when it asks for what came after a smaller one."""
        (await self.http("POST", f"/publish/{number}")).raise_for_status()

    async def connected(self) -> int:
        """How many clients the server believes to be connected."""
        return (await self.http("GET", "/connected")).json()

    async def ledger(self) -> list[int]:
        """The value of each `do` that was executed."""
        return (
            [int(line) for line in self._ledger.read_text().split()]
            if self._ledger.exists()
            else []
        )


@asynccontextmanager
async def running(folder: Path, *, init_timeout: float = 3) -> AsyncIterator[GraphqlServer]:
    """A server that answers."""
    async with started(GraphqlServer, folder, init_timeout=init_timeout) as server:
        yield server
