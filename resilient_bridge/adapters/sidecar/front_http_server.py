"""The listening socket of an HTTP front: uvicorn's HTTP/1.1 protocol in this event loop.

Without uvicorn's signal handlers, logs and threads. Rule: every connection can be aborted, so a
client that does not read delays the end by a bounded time only. That no file is left for a
connection is reported and waited for, and ends nothing.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from .front_http_connections import Connections


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from .front_http_exchange import App
    from .front_http_limits import HttpLimits

    OnRefused = Callable[[str, str], None]


_BACKLOG: Final = 1_024  # connections that the system holds for us
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ITERATIONS: Final = 16  # of the loop that a connection is kept at least, however many others come
_ACCEPT_AGAIN: Final = 0.1  # seconds until the next try, when there is no room for a connection


@asynccontextmanager
async def listening(
    app: App, host: str, port: int, limits: HttpLimits, on_refused: OnRefused = lambda _, __: None
) -> AsyncGenerator[int]:
    """Serve an ASGI app while the block runs; it gets the port.

    The app finds two functions in its ASGI state: `ABORT` aborts the connection, `ADMIT` says that
    its client was admitted, and returns False if there are too many such connections. `on_refused`
    gets a reason and words for people, once for each connection that was refused.

    Raises OSError if the port is not available.

    Leaving the block waits up to `close_seconds` for responses in progress, then closes all
    connections.
    """
    from uvicorn.server import ServerState

    from .front_http_connection import Connection, config_of, logger_of

    state, all_closed = ServerState(), asyncio.Event()
    book = Connections(limits, on_refused)
    make = partial(
        Connection,
        config_of(app, limits),
        state,
        head_seconds=limits.head_seconds,
        book=book,
        logger=logger_of(book),
        on_closed=all_closed.set,
    )
    listeners = await _listeners(host, port)
    at_once = max(1, limits.strangers // _ITERATIONS)
    tasks = [
        asyncio.get_running_loop().create_task(_accept(listener, make, book, at_once))
        for listener in listeners
    ]
    try:
        yield listeners[0].getsockname()[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for listener in listeners:
            listener.close()
        await _end(state, all_closed, limits.close_seconds)


async def _listeners(host: str, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of `host`. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listener = socket.socket(family, kind, protocol)
            listeners.append(listener)
            if sys.platform != "win32":  # where it would let two programs have the same port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return listeners


async def _accept(
    listener: socket.socket, make: Callable[[], asyncio.Protocol], book: Connections, at_once: int
) -> None:
    """Accept connections until cancelled, at most `at_once` in one turn of the loop.

    asyncio's own server tries a hundred times, and logs each, when there is no file left for a
    connection.
    """
    loop = asyncio.get_running_loop()
    openings: set[asyncio.Task[None]] = set()
    for number in count(1):
        try:
            accepted, _ = await loop.sock_accept(listener)
        except OSError as error:
            if error.errno in _NO_ROOM:
                words = (error.strerror or str(error)).lower()
                book.on_refused("files", f"connections, which wait until there is room: {words}")
                book.make_room()
            await asyncio.sleep(_ACCEPT_AGAIN)
            continue
        opening = loop.create_task(_open(accepted, make))
        openings.add(opening)
        opening.add_done_callback(openings.discard)
        # While connections are waiting, `sock_accept` does not suspend. A new one is cut only after
        # several turns of the loop, in which its head is read and admits it.
        if not number % at_once:
            await asyncio.sleep(0)


async def _open(accepted: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(make, accepted)
    except OSError:  # its client has gone
        accepted.close()


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
