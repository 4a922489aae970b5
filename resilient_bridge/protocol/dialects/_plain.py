"""A server of which only its frames are known: JSON of any form, other text, or bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..facts import Send
from ._json import framed, own, table


if TYPE_CHECKING:
    from ..facts import Intent


def _encode(intent: Intent) -> str | bytes | None:
    if not isinstance(intent, Send):
        return None
    return own(intent, None) if intent.body is None else intent.body


plain: Final = framed(decode=table(), encode=_encode)
"""Any frames, and nothing else known: no greeting, no session, no replay, no ping, no acknowledgement, no types.

What you get: it connects again, `on_connect` sends your subscriptions again, queued messages are
sent in order, and each reconnection ends UNKNOWN, reported at its position in the stream. What
cannot be known here: what was sent to you meanwhile; whether a send arrived.
"""
