"""An MCP server over pipes that knows sessions alone: before `initialize` it refuses every request. Standard library alone."""

from __future__ import annotations

import json
import sys
from typing import Any


OPENED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}, "resources": {"subscribe": True}},
    "serverInfo": {"name": "lo", "version": "1"},
}
RESULTS: dict[str, dict[str, Any]] = {
    "initialize": OPENED,
    "tools/list": {"tools": [{"name": "touch", "inputSchema": {"type": "object"}}]},
    "resources/subscribe": {},
    "tools/call": {"content": [{"type": "text", "text": "ok"}]},
}
is_open = False


def write(**fields: Any) -> None:
    """Send a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **fields}) + "\n")
    sys.stdout.flush()


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if "id" not in message:
        continue
    is_open |= method == "initialize"
    if not is_open:
        write(id=message["id"], error={"code": -32602, "message": "Invalid request parameters"})
    elif method in RESULTS:
        if method == "tools/call":
            write(method="notifications/tools/list_changed")
        write(id=message["id"], result=RESULTS[method])
    else:
        write(id=message["id"], error={"code": -32601, "message": f"no {method}"})
