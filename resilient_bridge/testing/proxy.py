"""A TCP proxy between a client and a server that breaks real connections on demand.

Rule: a fault is requested, never random, and nothing is left open once the proxy is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from ..failure.teaching import taught
from .proxy_link import Fault, Link, Way


class FaultProxy:
    """Forwards TCP from `proxy.url()` to a target, and breaks it on request.

        async with rb.testing.FaultProxy(*server.address) as proxy:
            proxy.script(rb.testing.Fault.abort(after=100))      # the next connection is reset
            bridge = rb.BridgeClient(proxy.url())

    Faults apply to the open connections (`apply`), to new ones in turn (`script`) or to all new
    ones (`every`). The counters `connections` (accepted), `bytes_up` and `bytes_down` (passed on)
    only grow. Leaving the context resets what is open and leaves no task and no socket.
    """

    @taught
    def __init__(
        self, target_host: str, target_port: int, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        """Set the target and the port to listen on; port 0 takes a free one and keeps it."""
        self.host = host
        self.port = port
        self.connections = 0
        self.bytes_up = 0
        self.bytes_down = 0
        self._target = (target_host, target_port)
        self._listener: socket.socket | None = None
        self._held: socket.socket | None = None  # has the port while it refuses
        self._accepting: asyncio.Task[None] | None = None
        self._relisten: asyncio.TimerHandle | None = None
        self._script: deque[Sequence[Fault]] = deque()
        self._every: tuple[Fault, ...] = ()
        self._links: dict[asyncio.Task[None], Link] = {}

    async def __aenter__(self) -> Self:
        """Start listening; `port` and `url()` are valid from here on."""
        self._listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening, reset the open connections, and return when every task has ended."""
        self._close()
        for task in (links := list(self._links)):
            task.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def url(self, path: str = "/", scheme: str = "ws") -> str:
        """Return the address for the client."""
        return f"{scheme}://{self.host}:{self.port}{path}"

    def retarget(self, host: str, port: int) -> None:
        """Connect the coming connections to another server; open ones keep theirs."""
        self._target = (host, port)

    def apply(self, *faults: Fault) -> None:
        """Apply a fault to every open connection; `after` counts from now."""
        for link in self._links.values():
            link.apply(faults)

    def script(self, *plans: Fault | Iterable[Fault] | None) -> None:
        """Plan the coming connections: one entry each, in turn: a fault, several, or None for a
        sound connection.

        `Fault.fin()` or `Fault.abort()` at once is accept-then-close: the target gets no
        connection.
        """
        for plan in plans:
            self._script.append(
                () if plan is None else (plan,) if isinstance(plan, Fault) else tuple(plan)
            )

    def every(self, *faults: Fault) -> None:
        """Apply a fault to all coming connections that are not in the script, until `heal()`."""
        self._every = faults

    def refuse(self, seconds: float | None = None) -> None:
        """Refuse new connections (ECONNREFUSED) for so many seconds or until `heal()`; open ones go
        on.
        """
        self._close()
        from .loopback_http import hold_port  # it loads http.server

        self._held = hold_port(self.port, self.host)
        if seconds is not None:
            self._relisten = asyncio.get_running_loop().call_later(seconds, self._listen)

    def _close(self) -> None:
        """Neither listen nor hold the port any more."""
        self._cancel_relisten()
        if self._held is not None:
            self._held.close()
            self._held = None
        if self._listener is not None:
            if self._accepting is None:
                asyncio.get_running_loop().remove_reader(self._listener)
            else:
                self._accepting.cancel()
            self._listener.close()
            self._accepting = self._listener = None

    def heal(self) -> None:
        """End every fault and forget the planned ones: listen again, end black holes, delays and
        throttles.

        What was held back arrives now. A connection that was cut stays cut.
        """
        self._script.clear()
        self._every = ()
        for link in self._links.values():
            link.heal()
        self._listen()

    def _cancel_relisten(self) -> None:
        if self._relisten is not None:
            self._relisten.cancel()
            self._relisten = None

    def _listen(self) -> None:
        if self._listener is not None:
            return
        self._close()
        listener = socket.socket(
            socket.AF_INET6 if ":" in self.host else socket.AF_INET, socket.SOCK_STREAM
        )
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            listener.bind((self.host, self.port))
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        self.port = listener.getsockname()[1]
        self._listener = listener
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(listener, self._accept, listener)
        except NotImplementedError:  # the loop that is the default on Windows
            self._accepting = loop.create_task(self._accept_each(listener))

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(
            OSError
        ):  # BlockingIOError: none left; ECONNABORTED: it is gone already
            while True:
                client, _ = listener.accept()
                self._take(client)

    async def _accept_each(self, listener: socket.socket) -> None:
        while listener is self._listener:
            # the connection or the listener has closed already
            with contextlib.suppress(OSError):
                client, _ = await asyncio.get_running_loop().sock_accept(listener)
                self._take(client)

    def _take(self, client: socket.socket) -> None:
        self.connections += 1
        faults = self._script.popleft() if self._script else self._every
        link = Link(client, faults, self._count)
        task = asyncio.get_running_loop().create_task(link.run(self._target))
        self._links[task] = link
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._links.pop(task).close()

    def _count(self, way: Way, size: int) -> None:
        if way == "up":
            self.bytes_up += size
        else:
            self.bytes_down += size
