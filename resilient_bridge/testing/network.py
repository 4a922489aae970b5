"""The simulated network: names, ports, and conditions of the links.

Rule: it answers as an operating system would (refused, unreachable, timed out, no such name).
Everything that is broken for a time works again after `heal()`.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Callable
from contextvars import Context
from typing import Final, Literal

from .endpoint import Address, Listener, SimulatedSocket, SimulatedTransport
from .link import Link, Weather
from .timeline import Timeline, stream


Door = Literal["open", "refuse", "blackhole", "accept_close"]

NXDOMAIN: Final = ()
"""A name that does not exist: `network.names["gone.example"] = NXDOMAIN`."""
HANG: Final = "hang"
"""A name whose lookup never ends: `network.names["slow.example"] = HANG`."""

SYN_WAITS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Seconds between a SYN and its retransmissions, as on Linux; then connect fails (ETIMEDOUT)."""

_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - nothing real is bound


class Network:
    """Everything between the sockets of one simulated loop.

    `names` maps a host to its addresses, NXDOMAIN or HANG (any other name is 127.0.0.1). `roads`
    maps an address to "blackhole" or "unreachable". `weather` holds latency, lag, rate and window
    of all links. `lookups` lists (virtual time, name), `links` the links that are open,
    `connections` counts all that ever were.
    """

    def __init__(self, loop: Timeline) -> None:
        self.names: dict[str, tuple[str, ...] | Literal["hang"]] = {}
        self.roads: dict[str, Literal["blackhole", "unreachable"]] = {}
        self.weather = Weather()
        self.lookups: list[tuple[float, str]] = []
        self.connections = 0
        self.on_link: list[Callable[[Link], None]] = []
        self._loop = loop
        self._rng = stream(loop.seed, "network")
        self._links: list[Link] = []
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._next_port = 40_000
        self._door: Door = "open"
        self._door_until = 0.0
        self._clearing: asyncio.TimerHandle | None = None

    # -- names and ports ----------------------------------------------------------------------------------------

    async def resolve(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a name after a while, none for NXDOMAIN.

        An IP address is returned at once.
        """
        if ":" in host or host.replace(".", "").isdigit():
            return (host,)
        self.lookups.append((self._loop.time(), host))
        await asyncio.sleep(self.weather.draw(self._rng))
        answer = self.names.get(host, ("127.0.0.1",))
        if answer == "hang":
            await asyncio.sleep(math.inf)
        return tuple(answer)

    def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        family: socket.AddressFamily,
        address: Address,
    ) -> Listener:
        """Bind an address; port 0 takes a free one. Raises OSError (EADDRINUSE) if it is taken."""
        host, port = str(address[0]), int(address[1])
        if port == 0:
            self._next_port += 1
            port = self._next_port
        if (host, port) in self._listeners:
            raise OSError(
                errno.EADDRINUSE, f"error while attempting to bind on address {address}: in use"
            )
        listener = Listener(
            self._loop, factory, SimulatedSocket(family, (host, port, *address[2:]))
        )
        self._listeners[host, port] = listener
        listener.on_close = lambda: self._forget(host, port)
        return listener

    def _forget(self, host: str, port: int) -> None:
        del self._listeners[host, port]

    # -- connecting ---------------------------------------------------------------------------------------------

    async def connect(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        family: socket.AddressFamily,
        address: Address,
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Open a link to an address.

        Raises OSError as a real system does: refused, unreachable, or timed out after 127 s.
        """
        await asyncio.sleep(self.weather.draw(self._rng))
        await self._knock(str(address[0]))
        listener = next(
            (
                self._listeners[host, address[1]]
                for host in (address[0], *_ANYWHERE)
                if (host, address[1]) in self._listeners
            ),
            None,
        )
        door = self.door
        if listener is None or door == "refuse" or not listener.is_serving():
            self._loop.note(f"net refused {address[0]}:{address[1]}")
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {address}")
        link, client, server = self._join(listener.context, family, address)
        if door == "accept_close":
            self._loop.call_soon(server.close)
        else:
            listener.accept(server)
        try:
            await asyncio.sleep(link.down.latency())
            if (wait := link.down.frozen_until - self._loop.time()) > 0:
                await self._wait_for_answer(wait)
            protocol = factory()
            client.start(protocol)
        except BaseException:
            client.abort()
            raise
        return client, protocol

    async def _knock(self, host: str) -> None:
        if self.roads.get(host) == "unreachable":
            raise OSError(errno.EHOSTUNREACH, "No route to host")
        for wait in SYN_WAITS:
            if self.door != "blackhole" and self.roads.get(host) != "blackhole":
                return
            await asyncio.sleep(wait)
        raise _timed_out()

    async def _wait_for_answer(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, sum(SYN_WAITS)))
        if seconds > sum(SYN_WAITS):
            raise _timed_out()

    def _join(
        self, accepting: Context, family: socket.AddressFamily, address: Address
    ) -> tuple[Link, SimulatedTransport, SimulatedTransport]:
        self.connections += 1
        here = (str(address[0]), 50_000 + self.connections, *address[2:])
        link = Link(self._loop, self.connections, self.weather)
        client = SimulatedTransport(
            self._loop, SimulatedSocket(family, here, address), link.down, link.up
        )
        sock = SimulatedSocket(family, address, here)
        server = accepting.copy().run(SimulatedTransport, self._loop, sock, link.up, link.down)
        link.join(client, server)
        self._links = [*self.links, link]
        self._loop.note(f"net connect {link.number} {address[0]}:{address[1]}")
        for watch in self.on_link:
            watch(link)
        return link, client, server

    @property
    def links(self) -> list[Link]:
        """The links with an open end, oldest first."""
        return [link for link in self._links if link.is_open]

    # -- faults -------------------------------------------------------------------------------------------------

    @property
    def door(self) -> Door:
        return self._door if self._loop.time() < self._door_until else "open"

    def shut(self, how: Door, seconds: float) -> None:
        """For that time: refuse new connections, drop their SYNs, or close them once accepted."""
        self._loop.note(f"net door {how} {seconds:g}")
        self._door = how
        self._door_until = self._loop.time() + seconds

    def cut(self, how: Literal["abort", "fin", "blackhole"], seconds: float = 0.0) -> None:
        """Break every open link, and make new ones fail in the same way for `seconds`.

        A reset, an end of stream (bytes in flight still arrive), or silence both ways, which ends
        after `seconds` and then passes the held bytes; with 0 it lasts for these links until one
        end gives up.
        """
        for link in self.links:
            if how == "blackhole":
                link.blackhole(seconds or math.inf)
            elif how == "fin":
                link.fin()
            else:
                link.abort()
        if seconds > 0:
            self.shut("blackhole" if how == "blackhole" else "refuse", seconds)

    def slow(self, seconds: float, *, lag: float = 0.0, rate: float = 0.0) -> None:
        """For that time: add `lag` to latencies, or limit each direction to `rate` bytes/s."""
        self._loop.note(f"net slow {seconds:g} lag={lag:g} rate={rate:g}")
        self.weather.lag, self.weather.rate = lag, rate
        self._stop_clearing()
        self._clearing = self._loop.call_later(seconds, self._clear)

    def _stop_clearing(self) -> None:
        if self._clearing is not None:
            self._clearing.cancel()
            self._clearing = None

    def _clear(self) -> None:
        self.weather.lag = self.weather.rate = 0.0
        for link in self.links:
            for direction in link.directions("both"):
                direction.hurry()

    def heal(self) -> None:
        """End all temporary faults and remove all marks; vanished links stay vanished."""
        self._loop.note("net heal")
        self._door_until = 0.0
        self._stop_clearing()
        self._clear()
        for link in self.links:
            for direction in link.directions("both"):
                direction.clean()


def _timed_out() -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "Connection timed out")
