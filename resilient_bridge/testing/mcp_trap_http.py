"""The trap over streamable HTTP on loopback: sessions, and a simulated crash and restart of the
server.

Rule: standard library only. The process lives on: connections end, the port refuses connections,
and the sessions are forgotten.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from . import mcp_trap_ledger as ledger
from .loopback_http import LoopbackHTTPServer, QuietHandler, hold_port
from .mcp_trap_plan import ON_HTTP, Plan, TrapStrike
from .mcp_trap_tools import MODERN, TrapServer, as_object


_DEADLY: Final = {TrapStrike.BEFORE, TrapStrike.AFTER, TrapStrike.MIDDLE, TrapStrike.ANSWERED}


class TrapOverHTTP:
    """The trap's HTTP server; it listens while the block lasts, and `url` is its address.

    After a death the port refuses for `away` seconds.
    """

    def __init__(self, file: Path, plan: Plan, port: int, away: float) -> None:
        """Take the port (any, if 0) of 127.0.0.1; OSError if it is taken."""
        self.tools = TrapServer(file, plan, ON_HTTP)
        self.sessions: set[str] = set()
        self.closed = threading.Event()
        self._file, self._away = file, away
        self._lock = threading.Lock()
        self._held = hold_port(port)
        self._port: int = self._held.getsockname()[1]
        self._server: LoopbackHTTPServer[TrapOverHTTP] | None = None
        self._timer: threading.Timer | None = None
        self.url = f"http://127.0.0.1:{self._port}/mcp"

    def __enter__(self) -> Self:
        try:
            self._listen()
        except BaseException:
            self._held.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self.closed.set()
            timer, server = self._timer, self._stop()
        if timer is not None:
            timer.cancel()
        if server is not None:
            server.end()
        self._held.close()

    @contextmanager
    def death(self) -> Generator[None, None, None]:
        """Simulate a crash of the server, and a restart after `away` seconds without its sessions;
        the block sends the last bytes.

        The port refuses connections before the block begins, so that no client can connect before
        the crash.
        """
        with self._lock:
            self.sessions.clear()
            server = self._stop()  # None: it is dead already
        try:
            yield
        finally:  # the client may have left
            if server is not None:
                server.end()
                self._timer = threading.Timer(self._away, self._listen)
                self._timer.daemon = True
                self._timer.start()

    def _listen(self) -> None:
        with self._lock:
            if self.closed.is_set():
                return
            server: LoopbackHTTPServer[TrapOverHTTP]  # not of Self: its owner is invariant
            server = LoopbackHTTPServer(self, self._port, _Handler)  # it listens from here on
            try:
                ledger.append(self._file, "start", pid=os.getpid())
            except BaseException:
                server.server_close()
                raise
            self._server = server
            server.start()

    def _stop(self) -> LoopbackHTTPServer[TrapOverHTTP] | None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        return server


class _Handler(QuietHandler):
    """One connection. Answers are JSON; those that are cut or come with noise are event streams."""

    disable_nagle_algorithm = True
    wbufsize = -1
    server: LoopbackHTTPServer[TrapOverHTTP]  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:  # noqa: N802 -- http.server's names
        """Refuse a stream of messages that belong to no request."""
        self._reply(405, b"")

    def do_DELETE(self) -> None:  # noqa: N802 -- http.server's names
        self.server.owner.sessions.discard(self.headers.get("Mcp-Session-Id", ""))
        self._reply(200, b"")

    def do_POST(self) -> None:  # noqa: N802 -- http.server's names
        trap = self.server.owner
        message = as_object(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        session: dict[str, str] = {}
        if message.get("method") == "initialize":
            session["Mcp-Session-Id"] = uuid4().hex
            trap.sessions.add(session["Mcp-Session-Id"])
        elif self.headers.get("MCP-Protocol-Version") != MODERN and (
            self.headers.get("Mcp-Session-Id") not in trap.sessions
        ):
            self._refuse(message)
            return
        answer, strike = trap.tools.answer(message)
        if answer is None:
            self._reply(202, b"")
        else:
            self._carry_out(json.dumps(answer).encode(), strike, message, session)

    def _carry_out(
        self, body: bytes, strike: TrapStrike, message: dict[str, Any], session: dict[str, str]
    ) -> None:
        """Send the answer as far as the strike allows."""
        if strike in _DEADLY:
            self.close_connection = True
            with self.server.owner.death():
                self._send(body, strike, message, session)
        else:
            self._send(body, strike, message, session)

    def _send(
        self, body: bytes, strike: TrapStrike, message: dict[str, Any], session: dict[str, str]
    ) -> None:
        trap = self.server.owner
        if strike in {TrapStrike.BEFORE, TrapStrike.AFTER, TrapStrike.RESET}:
            self.reset()
        elif strike is TrapStrike.HANG:
            trap.closed.wait()
            self.close_connection = True
        elif strike is TrapStrike.FORGOTTEN:
            trap.sessions.clear()
            self._refuse(message)
        elif strike in {TrapStrike.CUT, TrapStrike.NOISE}:
            self._stream(body, is_cut=strike is TrapStrike.CUT)
        elif strike is TrapStrike.MIDDLE:
            self._reply(200, body[: len(body) // 2], session, length=len(body))
        else:
            self._reply(200, body, session)

    def _refuse(self, message: dict[str, Any]) -> None:
        error = {"code": -32001, "message": "Session not found"}
        self._reply(
            404, json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "error": error}).encode()
        )

    def _stream(self, body: bytes, *, is_cut: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        noise = b": a comment\n\nevent: unknown\ndata: not JSON\n\n"
        self.wfile.write(
            b": begun\n\n" if is_cut else noise + b"event: message\ndata: " + body + b"\n\n"
        )
        self.wfile.flush()

    def _reply(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        length: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
