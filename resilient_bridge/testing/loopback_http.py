"""The common part of this package's HTTP servers in threads.

A port stays reserved while it refuses connections, and connections can be ended. Rule: standard
library only, on 127.0.0.1.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Generic, TypeVar


Owner = TypeVar("Owner")

_POLL_SECONDS: Final = 0.02
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close() sends RST


def hold_port(port: int = 0, host: str = "127.0.0.1") -> socket.socket:
    """Return a socket that is bound to the port (any, if 0) and never listens.

    The port stays reserved while connections are refused. Raises OSError if it is taken.
    """
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
    except OSError:
        held.close()
        raise
    return held


class LoopbackHTTPServer(ThreadingHTTPServer, Generic[Owner]):
    """The server of an `owner`, which its handlers use.

    It listens once it is made, and serves from `start` to `stop`, in threads of its own.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, owner: Owner, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), handler)

    def start(self) -> None:
        """Serve in a thread; the owner must have stored the server, because a request may need it
        at once.
        """
        threading.Thread(target=self.serve_forever, args=(_POLL_SECONDS,), daemon=True).start()

    def stop(self) -> None:
        """Refuse new connections; open ones continue."""
        self.shutdown()
        self.server_close()

    def end(self) -> None:
        """End all connections, which wakes the threads that wait for a client's next request."""
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def process_request_thread(  # type: ignore[override]
        self, request: socket.socket, client_address: tuple[str, int]
    ) -> None:
        self._open.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Close it, without the FIN that would precede a reset."""
        self.close_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: clients may leave at any time."""


class QuietHandler(BaseHTTPRequestHandler):
    """One connection, which prints nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def reset(self) -> None:
        """End the connection with a reset instead of an answer."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.close_connection = True
