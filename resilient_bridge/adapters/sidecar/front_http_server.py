"""The listening socket of an HTTP front: uvicorn's HTTP/1.1 on this loop, without its signal handlers, logs and threads.

Rule: every connection can be cut. A client that does not read never delays a stop.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from .front_http_exchange import ABORT


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from .front_http_exchange import App
    from .front_http_limits import HttpLimits


# seconds: longer than clients keep a connection in their pools, so that they close it
_IDLE_CONNECTION: Final = 75


@asynccontextmanager
async def listening(app: App, host: str, port: int, limits: HttpLimits) -> AsyncGenerator[int]:
    """Serve an ASGI app inside of the block, which gets the port.

    Raises OSError if the port is not available.

    Afterwards all connections are closed; those with unsent data have `close_seconds` for it.
    """
    from uvicorn import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState

    class Connection(H11Protocol):
        """A connection whose requests carry, in their state, a way to cut it."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            self.app_state = {ABORT: transport.abort}
            super().connection_made(transport)

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
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(config, state, {}), host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await _end(state, limits.close_seconds)


async def _end(state: Any, seconds: float) -> None:
    """Let connections finish their responses; cut the others."""
    for connection in [*state.connections]:
        connection.shutdown()
    tasks: set[asyncio.Task[None]] = {*state.tasks}
    if tasks:
        await asyncio.wait(tasks, timeout=seconds)
    for connection in [*state.connections]:
        connection.transport.abort()
    await asyncio.sleep(0)  # for `connection_lost` of each, which lets its task go on
    late = {task for task in tasks if not task.done()}
    if late:
        _, late = await asyncio.wait(late, timeout=seconds)
    for task in late:
        task.cancel()
