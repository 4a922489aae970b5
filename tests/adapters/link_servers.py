"""MCP servers for links, over every transport, and links over them that leave nothing behind.

Rule: whichever transport it is, a peer is killed and started by the same two words.
"""

from __future__ import annotations

import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client

import resilient_bridge as rb
from tests.adapters.link_peers import quick, quiet
from tests.peers.processes import is_running
from tests.peers.running import Ledger, mcp_server, stdio_command, until


TRANSPORTS = ["streamable-http", "legacy", "sse", "stdio"]


@attrs.define
class Peer:
    """An MCP server that can be killed and started, however it is reached."""

    factory: object
    ledger: Ledger
    server: object = None  # None: a child that whoever connects starts

    async def kill(self) -> None:
        """Kill the server; a child is killed and gone."""
        if self.server is not None:
            await self.server.kill()
            return
        pid = self.ledger.lives[-1]
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not is_running(pid), "the child is dead")

    async def start(self) -> None:
        """Start it again; a child is started by the link."""
        if self.server is not None:
            await self.server.start()


@asynccontextmanager
async def peer_of(transport: str, folder: Path):
    """A server over one of TRANSPORTS, with a factory of clients."""
    ledger = folder / "ledger"
    if transport == "stdio":
        command = stdio_command(ledger)
        with Path(os.devnull).open("w") as nothing:
            parameters = StdioServerParameters(command=command[0], args=list(command[1:]))
            yield Peer(lambda: Client(stdio_client(parameters, errlog=nothing)), Ledger(ledger))
        return
    async with mcp_server(
        "sse" if transport == "sse" else "streamable-http", ledger=ledger
    ) as server:
        url, mode = server.url(), "legacy" if transport == "legacy" else "auto"
        factory = (
            (lambda: Client(sse_client(url)))
            if transport == "sse"
            else lambda: Client(url, mode=mode)
        )
        yield Peer(factory, server.ledger, server)


@asynccontextmanager
async def linked(peer: Peer, **options):
    """A link over its clients, which leaves nothing behind."""
    before = await quiet()
    options.setdefault("patience", 20)
    link = rb.reconnecting(peer.factory, quick(), **options)
    async with link as client:
        yield client, link
    assert await quiet() <= before


def text(answer) -> str:
    """What a tool said."""
    return answer.content[0].text


async def ticket(client, key: str) -> str:
    """Call the tool that must not run twice."""
    return text(await client.call_tool("create_ticket", {"key": key}))
