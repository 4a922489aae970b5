"""An MCP server to be killed: the official SDK's, with tools whose effects are counted in a file.

Rule: what a tool did is on disk before its answer is on the wire, so that a test knows what ran whatever was answered.
It imports nothing of ours and nothing of the tests, so it runs by path as well:
`python -m tests.peers.mcp_server --transport streamable-http|sse|stdio --ledger FILE [--port N] [--stateless] [--json]`.

A file beside the ledger, `FILE.lives`, gets one line with the process id at every start. The server ends with whoever
started it: at the end of its stdin.
"""

from __future__ import annotations

import argparse
import os
import socket
import threading
from pathlib import Path

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import ToolAnnotations
from starlette.applications import Starlette


READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
ONCE = ToolAnnotations(read_only_hint=False, idempotent_hint=False)


def note(file: Path, line: str) -> None:
    """Append one line in one write, which no other process can tear, and which a kill cannot take back."""
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(number, f"{line}\n".encode())
    finally:
        os.close(number)


def build(ledger: Path, stdout: int) -> MCPServer:
    """The server and its tools; `stdout` is where `noise` writes."""
    server = MCPServer("peer", version="1", log_level="CRITICAL")

    @server.tool(annotations=READ_ONLY)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool(annotations=READ_ONLY)
    def life() -> int:
        """The process id of this server."""
        return os.getpid()

    @server.tool(annotations=ONCE)
    def create_ticket(key: str) -> str:
        """Create one ticket; called twice, it creates two."""
        note(ledger, key)
        return f"created {key}"

    @server.tool(annotations=ONCE)
    async def slow(seconds: float, key: str) -> str:
        """Begin (the ledger says so), and take that long."""
        note(ledger, key)
        await anyio.sleep(seconds)
        return f"slept for {key}"

    @server.tool(annotations=ONCE)
    def die(code: int, key: str) -> str:
        """Begin, and take the whole process along: nothing is answered."""
        note(ledger, key)
        os._exit(code)

    @server.tool(annotations=ONCE)
    def fail() -> str:
        """Fail, as tools do."""
        raise ValueError("this tool always fails")

    @server.tool(annotations=READ_ONLY)
    def noise(lines: int = 1) -> str:
        """Print what is no JSON-RPC on the real stdout, before the answer."""
        os.write(stdout, b"Loading configuration... {not json\n" * lines)
        return "printed"

    return server


def end_with_stdin() -> None:
    """End the process when its parent closes stdin, or is gone."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def serve(app: Starlette, port: int) -> None:
    """Serve on a loopback port until SIGTERM; open streams do not hold up the end."""
    # asyncio sets TCP_NODELAY only on sockets that name their protocol; without it, streams stutter at 40 ms
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=0
    )
    uvicorn.Server(config).run(sockets=[listener])


def main() -> None:
    """Read the options, note the life, serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.mcp_server", allow_abbrev=False)
    parser.add_argument("--transport", choices=["streamable-http", "sse", "stdio"], required=True)
    parser.add_argument("--ledger", type=Path, required=True, help="gets one line per effect")
    parser.add_argument("--port", type=int, default=0, help="of 127.0.0.1, not for stdio")
    parser.add_argument("--stateless", action="store_true", help="streamable-http without sessions")
    parser.add_argument(
        "--json", action="store_true", help="streamable-http answers JSON instead of a stream"
    )
    options = parser.parse_args()
    note(options.ledger.with_name(f"{options.ledger.name}.lives"), str(os.getpid()))
    server = build(options.ledger, os.dup(1))  # the SDK leads fd 1 to stderr while it serves stdio
    if options.transport == "stdio":
        anyio.run(server.run_stdio_async)
        return
    end_with_stdin()
    if options.transport == "sse":
        serve(server.sse_app(), options.port)
    else:
        serve(
            server.streamable_http_app(
                json_response=options.json, stateless_http=options.stateless
            ),
            options.port,
        )


if __name__ == "__main__":
    main()
