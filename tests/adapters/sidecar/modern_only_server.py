"""An MCP server over pipes that knows only 2026-07-28: it refuses whatever has no `_meta` of that version. Standard library alone."""

from __future__ import annotations

import json
import sys
from typing import Any


VERSION, PREFIX = "2026-07-28", "io.modelcontextprotocol/"
CACHED = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "name?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    },
}
DISCOVERED = {
    **CACHED,
    "supportedVersions": [VERSION],
    "capabilities": {"tools": {}, "resources": {"subscribe": True}},
    "instructions": "hi",
    "_meta": {f"{PREFIX}serverInfo": {"name": "mo", "version": "9"}},
}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("ask", "touch")]
listens: dict[Any, dict[str, Any]] = {}


def write(**fields: Any) -> None:
    """Send a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **fields}) + "\n")
    sys.stdout.flush()


def notice(method: str, listen: Any, **params: Any) -> None:
    """Send a notification in the stream of a listener."""
    write(method=method, params={**params, "_meta": {f"{PREFIX}subscriptionId": listen}})


def call(number: Any, params: dict[str, Any]) -> None:
    """`ask` wants input first; `touch` changes everything that somebody listens for."""
    if params["name"] == "ask" and "inputResponses" not in params:
        asked = {
            "resultType": "input_required",
            "inputRequests": {"k1": QUESTION},
            "requestState": "st8",
        }
        write(id=number, result=asked)
        return
    text = json.dumps([params.get("inputResponses"), params.get("requestState")])
    if params["name"] == "touch":
        text = str(params["_meta"].get(f"{PREFIX}logLevel"))
        for listen, wanted in listens.items():
            if wanted.get("toolsListChanged"):
                notice("notifications/tools/list_changed", listen)
            for uri in wanted.get("resourceSubscriptions", []):
                notice("notifications/resources/updated", listen, uri=uri)
    write(id=number, result={"resultType": "complete", "content": [{"type": "text", "text": text}]})


def answer(number: Any, method: str, params: dict[str, Any]) -> None:
    """Answer a request."""
    if method == "initialize" or params.get("_meta", {}).get(f"{PREFIX}protocolVersion") != VERSION:
        data = {"supported": [VERSION]}
        write(
            id=number,
            error={"code": -32022, "message": "Unsupported protocol version", "data": data},
        )
    elif method == "server/discover":
        write(id=number, result=DISCOVERED)
    elif method == "tools/list":
        write(id=number, result={**CACHED, "tools": TOOLS})
    elif method == "subscriptions/listen":
        listens[number] = params["notifications"]
        notice(
            "notifications/subscriptions/acknowledged",
            number,
            notifications=params["notifications"],
        )
    elif method == "tools/call":
        call(number, params)
    else:
        write(id=number, error={"code": -32601, "message": f"no {method}"})


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer(message["id"], message["method"], message.get("params") or {})
    elif message.get("method") == "notifications/cancelled":
        listens.pop(message["params"]["requestId"], None)
