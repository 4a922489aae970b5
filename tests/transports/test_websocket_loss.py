"""The WebSocket transport when things end: aborts, cancellations, cuts, and peers that send too much."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc

import pytest
from websockets.asyncio.server import serve
from websockets.exceptions import (
    ConnectionClosed,
    ConnectionClosedError,
    InvalidHandshake,
)

from resilient_bridge.testing import Fault, FaultProxy
from tests.internals.transports import open_websocket, websocket
from tests.peers.running import until


pytestmark = pytest.mark.real
MIB = 2**20


@pytest.mark.parametrize("secure", [False, True], ids=["tcp", "tls"])
async def test_abort_ends_a_pending_receive_at_once(bridge, serving, trusting, secure, dial):
    """No polite close, no wait, even when the line is a black hole; again changes nothing, and later calls end too."""
    async with (
        serve(
            bridge.handle,
            "127.0.0.1",
            0,
            ssl=serving("good") if secure else None,
            close_timeout=0.1,
        ) as server,
        FaultProxy("127.0.0.1", server.sockets[0].getsockname()[1]) as proxy,
    ):
        link = await dial(
            f"{'wss' if secure else 'ws'}://localhost:{proxy.port}/",
            ssl=trusting if secure else None,
        )
        proxy.apply(Fault.black_hole())
        receiving = asyncio.create_task(link.receive())
        await asyncio.sleep(0.01)
        before = proxy.bytes_up
        async with asyncio.timeout(0.5):
            link.abort()
            link.abort()
            with pytest.raises(ConnectionClosedError):
                await receiving
            for call in (link.receive(), link.send("x")):
                with pytest.raises(ConnectionClosedError):
                    await call
            await link.close()
        proxy.heal()
        await asyncio.sleep(0.02)
        assert proxy.bytes_up == before or secure
    assert repr(link).endswith(" aborted>")


async def test_abort_ends_a_pending_send_as_lost(dial, raw_server):
    """A sender that waits for room is told that its frame is lost, not that it went out."""

    async def deaf(_reader, _writer):
        await asyncio.sleep(60)

    async with raw_server(deaf) as url:
        link = await dial(url)

        sent = 0

        async def fill():
            nonlocal sent
            while True:
                await link.send("x" * MIB)
                sent += 1

        sending = asyncio.create_task(fill())
        await asyncio.sleep(0.2)
        before = sent
        async with asyncio.timeout(0.5):
            link.abort()
            with pytest.raises(ConnectionClosedError):
                await sending
        assert sent == before
        await link.close()


async def test_after_an_abort_nothing_more_is_delivered(bridge, dial):
    """Frames that had arrived but were not read are dropped with the link."""
    link = await dial(bridge.url)
    await link.send("one")
    await until(lambda: len(link._ws.recv_messages))
    link.abort()
    with pytest.raises(ConnectionClosedError):
        await link.receive()
    await link.close()


async def test_what_arrived_before_a_loss_is_delivered_before_it(bridge, dial):
    """Frames that came before the cut are read first, then the native exception with the peer's code."""
    link = await dial(bridge.url)
    await until(lambda: bridge.sockets)
    await bridge.sockets[0].send("one")
    await bridge.sockets[0].close(1012, "restart")
    assert await link.receive() == "one"
    with pytest.raises(ConnectionClosedError) as caught:
        await link.receive()
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1012, "restart")


@pytest.mark.parametrize("stage", ["tcp", "tls", "upgrade"])
async def test_a_cancelled_open_leaves_nothing(
    serving, trusting, recorder, stage, *, leaving_nothing
):
    """Whichever handshake hangs, the cancelled call takes its socket and tasks with it."""
    scheme, context = ("ws", None) if stage == "tcp" else ("wss", trusting)
    async with (
        leaving_nothing(),
        recorder(serving("good") if stage == "upgrade" else None) as server,
    ):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as patience:
                task = asyncio.ensure_future(until(lambda: server.connections))
                task.add_done_callback(
                    lambda _: patience.reschedule(asyncio.get_running_loop().time() + 0.1)
                )
                await open_websocket(
                    f"{scheme}://localhost:{server.port}/", ssl=context, max_frame_bytes=MIB
                )
        assert server.connections == 1
    gc.collect()


async def test_an_open_cancelled_at_any_step_leaves_nothing(
    bridge, serving, trusting, dial, leaving_nothing
):
    """Cancelled after n steps of the loop, for every n up to success, an open over TLS leaves no socket and no task."""
    async with serve(
        bridge.handle, "127.0.0.1", 0, ssl=serving("good"), ping_interval=None
    ) as server:
        url = f"wss://localhost:{server.sockets[0].getsockname()[1]}/"
        opened = steps = 0
        while opened < 3:
            async with leaving_nothing():
                opening = asyncio.create_task(dial(url, ssl=trusting))
                for _ in range(steps):
                    await asyncio.sleep(0)
                opening.cancel()
                steps += 1
                with contextlib.suppress(asyncio.CancelledError):
                    link = await opening
                    opened += 1
                    await link.close()
        assert steps > 5
    gc.collect()


