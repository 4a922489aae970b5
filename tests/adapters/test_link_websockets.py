"""A link over the websockets library: messages, sends and handshakes across real connections that are closed, cut and refused."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

import resilient_bridge as rb
from tests.adapters.link_peers import quick, quiet
from tests.peers.ports import Port
from tests.peers.running import until


pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


class Server:
    """A websockets server: it counts, remembers what it got, and ends each connection as told."""

    def __init__(self, port: Port) -> None:
        """Not listening yet."""
        self.port = port
        self.url = f"ws://127.0.0.1:{port.number}"
        self.connections = 0
        self.got: list[str] = []
        self.statuses: list[int] = []  # for the next handshakes
        self.attend = self.read
        self._server = None

    async def read(self, connection) -> None:
        """Note every message until the end."""
        async for message in connection:
            self.got.append(message)

    async def start(self) -> None:
        """Listen."""

        async def handler(connection):
            self.connections += 1
            await self.attend(connection)

        def answer(connection, request):
            return connection.respond(self.statuses.pop(0), "no\n") if self.statuses else None

        self._server = await serve(
            handler, sock=self.port.listen(), process_request=answer, close_timeout=0.5
        )

    async def stop(self, code: int = 1001) -> None:
        """Close every connection with this code, and refuse others from now on."""
        if self._server is not None:
            if code == 1006:
                self._cut()
            # One by one: a server of websockets 15 closes all of them with a code of its own.
            await asyncio.gather(*(one.close(code) for one in self._server.connections))
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    def _cut(self) -> None:
        for connection in self._server.connections:
            connection.transport.abort()


@asynccontextmanager
async def served():
    """A server that listens."""
    with Port() as port:
        server = Server(port)
        await server.start()
        try:
            yield server
        finally:
            await server.stop()


@asynccontextmanager
async def linked(server: Server, **options):
    """A link to it, which leaves nothing behind."""
    before = await quiet()
    policy = options.pop("policy", None) or quick()
    link = rb.reconnecting(lambda: connect(server.url), policy, **{"patience": 10} | options)
    async with link as ws:
        yield ws, link
    await until(lambda: True)
    assert {name for name in await quiet() if "resilient_bridge" in name} <= before


@pytest.mark.parametrize("code", [1000, 1001, 1006, 1011, 4000])
async def test_messages_are_read_across_reconnects(code):
    """`async for message in ws`: whatever ends a connection, the next one's messages follow; the link knows why it ended."""

    async def attend(connection):
        await connection.send(f"{server.connections} a")
        await connection.send(f"{server.connections} b")
        if code == 1006:
            await asyncio.sleep(0.01)
            connection.transport.abort()
        else:
            await connection.close(code, "bye")

    got = []
    async with served() as server:
        server.attend = attend
        async with linked(server) as (ws, link):
            assert isinstance(ws, ClientConnection)
            async for message in ws:
                got.append(message)
                if len(got) == 6:
                    break
            failure = link.health().failure
            assert failure.details.get("close_code", 1006) == code
            assert isinstance(failure.cause, ConnectionClosed)
    assert got == ["1 a", "1 b", "2 a", "2 b", "3 a", "3 b"]


@pytest.mark.parametrize("code", [1002, 1003, 1007, 4003, 4403])
async def test_a_close_that_means_go_away_is_final(code):
    """Iterating raises what it means, from the library's own error, and so does everything afterwards; no second connection."""

    async def attend(connection):
        await connection.close(code, "no")

    async with served() as server:
        server.attend = attend
        async with linked(server) as (ws, link):
            for use in (lambda: anext(aiter(ws)), lambda: ws.send("x")):
                with pytest.raises(rb.BridgeError) as caught:
                    await use()
                assert isinstance(caught.value.__cause__, ConnectionClosed)
                assert caught.value.__cause__.rcvd.code == code
            assert (link.state, server.connections) == ("FAILED", 1)


