"""The front over streamable HTTP, for MCP clients of versions with and without sessions.

Rule: this module routes a request and reports its problems, in the order access (Host, Origin,
token), path, message, session. It never reads the arguments of a call, and only the message of a
request reaches a relay.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ...failure import config_error
from ...failure.extras import how_to_install
from .event_log import REFUSED
from .front_http_exchange import EVENTS, INTERNAL_ERROR, JSON, Exchange
from .front_http_guard import HttpGuard, guard_of
from .front_http_limits import HttpLimits, within_open_files
from .front_http_modern import (
    SESSION_HEADER,
    VERSION_HEADER,
    is_modern,
    refuse_modern,
    status_of_answer,
)
from .front_http_sessions import HttpSessions


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
    from typing import Any

    from .front import Relayed
    from .front_http_exchange import Receive, Scope, Send
    from .front_http_modern import ModernClients
    from .front_http_session import HttpSession
    from .front_http_sessions import Use
    from .message import Message


_LISTEN: Final = "subscriptions/listen"
_PATH: Final = "/mcp"
_CHALLENGE: Final = [("WWW-Authenticate", 'Bearer realm="resilient-bridge mcp"')]


@asynccontextmanager
async def serve_http(
    make_relay: Callable[[], Relayed],
    *,
    token: str | None,
    host: str = "127.0.0.1",
    port: int = 0,
    shared: bool = False,
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    limits: HttpLimits | None = None,
    on_note: Callable[[Mapping[str, Any], str], None] = lambda _, __: None,
) -> AsyncGenerator[str]:
    """Serve MCP clients over HTTP while the block runs; it gets the URL for clients.

    Each client session gets a relay of its own, closed when the session ends; with `shared` all
    sessions use one. Requests without a session (protocol 2026-07-28) do not identify clients: they
    share one relay in either case. `token` is the bearer token that every client has to send; None
    admits every program of this machine, on a loopback address only. `on_note` gets a record of
    everything that is refused, with a line for people; it bounds their number itself.

    Leaving the block waits `limits.close_seconds` for requests in progress, ends all sessions and
    closes all relays. Raises ConfigError without the extra `mcp`, for a token that is not valid, or
    for a host that other machines can reach without a token; OSError if the port is not available.
    """
    if find_spec("mcp") is None or find_spec("uvicorn") is None:
        raise config_error("serve_http", how_to_install("mcp"), "no such package")
    guard = guard_of(
        host, token=token, hosts=frozenset(allowed_hosts), origins=frozenset(allowed_origins)
    )
    from .front_http_server import listening

    def on_refused(reason: str, text: str) -> None:
        on_note({"event": REFUSED, "reason": reason}, f"refused: {text}")

    wanted = limits or HttpLimits()
    bounds = within_open_files(wanted)
    if bounds.connections < wanted.connections:
        text = f"at most {bounds.connections} connections: half of the files that this process may open"
        on_note({"event": "limited", "connections": bounds.connections}, text)
    # `localhost` may be two addresses, which would get two ports
    address = "127.0.0.1" if host == "localhost" else host
    front = HttpFront(
        HttpSessions(make_relay, bounds, shared=shared, on_refused=on_refused),
        guard,
        bounds,
        on_refused,
    )
    shown = f"[{address}]" if ":" in address else address
    try:
        async with listening(front, address, port, bounds, on_refused) as chosen:
            try:
                yield f"http://{shown}:{chosen}{_PATH}"
            finally:
                await front.close()
    finally:
        await front.close()


class HttpFront:
    """The ASGI application: one path for MCP, and `/health`."""

    def __init__(
        self,
        sessions: HttpSessions,
        guard: HttpGuard,
        limits: HttpLimits,
        on_refused: Callable[[str, str], None] = lambda _, __: None,
    ) -> None:
        self._sessions, self._guard, self._limits = sessions, guard, limits
        self._on_refused = on_refused
        self._is_closed = False
        self._under_way: set[object] = set()
        self._is_quiet = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"an HTTP request expected, got {scope['type']!r}")
        exchange = Exchange(scope, receive, send)
        is_health = exchange.path == "/health"
        has_token = self._guard.has_token(exchange.headers)
        needs_token = self._guard.token is not None and not (
            is_health and "authorization" not in exchange.headers
        )
        if {"content-length", "transfer-encoding"} <= exchange.headers.keys():
            # where the body ends is a matter of opinion, and so is what comes after it
            await exchange.refuse(
                400, "Content-Length or Transfer-Encoding expected, got both", closes=True
            )
        elif refusal := self._guard.refusal(exchange.headers):
            self._on_refused("hosts", f"a request with an {refusal} (--allow-host, --allow-origin)")
            await exchange.refuse(403, refusal)
        elif needs_token and not has_token:
            self._on_refused("token", "a request without the token")
            await exchange.refuse(401, "Unauthorized", _CHALLENGE)
        elif (has_token or self._guard.token is None) and not exchange.admit():
            await exchange.refuse(503, "Too many connections", code=INTERNAL_ERROR, closes=True)
        elif is_health:
            await self._health(exchange, has_token=has_token)
        elif exchange.path.rstrip("/") != _PATH:
            await exchange.respond(404, f"not found: MCP is at {_PATH}\n", kind="text/plain")
        elif self._is_closed:
            await exchange.refuse(503, "Shutting down", code=INTERNAL_ERROR)
        else:
            await self._mcp(exchange)

    async def close(self) -> None:
        """Refuse new requests, wait `close_seconds` for those in progress, and end all sessions."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._under_way:
            self._is_quiet.clear()
            try:
                async with asyncio.timeout(self._limits.close_seconds):
                    await self._is_quiet.wait()
            except TimeoutError:
                pass
        await self._sessions.close()

    async def _health(self, exchange: Exchange, *, has_token: bool) -> None:
        if exchange.method != "GET":
            await exchange.refuse(405, "Method Not Allowed", [("allow", "GET")])
            return
        status = dict(self._sessions.status())
        body = status if has_token else {"status": status["status"]}
        await exchange.respond(503 if status["status"] == "down" else 200, json.dumps(body))

    async def _mcp(self, exchange: Exchange) -> None:
        if exchange.method == "POST":
            await self._post(exchange)
        elif exchange.method not in {"GET", "DELETE"} or is_modern_version(exchange):
            await exchange.refuse(405, "Method Not Allowed", [("allow", "GET, POST, DELETE")])
        elif (found := await self._session_of(exchange)) is not None:
            session, use = found
            with use:
                if exchange.method == "GET":
                    await self._get(exchange, session)
                else:
                    session.end()
                    await exchange.respond(200)

    async def _post(self, exchange: Exchange) -> None:
        if not (exchange.accepts(JSON) and exchange.accepts(EVENTS)):
            await exchange.refuse(
                406, f"Not Acceptable: Client must accept both {JSON} and {EVENTS}"
            )
            return
        message = await exchange.read_message(self._limits.body_bytes, self._limits.body_seconds)
        if message is None:
            return
        if is_modern(message, exchange.headers):
            await self._post_modern(exchange, message)
            return
        found = await self._session_of(exchange, message)
        if found is None:
            return
        session, use = found
        with use:
            if message.is_request:
                await self._ask(exchange, session, message)
            else:
                session.post(message)
                await exchange.respond(202, headers=_session_header(session))

    async def _session_of(
        self, exchange: Exchange, message: Message | None = None
    ) -> tuple[HttpSession, Use] | None:
        """Return the session of a request, a new one for `initialize`.

        None if it has refused the request; the refusal is sent.
        """
        shown = exchange.headers.get(SESSION_HEADER)
        if shown is not None:
            found = self._sessions.find(shown)
            if found is None:
                await exchange.refuse(404, "Session not found")
            return found
        if message is None or not (message.is_request and message.method == "initialize"):
            await exchange.refuse(400, "Bad Request: Missing session ID")
            return None
        opened = self._sessions.open()
        if opened is None:
            await exchange.refuse(503, "Too many open sessions", code=INTERNAL_ERROR)
        return opened

    async def _ask(self, exchange: Exchange, session: HttpSession, message: Message) -> None:
        stream = session.ask(message)
        if stream is None:
            text = "This id is in flight in this session"
            await exchange.refuse(400, text, _session_header(session), id=message.id)
            return
        is_whole = False
        self._under_way.add(exchange)
        try:
            is_whole = await exchange.answer_or_stream(
                stream,
                _session_header(session),
                wait=0,
                keep_alive=self._limits.keep_alive_seconds,
            )
        finally:
            self._done(exchange)
            # Without the answer the client does not know the session: it opens another one.
            if message.method == "initialize" and (session.is_refused or not is_whole):
                session.end()

    async def _get(self, exchange: Exchange, session: HttpSession) -> None:
        if not exchange.accepts(EVENTS):
            await exchange.refuse(406, f"Not Acceptable: Client must accept {EVENTS}")
            return
        last = exchange.headers.get("last-event-id")
        stream = session.notices if last is None else session.resume(last)
        if stream is None:
            await exchange.refuse(400, "Bad Request: Last-Event-ID is unknown, or too old")
            return
        if last is None:
            if stream.reader is not None:
                await exchange.refuse(409, "Conflict: Only one SSE stream is allowed per session")
                return
            session.prime(stream)
        await exchange.stream_events(
            stream, _session_header(session), keep_alive=self._limits.keep_alive_seconds
        )

    async def _post_modern(self, exchange: Exchange, message: Message) -> None:
        # the relay is created for the last check only: a bad request creates none
        if await refuse_modern(exchange, message, self._modern_relay):
            return
        opened = self._sessions.modern()
        if opened is None:
            await exchange.refuse(503, "Too many servers", code=INTERNAL_ERROR, id=message.id)
            return
        clients, use = opened
        with use:
            if message.is_request:
                await self._ask_modern(exchange, clients, message)
                return
            # A client cancels by closing the response: the id could be that of another client.
            if message.method != "notifications/cancelled":
                clients.post(message)
            await exchange.respond(202)

    def _modern_relay(self) -> Relayed | None:
        opened = self._sessions.modern()
        return None if opened is None else opened[0].relay

    async def _ask_modern(
        self, exchange: Exchange, clients: ModernClients, message: Message
    ) -> None:
        client, stream = clients.ask(message)
        if message.method != _LISTEN:
            self._under_way.add(exchange)
        seconds = self._limits.keep_alive_seconds
        try:
            await exchange.answer_or_stream(
                stream, (), wait=seconds, keep_alive=seconds, status_of=status_of_answer
            )
        finally:
            self._done(exchange)
            clients.finish(client, message)

    def _done(self, exchange: Exchange) -> None:
        self._under_way.discard(exchange)
        if not self._under_way:
            self._is_quiet.set()


def is_modern_version(exchange: Exchange) -> bool:
    """Return whether the version header names a version without sessions."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return exchange.headers.get(VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS


def _session_header(session: HttpSession) -> list[tuple[str, str]]:
    return [(SESSION_HEADER, session.id)]
