"""LangGraph's development server with one graph, no model and no key: the graph and routes of langgraph_app.py.

A run of the graph `numbers` reports each number that is published until 0 is; one that is started counts at once. Its events can be taken up
again by their id. langgraph-api is under the Elastic License 2.0: it is for tests alone, in an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.bridges.servers.install import program
from tests.bridges.servers.process import PATIENCE, ServerProcess, started
from tests.peers.ports import HOST


APP = Path(__file__).with_name("langgraph_app.py")
CONFIG = {
    "dependencies": ["."],
    "graphs": {"numbers": "langgraph_app:graph"},
    "http": {"app": "langgraph_app:app"},
}


class LangGraphServer(ServerProcess):
    """`url` is the stream of the newest run; `start_run` begins one."""

    name = "langgraph"

    def __init__(self, folder: Path) -> None:
        """Write its configuration; there is no run yet."""
        super().__init__(folder)
        self._path = "/ok"
        shutil.copy(APP, folder)
        (folder / "langgraph.json").write_text(json.dumps(CONFIG))
        self._ledger = folder / "ledger.txt"

    @property
    def url(self) -> str:
        """The stream of the newest run."""
        return f"http://{HOST}:{self.port}{self._path}"

    def command(self) -> list[str]:
        """Its own command; ten runs at a time."""
        return [
            *(
                program(self.name, "langgraph"),
                "dev",
                "--no-browser",
                "--no-reload",
                "--host",
                HOST,
            ),
            *("--port", str(self.port), "--n-jobs-per-worker", "10"),
        ]

    def environment(self) -> dict[str, str]:
        """No telemetry."""
        return {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGSMITH_TRACING": "false"}

    async def answers(self) -> bool:
        """Whether it says that it is well."""
        return (await self.http("GET", "/ok")).is_success

    async def start_run(self, marker: str) -> None:
        """Begin a run on a thread of its own; `url` is its stream. Returns when it has counted."""
        thread = (await self._posted("/threads", {}))["thread_id"]
        wanted = {"assistant_id": "numbers", "input": {"marker": marker}, "stream_mode": ["custom"]}
        run = await self._posted(f"/threads/{thread}/runs", wanted | {"stream_resumable": True})
        self._path = f"/threads/{thread}/runs/{run['run_id']}/stream"
        async with asyncio.timeout(PATIENCE):
            while marker not in await self.ledger():
                await asyncio.sleep(0.02)

    async def publish(self, number: int) -> None:
        """Report the number in each run; waits until there is one."""
        async with asyncio.timeout(PATIENCE):
            while await self.offer(number) == 0:
                await asyncio.sleep(0.02)

    async def offer(self, number: int) -> int:
        """Report the number in each run that waits; how many there are. 0 ends them."""
        return await self._posted(f"/publish/{number}", {})

    async def ledger(self) -> list[str]:
        """The marker of each run, as often as its node ran."""
        return self._ledger.read_text().split() if self._ledger.exists() else []

    async def _posted(self, path: str, body: Any) -> Any:
        return (await self.http("POST", path, json=body)).raise_for_status().json()


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[LangGraphServer]:
    """A server that answers, with no run."""
    async with started(LangGraphServer, folder) as server:
        yield server
