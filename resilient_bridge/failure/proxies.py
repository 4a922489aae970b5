"""Whether an HTTP status says that a server is away behind a proxy, which cannot reach it. Pure.

Rule: this is a state of the server and not of one request: the next request would get the same. It
proves nothing about the request that met it, which the server may have received before.
"""

from __future__ import annotations

from typing import Final


_AWAY: Final = frozenset(
    {502, 503, 504, 520, 521, 522, 523, 524, 530}
)  # from 520 on: of Cloudflare


def is_server_away(status: int) -> bool:
    """Return whether this status of a refusal says that the server behind a proxy is away."""
    return status in _AWAY
