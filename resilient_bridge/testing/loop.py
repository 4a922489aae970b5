"""The simulated event loop: virtual time and an in-memory network behind asyncio's interface.

Rule: every request of a program to its loop is answered by the simulation or refused. Nothing
reaches the real network.
"""

from __future__ import annotations

import asyncio
import socket
from asyncio import staggered
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar, TypeVarTuple

from .endpoint import Address, Listener, SimulatedTransport
from .network import Network
from .timeline import Timeline


T = TypeVar("T")
Ts = TypeVarTuple("Ts")
AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, Address]
Connection = tuple[SimulatedTransport, asyncio.BaseProtocol]

_EXECUTOR_SECONDS: Final = 0.001


class SimulatedLoop(Timeline):
    """An event loop in virtual time over an in-memory network;
    `asyncio.Runner(loop_factory=SimulatedLoop)` works.

    `time()`, `wall()`, `stall()`, `sleep_machine()` and `note()` are those of `Timeline`; `network`
    has the names, links and faults. Executors run in this thread. There is no TLS, no subprocess,
    no signal and no file.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of `Timeline`: seed, max_steps, max_seconds, orders, label."""
        super().__init__(**options)
        self.network = Network(self)

    def cut_links(self, how: Literal["abort", "fin", "blackhole"], seconds: float = 0.0) -> None:
        """Break every open link, and make new ones fail in the same way for `seconds`.

        See `Network.cut`.
        """
        self.network.cut(how, seconds)

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run the function in this thread, up to 1 ms later.

        It never runs in the same iteration as the call, because a real thread may not either.
        """
        del executor
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_later(self._scheduler.random() * _EXECUTOR_SECONDS, work)
        return future

    async def getaddrinfo(  # type: ignore[override]
        self,
        host: str | bytes | None,
        port: str | bytes | int | None,
        *,
        family: int = 0,
        **_: int,
    ) -> list[AddressInfo]:
        """Look a name up in `network.names`.

        Raises socket.gaierror (EAI_NONAME) if it has no address of that family.
        """
        name = host.decode() if isinstance(host, bytes) else host or "127.0.0.1"
        infos: list[AddressInfo] = []
        for address in await self.network.resolve(name):
            kind = socket.AF_INET6 if ":" in address else socket.AF_INET
            endpoint: Address = (
                address,
                int(port or 0),
                *((0, 0) if kind is socket.AF_INET6 else ()),
            )
            if family in {0, kind}:
                infos.append((kind, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", endpoint))
        if not infos:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return infos

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        family: int = 0,
        happy_eyeballs_delay: float | None = None,
        **options: Any,
    ) -> Connection:
        """Connect to the addresses of a host, in turn or, with a delay, in a staggered race.

        Raises OSError if all fail.
        """
        _refuse(options, "ssl", "sock", "local_addr")
        infos = await self.getaddrinfo(host, port, family=family)
        if happy_eyeballs_delay is not None and len(infos) > 1:
            return await self._race(protocol_factory, infos, happy_eyeballs_delay)
        failures: list[BaseException] = []
        for kind, *_, endpoint in infos:
            try:
                return await self.network.connect(protocol_factory, kind, endpoint)
            except OSError as error:
                failures.append(error)
        raise _one_of(failures)

    async def _race(
        self, factory: Callable[[], asyncio.BaseProtocol], infos: list[AddressInfo], delay: float
    ) -> Connection:
        def attempt(info: AddressInfo) -> Callable[[], Any]:
            return lambda: self.network.connect(factory, info[0], info[4])

        winner, _, errors = await staggered.staggered_race(map(attempt, infos), delay, loop=self)
        if winner is None:
            raise _one_of([error for error in errors if error is not None])
        connection: Connection = winner
        return connection

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        *,
        start_serving: bool = True,
        **options: Any,
    ) -> Listener:
        """Listen on one address (port 0: the next free port); OSError (EADDRINUSE) if taken."""
        _refuse(options, "ssl", "sock")
        (kind, *_, endpoint), *_ = await self.getaddrinfo(host or "0.0.0.0", port)  # noqa: S104 - nothing real is bound
        listener = self.network.listen(protocol_factory, kind, endpoint)
        if start_serving:
            await listener.start_serving()
        return listener


def _refuse(options: dict[str, Any], *names: str) -> None:
    for name in names:
        if options.get(name) is not None:
            msg = f"the simulated network wanted {name}=None, got {options[name]!r}"
            raise NotImplementedError(msg)


def _one_of(failures: list[BaseException]) -> BaseException:
    """Return the error that asyncio raises: one of them if all have the same text, else one that
    lists all.
    """
    others = [error for error in failures if not isinstance(error, OSError)]
    if others or len({str(error) for error in failures}) == 1:
        return (others or failures)[0]
    return OSError(f"Multiple exceptions: {', '.join(map(str, failures))}")
