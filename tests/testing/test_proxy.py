"""The fault proxy: each fault as the peers see it, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
from pathlib import Path

import pytest

from resilient_bridge.testing import Fault, FaultProxy


pytestmark = pytest.mark.real

END = {None: "FIN", ConnectionResetError: "RST"}


class Peer:
    """The far server: keeps what it gets, and how each connection ended."""

    def __init__(self) -> None:
        self.received = b""
        self.writers: list[asyncio.StreamWriter] = []
        self.ends: list[str] = []
        self.port = 0

    async def __call__(self, reader, writer):
        self.writers.append(writer)
        try:
            while data := await reader.read(65_536):
                self.received += data
            self.ends.append("FIN")
        except ConnectionResetError:
            self.ends.append("RST")


@pytest.fixture
async def peer():
    """A server that never speaks by itself."""
    peer = Peer()
    server = await asyncio.start_server(peer, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    yield peer
    server.close()
    for writer in peer.writers:
        writer.transport.abort()
    await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def through(proxy):
    """Connect through the proxy, and drop the connection at the end."""
    reader, writer = await asyncio.open_connection(proxy.host, proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def until(condition):
    """Wait for a condition, five seconds at most."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


async def everything(reader):
    """Read to the end and say how it ended."""
    data = b""
    try:
        async with asyncio.timeout(5):
            while piece := await reader.read(65_536):
                data += piece
    except ConnectionResetError:
        return data, "RST"
    return data, "FIN"


