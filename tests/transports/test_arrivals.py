"""What has arrived on a websockets connection: whole, in order, taken at once or waited for, and not more of it than was allowed."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.messages import Assembler
from websockets.exceptions import ConcurrencyError, ConnectionClosedError, ConnectionClosedOK
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from tests.internals.transports import Arrivals
from tests.peers.running import until


def text(data: bytes, *, fin: bool = True) -> Frame:
    return Frame(Opcode.TEXT, data, fin)


def more(data: bytes, *, fin: bool) -> Frame:
    return Frame(Opcode.CONT, data, fin)


@pytest.fixture
def calls():
    return []


@pytest.fixture
def arrivals(calls):
    return Arrivals(4, lambda: calls.append("pause"), lambda: calls.append("resume"))


async def test_fragments_are_one_message_that_is_there_with_the_last_of_them(arrivals):
    """Before that there is nothing to take; what follows is a message of its own."""
    arrivals.put(text(b"\xc3", fin=False))
    arrivals.put(more(b"\xa9", fin=False))
    assert arrivals.take() is None
    arrivals.put(more(b"!", fin=True))
    arrivals.put(text(b"next"))
    assert await arrivals.get() == "é!"
    assert await arrivals.get(False) == b"next"


async def test_too_much_of_it_stops_the_reading_until_a_quarter_of_it_remains(arrivals, calls):
    """Once each way, however many messages there are."""
    for number in range(7):
        arrivals.put(text(b"%d" % number))
        assert calls == (["pause"] if number >= 4 else [])
    for remaining in range(6, -1, -1):
        arrivals.take()
        assert calls == (["pause", "resume"] if remaining <= 1 else ["pause"])
    assert arrivals.take() is None


async def test_a_waiter_that_is_cancelled_loses_nothing(arrivals):
    """Even if its message came in the same turn."""
    waiting = asyncio.create_task(arrivals.get())
    await asyncio.sleep(0)
    arrivals.put(text(b"one"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await arrivals.get() == "one"


async def test_a_second_waiter_is_refused(arrivals):
    """The first goes on waiting."""
    waiting = asyncio.create_task(arrivals.get())
    await asyncio.sleep(0)
    with pytest.raises(ConcurrencyError):
        await arrivals.get()
    arrivals.put(text(b"one"))
    assert await waiting == "one"


async def test_the_end_comes_after_what_had_arrived(arrivals):
    """And wakes whoever waits."""
    arrivals.put(text(b"last"))
    arrivals.close()
    assert await arrivals.get() == "last"
    with pytest.raises(EOFError):
        await arrivals.get()


async def test_a_waiter_learns_of_the_end(arrivals):
    """It does not wait for a message that cannot come."""
    waiting = asyncio.create_task(arrivals.get())
    await asyncio.sleep(0)
    arrivals.close()
    with pytest.raises(EOFError):
        await waiting


@pytest.mark.real
async def test_what_has_come_is_received_at_once_as_it_would_be_by_waiting(bridge, dial):
    """Text as text, other bytes as bytes, in order, and None when there is no more."""
    link = await dial(bridge.url)
    await until(lambda: bridge.sockets)
    for frame in ("one", b"two", b"\xff"):
        await bridge.sockets[0].send(frame)
    await until(lambda: len(link._ws.recv_messages) == 3)
    assert [link.receive_now() for _ in range(4)] == ["one", "two", b"\xff", None]
    await link.close()


@pytest.mark.real
async def test_a_text_that_is_none_ends_a_connection_that_keeps_bytes(bridge, dial):
    """What came before is received; the text itself is left to `receive`, which ends in the close code 1007."""
    link = await dial(bridge.url)
    link.keeps_bytes = True
    await until(lambda: bridge.sockets)
    await bridge.sockets[0].send(b"\xfe")
    await bridge.sockets[0].send(b"\xff", text=True)
    await until(lambda: len(link._ws.recv_messages) == 2)
    assert link.receive_now() == b"\xfe"
    assert link.receive_now() is None
    with pytest.raises(ConnectionClosedError) as caught:
        await link.receive()
    assert caught.value.sent.code == 1007


@pytest.mark.real
async def test_after_an_abort_nothing_is_received_at_once(bridge, dial):
    """What had arrived is dropped with the link."""
    link = await dial(bridge.url)
    await until(lambda: bridge.sockets)
    await bridge.sockets[0].send("one")
    await until(lambda: len(link._ws.recv_messages))
    link.abort()
    assert link.receive_now() is None
    await link.close()


@pytest.mark.real
async def test_what_needs_no_waiting_is_sent_at_once(bridge, dial):
    """Several frames, in order; with a full write buffer, after the end and after an abort nothing is sent, and `send` decides."""
    link = await dial(bridge.url)
    await until(lambda: bridge.sockets)
    assert link.send_now("one", "two")
    await until(lambda: len(bridge.received) == 2)
    link._ws.pause_writing()
    assert not link.send_now("never")
    link._ws.resume_writing()
    await bridge.sockets[0].close()
    await until(lambda: link._ws.state is State.CLOSED)
    assert not link.send_now("never")
    with pytest.raises(ConnectionClosedOK):
        await link.send("never")
    link.abort()
    assert not link.send_now("never")
    assert bridge.received == ["one", "two"]
    await link.close()


@pytest.mark.real
async def test_a_queue_of_another_shape_stays_in_use(bridge, dial, monkeypatch):
    """An internal of websockets may change: frames are then received by waiting, and none at once."""

    class Other(Assembler):
        def __getattribute__(self, name):
            if name == "high" and self._is_made:
                raise AttributeError(name)
            return super().__getattribute__(name)

        _is_made = False

    made = ClientConnection.connection_made

    def connection_made(self, transport):
        made(self, transport)
        self.recv_messages.__class__ = Other
        Other._is_made = True

    monkeypatch.setattr(ClientConnection, "connection_made", connection_made)
    link = await dial(bridge.url)
    await until(lambda: bridge.sockets)
    Other._is_made = False  # it needs its limit itself
    await bridge.sockets[0].send("one")
    assert link.receive_now() is None
    assert await link.receive() == "one"
    await link.close()
