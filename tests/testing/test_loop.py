"""The simulated loop as programs see it: names, connections, executors, and real websockets, streams and httpx on it."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

from resilient_bridge.testing import BridgeServer
from tests.internals.testing import HANG, NXDOMAIN, SimDeadlock, SimulatedLoop


def run(main, **options):
    """Run a coroutine function on a fresh simulated loop, which it gets as its argument."""
    loop = SimulatedLoop(**options)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main(loop))
    assert loop.errors == []
    return result


@contextlib.asynccontextmanager
async def listening(loop, host="127.0.0.1", port=0):
    """A server that says hello, and its port."""

    async def hello(reader, writer):
        writer.write(b"hello\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(hello, host, port)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def greeting(host, port, **options):
    """What the server says, and who it is."""
    reader, writer = await asyncio.open_connection(host, port, **options)
    text = await reader.read()
    writer.close()
    await writer.wait_closed()
    return text, writer.get_extra_info("peername")[0]


@pytest.mark.parametrize("seed", range(5))
def test_websockets_echo(seed):
    """Unmodified websockets, compression and all: messages of every size come back whole and in order."""

    async def main(loop):
        async def echo(ws):
            async for message in ws:
                await ws.send(message)

        async with serve(echo, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with connect(f"ws://bridge.example:{port}/") as ws:
                for size in (0, 1, 125, 126, 70_000, 300_000):
                    await ws.send("x" * size)
                    assert await ws.recv() == "x" * size
                assert ws.remote_address == ("127.0.0.1", port)
            assert ws.close_code == 1000
        assert loop.network.links == []

    run(main, seed=seed)


def test_httpx_reaches_the_bridge():
    """httpx, through anyio, works on the same network."""

    async def main(loop):
        async with BridgeServer(wall=loop.true_time) as server, httpx.AsyncClient() as client:
            return [(await client.get(server.health_url)).status_code for _ in range(3)]

    assert run(main) == [200, 200, 200]


def test_any_name_is_this_machine():
    """A name nobody scripted resolves to 127.0.0.1, and the lookup is counted; an address needs none."""

    async def main(loop):
        async with listening(loop) as port:
            assert await greeting("bridge.example", port) == (b"hello\n", "127.0.0.1")
            assert await greeting("127.0.0.1", port) == (b"hello\n", "127.0.0.1")
        return [name for _, name in loop.network.lookups]

    assert run(main) == ["bridge.example"]


def test_a_name_that_does_not_exist():
    """NXDOMAIN is the resolver's own error."""

    async def main(loop):
        loop.network.names["gone.example"] = NXDOMAIN
        with pytest.raises(socket.gaierror) as caught:
            await asyncio.open_connection("gone.example", 80)
        return caught.value.errno

    assert run(main) == socket.EAI_NONAME


def test_a_lookup_that_hangs():
    """A resolver that never answers is ended by the caller's timeout and by nothing else."""

    async def main(loop):
        loop.network.names["slow.example"] = HANG
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.open_connection("slow.example", 80)
        assert loop.time() == 7
        await asyncio.open_connection("slow.example", 80)

    with pytest.raises(SimDeadlock):
        run(main)


def test_addresses_are_tried_in_turn():
    """Nobody listens on the IPv6 address: the IPv4 one is taken."""

    async def main(loop):
        loop.network.names["dual.example"] = ("::1", "127.0.0.1")
        async with listening(loop) as port:
            return await greeting("dual.example", port)

    assert run(main) == (b"hello\n", "127.0.0.1")


def test_a_black_hole_on_ipv6():
    """A dead IPv6 road costs 127 s one after the other, and a quarter of a second in a staggered race."""

    async def main(loop):
        loop.network.names["dual.example"] = ("::1", "127.0.0.1")
        loop.network.roads["::1"] = "blackhole"
        async with listening(loop) as port:
            assert await greeting("dual.example", port, happy_eyeballs_delay=0.25) == (
                b"hello\n",
                "127.0.0.1",
            )
            assert 0.25 < loop.time() < 0.5
            began = loop.time()
            assert await greeting("dual.example", port) == (b"hello\n", "127.0.0.1")
            return loop.time() - began

    assert 127 < run(main) < 128


def test_ipv6_works():
    """A link between IPv6 addresses has names with four parts."""

    async def main(loop):
        async with listening(loop, "::1") as port:
            return await greeting("::1", port)

    assert run(main) == (b"hello\n", "::1")


def test_when_every_address_fails():
    """Different errors come as one that lists them, as from asyncio; equal ones as themselves."""

    async def main(loop):
        loop.network.names["dual.example"] = ("::1", "127.0.0.1")
        loop.network.roads["::1"] = "unreachable"
        for delay in (None, 0.25):
            with pytest.raises(
                OSError, match=r"Multiple exceptions: .*No route to host.*Connect call failed"
            ):
                await loop.create_connection(
                    asyncio.Protocol, "dual.example", 80, happy_eyeballs_delay=delay
                )
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(asyncio.Protocol, "localhost", 80)

    run(main)


def test_executors_answer_later_and_in_this_thread():
    """Work for a thread runs here, never in the turn that asked; its error is its caller's."""

    async def main(loop):
        order = []
        future = loop.run_in_executor(None, order.append, "work")
        order.append("asked")
        await future
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)
        abandoned = asyncio.ensure_future(asyncio.to_thread(order.append, "never"))
        await asyncio.sleep(0)
        abandoned.cancel()
        await asyncio.sleep(1)
        return order

    assert run(main) == ["asked", "work"]


@pytest.mark.parametrize("option", ["ssl", "sock"])
def test_what_is_not_simulated_is_refused(option):
    """TLS and foreign sockets raise instead of leaving the simulation."""

    async def main(loop):
        for open_it in (loop.create_connection, loop.create_server):
            with pytest.raises(NotImplementedError, match=option):
                await open_it(asyncio.Protocol, "127.0.0.1", 80, **{option: object()})

    run(main)
