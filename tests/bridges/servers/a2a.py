"""An A2A agent on a2a-sdk, JSON-RPC over HTTP with server-sent events, without a model: the agent of a2a_app.py.

A task has an artifact for each number that was published while it was worked on; one that is begun counts at once. Who subscribes to it
is given a snapshot of it first and then what is new; there is no cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.bridges.servers.install import program
from tests.bridges.servers.process import PATIENCE, ServerProcess, started
from tests.peers.ports import HOST


HEADERS = {"A2A-Version": "1.0", "Content-Type": "application/json"}


def question(method: str, **params: Any) -> dict[str, Any]:
    """A request of JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


class A2AServer(ServerProcess):
    """`url` takes every request; tasks are forgotten in a restart."""

    name = "a2a"

    def __init__(self, folder: Path) -> None:
        """No task yet."""
        super().__init__(folder)
        self._ledger = folder / "ledger.txt"

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://{HOST}:{self.port}/a2a"

    def command(self) -> list[str]:
        """-P: the folder of the script has modules that are called as the packages are."""
        script = str(Path(__file__).with_name("a2a_app.py"))
        return [program(self.name, "python"), "-P", script, str(self.port), str(self._ledger)]

    async def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request, whole."""
        answer = await self.http("POST", "/a2a", json=question(method, **params), headers=HEADERS)
        return answer.raise_for_status().json()

    async def begin_task(self, marker: str) -> str:
        """Begin a task; its id, when it is worked on."""
        message = {"messageId": uuid4().hex, "role": "ROLE_USER", "parts": [{"text": marker}]}
        answer = await self.ask(
            "SendMessage", message=message, configuration={"returnImmediately": True}
        )
        assert "result" in answer, answer
        return answer["result"]["task"]["id"]

    async def publish(self, number: int) -> None:
        """Add the number to each task; waits until there is one."""
        async with asyncio.timeout(PATIENCE):
            while await self.offer(number) == 0:
                await asyncio.sleep(0.02)

    async def offer(self, number: int) -> int:
        """Add the number to each task that is worked on; how many there are. 0 completes them."""
        return (await self.http("POST", f"/publish/{number}")).raise_for_status().json()

    async def ledger(self) -> list[str]:
        """The message of each task that was begun."""
        return self._ledger.read_text().split() if self._ledger.exists() else []


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[A2AServer]:
    """A server that answers, with no task."""
    async with started(A2AServer, folder) as server:
        yield server
