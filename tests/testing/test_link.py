"""Faults on one connection, each as real websockets, or a plain asyncio protocol, sees it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosedError, InvalidHandshake

from tests.internals.testing import RETRANSMIT, SimulatedLoop


def run(main, **options):
    """Run a coroutine function on a fresh simulated loop, which it gets as its argument."""
    loop = SimulatedLoop(**options)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main(loop))
    assert loop.errors == []
    return result


class Pair:
    """A websockets client and what the server has got from it, over one link."""

    def __init__(self, client, server, received, ended):
        self.client = client
        self.server = server
        self.received = received
        self.ended = ended

    @property
    def link(self):
        return asyncio.get_running_loop().network.links[0]


@contextlib.asynccontextmanager
async def websockets_pair(**options):
    """Connect a client; the server collects what it gets and with which error it ended."""
    arrived = asyncio.get_running_loop().create_future()
    received, ended = [], []

    async def collect(ws):
        arrived.set_result(ws)
        try:
            while True:
                received.append(await ws.recv())
        except ConnectionClosedError as error:
            ended.append(error)

    async with serve(collect, "127.0.0.1", 0, close_timeout=1, ping_interval=None) as server:
        port = server.sockets[0].getsockname()[1]
        options = {"ping_interval": None, "close_timeout": 1, **options}
        async with connect(f"ws://127.0.0.1:{port}", **options) as client:
            yield Pair(client, await arrived, received, ended)


def test_abort_resets_both_ends_and_loses_what_is_in_flight():
    """A RST in the middle: both see ConnectionResetError, and the message on its way never arrives."""

    async def main(loop):
        async with websockets_pair() as pair:
            await pair.client.send("lost")
            await pair.server.send("lost too")
            pair.link.abort()
            with pytest.raises(ConnectionClosedError) as caught:
                await pair.client.recv()
            await asyncio.sleep(1)
            assert isinstance(caught.value.__cause__, ConnectionResetError)
            assert isinstance(pair.ended[0].__cause__, ConnectionResetError)
            return pair.received, loop.network.links

    assert run(main) == ([], [])


def test_fin_ends_both_streams_after_what_is_in_flight():
    """An orderly cut by a proxy: what was sent before arrives, then the end of the stream, without a close frame."""

    async def main(loop):
        async with websockets_pair() as pair:
            await pair.client.send("kept")
            await pair.server.send("kept too")
            pair.link.fin()
            first_frame = await pair.client.recv()
            with pytest.raises(ConnectionClosedError) as caught:
                await pair.client.recv()
            await asyncio.sleep(1)
            cause = (
                caught.value.__cause__ or EOFError()
            )  # websockets 15 names none for an orderly end
            return first_frame, pair.received, caught.value.rcvd, type(cause), len(pair.ended)

    assert run(main) == ("kept too", ["kept"], None, EOFError, 1)


@pytest.mark.parametrize(("way", "silent"), [("up", "up"), ("down", "down"), ("both", "up down")])
def test_a_black_hole_holds_one_direction_or_both(way, silent):
    """Nothing gets through a frozen direction; when it ends, everything arrives in order."""

    async def main(loop):
        async with websockets_pair() as pair:
            pair.link.blackhole(30, way)
            for number in range(3):
                await pair.client.send(str(number))
                await pair.server.send(str(number))
            times = []
            for number in range(3):
                assert await pair.client.recv() == str(number)
                times.append(loop.time())
            await asyncio.sleep(max(0, 35 - loop.time()))
            assert pair.received == ["0", "1", "2"]
            return times[0] >= 30

    assert run(main) is ("down" in silent)


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_keepalive_notices_one_dead_direction(way):
    """A ping that cannot go, or a pong that cannot come, ends in the client's keepalive timeout (1011)."""

    async def main(loop):
        async with websockets_pair(ping_interval=5, ping_timeout=5) as pair:
            pair.link.blackhole(600, way)
            with pytest.raises(ConnectionClosedError) as caught:
                await pair.client.recv()
            loop.network.heal()
            return caught.value.sent.code, caught.value.rcvd, loop.time() < 12

    assert run(main) == (1011, None, True)


def test_half_open_is_silent():
    """A peer that vanished sends no reset: a reader without a heartbeat hears nothing for an hour."""

    async def main(loop):
        async with websockets_pair() as pair:
            pair.link.vanish()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(3600):
                    await pair.client.recv()
            assert pair.ended == []
            await pair.server.send("still there?")
            loop.network.heal()  # does not bring it back
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(10):
                    await pair.client.recv()

    run(main)


