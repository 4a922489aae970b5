"""agno's AgentOS with a workflow of two Python steps and a SQLite file: the application of agno_app.py.

A run of the workflow `numbers` reports each number that is published until `finish()`; one that is started counts at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.bridges.servers.install import program
from tests.bridges.servers.process import PATIENCE, ServerProcess, started
from tests.peers.ports import HOST


WORKFLOW = "numbers"


class AgnoServer(ServerProcess):
    """`url` is the socket of all workflows."""

    name = "agno"

    def __init__(self, folder: Path, *, token: str | None = None) -> None:
        """With a token the socket asks for `authenticate` before anything else."""
        super().__init__(folder)
        self.token = token
        self._ledger = folder / "ledger.txt"

    @property
    def url(self) -> str:
        """The socket of all workflows."""
        return f"ws://{HOST}:{self.port}/workflows/ws"

    def command(self) -> list[str]:
        """-P: the folder of the script has modules that are called as the packages are."""
        script = Path(__file__).with_name("agno_app.py")
        return [program(self.name, "python"), "-P", str(script), str(self.port), str(self.folder)]

    def environment(self) -> dict[str, str]:
        """No telemetry; the key, if there is one."""
        key = {} if self.token is None else {"OS_SECURITY_KEY": self.token}
        return {"AGNO_TELEMETRY": "false", **key}

    async def answers(self) -> bool:
        """Whether the application does."""
        return (await self._api("GET", "/open")).is_success

    async def publish(self, number: int) -> None:
        """Report the number in each open run; waits until there is one."""
        async with asyncio.timeout(PATIENCE):
            while await self.offer(number) == 0:
                await asyncio.sleep(0.02)

    async def offer(self, number: int) -> int:
        """Report the number in each open run; how many there are."""
        return (await self._api("POST", f"/publish/{number}")).raise_for_status().json()

    async def opened(self) -> int:
        """How many runs wait for numbers."""
        return (await self._api("GET", "/open")).json()

    async def finish(self) -> None:
        """End each open run."""
        (await self._api("POST", "/finish")).raise_for_status()

    async def ledger(self) -> list[str]:
        """The message of each run that was started."""
        return self._ledger.read_text().splitlines() if self._ledger.exists() else []

    async def _api(self, method: str, path: str) -> httpx.Response:
        return await self.http(method, path, headers={"Authorization": f"Bearer {self.token}"})


@asynccontextmanager
async def running(folder: Path, *, token: str | None = None) -> AsyncIterator[AgnoServer]:
    """A server that answers."""
    async with started(AgnoServer, folder, token=token) as server:
        yield server
