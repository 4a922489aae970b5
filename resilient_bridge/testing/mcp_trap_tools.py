"""The trap's MCP server without a transport: it takes a message and returns an answer and a strike.

It speaks the versions with `initialize` and the one without it. Rule: standard library only, and no
code of this package that connects, calls or reconnects: a trap must not share the mistakes that it
is meant to find.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Final, cast

from . import mcp_trap_ledger as ledger
from .mcp_trap_plan import Plan, TrapStrike


Message = dict[str, Any]
"""A message of JSON-RPC."""

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_SERVER: Final = "io.modelcontextprotocol/serverInfo"
_TEXT: Final = {"type": "string"}
_MARKER: Final = {
    "type": "string",
    "description": "A name of this call: another for each thing that is to be done.",
}


def _tool(name: str, description: str, annotations: dict[str, bool], *fields: str) -> Message:
    properties = {field: _MARKER if field == "marker" else _TEXT for field in fields}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": annotations,
    }


_WRITE: Final = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
TOOLS: Final = (
    _tool("order", "Order one item. Called twice, it orders two.", _WRITE, "marker", "item"),
    _tool(
        "put",
        "Store a value under a key. Doing it twice is the same as doing it once.",
        {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
        *("marker", "key", "value"),
    ),
    _tool("list_orders", "List the markers of all orders.", {"readOnlyHint": True}),
)
_FIELDS: Final[dict[str, list[str]]] = {
    tool["name"]: tool["inputSchema"]["required"] for tool in TOOLS
}
_INFO: Final = {"name": "mcp-trap", "title": "A trap for blind repeats", "version": "1"}


class TrapServer:
    """One server: `answer` handles a message. Threads may call it."""

    def __init__(self, file: Path, plan: Plan, kinds: tuple[TrapStrike, ...]) -> None:
        """Continue at the step that the ledger shows; ValueError for a step that is not one of
        `kinds`.
        """
        plan.check(kinds)
        self._file, self._plan, self._kinds = file, plan, kinds
        self._lock = threading.Lock()

    def answer(self, parsed: object) -> tuple[Message | None, TrapStrike]:
        """Carry out a request, unless its strike prevents that; return its answer and its strike.

        The answer to a notification is None.
        """
        message = as_object(parsed)
        if "id" not in message or "method" not in message:
            return None, TrapStrike.ANSWER
        strike = TrapStrike.ANSWER
        answer: Message = {"jsonrpc": "2.0", "id": message["id"]}
        params = as_object(message.get("params"))
        version = as_object(params.get("_meta")).get(_VERSION)
        if message["method"] == "tools/call":
            answer["result"], strike = self._call(params)
        elif version not in (None, MODERN):
            data = {"supported": [MODERN], "requested": version}
            answer["error"] = {
                "code": -32022,
                "message": "unsupported protocol version",
                "data": data,
            }
        elif (result := _result(message["method"], params)) is not None:
            answer["result"] = result
        else:
            answer["error"] = {"code": -32601, "message": f"no such method: {message['method']}"}
        if version is not None and "result" in answer:
            answer["result"]["resultType"] = "complete"
        return answer, strike

    def _call(self, params: Message) -> tuple[Message, TrapStrike]:
        name, arguments = str(params.get("name")), as_object(params.get("arguments"))
        missing = [
            field for field in _FIELDS.get(name, []) if not isinstance(arguments.get(field), str)
        ]
        if name not in _FIELDS or missing:
            text = f"wanted texts for {', '.join(missing)}" if missing else f"no such tool: {name}"
            return _content(f"nothing was done: {text}", is_error=True), TrapStrike.ANSWER
        with self._lock:
            number = len(ledger.records(self._file, "call"))
            strike = self._plan.strike(number, self._kinds)
            marker = arguments.get("marker", "")
            about = {"tool": name, "marker": marker, "call": number}
            ledger.append(self._file, "call", strike=strike.value, **about)
            if not strike.has_effect:
                return {}, strike
            if name == "list_orders":
                orders = (one.marker for one in ledger.effects(self._file) if one.tool == "order")
                return _content("\n".join(orders)), strike
            key = {"key": arguments["key"]} if name == "put" else {}
            ledger.append(self._file, "effect", **about, **key)
            return _content(f"{name} {marker}: done"), strike


def _content(text: str, *, is_error: bool = False) -> Message:
    return {"content": [{"type": "text", "text": text}], "isError": is_error}


def as_object(value: Any) -> Message:
    """Return the value if it is a JSON object, else an empty one."""
    return cast("Message", value) if isinstance(value, dict) else {}


def _result(method: str, params: Message) -> Message | None:
    """Return the result of a request that is no tool call; None if there is no such method."""
    if method == "initialize":
        wanted = params.get("protocolVersion")
        version = wanted if wanted in LEGACY else LEGACY[0]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": dict(_INFO),
        }
    if method == "server/discover":
        offer: Message = {
            "supportedVersions": [MODERN],
            "capabilities": {"tools": {}},
            "_meta": {_SERVER: dict(_INFO)},
        }
        return {**offer, "ttlMs": 0, "cacheScope": "public"}
    if method == "tools/list":
        return {"tools": [dict(tool) for tool in TOOLS], "ttlMs": 0, "cacheScope": "public"}
    return {} if method == "ping" else None
