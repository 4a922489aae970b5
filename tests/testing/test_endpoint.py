"""Simulated sockets: flow control, closing and errors, as asyncio's own transports have them."""

from __future__ import annotations

import asyncio
import contextvars
import socket
import struct

import pytest

from tests.internals.testing import SimulatedLoop


def run(main, errors=0, **options):
    """Run a coroutine function on a fresh simulated loop, which it gets as its argument."""
    loop = SimulatedLoop(**options)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main(loop))
    assert len(loop.errors) == errors
    return result


class Recorder(asyncio.Protocol):
    """Keeps what happens to it."""

    def __init__(self):
        self.transport = None
        self.events = []
        self.data = bytearray()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.data += data

    def eof_received(self):
        self.events.append("eof")

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")

    def connection_lost(self, exc):
        self.events.append("closed" if exc is None else type(exc).__name__)


class HalfOpen(Recorder):
    """Goes on writing after the other side has ended."""

    def eof_received(self):
        super().eof_received()
        return True


async def pair(loop, protocol=Recorder):
    """The two protocols of one link, and the server."""
    accepted = []

    def accept():
        accepted.append(protocol())
        return accepted[-1]

    server = await loop.create_server(accept, "127.0.0.1", 0)
    _, client = await loop.create_connection(protocol, *server.sockets[0].getsockname())
    return client, accepted[0], server


def test_a_reader_that_pauses_holds_the_writer_back():
    """Writing pauses once window and buffer are full, and resumes when the reader goes on; nothing is lost."""

    async def main(loop):
        client, server, _ = await pair(loop)
        server.transport.pause_reading()
        client.transport.write(b"x" * 300_000)
        await asyncio.sleep(10)
        assert client.events == ["pause"]
        assert not server.data
        assert client.transport.get_write_buffer_size() > 200_000
        server.transport.resume_reading()
        await asyncio.sleep(10)
        return client.events, len(server.data)

    assert run(main) == (["pause", "resume"], 300_000)


def test_a_throttle_bounds_the_rate():
    """At 10 kB/s, 50 kB take five seconds; when the throttle ends, the rest comes at once."""

    async def main(loop):
        client, server, _ = await pair(loop)
        loop.network.slow(60, rate=10_000)
        for _ in range(10):
            client.transport.write(b"x" * 5_000)
        await asyncio.sleep(2.45)
        assert len(server.data) <= 25_000
        await asyncio.sleep(2.45)
        assert 20_000 <= len(server.data) < 50_000
        await asyncio.sleep(0.2)
        assert len(server.data) == 50_000
        client.transport.write(b"x" * 50_000)
        loop.network.slow(1, rate=10_000)
        await asyncio.sleep(1.1)
        return len(server.data)

    assert run(main) == 100_000


def test_a_delay_adds_to_every_latency():
    """With two seconds of lag a byte takes two seconds, until the delay ends."""

    async def main(loop):
        client, server, _ = await pair(loop)
        loop.network.slow(10, lag=2)
        client.transport.write(b"1")
        await asyncio.sleep(1.9)
        assert not server.data
        await asyncio.sleep(9)
        client.transport.write(b"2")
        await asyncio.sleep(0.1)
        return bytes(server.data)

    assert run(main) == b"12"


def test_close_sends_what_is_buffered():
    """close() ends the connection only after the buffer is sent; the reader gets all, then the end."""

    async def main(loop):
        client, server, _ = await pair(loop)
        client.transport.write(b"x" * 300_000)
        client.transport.close()
        client.transport.write(b"y")  # still buffered behind the rest, as asyncio does
        assert client.transport.is_closing()
        await asyncio.sleep(1)
        client.transport.write(b"dropped")
        await asyncio.sleep(1)
        return len(server.data), server.events, client.events[-1]

    assert run(main) == (300_001, ["eof", "closed"], "closed")


def test_abort_drops_what_is_buffered():
    """abort() loses the write buffer; what the network had taken arrives."""

    async def main(loop):
        client, server, _ = await pair(loop)
        client.transport.write(b"x" * 300_000)
        client.transport.abort()
        await asyncio.sleep(1)
        return len(server.data), server.events

    assert run(main) == (65_536, ["eof", "closed"])


def test_bytes_to_a_closed_peer_come_back_as_a_reset():
    """Who writes to a connection that its peer has closed is reset."""

    async def main(loop):
        client, server, _ = await pair(loop, HalfOpen)
        server.transport.abort()
        await asyncio.sleep(1)
        assert client.events == ["eof"]
        client.transport.write(b"too late")
        await asyncio.sleep(1)
        return client.events

    assert run(main) == ["eof", "ConnectionResetError"]


def test_closing_over_unread_bytes_is_a_reset():
    """A peer that closes without reading what has arrived resets the connection, as every kernel does."""

    async def main(loop):
        client, server, _ = await pair(loop)
        server.transport.pause_reading()
        client.transport.write(b"unread")
        await asyncio.sleep(1)
        server.transport.close()
        await asyncio.sleep(1)
        return client.events

    assert run(main) == ["ConnectionResetError"]


