"""ReCursor's bridge: as specified, and as published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..facts import Acknowledge, Auth, Hello, Ping, Pong, Received, Refused, Send
from ..frames import decode as read_envelope
from ..frames import fields_of, raw_of
from ..policies.dialect import Dialect
from ..policies.ends import End
from ._json import framed, write


if TYPE_CHECKING:
    from ..facts import Fact, Intent


recursor: Final = Dialect()
"""Sessions that are joined again, a replay since a timestamp, acknowledgements, pings. What a server refuses of it is gone without."""


def _decode(frame: str | bytes) -> tuple[Fact, ...]:
    body = read_envelope(frame)
    type_, payload = body["type"], fields_of(body)
    if type_ == "connection_ack":
        return (Hello(),)
    if type_ == "heartbeat_pong":
        return (Pong(id=body.get("id")),)
    if type_ in {"connection_error", "error"}:
        # loaded with the first error: this module is with the first client
        from ...failure import severity_in
        from ...failure.payloads import advice_of

        code, words = payload.get("code"), payload.get("message")
        about = payload.get("request_type")
        return (
            Refused(
                raw=raw_of(body),
                type=about if isinstance(about, str) else None,
                code=code if isinstance(code, str) else "",
                text=words if isinstance(words, str) else "",
                suggestions=advice_of(payload),
                severity=severity_in(payload) or "",
            ),
        )
    ack: Any = payload.get("notification_id") or body.get("id") if type_ == "notification" else None
    return (
        Received(
            raw=raw_of(body),
            type=type_,
            payload=body.get("payload") or {},
            id=body.get("id"),
            timestamp=body.get("timestamp"),
            ack=ack,
        ),
    )


def _encode(intent: Intent) -> str | None:
    match intent:
        case Send():
            return write(
                {
                    "type": intent.type,
                    "id": intent.id,
                    "timestamp": intent.timestamp,
                    "payload": intent.payload,
                }
            )
        case Auth():
            return write({"type": "auth", "id": intent.id, "payload": {"token": intent.token}})
        case Ping():
            return write({"type": "heartbeat_ping", "id": intent.id, "payload": {}})
        case Acknowledge():
            return write(
                {"type": "notification_ack", "payload": {"notification_ids": [intent.ack]}}
            )
        case _:
            return None


recursor_live: Final = framed(
    decode=_decode,
    encode=_encode,
    login="first",
    waits_for_hello=True,
    pings=True,
    answers=True,
    acknowledges="taken",
    ends=(End(code="AUTH_FAILED", means="auth"), End(code="INSECURE_TRANSPORT", means="auth")),
)
"""The bridge as it is published: no join, no replay that could be asked for, no acknowledgement of what is sent.

After each connection it pushes the notifications and hook events that it still has; what you had is dropped by its id. What an agent wrote
meanwhile is not among them, so each reconnection ends UNKNOWN. A notification is acknowledged when you have read it, which is what
removes it from that queue. `request()` works for the types that it answers (`session_start`, `git_*`, `file_*`, `health_check`).
"""
