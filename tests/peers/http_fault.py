"""A real HTTP/1.1 server that fails when told: in front of another server, or with answers of its own.

Rule: one request, one decision. `decide(n, method, path)` gives the Fault of the n-th request (from 1), and nothing else
is left to chance. It runs on the loop that entered it; a test without a loop borrows one from anyio:
`with start_blocking_portal() as portal, portal.wrap_async_context_manager(HttpFault(...)) as front:`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Self

import attrs

from tests.peers.faults import SOUND, Decide, Fault
from tests.peers.http_wire import Answer, BreakError, Connection, Request, forwarded
from tests.peers.ports import HOST, Port


Target = tuple[str, int] | Callable[[Request], Answer]


@attrs.define
class Exchange:
    """One request and what was done to it; `executed` once the server saw it, `is_over` once no more will happen."""

    request: Request
    fault: Fault
    executed: bool = False
    is_over: bool = False


@attrs.define
class _Strike:
    fault: Fault
    times: float
    rpc: str
    method: str

    def hits(self, request: Request) -> bool:
        return (
            self.times > 0 and self.method in {"", request.method} and self.rpc in {"", request.rpc}
        )


class HttpFault:
    """The server: `async with HttpFault((host, port)) as front:`, or with a function that answers, or with nothing (200).

    `requests` counts, `log` tells what came and what was done to it, `connections` counts the accepted ones, `target`
    and `decide` may be replaced at any time. Leaving
    the block ends every connection and task; it raises what went wrong in here, so that no peer fails in silence.
    """

    def __init__(
        self,
        target: Target | None = None,
        *,
        decide: Decide | None = None,
        port: Port | None = None,
    ) -> None:
        """Name what stands behind, and who decides; `port` is one kept by the caller, else a free one is taken."""
        self.target = target
        self.decide: Decide = decide or _always_sound
        self.requests = 0
        self.connections = 0
        self.log: list[Exchange] = []
        self._port = port
        self._owned: Port | None = None
        self._server: asyncio.Server | None = None
        self._strikes: list[_Strike] = []
        self._open: set[Connection] = set()
        self._failures: list[Exception] = []

    async def __aenter__(self) -> Self:
        """Begin to listen; `port` and `url()` are valid from here on."""
        if self._port is None:
            self._port = self._owned = Port()
        await self.listen()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all of it; raise what went wrong in here, unless the block itself raised."""
        self._close_listener()
        await self.drop(idle_only=False)
        if self._owned is not None:
            self._owned.close()
        if self._failures and error is None:
            raise ExceptionGroup("the peer itself failed", self._failures)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._port is not None
        return self._port.number

    def url(self, path: str = "/") -> str:
        """The address to give to a client."""
        return f"http://{HOST}:{self.port}{path}"

    @property
    def executed(self) -> int:
        """How many requests the server behind saw."""
        return sum(exchange.executed for exchange in self.log)

    def strike(self, fault: Fault, *, times: float = 1, rpc: str = "", method: str = "") -> None:
        """Plan a fault for the next requests of this JSON-RPC or HTTP method, where `decide` has nothing against them."""
        self._strikes.append(_Strike(fault, times, rpc, method))

    def heal(self) -> None:
        """Forget the planned faults; `decide` still decides."""
        self._strikes.clear()

    async def listen(self) -> None:
        """Accept connections, again after `refuse()`; nothing happens if it does."""
        if self._server is None:
            assert self._port is not None
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._accept, sock=self._port.listen())

    async def refuse(self) -> None:
        """Refuse connections (ECONNREFUSED) until `listen()`, and close those on which no request is under way."""
        self._close_listener()
        await self.drop()

    async def drop(self, *, idle_only: bool = True) -> None:
        """Reset the open connections; those amid a request only on demand. Returns when their sockets are closed."""
        # One that is only being accepted has no transport yet, and nothing to reset.
        chosen = [one for one in self._open if one.is_made and (one.is_idle or not idle_only)]
        for connection in chosen:
            connection.reset()
        tasks = [
            one.task
            for one in chosen
            if one.task is not None and one.task is not asyncio.current_task()
        ]
        await asyncio.gather(*(one.ended.wait() for one in chosen), *tasks)

    def _close_listener(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _accept(self) -> Connection:
        connection = Connection(self._open.discard)
        self.connections += 1
        self._open.add(connection)
        connection.task = asyncio.get_running_loop().create_task(self._attend(connection))
        return connection

    async def _attend(self, connection: Connection) -> None:
        try:
            while await self._one(connection):
                pass
        except ConnectionError:
            pass  # the client left while it was written to
        except asyncio.CancelledError:
            pass  # the client left, or this server ends; nobody awaits the task's result
        except Exception as error:  # noqa: BLE001  # raised again where the server is left
            self._failures.append(error)
        finally:
            connection.close()

    async def _one(self, connection: Connection) -> bool:
        """Serve one request; whether the connection can take another."""
        request = await connection.read_head(0)
        if request is None:
            return False
        self.requests += 1
        request = attrs.evolve(request, n=self.requests)
        fault = self.decide(request.n, request.method, request.path)
        exchange = Exchange(request, fault)
        self.log.append(exchange)
        try:
            if fault.kind not in {"refuse", "reset_unread"}:
                exchange.request = request = await connection.read_body(request)
                if fault == SOUND:
                    exchange.fault = self._planned(request)
            await asyncio.sleep(exchange.fault.seconds)
            is_whole = await self._act(connection, exchange)
            return is_whole and request.headers.get("connection", "").lower() != "close"
        finally:
            exchange.is_over = True

    def _planned(self, request: Request) -> Fault:
        for strike in self._strikes:
            if strike.hits(request):
                strike.times -= 1
                return strike.fault
        return SOUND

    async def _act(self, connection: Connection, exchange: Exchange) -> bool:
        fault = exchange.fault
        if fault.kind == "sound":
            return await self._pass(connection, self._pieces(exchange))
        if fault.kind == "answer":
            return await self._pass(
                connection, Answer(fault.status, fault.body, dict(fault.headers)).wire()
            )
        if fault.kind == "cut":
            return await self._pass(connection, self._pieces(exchange), fault)
        if fault.kind == "reset_after" or fault.executed:
            with suppress(BreakError):  # the server ended amid its answer, which nobody was to have
                async with aclosing(self._pieces(exchange)) as pieces:
                    async for _ in pieces:
                        pass
        if fault.kind == "black_hole":
            await connection.ended.wait()
        if fault.kind == "refuse":
            await self.refuse()
        connection.reset()
        return False

    async def _pieces(self, exchange: Exchange) -> AsyncGenerator[bytes, None]:
        request = exchange.request
        exchange.executed = True
        if isinstance(self.target, tuple):
            source = forwarded(request, *self.target)
        else:
            answer = self.target(request) if self.target else Answer.of({"n": request.n})
            source = answer.wire()
        try:
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    yield piece
        except OSError:  # nobody listens there
            exchange.executed = False
            async for piece in Answer(502, b"no server").wire():
                yield piece

    async def _pass(
        self, connection: Connection, source: AsyncGenerator[bytes, None], cut: Fault | None = None
    ) -> bool:
        """Hand the pieces on, the head first; whether the answer was whole."""
        remaining: int | None = None
        try:
            async with aclosing(source) as pieces:
                async for piece in pieces:
                    if cut is None or remaining is None:
                        remaining = cut.after if cut else None
                        await connection.write(piece)
                    elif remaining:
                        await connection.write(piece[:remaining])
                        remaining -= min(remaining, len(piece))
                    if cut and not remaining:
                        raise BreakError(reset=cut.reset)
        except BreakError as broken:
            if broken.reset:
                connection.reset()
            return False
        return True


def _always_sound(n: int, method: str, path: str) -> Fault:
    return SOUND
