"""What a double needs of a socket, and the two ways in which one ends. A harness brings the sockets.

A close code of 1005 asks for a close frame without a code, 1006 for no close frame at all: the connection is cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Socket(Protocol):
    """The server's end of one WebSocket, after the upgrade."""

    path: str  # as requested, with its query
    headers: Mapping[str, str]

    async def recv(self) -> str | bytes:
        """Return the next frame; raise ConnectionError when the socket is gone."""

    async def send(self, frame: str | bytes) -> None:
        """Write one frame; raise ConnectionError when the socket is gone."""

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it; `recv` raises after that."""


class Closed(ConnectionError):  # noqa: N818 - an end, and no fault
    """The client sent a close frame: a server knows this at once. A harness may raise it from `recv`.

    Any other ConnectionError is a lost connection, which a server notices only after `notices_after` seconds.
    """

    def __init__(self, code: int = 1000, reason: str = "") -> None:
        super().__init__(f"closed by the client with {code}")
        self.code, self.reason = code, reason
