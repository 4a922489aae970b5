"""The bridge's door: the listening socket, the upgrade, GET /health, and an end that leaves nothing behind.

Rule: /health answers 200 when links are taken and 503 while starting or stopping, and every TCP connection is
known from its first moment, so that stopping never waits for a peer.
"""

from __future__ import annotations

import asyncio
import email.utils
import ssl as ssl_module
from typing import Any, Literal

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from .server_link import Link, Tasks, reset
from .server_session import BridgeMemory
from .server_wire import ENCODE


_READY, _UNAVAILABLE = 200, 503
_OPEN_TIMEOUT = 60.0  # seconds: longer than any client's own, so that a black hole stays one
_CLOSE_TIMEOUT = 1.0  # seconds for a client's own close frame


class Listener:
    """Takes connections while it is ready and gives each a Link."""

    def __init__(self, memory: BridgeMemory, host: str, port: int, ssl: ssl_module.SSLContext | None) -> None:
        self._memory = memory
        self._host = host
        self._ssl = ssl
        self._tasks = Tasks()
        self._server: Server | None = None
        self._raw: dict[ServerConnection, None] = {}  # every TCP connection, the unfinished ones too
        self._ready_at = 0.0
        self._dark_until = 0.0
        self._is_dark_silent = False
        self.port = port
        self.state: Literal["stopped", "starting", "ready", "stopping"] = "stopped"
        self.links: dict[Link, None] = {}  # in the order in which they came
        self.connect_times: list[float] = []
        self.attempt_times: list[float] = []

    async def start(self) -> None:
        """Listen on the port, or on one the system picks if it is 0; later starts keep it."""
        if self._server is not None:
            msg = f"a stopped bridge expected, got one that is {self.state}"
            raise RuntimeError(msg)
        raw, behaviour = self._raw, self._memory.behaviour

        class Tracked(ServerConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                raw[self] = None
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                raw.pop(self, None)
                super().connection_lost(exc)

        self.state = "starting"
        self._ready_at = asyncio.get_running_loop().time() + behaviour.starting_for
        try:
            self._server = await serve(
                self._handle,
                self._host,
                self.port,
                ssl=self._ssl,
                create_connection=Tracked,
                process_request=self._process_request,
                process_response=self._process_response,
                compression=None,
                open_timeout=_OPEN_TIMEOUT,
                ping_interval=None,  # the heartbeat is the protocol's own
                close_timeout=_CLOSE_TIMEOUT,
                max_size=behaviour.max_frame_bytes,
                max_queue=256,
            )
        except OSError:
            self.state = "stopped"
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        self.state = "ready"

    async def stop(self, code: int, reason: str) -> None:
        """Close every connection with that code, then the socket; afterwards no task and no connection is left."""
        server, self._server = self._server, None
        if server is None:
            return
        self.state = "stopping"  # what /health says while connections are closed
        await self.close_links(code, reason)
        server.close()
        for connection in tuple(self._raw):
            connection.transport.abort()
        await server.wait_closed()
        await self._tasks.stop()
        self.state = "stopped"

    async def close_links(self, code: int, reason: str) -> None:
        """Close all at once and wait for their ends."""
        loop = asyncio.get_running_loop()
        closing = [loop.create_task(link.close(code, reason)) for link in self.links]
        if closing:
            await asyncio.wait(closing)

    async def cut(self, how: Literal["abort", "fin", "blackhole"], seconds: float) -> None:
        """Cut every link on real sockets."""
        if seconds > 0:
            self.refuse(seconds, silently=how == "blackhole")
        links = tuple(self.links)
        for link in links:
            if how == "blackhole":
                link.darken(seconds)
            elif how == "fin":
                link.fin()
            else:
                link.reset()
        if how != "blackhole":
            for link in links:
                await link.gone()

    def refuse(self, seconds: float, *, silently: bool) -> None:
        """For so long, new connections meet a reset, or nothing at all."""
        self._dark_until = asyncio.get_running_loop().time() + seconds
        self._is_dark_silent = silently

    async def _handle(self, connection: ServerConnection) -> None:
        behaviour = self._memory.behaviour
        self.connect_times.append(asyncio.get_running_loop().time())
        link = Link(connection, self._memory, self._tasks)
        self.links[link] = None
        try:
            if behaviour.accept_then_close is not None and behaviour.close_at == "accept":
                await link.close(behaviour.accept_then_close, "scripted close at accept")
            else:
                await link.run()
        finally:
            del self.links[link]

    async def _process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        now = asyncio.get_running_loop().time()
        is_up = self.state == "ready" and now >= self._ready_at
        word = self.state if self.state == "stopping" else "ready" if is_up else "starting"
        if request.path.partition("?")[0] == "/health":
            status = _READY if is_up else _UNAVAILABLE
            return _json(connection, status, {"status": word, "sessions": len(self._memory.sessions)})
        self.attempt_times.append(now)
        if now < self._dark_until:
            await self._swallow(connection, self._dark_until - now)
        if self._memory.behaviour.reject_upgrade is not None:
            return self._reject(connection, self._memory.behaviour.reject_upgrade)
        return None if is_up else _json(connection, _UNAVAILABLE, {"status": word})

    async def _swallow(self, connection: ServerConnection, seconds: float) -> None:
        if self._is_dark_silent:
            await asyncio.sleep(seconds)
        else:
            reset(connection)
            await connection.wait_closed()

    def _reject(self, connection: ServerConnection, status: int) -> Response:
        behaviour = self._memory.behaviour
        body: dict[str, Any] = {"error": "Rejected", "message": "upgrade rejected"}
        if behaviour.reject_code is not None:  # an error body as the seed prints it (R9)
            hints = ["Check session ID spelling", "Session may have expired"]
            body = {**body, "code": behaviour.reject_code, "suggestions": hints}
        response = _json(connection, status, body)
        if behaviour.retry_after is not None:
            response.headers["Retry-After"] = behaviour.retry_after
        return response

    def _process_response(self, _connection: ServerConnection, _request: Request, response: Response) -> None:
        # the library prints the machine's time: the bridge has a clock of its own
        del response.headers["Date"]
        response.headers["Date"] = email.utils.formatdate(self._memory.stamps.seconds(), usegmt=True)


def _json(connection: ServerConnection, status: int, body: dict[str, Any]) -> Response:
    response = connection.respond(status, ENCODE(body))
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = "application/json"
    return response
