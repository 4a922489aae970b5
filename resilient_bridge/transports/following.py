"""What may follow a redirect to another origin: headers on a short list, and nothing else. Loads no library, so that everybody may ask."""

from __future__ import annotations

from typing import Final


_FOLLOWING: Final = frozenset(
    {
        *("user-agent", "host", "connection", "keep-alive", "upgrade", "transfer-encoding", "te", "trailer", "range", "cache-control"),
        *("pragma", "date", "expect", "prefer", "priority", "traceparent", "tracestate", "dnt", "upgrade-insecure-requests"),
        *("idempotency-key", "last-event-id", "repr-digest"),
    }
)  # fmt: skip
_FOLLOWING_PREFIXES: Final = ("accept", "content-", "if-", "sec-websocket-")


def may_follow(header: str) -> bool:
    """Return whether a header of this name may go with a redirect to another origin (another scheme, host or port).

    A list of what is harmless, not of what is secret: nobody knows the names of all headers that hold a key. They say what is
    wanted and in which form, and nothing about who asks.
    """
    name = header.lower()
    return name in _FOLLOWING or name.startswith(_FOLLOWING_PREFIXES)
