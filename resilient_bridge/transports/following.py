"""Which headers may follow a redirect to another origin: those on a short list only.

It imports no third-party library, so any module may import it.
"""

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
    """Return whether a header of this name may go with a redirect to another origin (another
    scheme, host or port).

    The list names harmless headers, not secret ones, because the names of all headers that may hold
    a key cannot be known. The listed headers describe the request, its format, the connection or
    the client program; none holds a credential.
    """
    name = header.lower()
    return name in _FOLLOWING or name.startswith(_FOLLOWING_PREFIXES)