@pytest.mark.requirement("V8")
async def test_a_send_while_the_server_is_away_waits():
    """It arrives once, after the return, in the order in which it was made."""
    async with served() as server, linked(server) as (ws, link):
        await ws.send("a")
        await until(lambda: server.got == ["a"])
        await server.stop()
        await until(lambda: link.state != "READY")
        sends = [asyncio.create_task(ws.send(text)) for text in "bcd"]
        await until(lambda: link.health().attempt >= 3)
        assert not any(send.done() for send in sends)
        await server.start()
        await asyncio.gather(*sends)
        await until(lambda: len(server.got) == 4)
        assert server.got == ["a", "b", "c", "d"]


async def test_patience_ends_with_the_cause():
    """Nobody came back in time: NotConnectedError from the refusal; it was not sent, and is not sent later."""
    async with served() as server, linked(server, patience=0.3) as (ws, link):
        await server.stop()
        await until(lambda: link.state != "READY")
        with pytest.raises(rb.errors.NotConnectedError, match="refused") as caught:
            await ws.send("late")
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)
        await server.start()
        await ws.send("now")
        await until(lambda: server.got)
        assert server.got == ["now"]


async def test_patience_is_for_one_wait_of_a_receiver_too():
    """A `recv` while nobody is there waits for as long as it may, once: the policy does not have it wait again and again."""
    async with served() as server, linked(server, patience=0.3) as (ws, link):
        await server.stop()
        await until(lambda: link.state != "READY")
        with rb.testing.record() as reported, pytest.raises(rb.errors.NotConnectedError):
            await ws.recv()
    assert not [event for event in reported if isinstance(event, rb.events.RetryScheduled)]


async def test_a_send_on_a_connection_that_is_already_closed_goes_to_the_next():
    """The library refuses it before a byte moves, so it is sent again, and arrives once."""
    async with served() as server, linked(server) as (ws, link):
        for number in range(20):
            connection = link._supervisor.current
            await connection.close()  # before the link can know
            await ws.send(f"{number}")
        await until(lambda: len(server.got) == 20)
        assert server.got == [f"{number}" for number in range(20)]


@pytest.mark.requirement("V13")
async def test_recv_goes_on_when_the_connection_is_cut():
    """It is a read: the one that waited gets the first message of the next connection."""

    async def attend(connection):
        if server.connections == 1:
            await connection.wait_closed()
        await connection.send("second")
        await connection.wait_closed()

    async with served() as server:
        server.attend = attend
        async with linked(server) as (ws, link):
            reading = asyncio.create_task(ws.recv())
            await until(lambda: link.health().in_flight == 1 and server.connections == 1)
            next(iter(server._server.connections)).transport.abort()
            assert await reading == "second"


@pytest.mark.requirement("V13")
async def test_a_peer_that_stops_answering_is_abandoned():
    """The library's keepalive finds the half-open connection, the link makes another, and the reader does not notice."""

    async def attend(connection):
        if server.connections == 1:
            connection.transport.pause_reading()
        else:
            await connection.send("alive")
        await connection.wait_closed()

    async with served() as server:
        server.attend = attend
        link = rb.reconnecting(
            lambda: connect(server.url, ping_interval=0.1, ping_timeout=0.2, close_timeout=0.2),
            quick(),
        )
        async with link as ws:
            assert await ws.recv() == "alive"
            assert link.health().failure.category is not None
            assert server.connections == 2
            for connection in server._server.connections:
                connection.transport.abort()


@pytest.mark.parametrize("status", [403, 404, 426])
async def test_a_handshake_refused_for_good_is_final(status):
    """Entering raises, from InvalidStatus, after one attempt."""
    async with served() as server:
        server.statuses = [status] * 5
        with pytest.raises(rb.BridgeError) as caught:
            async with linked(server):
                pytest.fail("entered")
        assert isinstance(caught.value.__cause__, InvalidStatus)
        assert len(server.statuses) == 4