def sockets():
    """How many sockets this process holds."""
    links = (str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return sum(link.startswith("socket:") for link in links)


async def test_it_passes_bytes_in_both_directions_and_counts_them(peer):
    """Without a fault it is a wire: every byte, both ways, FIN included, and the counters say so."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, writer):
        payload = bytes(range(256)) * 4_000
        writer.write(payload)
        await until(lambda: peer.received == payload)
        peer.writers[0].write(b"answer")
        assert await reader.readexactly(6) == b"answer"
        writer.write_eof()
        await until(lambda: peer.ends == ["FIN"])
        peer.writers[0].write(b"last")
        peer.writers[0].close()
        assert await everything(reader) == (b"last", "FIN")
        assert (proxy.connections, proxy.bytes_up, proxy.bytes_down) == (1, len(payload), 10)
        assert proxy.url("/ws", "wss") == f"wss://127.0.0.1:{proxy.port}/ws"


@pytest.mark.parametrize(("fault", "end"), [(Fault.abort, "RST"), (Fault.fin, "FIN")])
async def test_it_ends_a_connection_now(peer, fault, end):
    """Abort is RST and fin is FIN, to both sides, while nothing else happens."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, writer):
        writer.write(b"x")
        await until(lambda: peer.received == b"x")
        proxy.apply(fault())
        assert await everything(reader) == (b"", end)
        await until(lambda: peer.ends == [end])


async def test_after_a_fin_late_bytes_are_thrown_away(peer):
    """FIN is no reset in disguise: a peer that goes on writing is listened to, and nothing comes back."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, writer):
        await until(lambda: peer.writers)
        proxy.apply(Fault.fin())
        assert await everything(reader) == (b"", "FIN")
        for _ in range(3):
            writer.write(b"late")
            await asyncio.sleep(0.01)
        assert not writer.transport.is_closing()
        assert peer.received == b""


@pytest.mark.parametrize(("fault", "end"), [(Fault.abort, "RST"), (Fault.fin, "FIN")])
@pytest.mark.parametrize("after", [0, 1, 7, 999])
async def test_it_cuts_after_exactly_n_bytes(peer, fault, end, after):
    """A scripted cut lets exactly n bytes down, then ends; n = 0 is accept-then-close, unseen by the target."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy:
        proxy.script(fault(after=after))
        async with through(proxy) as (reader, _):
            if after:
                await until(lambda: peer.writers)
                peer.writers[0].write(bytes(1000))
            assert await everything(reader) == (bytes(after), end)
        assert len(peer.writers) == (after > 0)
        assert proxy.bytes_down == after


async def test_a_cut_may_count_the_bytes_going_up(peer):
    """A cut in the upward direction lets exactly n bytes reach the target."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy:
        proxy.script(Fault.fin(after=5, direction="up"))
        async with through(proxy) as (reader, writer):
            writer.write(b"0123456789")
            assert await everything(reader) == (b"", "FIN")
        await until(lambda: peer.ends == ["FIN"])
        assert peer.received == b"01234"


async def test_a_black_hole_holds_everything_and_skips_nothing(peer):
    """In the hole nothing passes, not even FIN; healed, all of it arrives in order."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, writer):
        await until(lambda: peer.writers)
        proxy.apply(Fault.black_hole())
        writer.write(b"up")
        peer.writers[0].write(b"down")
        peer.writers[0].write_eof()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        assert (peer.received, proxy.bytes_up, proxy.bytes_down) == (b"", 0, 0)
        proxy.heal()
        assert await everything(reader) == (b"down", "FIN")
        await until(lambda: peer.received == b"up")


async def test_a_black_hole_swallows_a_reset(peer):
    """A peer that dies in the hole dies unseen: half-open, as after a pulled plug."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, _):
        await until(lambda: peer.writers)
        proxy.apply(Fault.black_hole("down"))
        peer.writers[0].transport.abort()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_a_black_hole_may_have_one_direction(peer, direction):
    """With one direction dead the other goes on."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, writer):
        await until(lambda: peer.writers)
        proxy.apply(Fault.black_hole(direction))
        writer.write(b"u")
        peer.writers[0].write(b"d")
        await until(lambda: proxy.bytes_up + proxy.bytes_down == 1)
        assert (proxy.bytes_up, proxy.bytes_down) == ((0, 1) if direction == "up" else (1, 0))
        proxy.heal()
        assert await reader.read(1) == b"d"
        await until(lambda: peer.received == b"u")


async def test_a_black_hole_may_end_by_itself_and_begin_in_mid_stream(peer):
    """It begins after n bytes and ends after its seconds; the stream is whole."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy:
        proxy.script(Fault.black_hole("down", after=3, seconds=0.15))
        async with through(proxy) as (reader, _):
            await until(lambda: peer.writers)
            peer.writers[0].write(b"abcdef")
            assert await reader.read(100) == b"abc"
            began = asyncio.get_running_loop().time()
            assert await reader.read(100) == b"def"
            assert asyncio.get_running_loop().time() - began > 0.1


async def test_a_delay_keeps_order_and_throughput(peer):
    """Every byte comes later by the delay, but much is under way at once; lifted, what waits arrives at once."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, _):
        loop = asyncio.get_running_loop()
        await until(lambda: peer.writers)
        proxy.apply(Fault.delay(0.1, "down"))
        began = loop.time()
        for number in range(10):
            peer.writers[0].write(bytes([number]))
            await asyncio.sleep(0.005)
        assert await reader.readexactly(10) == bytes(range(10))
        assert loop.time() - began > 0.1
        peer.writers[0].write(bytes(2**21))
        async with asyncio.timeout(2):  # 64 KiB at a time would take longer than 3 s
            await reader.readexactly(2**21)
        proxy.apply(Fault.delay(60, "down"))
        peer.writers[0].write(b"x")
        await asyncio.sleep(0.02)
        proxy.heal()
        async with asyncio.timeout(5):
            assert await reader.readexactly(1) == b"x"


async def test_a_throttle_bounds_the_rate(peer):
    """At 2,000 bytes a second 400 bytes take a fifth of a second."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, _):
        await until(lambda: peer.writers)
        proxy.apply(Fault.throttle(2_000, "down"))
        began = asyncio.get_running_loop().time()
        peer.writers[0].write(bytes(400))
        assert await reader.readexactly(400) == bytes(400)
        assert asyncio.get_running_loop().time() - began > 0.14


async def test_garbage_appears_where_it_was_asked_for(peer):
    """Bytes nobody sent come at once on an idle line, or exactly after n bytes, upwards as well."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy:
        proxy.script([Fault.garbage(b"!", after=2), Fault.garbage(b"?", direction="up")])
        async with through(proxy) as (reader, _):
            await until(lambda: peer.received == b"?")
            peer.writers[0].write(b"abc")
            assert await reader.readexactly(4) == b"ab!c"
            proxy.apply(Fault.garbage(b"now"))
            assert await reader.readexactly(3) == b"now"


async def test_new_connections_are_refused_while_open_ones_go_on(peer):
    """Refused is ECONNREFUSED at the same port, until healed or the seconds are over."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (reader, _):
        await until(lambda: peer.writers)
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(proxy.host, proxy.port)
        peer.writers[0].write(b"on")
        assert await reader.readexactly(2) == b"on"
        proxy.heal()
        async with through(proxy):
            await until(lambda: len(peer.writers) == 2)
        proxy.refuse(seconds=0.05)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(proxy.host, proxy.port)
        await asyncio.sleep(0.1)
        async with through(proxy):
            await until(lambda: len(peer.writers) == 3)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is only likely to stay free")
async def test_the_port_stays_reserved_while_it_refuses(peer):
    """Neither a server nor, as it is the same check of the kernel, the other end of a connection."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy:
        proxy.refuse()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((proxy.host, proxy.port))
        proxy.heal()
        async with through(proxy):
            await until(lambda: peer.writers)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((proxy.host, proxy.port))
        other.listen()


async def test_the_script_serves_connections_in_turn_and_every_serves_the_rest(peer):
    """Entries are used up one connection each; then `every` holds until healed."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy:
        proxy.script(Fault.abort(), None)
        proxy.every(Fault.fin())
        ends = []
        for number in range(1, 5):
            async with through(proxy) as (reader, _):
                await until(lambda number=number: proxy.connections == number)
                proxy.apply(Fault.garbage(b"sound"))
                ends.append(
                    (await reader.read(5) or b"FIN") if ends else (await everything(reader))[1]
                )
        assert ends == ["RST", b"sound", b"FIN", b"FIN"]
        proxy.heal()
        async with through(proxy):
            await until(lambda: len(peer.writers) == 2)


async def test_a_new_target_is_for_coming_connections(peer):
    """After `retarget` the open connection stays with the old server; a dead target is a reset."""
    other = Peer()
    server = await asyncio.start_server(other, "127.0.0.1", 0)
    async with server, FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (_, writer):
        await until(lambda: peer.writers)
        proxy.retarget("127.0.0.1", server.sockets[0].getsockname()[1])
        async with through(proxy):
            await until(lambda: other.writers)
            writer.write(b"x")
            await until(lambda: peer.received == b"x")
        other.writers[0].close()
        proxy.retarget("127.0.0.1", 1)
        async with through(proxy) as (reader, _):
            assert await everything(reader) == (b"", "RST")


async def test_a_held_direction_stops_reading(peer):
    """A black hole does not buffer without bound: its sender feels a full window after a few megabytes."""
    async with FaultProxy("127.0.0.1", peer.port) as proxy, through(proxy) as (_, writer):
        await until(lambda: peer.writers)
        proxy.apply(Fault.black_hole("up"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                for _ in range(1000):
                    writer.write(bytes(2**16))
                    await writer.drain()
        assert (
            sum(len(p.queue._queue) for link in proxy._links.values() for p in link._pipes.values())
            <= 16
        )


async def test_closing_leaves_no_task_and_no_socket(peer):
    """Whatever state its connections are in, and even before they began, the proxy takes all of it down."""
    tasks, before = asyncio.all_tasks(), sockets()
    clients = []
    async with FaultProxy("127.0.0.1", peer.port) as proxy:
        plans = [
            None,
            Fault.black_hole(),
            Fault.fin(),
            Fault.delay(60),
            Fault.throttle(1),
            Fault.garbage(after=9),
        ]
        proxy.script(*plans)
        for number in range(1, len(plans) + 1):
            clients.append(await asyncio.open_connection(proxy.host, proxy.port))
            clients[-1][1].write(b"hello")
            await until(lambda number=number: proxy.connections == number)
        await asyncio.sleep(0.02)
        proxy.apply(Fault.black_hole(seconds=60))
        clients.append(
            await asyncio.open_connection(proxy.host, proxy.port)
        )  # accepted by the kernel only
        proxy.refuse(seconds=60)
    for _, writer in clients:
        writer.transport.abort()
    for writer in peer.writers:
        writer.transport.abort()
    await until(lambda: sockets() == before)
    await until(lambda: asyncio.all_tasks() == tasks)
    gc.collect()


@pytest.mark.parametrize("bad", [{"after": -1}, {"seconds": -1.0}, {"rate": 0}])
def test_a_fault_is_checked_when_it_is_made(bad):
    """Negative bytes, seconds or rates are refused with the field's name."""
    with pytest.raises(ValueError, match=next(iter(bad))):
        Fault("delay", "both", **bad)
