"""JSON-RPC 2.0 over a WebSocket: requests, notifications, batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ...failure import severity_in
from ..facts import Received, Refused, Reply, Send
from ..policies.dialect import Dialect
from ._json import fields, items, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent
    from ._json import Body


_CODES: Final = {
    -32700: "PROTO_INVALID_FRAME",
    -32600: "PROTO_INVALID_MESSAGE",
    -32601: "PROTO_UNKNOWN_TYPE",
    -32602: "PROTO_INVALID_MESSAGE",
    -32603: "SYS_INTERNAL_ERROR",
}


def _one(body: Body) -> Fact:
    if "method" in body:
        params: Any = body.get("params")
        named = fields(params) if isinstance(params, dict) else {"params": params}
        # With an id it is a request of the server's. Its ids and ours overlap, so this id is not a
        # message id.
        return Received(raw=body, type=str(body["method"]), payload=named)
    to = body.get("id")
    if "error" in body:
        error = fields(body["error"])
        code = error.get("code")
        name = _CODES.get(code, str(code)) if isinstance(code, int) else str(code)
        severity = severity_in(fields(error.get("data"))) or ""
        return Refused(
            raw=body, to=to, code=name, text=str(error.get("message", "")), severity=severity
        )
    result: Any = body["result"]
    payload = fields(result) if isinstance(result, dict) else {"result": result}
    return Reply(to=to or 0, raw=body, type="result", payload=payload)


def _decode(frame: str | bytes) -> tuple[Fact, ...]:
    value: Any = json.loads(frame)
    if isinstance(value, list):
        return tuple(_one(fields(each)) for each in items(value))
    return (_one(fields(value)),)


def _encode(intent: Intent) -> str | None:
    if not isinstance(intent, Send):
        return None
    if not intent.type:  # a frame of the user's own: an answer to a question of the server's
        return write(dict(intent.payload))
    call: Body = {"jsonrpc": "2.0", "method": intent.type, "params": dict(intent.payload)}
    return write(call | {"id": intent.number} if intent.is_request else call)


jsonrpc: Final = Dialect.envelopes(
    decode=_decode, encode=_encode, error=None, bearer=True, answers=True, dedupes=False
)
"""`request("method", {…})` is a request, `send("method", {…})` a notification, `send({…})` a frame of your own.

There is no session and no replay: `on_connect` initializes again, and each reconnection ends UNKNOWN. A request whose connection is lost
fails with an unknown outcome, and is not sent again unless you say `idempotent=True`. A question of the server's comes as a message; its
id is in `message.raw`.
"""