async def test_an_unauthorized_handshake_is_tried_once_more():
    """Complaint 9: the factory is asked again, which may have a fresh token; a second 401 is final."""
    async with served() as server:
        server.statuses = [401]
        async with linked(server) as (ws, _):
            await ws.send("in")
        server.statuses = [401] * 5
        link = rb.reconnecting(lambda: connect(server.url), quick())
        async with link as ws:
            with pytest.raises(rb.errors.AuthError) as caught:
                await ws.send("x")
        assert isinstance(caught.value.__cause__, InvalidStatus)
        assert len(server.statuses) == 3


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
async def test_a_handshake_refused_for_now_is_repeated(status):
    """Threat 22: a proxy without a server behind it."""
    async with served() as server:
        server.statuses = [status] * 3
        async with linked(server) as (ws, _):
            await ws.send("in")
            await until(lambda: server.got == ["in"])
        assert server.statuses == []


@pytest.mark.parametrize(("status", "reported"), [(429, 7), (503, 9)])
def test_a_handshake_that_says_when_is_repeated_then(status, reported):
    """`Retry-After` on the upgrade: the next attempt is not made before, whatever the schedule says."""

    async def main(_bridge):
        loop, asked = asyncio.get_running_loop(), []

        def busy(connection, request):
            asked.append(loop.time())
            if len(asked) > 2:
                return None
            answer = connection.respond(status, "busy\n")
            answer.headers["Retry-After"] = str(reported)
            return answer

        async with serve(
            lambda ws: ws.wait_closed(), "127.0.0.1", 0, process_request=busy
        ) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            link = rb.reconnecting(lambda: connect(url, proxy=None), quick())
            async with link:
                await link.wait_ready(60)
        return [later - before for before, later in itertools.pairwise(asked)]

    waits = rb.testing.simulate(main)
    assert len(waits) == 2
    assert all(reported <= wait < reported + 1 for wait in waits)


async def test_nothing_remains_after_a_hundred_reconnects():
    """No task, and no open connection on the server but the last."""

    async def attend(connection):
        if server.connections <= 100:
            connection.transport.abort()
        await server.read(connection)

    async with served() as server:
        server.attend = attend
        async with linked(server) as (ws, link):
            await until(lambda: server.connections == 101)
            await ws.send("still here")
            await until(lambda: server.got)
            assert link.health().reconnects == 100
            await until(lambda: len(server._server.connections) == 1)
            assert sum("resilient_bridge" in name for name in await quiet()) <= 2
        await until(lambda: not server._server.connections)


@pytest.mark.parametrize("read", ["iterating", "recv"])
async def test_what_came_before_a_cut_is_read_before_what_comes_after_it(read):
    """Messages that are there when the line ends are not lost with it, nor read in another order: ten lines, three messages each."""
    lines = itertools.count()

    async def talk(ws):
        line = next(lines)
        if line < 10:
            for n in range(3):
                await ws.send(f"{line}.{n}")
        ws.transport.close()  # no close frame: the line just ends, after what was sent

    async with serve(talk, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        heard = []
        async with rb.reconnecting(lambda: connect(url), quick()) as ws, asyncio.timeout(20):
            if read == "recv":
                heard = [await ws.recv() for _ in range(30)]
            else:
                async for message in ws:
                    heard.append(message)
                    if len(heard) == 30:
                        break
    assert heard == [f"{line}.{n}" for line in range(10) for n in range(3)]


async def test_what_is_sent_while_a_connection_closes_goes_over_the_next_one():
    """The library writes nothing once a closing handshake has begun: such a send provably did not run, and is made again."""
    async with served() as server, linked(server) as (ws, link):
        closing = asyncio.create_task(link._supervisor.current.close())
        await asyncio.sleep(0)
        assert link._supervisor.current.state.name == "CLOSING"
        await ws.send("a")
        await closing
        await until(lambda: server.got == ["a"])
        assert server.connections == 2
