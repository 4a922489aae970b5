"""The listener of a bridge: the socket, the upgrade, GET /health, and a complete stop.

Rule: /health answers 200 when connections are accepted and 503 while starting or stopping. Every
TCP connection is recorded when it is accepted, so that stopping never waits for a peer.
"""

from __future__ import annotations

import asyncio
import email.utils
import inspect
import ssl as ssl_module
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import attrs
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from .server_link import AcceptedConnection, Tasks, reset
from .server_wire import ENCODE


Cut = Literal["abort", "fin", "blackhole"]

_READY, _UNAVAILABLE = 200, 503
# seconds: longer than the timeout of any client, so that a black hole remains one
_OPEN_TIMEOUT = 60.0
_CLOSE_TIMEOUT = 1.0  # seconds for a client's own close frame
_TURN = 64  # pushes in a row before other tasks run


@attrs.frozen
class Refusal:
    """The answer to a refused upgrade; `retry_after` is that header, verbatim."""

    status: int
    body: Mapping[str, Any]
    retry_after: str | None = None


class Bridge(Protocol):
    """What a listener reads from its bridge; it reads again each time, so the values may change."""

    @property
    def starting_for(self) -> float:
        """Seconds after a start in which no connection is accepted."""
        ...

    @property
    def max_frame_bytes(self) -> int:
        """Larger frames end the connection with 1009; read at each start."""
        ...

    def seconds(self) -> float:
        """The bridge's own wall clock, for HTTP dates."""
        ...

    def health(self) -> Mapping[str, Any]:
        """The fields of /health beside the status."""
        ...

    def refusal(self, request: Request, /) -> Refusal | None:
        """The reason why this upgrade is refused, None if it is not."""

    def accept(self, connection: ServerConnection, tasks: Tasks, /) -> AcceptedConnection:
        """Make the conversation for a new connection."""
        ...


