"""An HTTP/1.1 server on loopback that fails in chosen ways, a request at a time.

It keeps a ledger of its effects. Rule: it runs in its own threads, so that clients of every kind
can be tested with it, also those that block an event loop.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from enum import Enum
from types import TracebackType
from typing import Final, Self

from ..failure import config_error, is_count
from .loopback_http import LoopbackHTTPServer, QuietHandler, hold_port


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


class HTTPServer:
    """A server on 127.0.0.1 that gives these answers, one to each request, and then 200s.

    An answer is a status, or an HTTPFault. A request has an effect unless its method is GET, HEAD,
    OPTIONS or TRACE, or its answer a status of 400 or more, or a fault that has none. `url` is the
    server's address, `effects` counts effects by method and path, `seen` says in words how each
    request was answered. It listens while the block lasts, in its own threads. `body`: the JSON of
    an answer.

        with rb.testing.HTTPServer(503) as server:
            with httpx.Client(transport=rb.HTTPTransport()) as client:
                client.get(server.url)
            assert server.seen == ["GET /: 503", "GET /: 200"]
    """

    def __init__(self, *answers: int | HTTPFault, body: object = None) -> None:
        for index, answer in enumerate(answers):
            if not isinstance(answer, HTTPFault) and not (
                is_count(answer) and 200 <= answer <= 599
            ):
                raise config_error(
                    f"HTTPServer.answers[{index}]",
                    "a status from 200 to 599, or an HTTPFault",
                    answer,
                    write="rb.testing.HTTPServer(503, rb.testing.HTTPFault.CUT)",
                )
        self._answers = answers
        self.body = json.dumps({"ok": True} if body is None else body).encode()
        self.effects: Counter[str] = Counter()
        self.seen: list[str] = []
        self._lock = threading.Lock()
        self._held = hold_port()
        self._port: int = self._held.getsockname()[1]
        self._dead = socket.socket()
        self._dead.bind(("127.0.0.1", 0))
        self.dead_url = f"http://127.0.0.1:{self._dead.getsockname()[1]}/"
        self.url = f"http://127.0.0.1:{self._port}"
        self._server: LoopbackHTTPServer[HTTPServer] | None = None
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        """Listen, unless the first connection is to be refused."""
        if self._answer(0) is HTTPFault.REFUSED:
            self._listen_later()
        else:
            self._listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        self._close()
        self._held.close()
        self._dead.close()

    def _answer(self, index: int) -> int | HTTPFault:
        return self._answers[index] if index < len(self._answers) else 200

    def next_answer(self, method: str, path: str) -> int | HTTPFault:
        """Count a request that was read completely; return its answer."""
        with self._lock:
            answer = self._answer(len(self.seen))
            if answer is HTTPFault.REFUSED:
                answer = 200  # its connection was refused, and this is a later request
            is_effect = answer.has_effect if isinstance(answer, HTTPFault) else answer < 400
            if method not in _SAFE and is_effect:
                self.effects[f"{method} {path}"] += 1
            self.seen.append(
                f"{method} {path}: {answer.value if isinstance(answer, HTTPFault) else answer}"
            )
            return answer

    @property
    def refuses_next(self) -> bool:
        """Whether the connection of the next request is refused.

        If so, this request's connection ends, too.
        """
        return self._answer(len(self.seen)) is HTTPFault.REFUSED

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
    server: LoopbackHTTPServer[HTTPServer]  # pyright: ignore[reportIncompatibleVariableOverride]

    def parse_request(self) -> bool:
        """Parse the request, read its body, and answer it, whatever its method."""
        if not super().parse_request():
            return False
        self._read_body()
        self._act(self.server.owner.next_answer(self.command, self.path))
        return False

    def _read_body(self) -> None:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            self.rfile.read(size + 2)
        while self.rfile.readline().strip():
            pass

    def _act(self, fault: int | HTTPFault) -> None:
        owner = self.server.owner
        if fault in {HTTPFault.RESET_BEFORE, HTTPFault.RESET_AFTER}:
            self.reset()
            return
        if owner.refuses_next:
            # before the answer: after it the client may send its next request at once
            owner.refuse()
            self.close_connection = True
        self.close_connection = self.close_connection or fault is HTTPFault.CUT
        self.send_response(_STATUSES.get(fault, 200) if isinstance(fault, HTTPFault) else fault)
        if fault is HTTPFault.REDIRECTED:
            self.send_header("Location", owner.dead_url)
        if fault is HTTPFault.LIMITED:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Type", "application/json")
        self.send_header(
            "Content-Length", str(len(owner.body) + (9 if fault is HTTPFault.CUT else 0))
        )
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(owner.body)
