"""The two bridges as one kind of thing: what a journey may ask of either. Rule: written apart, met through the same proxy.

The Python one is ours, the Node one was written from the seed's page alone; a journey that passes on both is the
protocol, and not one author's reading of it.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from resilient_bridge.testing import BridgeServer


NODE = shutil.which("node")
SCRIPT = Path(__file__).parents[1] / "node" / "bridge.mjs"
MODULES = SCRIPT.parent / "node_modules" / "ws"


def missing(name):
    """Why this bridge cannot be run here; None if it can."""
    if name != "node":
        return None
    if NODE is None:
        return "node is not installed"
    return None if MODULES.is_dir() else "npm's ws is missing: run `npm ci` in tests/node"


class PythonBridge:
    """The embedded bridge; numbers and types as the Node bridge makes them."""

    def __init__(self, server):
        self._server = server
        self._count = 0
        self.port = urlsplit(server.url).port

    async def push(self, count=1):
        """Push so many messages, every second one without an id; their numbers."""
        numbers = [*range(self._count, self._count + count)]
        self._count += count
        for number in numbers:
            kind = "stream_chunk" if number % 2 else "tool_call"
            await self._server.push(kind, {"n": number})
        return numbers

    async def cut(self, how="abort"):
        """A TCP reset, or a close frame with that code."""
        if how == "abort":
            await self._server.cut("abort")
        else:
            await self._server.cut("close", code=int(how))

    async def expire(self):
        """End every session as the grace time would."""
        self._server.expire_sessions()

    async def lose_sessions(self):
        """Restart with nothing remembered."""
        await self._server.restart(lose_sessions=True)

    async def received(self):
        """The messages that were applied, each once, in order."""
        return list(self._server.received)


class NodeBridge:
    """The Node process and its commands."""

    def __init__(self, process, port):
        self._process = process
        self._turn = asyncio.Lock()
        self.port = port

    async def _tell(self, command):
        async with self._turn, asyncio.timeout(10):
            self._process.stdin.write(f"{command}\n".encode())
            return json.loads(await self._process.stdout.readline())

    async def push(self, count=1):
        """Push so many messages, every second one without an id; their numbers."""
        pushed = (await self._tell(f"push {count}"))["pushed"]
        return [message["payload"]["n"] for message in pushed]

    async def cut(self, how="abort"):
        """A TCP reset, or a close frame with that code."""
        await self._tell(f"cut {how}")

    async def expire(self):
        """End every session as the grace time would."""
        await self._tell("expire")

    async def lose_sessions(self):
        """Restart with nothing remembered."""
        await self._tell("restart-sessions")

    async def received(self):
        """The messages that were applied, each once, in order."""
        return (await self._tell("received"))["received"]


@asynccontextmanager
async def python():
    """The embedded bridge."""
    async with BridgeServer() as server:
        yield PythonBridge(server)


@asynccontextmanager
async def node():
    """The Node bridge; it ends when its stdin does."""
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        str(SCRIPT),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    try:
        async with asyncio.timeout(20):
            port = int(await process.stdout.readline())
        yield NodeBridge(process, port)
    finally:
        process.stdin.close()
        async with asyncio.timeout(10):
            await process.wait()


BRIDGES = {"python": python, "node": node}
