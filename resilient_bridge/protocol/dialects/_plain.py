"""A server of which nothing is known but that it speaks in frames: JSON of any form, other text, or bytes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from ..facts import Event
from ..frames import decode_json
from ..policies.dialect import Dialect


if TYPE_CHECKING:
    from ..facts import Send


def _decode(frame: str | bytes) -> tuple[Event, ...]:
    if isinstance(frame, bytes):
        return (Event(raw=frame),)
    try:
        value: Any = decode_json(frame)
    except ValueError:
        return (Event(raw=frame),)  # text that is no JSON is a message, too
    if not isinstance(value, dict):
        return (Event(raw=value),)
    body = cast("dict[str, Any]", value)
    named = body.get("type")
    return (Event(raw=body, payload=body, type=named if isinstance(named, str) else ""),)


def _encode(message: Send) -> str:
    return json.dumps(message.payload, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


plain: Final = Dialect.plain(decode=_decode, encode=_encode, error=None, bearer=False)
"""Any frames, and nothing else known: no greeting, no session, no replay, no ping, no acknowledgement, no types.

What you get: it connects again, `on_connect` says your subscriptions again, what was queued goes out in order, and each reconnection ends
UNKNOWN, told in its place in the stream. What nobody can give you here: what was sent to you meanwhile; whether a send arrived.
"""
