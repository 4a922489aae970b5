"""A loopback port that stays with its owner while nothing listens on it. Rule: what was refused once can be reopened.

A server that is killed and started again must find its port free, and a client must be refused in between. A socket
that is bound and never listens gives both on Linux: no other program is handed the port, and a connect is refused.
"""

from __future__ import annotations

import socket
import sys
from types import TracebackType
from typing import Self


HOST = "127.0.0.1"


class Port:
    """One port of 127.0.0.1: `number` is kept until `close()`. Who listens on it must set SO_REUSEADDR."""

    def __init__(self) -> None:
        """Take a free port, and hold it where the system can (Linux); elsewhere it is only likely to stay free."""
        self._held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind((HOST, 0))
        self.number: int = self._held.getsockname()[1]
        if sys.platform != "linux":
            self._held.close()

    def listen(self) -> socket.socket:
        """A socket that listens on the port, not blocking; the caller closes it."""
        # asyncio sets TCP_NODELAY only on sockets that name their protocol; without it, streams stutter at 40 ms
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind((HOST, self.number))
            listener.listen(256)
        except OSError:
            listener.close()
            raise
        return listener

    def close(self) -> None:
        """Give the port back."""
        self._held.close()

    def __enter__(self) -> Self:
        """The port, until the block is left."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the port back."""
        self.close()
