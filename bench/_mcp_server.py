"""A small MCP server, written by hand, for what stands in front of it: over standard input and output, or over streamable HTTP.

    python bench/_mcp_server.py FOLDER [--http PORT]

FOLDER has `effects` (a line for each `order` that ran), `seen` (a line for each method that arrived), `pid`, and `names` (the names of its
tools, read at the start). Tools: `order` (with {"then": "die"} it ends after its effect and before its answer; with {"then": "cut"} its event stream
is cut there), `large` (a text of {"bytes": n}), and any other, which answers with its name. Rule: standard library only, sessions are lost with the process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4


PARSER = argparse.ArgumentParser()
PARSER.add_argument("folder", type=Path)
PARSER.add_argument("--http", type=int)
ASKED = PARSER.parse_args()
LOCK = threading.Lock()
SESSIONS: set[str] = set()
TOOLS = [
    {
        "name": name,
        "description": name,
        "inputSchema": {"type": "object", "additionalProperties": True},
    }
    for name in (ASKED.folder / "names").read_text().split()
]
CAPABILITIES = {"tools": {"listChanged": True}, "logging": {}}


class CutError(Exception):
    """The answer is not to be sent."""


def note(file: str, line: str) -> None:
    """Append a line in one write."""
    with LOCK, (ASKED.folder / file).open("a") as ledger:
        ledger.write(line + "\n")


def result_of(message):
    """The result of a request; KeyError for a method or a tool that is not there."""
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        info = {"name": "small", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": CAPABILITIES,
            "serverInfo": info,
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method in ("ping", "logging/setLevel"):
        return {}
    if method != "tools/call" or params["name"] not in [tool["name"] for tool in TOOLS]:
        raise KeyError(method)
    text, arguments = params["name"], params.get("arguments") or {}
    if text == "order":
        note("effects", "order")
        if arguments.get("then") == "die":
            os._exit(1)
        if arguments.get("then") == "cut":
            raise CutError
    elif text == "large":
        text = "x" * arguments["bytes"]
    return {"content": [{"type": "text", "text": text}]}


def answer_to(message) -> bytes | None:
    """The answer as bytes; None to what is no request."""
    method = message.get("method", "an answer")
    if method not in ("tools/call", "ping"):
        note("seen", method)
    if "id" not in message or "method" not in message:
        return None
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        answer["result"] = result_of(message)
    except KeyError as error:
        answer["error"] = {"code": -32602, "message": f"unknown: {error.args[0]}"}
    return json.dumps(answer).encode()


def over_stdio() -> None:
    """A message a line."""
    for line in sys.stdin.buffer:
        if (data := answer_to(json.loads(line))) is not None:
            sys.stdout.buffer.write(data + b"\n")
            sys.stdout.buffer.flush()


class Handler(BaseHTTPRequestHandler):
    """JSON answers; one buffered write for each, so that no delayed acknowledgement is measured."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *args) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        session = self.headers.get("Mcp-Session-Id")
        if message.get("method") == "initialize":
            session = uuid4().hex
            SESSIONS.add(session)
        if session not in SESSIONS:
            gone = {
                "jsonrpc": "2.0",
                "id": None,
                "error": {"code": -32001, "message": "Session not found"},
            }
            self._send(404, json.dumps(gone).encode())
            return
        try:
            data = answer_to(message)
        except CutError:
            self._cut()
            return
        self._send(202 if data is None else 200, data or b"", session)

    def do_GET(self) -> None:
        """A stream for what belongs to no request: open, and silent."""
        if self.headers.get("Mcp-Session-Id") not in SESSIONS:
            self._send(404, b"")
            return
        self._begin_stream()
        while not self.rfile.closed:
            threading.Event().wait(5)
            try:
                self._chunk(b": still here\n\n")
            except OSError:
                return

    def do_DELETE(self) -> None:
        SESSIONS.discard(self.headers.get("Mcp-Session-Id", ""))
        self._send(200, b"")

    def _cut(self) -> None:
        self._begin_stream()
        self._chunk(b": the answer follows\n\n")
        self.close_connection = True
        self.connection.shutdown(2)

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(self, status: int, body: bytes, session: str | None = None) -> None:
        self.send_response(status)
        if session:
            self.send_header("Mcp-Session-Id", session)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    """Many connections at once; clients leave without a word."""

    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *args) -> None:
        """Say nothing."""


if __name__ == "__main__":
    (ASKED.folder / "pid").write_text(str(os.getpid()))
    if ASKED.http is None:
        over_stdio()
    else:
        Server(("127.0.0.1", ASKED.http), Handler).serve_forever(0.05)
