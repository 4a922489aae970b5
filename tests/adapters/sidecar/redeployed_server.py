"""The official Python server over streamable HTTP, to be killed and deployed anew: `redeployed_server.py PORT LOG TOOL…`.

Rule: it writes the method of each message that reaches it to LOG, one a line, and what a tool did as `ran NAME MARKER`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer


PORT, LOG, *TOOLS = sys.argv[1:]


def note(text: str) -> None:
    """One line of the log."""
    with Path(LOG).open("a") as log:
        log.write(f"{text}\n")


def tool(name: str) -> Callable[[str], str]:
    """A tool that says what it was asked."""

    def run(marker: str) -> str:
        note(f"ran {name} {marker}")
        return f"{name}: {marker}"

    return run


server = MCPServer("redeployed", version="1", log_level="CRITICAL")
for one in TOOLS:
    server.add_tool(tool(one), name=one, description=one)
app = server.streamable_http_app()


async def noting(scope: Any, receive: Any, send: Any) -> None:
    """Note the methods, and pass everything on."""

    async def heard() -> Any:
        event = await receive()
        if event["type"] == "http.request" and event.get("body"):
            note(json.loads(event["body"]).get("method", "answer"))
        return event

    await app(
        scope, heard if scope["type"] == "http" and scope["method"] == "POST" else receive, send
    )


uvicorn.run(noting, host="127.0.0.1", port=int(PORT), log_level="critical")