async def test_a_frame_too_big_is_answered_1009_with_bounded_memory(monkeypatch, dial, raw_server):
    """Of a 50 MB frame no more than a piece is held: our close says 1009, and the peak stays far below the frame."""
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 60)  # however busy the machine is
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def flood(reader, writer):
        piece = bytes(65_536)
        writer.write(b"\x82\x7f" + (50 * MIB).to_bytes(8, "big"))
        for _ in range(50 * MIB // len(piece)):
            writer.write(piece)
            await writer.drain()
        seen.put_nowait(await reader.read(100))

    async with raw_server(flood) as url:
        link = await dial(url)
        tracemalloc.start()
        try:
            with pytest.raises(ConnectionClosedError) as caught:
                await link.receive()
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        close = await seen.get()
    assert (caught.value.rcvd, caught.value.sent.code) == (None, 1009)
    assert peak < 4 * MIB
    mask, payload = close[2:6], close[6:8]
    assert bytes(a ^ b for a, b in zip(mask, payload, strict=False)) == (1009).to_bytes(2, "big")


async def test_a_peer_that_never_stops_is_cut_off(monkeypatch, dial, raw_server):
    """A peer that goes on sending after our 1009 keeps the reader for the close time only, then it is aborted."""
    monkeypatch.setattr(websocket, "CLOSE_SECONDS", 0.1)

    async def endless(_reader, writer):
        writer.write(b"\x82\x7f" + (2**40).to_bytes(8, "big"))
        while True:
            writer.write(bytes(1000))
            await writer.drain()
            await asyncio.sleep(0.005)

    async with raw_server(endless) as url:
        link = await dial(url)
        async with asyncio.timeout(1):
            with pytest.raises(ConnectionClosedError):
                await link.receive()


@pytest.mark.parametrize("fault", [Fault.abort, Fault.fin])
async def test_a_cut_between_any_two_bytes_delivers_no_part_of_a_frame(bridge, fault, dial):
    """Cut after n bytes down, for every n of handshake and frames: whole frames in order, then a native exception."""
    frames = ["first", "zweite größe", "3"]

    async with FaultProxy("127.0.0.1", bridge.port) as proxy:

        async def run(wanted):
            got = []
            link = None
            try:
                link = await dial(proxy.url())
                for frame in frames:
                    await link.send(frame)
                while len(got) < wanted:
                    async with asyncio.timeout(5):
                        got.append(await link.receive())
            except (ConnectionError, ConnectionClosed, InvalidHandshake):
                pass
            finally:
                if link is not None:
                    link.abort()
                    await link.close()
            return got

        assert await run(len(frames)) == frames
        outcomes = set()
        for after in range(1, proxy.bytes_down):
            proxy.script(fault(after=after))
            got = await run(99)
            assert got == frames[: len(got)]
            outcomes.add(len(got))
        assert outcomes == {0, 1, 2}


async def test_a_cut_between_any_two_bytes_reaches_the_peer_in_whole_frames(bridge, dial):
    """Cut after n bytes up: the peer gets the whole frame or nothing of it."""
    async with FaultProxy("127.0.0.1", bridge.port) as proxy:
        link = await dial(proxy.url())
        upgrade = proxy.bytes_up
        link.abort()
        for after in range(upgrade - 3, upgrade + 6 + 12):
            proxy.script(Fault.abort(after=after, direction="up"))
            with contextlib.suppress(ConnectionError, ConnectionClosed, InvalidHandshake):
                link = await dial(proxy.url())
                await link.send("hello, frame")
                async with asyncio.timeout(5):
                    await link.receive()
        assert set(bridge.received) <= {"hello, frame"}


async def test_who_stops_reading_stops_the_peer(bridge, dial):
    """With nobody receiving, a peer's frames pile up to a bound in bytes and no further; all of them arrive later."""
    link = await dial(bridge.url, max_frame_bytes=16 * MIB)
    await until(lambda: bridge.sockets)
    sent = 0

    async def flood():
        nonlocal sent
        for _ in range(60):
            await bridge.sockets[0].send("x" * 2 * MIB)
            sent += 1

    flooding = asyncio.create_task(flood())
    await asyncio.sleep(0.5)
    assert sent < 40
    for _ in range(60):
        assert len(await link.receive()) == 2 * MIB
    await flooding
    await link.close()
