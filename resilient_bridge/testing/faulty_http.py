"""An HTTP/1.1 server on loopback that fails once, in a chosen way at a chosen request.

It keeps a ledger of its effects. Rule: it runs in its own threads, so that clients of every kind
can be tested with it, also those that block an event loop.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from enum import Enum
from types import TracebackType
from typing import Final, Self

from .loopback_http import LoopbackHTTPServer, QuietHandler, hold_port


SOUND: Final = None
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_REFUSED_SECONDS: Final = 0.1  # seconds without a listener


class HTTPFault(Enum):
    """What may happen to one request of a call.

        resets = [rb.testing.HTTPFault.RESET_BEFORE, rb.testing.HTTPFault.RESET_AFTER]
        rb.testing.assert_sent_at_most_once(charge, faults=resets)

    "After" means after the effect of the request.
    """

    REFUSED = "connection refused"
    RESET_BEFORE = "reset before the effect"
    RESET_AFTER = "reset after the effect"
    CUT = "answer cut short after the effect"
    LIMITED = "429, without an effect"
    UNAVAILABLE = "503 after the effect"
    GATEWAY_TIMEOUT = "504 after the effect"
    REDIRECTED = "303 to a dead host after the effect"

    @property
    def has_effect(self) -> bool:
        """Whether the request has its effect before the failure."""
        return self not in {HTTPFault.REFUSED, HTTPFault.RESET_BEFORE, HTTPFault.LIMITED}


_STATUSES: Final = {
    HTTPFault.LIMITED: 429,
    HTTPFault.UNAVAILABLE: 503,
    HTTPFault.GATEWAY_TIMEOUT: 504,
    HTTPFault.REDIRECTED: 303,
}


class FaultyServer:
    """The server, which listens while the block lasts; `url` is its address.

    `effects` counts effects by method and path, `requests` the requests that arrived.
    """

    def __init__(self, fault: HTTPFault | None, index: int, body: bytes) -> None:
        """Fail in this way at this request, counted from 1; answer the others with `body`."""
        self.fault, self.index, self.body = fault, index, body
        self.effects: Counter[str] = Counter()
        self.requests = 0
        self._lock = threading.Lock()
        self._held = hold_port()
        self._port: int = self._held.getsockname()[1]
        self._dead = socket.socket()
        self._dead.bind(("127.0.0.1", 0))
        self.dead_url = f"http://127.0.0.1:{self._dead.getsockname()[1]}/"
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: LoopbackHTTPServer[FaultyServer] | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        """Listen, unless the first connection is to be refused."""
        if self.fault is HTTPFault.REFUSED and self.index == 1:
            self._listen_later()
        else:
            self._listen()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        self._close()
        self._held.close()
        self._dead.close()

    def strikes(self, method: str, path: str) -> HTTPFault | None:
        """Count a request that was read completely; return its fault."""
        with self._lock:
            self.requests += 1
            fault = self.fault if self.requests == self.index else None
            if fault is HTTPFault.REFUSED:
                fault = None  # its connection was refused, and this is a later request
            if method not in _SAFE and (fault is None or fault.has_effect):
                self.effects[f"{method} {path}"] += 1
            return fault

    @property
    def refuses_next(self) -> bool:
        """Whether the connection of the next request is refused.

        If so, this request's connection ends, too.
        """
        return self.fault is HTTPFault.REFUSED and self.requests == self.index - 1

    def refuse(self) -> None:
        with self._lock:
            if self._timer is None:
                self._close(is_all=False)
                self._listen_later()

    def _listen(self) -> None:
        self._server = LoopbackHTTPServer(self, self._port, _Handler)
        self._server.start()

    def _listen_later(self) -> None:
        self._timer = threading.Timer(_REFUSED_SECONDS, self._listen)
        self._timer.start()

    def _close(self, *, is_all: bool = True) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.stop()
        if is_all:
            server.end()


class _Handler(QuietHandler):
    server: LoopbackHTTPServer[FaultyServer]  # pyright: ignore[reportIncompatibleVariableOverride]

    def parse_request(self) -> bool:
        """Parse the request, read its body, and answer it, whatever its method."""
        if not super().parse_request():
            return False
        self._read_body()
        self._act(self.server.owner.strikes(self.command, self.path))
        return False

    def _read_body(self) -> None:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            self.rfile.read(size + 2)
        while self.rfile.readline().strip():
            pass

    def _act(self, fault: HTTPFault | None) -> None:
        owner = self.server.owner
        if fault in {HTTPFault.RESET_BEFORE, HTTPFault.RESET_AFTER}:
            self.reset()
            return
        if owner.refuses_next:
            # before the answer: after it the client may send its next request at once
            owner.refuse()
            self.close_connection = True
        self.close_connection = self.close_connection or fault is HTTPFault.CUT
        self.send_response(200 if fault is None else _STATUSES.get(fault, 200))
        if fault is HTTPFault.REDIRECTED:
            self.send_header("Location", owner.dead_url)
        if fault is HTTPFault.LIMITED:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(owner.body) + (9 if fault is HTTPFault.CUT else 0)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(owner.body)