class Listener:
    """Accepts connections while it is ready, and runs the bridge's conversation on each."""

    def __init__(
        self, bridge: Bridge, host: str, port: int, ssl: ssl_module.SSLContext | None
    ) -> None:
        self._bridge = bridge
        self._host = host
        self._ssl = ssl
        self._tasks = Tasks()
        self._server: Server | None = None
        self._raw: dict[
            ServerConnection, None
        ] = {}  # every TCP connection, the unfinished ones too
        self._ready_at = 0.0
        self._dark_until = 0.0
        self._is_dark_silent = False
        self.port = port
        self.state: Literal["stopped", "starting", "ready", "stopping"] = "stopped"
        self.links: dict[AcceptedConnection, None] = {}  # in the order in which they came
        self.connect_times: list[float] = []
        self.attempt_times: list[float] = []

    async def start(self) -> None:
        if self._server is not None:
            msg = f"a stopped bridge expected, got one that is {self.state}"
            raise RuntimeError(msg)
        raw = self._raw

        class Tracked(ServerConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                raw[self] = None
                super().connection_made(transport)

            def connection_lost(self, exc: Exception | None) -> None:
                raw.pop(self, None)
                super().connection_lost(exc)

        self.state = "starting"
        self._ready_at = asyncio.get_running_loop().time() + self._bridge.starting_for
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
                max_size=self._bridge.max_frame_bytes,
                max_queue=256,
            )
        except OSError:
            self.state = "stopped"
            raise
        self.port = self._server.sockets[0].getsockname()[1]
        self.state = "ready"

    async def stop(self, code: int, reason: str) -> None:
        """Close every connection with this code, then the socket; no task or link is left."""
        server, self._server = self._server, None
        if server is None:
            return
        self.state = "stopping"  # the status in /health while connections are closed
        await self.close_links(code, reason)
        server.close()
        for connection in tuple(self._raw):
            connection.transport.abort()
        await server.wait_closed()
        await self._tasks.stop()
        self.state = "stopped"

    async def close_links(self, code: int, reason: str) -> None:
        loop = asyncio.get_running_loop()
        closing = [loop.create_task(link.close(code, reason)) for link in self.links]
        if closing:
            await asyncio.wait(closing)

    async def cut(self, how: Cut, seconds: float) -> None:
        """Cut every link, and new ones for this time.

        On a loop with `cut_links(how, seconds)` its network does it.
        """
        cut_links = getattr(asyncio.get_running_loop(), "cut_links", None)
        if cut_links is not None:
            done = cut_links(how, seconds)
            if inspect.isawaitable(done):
                await done
            return
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
        """For this time, new connections get a reset, or no answer."""
        self._dark_until = asyncio.get_running_loop().time() + seconds
        self._is_dark_silent = silently

    async def give_way(self, pushed: int) -> None:
        """After push number `pushed`, let other tasks run, if a client reads too slowly or after
        each 64th.

        It never waits, because the link may be dead.
        """
        if pushed % _TURN == 0 or any(link.connection.paused for link in self.links):
            await asyncio.sleep(0)

    async def _handle(self, connection: ServerConnection) -> None:
        self.connect_times.append(asyncio.get_running_loop().time())
        link = self._bridge.accept(connection, self._tasks)
        self.links[link] = None
        try:
            await link.run()
        finally:
            del self.links[link]

    async def _process_request(
        self, connection: ServerConnection, request: Request
    ) -> Response | None:
        now = asyncio.get_running_loop().time()
        is_up = self.state == "ready" and now >= self._ready_at
        word = self.state if self.state == "stopping" else "ready" if is_up else "starting"
        if request.path.partition("?")[0] == "/health":
            status = _READY if is_up else _UNAVAILABLE
            return _json(connection, status, {"status": word, **self._bridge.health()})
        self.attempt_times.append(now)
        if now < self._dark_until:
            await self._swallow(connection, self._dark_until - now)
        refusal = self._bridge.refusal(request)
        if refusal is None:
            return None if is_up else _json(connection, _UNAVAILABLE, {"status": word})
        response = _json(connection, refusal.status, refusal.body)
        if refusal.retry_after is not None:
            response.headers["Retry-After"] = refusal.retry_after
        return response

    async def _swallow(self, connection: ServerConnection, seconds: float) -> None:
        if self._is_dark_silent:
            await asyncio.sleep(seconds)
        else:
            reset(connection)
            await connection.wait_closed()

    def _process_response(
        self, _connection: ServerConnection, _request: Request, response: Response
    ) -> None:
        # the library prints the machine's time: the bridge has a clock of its own
        del response.headers["Date"]
        response.headers["Date"] = email.utils.formatdate(self._bridge.seconds(), usegmt=True)


class EmbeddedBridge:
    """The base of the embedded bridges: a listener at one address, its start and its stop."""

    def __init__(
        self, bridge: Bridge, host: str, port: int, ssl: ssl_module.SSLContext | None = None
    ) -> None:
        self._host = host
        self._listener = Listener(bridge, host, port, ssl)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Listen; with port 0 the system picks one, which later starts keep.

        Raises OSError if the port is taken.
        """
        await self._listener.start()

    async def aclose(self) -> None:
        """Close every connection with 1001 and stop; no task or link is left. A log remains."""
        await self._listener.stop(1001, "going away")

    async def _restart(self, forget: Callable[[], None] | None, down: float) -> None:
        await self._listener.stop(1012, "service restart")
        if forget is not None:
            forget()
        if down > 0:
            await asyncio.sleep(down)
        await self._listener.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, once the bridge was started: `FaultProxy(*server.address)`."""
        if self._listener.port == 0:
            msg = "a started bridge expected, got one that never was"
            raise RuntimeError(msg)
        return self._host, self._listener.port

    def _netloc(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def connections(self) -> int:
        """The number of open WebSocket connections."""
        return len(self._listener.links)


def _json(connection: ServerConnection, status: int, body: Mapping[str, Any]) -> Response:
    response = connection.respond(status, ENCODE(dict(body)))
    del response.headers["Content-Type"]
    response.headers["Content-Type"] = "application/json"
    return response
