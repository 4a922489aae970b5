"""The feature server's streamable HTTP: sessions, answers as JSON or as an event stream, one stream for what belongs to no request.

Rule: it knows sessions and bytes; what a message means is `feature_server.py`'s. Standard library only.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4


class Server(ThreadingHTTPServer):
    """Sessions by their id; `requests` counts what arrived by method."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, port: int, session: Callable[[Any], Any], written: Callable[[Any], str]
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.new_session, self.written = session, written
        self.sessions: dict[str, tuple[Any, queue.Queue[Any]]] = {}

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients leave."""


class Handler(BaseHTTPRequestHandler):
    """One connection. A tool's answer is an event stream, any other is JSON."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        opened: dict[str, str] = {}
        if message.get("method") == "initialize":
            number, pushed = uuid4().hex, queue.Queue()
            self.server.sessions[number] = self.server.new_session(pushed.put), pushed
            opened = {"Mcp-Session-Id": number}
        found = self.server.sessions.get(
            opened.get("Mcp-Session-Id") or self.headers.get("Mcp-Session-Id", "")
        )
        if found is None:
            gone = {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32001, "message": "Session not found"},
            }
            self._answer(404, json.dumps(gone))
        elif "id" not in message or "method" not in message:
            found[0].receive(message, None)
            self._answer(202, "")
        elif message["method"] == "tools/call":
            self._stream_answer(found[0], message)
        else:
            answers: list[Any] = []
            found[0].receive(message, answers.append)
            self._answer(200, self.server.written(answers[-1]), opened)

    def do_GET(self) -> None:
        found = self.server.sessions.get(self.headers.get("Mcp-Session-Id", ""))
        if found is None:
            self._answer(404, "")
            return
        self._begin_stream()
        while True:
            try:
                message = found[1].get(timeout=5)
            except queue.Empty:
                self._write_chunk(": still here\n\n")
                continue
            self._event(message)

    def do_DELETE(self) -> None:
        found = self.server.sessions.pop(self.headers.get("Mcp-Session-Id", ""), None)
        self._answer(200 if found else 404, "")

    def _stream_answer(self, session: Any, message: dict[str, Any]) -> None:
        self._begin_stream()
        session.receive(message, self._event)
        self._write_chunk("")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def _event(self, message: dict[str, Any] | None) -> None:
        if message is not None:
            self._write_chunk(f"event: message\ndata: {self.server.written(message)}\n\n")

    def _write_chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _answer(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


def serve(port: int, session: Callable[[Any], Any], written: Callable[[Any], str]) -> None:
    """Print the URL, and serve until standard input ends."""
    server = Server(port, session, written)
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/mcp\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    sys.stdin.buffer.read()