def test_lingering_for_no_time_is_a_reset():
    """SO_LINGER with zero seconds, the usual way to send a reset, does so here."""

    async def main(loop):
        client, server, _ = await pair(loop)
        sock = server.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.transport.abort()
        await asyncio.sleep(1)
        return client.events

    assert run(main) == ["ConnectionResetError"]


def test_a_reset_reaches_a_reader_that_pauses_when_it_writes():
    """Who has paused reading learns of a reset from its own write, and who closes is not kept waiting."""

    async def main(loop):
        client, server, _ = await pair(loop)
        client.transport.pause_reading()
        loop.network.links[0].abort()
        await asyncio.sleep(5)
        assert client.events == []
        client.transport.write(b"x")
        await asyncio.sleep(1)

        other, _, _ = await pair(loop)
        other.transport.pause_reading()
        loop.network.links[0].blackhole(100, "up")
        other.transport.write(b"x" * 300_000)
        other.transport.close()
        loop.network.links[0].abort()
        await asyncio.sleep(1)
        return client.events, other.events[-1], server.events

    assert run(main) == (["ConnectionResetError"], "ConnectionResetError", ["ConnectionResetError"])


def test_each_direction_ends_on_its_own():
    """After write_eof the other side still sends; writing again is an error."""

    async def main(loop):
        client, server, _ = await pair(loop, HalfOpen)
        assert client.transport.can_write_eof()
        client.transport.write(b"question")
        client.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            client.transport.write(b"more")
        await asyncio.sleep(1)
        server.transport.write(b"answer")
        server.transport.close()
        await asyncio.sleep(1)
        client.transport.close()
        await asyncio.sleep(1)
        return bytes(server.data), bytes(client.data), server.events, client.events

    assert run(main) == (b"question", b"answer", ["eof", "closed"], ["eof", "closed"])


@pytest.mark.parametrize(("method", "errors"), [("data_received", 1), ("eof_received", 2)])
def test_a_protocol_that_raises_loses_its_connection(method, errors):
    """An exception in a callback is reported to the loop and ends the connection, as in asyncio."""

    class Broken(Recorder):
        pass

    def fail(*_):
        raise ValueError("broken")

    setattr(Broken, method, fail)

    async def main(loop):
        client, server, _ = await pair(loop, Broken)
        client.transport.write(b"x")
        client.transport.write_eof()
        await asyncio.sleep(1)
        return server.events

    assert run(main, errors=errors) == ["ValueError"]


def test_callbacks_run_in_the_context_of_who_opened_the_socket():
    """Context variables of the client never leak into the server's callbacks."""
    name = contextvars.ContextVar("name", default="nobody")

    class Named(Recorder):
        def data_received(self, data):
            self.events.append(name.get())

        def connection_lost(self, exc):
            self.events.append(name.get())

    async def main(loop):
        name.set("server")
        accepted = []
        server = await loop.create_server(
            lambda: accepted.append(Named()) or accepted[-1], "127.0.0.1", 0
        )
        name.set("client")
        _, client = await loop.create_connection(Named, *server.sockets[0].getsockname())
        name.set("somebody else")
        client.transport.write(b"x")
        accepted[0].transport.write(b"y")
        await asyncio.sleep(1)
        client.transport.close()
        await asyncio.sleep(1)
        return accepted[0].events, client.events

    assert run(main) == (["server", "eof", "server"], ["client", "client"])


def test_names_of_both_ends_agree():
    """getsockname of one end is getpeername of the other, on transport and socket alike."""

    async def main(loop):
        client, server, listener = await pair(loop)
        for ours, theirs in ((client, server), (server, client)):
            sock = ours.transport.get_extra_info("socket")
            assert sock.getsockname() == ours.transport.get_extra_info("sockname")
            assert sock.getsockname() == theirs.transport.get_extra_info("peername")
            assert sock.getpeername() == theirs.transport.get_extra_info("sockname")
            assert (sock.family, sock.type, sock.fileno()) == (
                socket.AF_INET,
                socket.SOCK_STREAM,
                -1,
            )
        with pytest.raises(OSError, match="not connected"):
            listener.sockets[0].getpeername()
        return listener.sockets[0].getsockname() == server.transport.get_extra_info("sockname")

    assert run(main) is True


def test_a_listener_waits_for_its_connections():
    """wait_closed returns once it is closed and the last connection has ended; both can be forced."""

    async def main(loop):
        client, _, listener = await pair(loop)
        listener.close()
        assert not listener.is_serving()
        assert listener.sockets == ()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(listener.wait_closed(), 100)
        listener.abort_clients()
        await listener.wait_closed()
        await asyncio.sleep(1)
        assert client.events == ["eof", "closed"]

        other, _, second = await pair(loop)
        second.close_clients()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(second.serve_forever(), 5)
        await second.wait_closed()
        return other.events

    assert run(main) == ["eof", "closed"]
