"""The listening socket of an HTTP front: uvicorn's HTTP/1.1 protocol in this event loop.

Without uvicorn's signal handlers, logs and threads. Rule: every connection can be aborted, so a
client that does not read delays the end by a bounded time only.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast

from .front_http_exchange import ABORT


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .front_http_exchange import App
    from .front_http_limits import HttpLimits


# seconds: longer than clients keep an idle connection, so that the client closes it
_IDLE_CONNECTION: Final = 75


@asynccontextmanager
async def listening(app: App, host: str, port: int, limits: HttpLimits) -> AsyncGenerator[int]:
    """Serve an ASGI app while the block runs; it gets the port.

    Raises OSError if the port is not available.

    Leaving the block waits up to `close_seconds` for responses in progress, then closes all
    connections.
    """
    from uvicorn import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState

    class Connection(H11Protocol):
        """A connection that gives its requests, in their ASGI state, a function that aborts it."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.app_state = {ABORT: transport.abort}
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if not state.connections:
                all_closed.set()

    config = Config(
        cast("Any", app),
        http=Connection,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=limits.header_bytes,
        timeout_keep_alive=_IDLE_CONNECTION,
    )
    config.load()
    state, all_closed = ServerState(), asyncio.Event()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}), host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await _end(state, all_closed, limits.close_seconds)


async def _end(state: Any, all_closed: asyncio.Event, seconds: float) -> None:
    """Wait until responses are sent, then abort the connections and cancel late tasks."""
    tasks: set[asyncio.Task[None]] = {*state.tasks}
    all_closed.clear()
    for connection in [*state.connections]:
        connection.shutdown()  # it closes once its response is written to the socket
    if state.connections:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await all_closed.wait()
    for connection in [*state.connections]:
        connection.transport.abort()
    await asyncio.sleep(0)  # lets `connection_lost` run, which unblocks the task of each
    late = {task for task in tasks if not task.done()}
    if late:
        _, late = await asyncio.wait(late, timeout=seconds)
    for task in late:
        task.cancel()
