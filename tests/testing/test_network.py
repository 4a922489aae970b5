"""The simulated network: what a connect meets, and faults that hit every link at once."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosedError, InvalidMessage

from tests.internals.testing import SimulatedLoop


def run(main, **options):
    """Run a coroutine function with the loop and the URL of an echo server on it."""
    loop = SimulatedLoop(**options)

    async def with_server():
        async def echo(ws):
            async for message in ws:
                await ws.send(message)

        async with serve(echo, "127.0.0.1", 0, ping_interval=None, close_timeout=1) as server:
            return await main(loop, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(with_server())
    assert loop.errors == []
    return result


async def echoes(url, **options):
    """Whether a new connection works."""
    async with connect(url, ping_interval=None, **options) as ws:
        await ws.send("hello")
        return await ws.recv() == "hello"


def test_refused():
    """A closed door, and a port where nobody listens, give ECONNREFUSED; afterwards connects work."""

    async def main(loop, url):
        loop.network.shut("refuse", 10)
        with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
            await connect(url)
        with pytest.raises(ConnectionRefusedError):
            await connect("ws://127.0.0.1:9")
        await asyncio.sleep(10)
        return await echoes(url)

    assert run(main) is True


def test_an_unanswered_connect_succeeds_when_the_network_is_back():
    """SYNs are repeated after 1, 3, 7, 15 s: a black hole of 10 s lets the connect through at 15 s."""

    async def main(loop, url):
        loop.network.shut("blackhole", 10)
        assert await echoes(url, open_timeout=None)
        return loop.time()

    assert 15 < run(main) < 15.2


def test_an_unanswered_connect_times_out():
    """Without an answer, connect fails after 127 s, or when the caller loses patience."""

    async def main(loop, url):
        loop.network.shut("blackhole", 1_000)
        with pytest.raises(TimeoutError, match="opening handshake"):
            await connect(url, open_timeout=10)
        assert 9.9 < loop.time() < 10.1
        began = loop.time()
        with pytest.raises(TimeoutError, match="Connection timed out"):
            await loop.create_connection(asyncio.Protocol, "127.0.0.1", 80)
        return loop.time() - began

    assert 127 < run(main) < 127.1


def test_accepted_and_closed_at_once():
    """A door that accepts and closes never shows the program behind it."""

    async def main(loop, url):
        loop.network.shut("accept_close", 10)
        with pytest.raises(InvalidMessage):
            await connect(url)
        loop.network.heal()
        return await echoes(url), loop.network.connections

    assert run(main) == (True, 2)


def test_unreachable():
    """A road that does not exist is EHOSTUNREACH."""

    async def main(loop, url):
        loop.network.roads["127.0.0.1"] = "unreachable"
        with pytest.raises(OSError, match="No route to host"):
            await connect(url)

    run(main)


def test_a_port_is_bound_once():
    """A second listener on a port is EADDRINUSE, until the first is closed."""

    async def main(loop, url):
        first = await loop.create_server(asyncio.Protocol, "127.0.0.1", 8080)
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(asyncio.Protocol, "127.0.0.1", 8080)
        first.close()
        second = await loop.create_server(asyncio.Protocol, "127.0.0.1", 8080, start_serving=False)
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(asyncio.Protocol, "127.0.0.1", 8080)
        await second.start_serving()
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", 8080)
        transport.close()
        second.close()

    run(main)


def test_a_listener_on_every_address():
    """Bound to no host, a listener takes connections to any."""

    async def main(loop, url):
        server = await loop.create_server(asyncio.Protocol, None, 8080)
        for host in ("127.0.0.1", "10.0.0.1"):
            transport, _ = await loop.create_connection(asyncio.Protocol, host, 8080)
            transport.close()
        server.close()

    run(main)


@pytest.mark.parametrize(
    ("how", "error"), [("abort", ConnectionRefusedError), ("fin", ConnectionRefusedError)]
)
def test_a_cut_breaks_every_link_and_keeps_new_ones_out(how, error):
    """After `cut` with seconds every link is dead, new connects are refused so long, and then work."""

    async def main(loop, url):
        async with connect(url) as one, connect(url) as two:
            loop.cut_links(how, 20)
            for ws in (one, two):
                with pytest.raises(ConnectionClosedError):
                    await ws.recv()
            with pytest.raises(error):
                await connect(url)
            await asyncio.sleep(20)
            return await echoes(url)

    assert run(main) is True


def test_a_cut_into_a_black_hole_ends():
    """A black hole swallows links and connects alike, and then lets through what it held back."""

    async def main(loop, url):
        async with connect(url, ping_interval=None) as ws:
            loop.cut_links("blackhole", 20)
            await ws.send("held")
            with pytest.raises(TimeoutError):
                await connect(url, open_timeout=10)
            assert await ws.recv() == "held"
            assert 20 < loop.time() < 20.1
            return await echoes(url)

    assert run(main) is True


def test_a_cut_into_a_black_hole_without_end():
    """With no seconds the links that are open stay dead, and new ones work at once."""

    async def main(loop, url):
        async with connect(url, ping_interval=None, close_timeout=1) as ws:
            loop.cut_links("blackhole", 0)
            await ws.send("lost")
            assert await echoes(url)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ws.recv(), 500)

    run(main)


def test_heal_ends_everything_at_once():
    """After `heal` a link that was frozen, throttled and delayed is as it was."""

    async def main(loop, url):
        async with connect(url, ping_interval=None) as ws:
            loop.network.cut("blackhole", 600)
            loop.network.slow(600, lag=5, rate=10)
            loop.network.links[0].down.when("chunk", 1_000, loop.network.links[0].abort)
            await ws.send("x" * 2_000)  # held back for 200 s by the throttle alone
            await asyncio.sleep(30)
            loop.network.heal()
            began = loop.time()
            assert await ws.recv() == "x" * 2_000
            assert await echoes(url)
            return loop.time() - began

    assert run(main) < 0.2


def test_a_connect_that_is_cancelled_leaves_nothing():
    """Cancelled while the answer is under way, a connect leaves no open link behind, at either end."""

    async def main(loop, url):
        remaining = []
        for number in range(40):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.0005 * number + 0.0001):
                    await connect(url)
                    loop.note("connected")
                    await asyncio.sleep(10)
            await asyncio.sleep(5)
            remaining += [link for link in loop.network.links if not link.up.sender.is_gone]
        return remaining, loop.network.connections > 20

    remaining, is_tried = run(main)
    assert is_tried
    assert all(
        link.up.bytes > 100 for link in remaining
    )  # only those whose program got its connection and dropped it