def test_half_open_times_out_for_who_wrote():
    """Bytes that nobody acknowledges end the connection after 15 minutes, at the writer only."""

    async def main(loop):
        async with websockets_pair() as pair:
            pair.link.vanish()
            began = loop.time()
            await pair.client.send("anybody?")
            with pytest.raises(ConnectionClosedError) as caught:
                await pair.client.recv()
            return (
                loop.time() - began,
                type(caught.value.__cause__),
                pair.received[:],
                pair.ended[:],
            )

    seconds, cause, received, ended = run(main)
    assert seconds == pytest.approx(RETRANSMIT)
    assert (cause, received, ended) == (TimeoutError, [], [])


def test_garbage_is_a_protocol_error():
    """Foreign bytes between two frames make the client close with 1002."""

    async def main(loop):
        async with websockets_pair() as pair:
            await pair.server.send("good")
            pair.link.inject(b"\xff\xfe\x00")
            assert await pair.client.recv() == "good"
            with pytest.raises(ConnectionClosedError) as caught:
                await pair.client.recv()
            return caught.value.sent.code

    assert run(main) == 1002


@pytest.mark.parametrize("how", ["abort", "fin"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_cut_between_any_two_bytes_of_the_handshake(how, way):
    """Wherever the handshake is cut, connect raises and does not hang, and exactly so many bytes arrived."""

    async def main(loop):
        async def handler(ws):
            await ws.wait_closed()

        arrived = []
        async with serve(handler, "127.0.0.1", 0, ping_interval=None) as server:
            port = server.sockets[0].getsockname()[1]
            links = []
            loop.network.on_link.append(links.append)
            for count in range(1, 90, 2):
                cut = lambda link, count=count: link.cut_after(count, how, way)  # noqa: E731
                loop.network.on_link.append(cut)
                with pytest.raises((InvalidHandshake, OSError, EOFError)):
                    await connect(f"ws://127.0.0.1:{port}", open_timeout=5)
                loop.network.on_link.remove(cut)
                arrived.append(getattr(links[-1], way).bytes)
            assert loop.time() < 5
        return arrived

    assert run(main) == list(range(1, 90, 2))


def test_a_cut_within_a_frame_delivers_no_half_message():
    """Wherever two frames are cut, whole messages reach the program and nothing of the one that was cut."""

    async def main(loop):
        results = []
        for count in range(1, 14):
            async with websockets_pair(compression=None) as pair:
                pair.link.cut_after(pair.link.down.bytes + count)
                await pair.server.send("whole")  # 7 bytes on the wire
                await pair.server.send("more")  # 6
                got = []
                with contextlib.suppress(ConnectionClosedError):
                    while True:
                        got.append(await pair.client.recv())
                results.append(got)
        return results

    assert run(main) == [[]] * 6 + [["whole"]] * 6 + [["whole", "more"]]


def test_a_mark_fires_right_after_its_chunk():
    """A fault keyed to progress strikes after the k-th chunk was delivered, and before the next."""

    async def main(loop):
        async with websockets_pair(compression=None) as pair:
            link = pair.link
            link.down.when("chunk", link.down.chunks + 3, link.abort)
            for number in range(10):
                await pair.server.send(str(number))
            got = []
            with contextlib.suppress(ConnectionClosedError):
                while True:
                    got.append(await pair.client.recv())
            return got

    got = run(main)
    assert got == ["0", "1", "2"][: len(got)]
    assert len(got) in {2, 3}  # a frame may have come in two chunks


def test_chunks_split_and_merge():
    """Borders between writes mean nothing: some arrive in pieces, some together, and the bytes are the same."""

    async def main(loop):
        sizes = []

        class Reader(asyncio.Protocol):
            def data_received(self, data):
                sizes.append(len(data))

        server = await loop.create_server(Reader, "127.0.0.1", 0)
        transport, _ = await loop.create_connection(
            asyncio.Protocol, *server.sockets[0].getsockname()
        )
        for _ in range(300):
            transport.write(b"x" * 10)
            await asyncio.sleep(0.0005)
        await asyncio.sleep(1)
        transport.close()
        server.close()
        return sizes

    sizes = run(main)
    assert sum(sizes) == 3000
    assert min(sizes) < 10 < max(sizes)


def test_links_draw_from_streams_of_their_own():
    """Traffic on one link does not change when the packets of another arrive."""

    def arrivals(noise):
        async def main(loop):
            seen = []

            class Reader(asyncio.Protocol):
                def data_received(self, data):
                    if b"q" in data:
                        seen.append(loop.time())

            server = await loop.create_server(Reader, "127.0.0.1", 0)
            server_address = server.sockets[0].getsockname()
            quiet, _ = await loop.create_connection(asyncio.Protocol, *server_address)
            loud, _ = await loop.create_connection(asyncio.Protocol, *server_address)
            for second in range(1, 20):
                loud.write(b"l" * noise)
                await asyncio.sleep(second - loop.time())
                quiet.write(b"q")
            await asyncio.sleep(1)
            quiet.close()
            loud.close()
            server.close()
            return seen

        return run(main)

    assert arrivals(1) == arrivals(5_000)
