"""The MCP project's own example server, on Node: a peer that shares no line with the Python SDK.

Rule: where `npm ci` was not run in tests/node, tests that need it are skipped and say so: mark them with `needs_everything`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.peers.ports import Port
from tests.peers.running import Process


NODE = shutil.which("node")
PROGRAM = (
    Path(__file__).parents[1]
    / "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
)

needs_everything = pytest.mark.skipif(
    NODE is None or not PROGRAM.is_file(),
    reason="npm's @modelcontextprotocol/server-everything is missing: run `npm ci` in tests/node",
)

# Over HTTP it does not read its stdin, whose end is how it learns that whoever started it was killed.
_END_WITH_STDIN = 'data:text/javascript,process.stdin.on("end",()=>process.exit(0)).resume()'


@asynccontextmanager
async def everything(log: Path) -> AsyncIterator[Process]:
    """It over streamable HTTP, ready: `url()` is for an MCP client; killed when the block is left. `log`: what it prints."""
    with Port() as port:
        command = [str(NODE), "--import", _END_WITH_STDIN, str(PROGRAM), "streamableHttp"]
        server = Process(
            command, port.number, log, environment={**os.environ, "PORT": str(port.number)}
        )
        await server.start()
        try:
            yield server
        finally:
            await server.kill()


def everything_command() -> tuple[str, ...]:
    """Its command over stdio, for whoever starts it."""
    return (str(NODE), str(PROGRAM), "stdio")
