"""Row 5 on real sockets: a frame that is too large, frames that are too many, bytes that come too slowly.

Rule: what the client holds is measured, and the server must feel it when nobody reads.
"""

from __future__ import annotations

import asyncio
import os
import struct
from contextlib import suppress

import pytest

import resilient_bridge as rb
from tests.threats.raw_bridges import HandBridge
from tests.threats.watching import Watch, proxied, push, quick


HEARTBEAT = rb.bridge.Heartbeat(every=0.3, timeout=0.3, probe_timeout=0.3)


def memory():
    """Bytes of this process in memory now."""
    with open("/proc/self/statm") as statm:  # noqa: PTH123 -- two numbers
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.real
async def test_row_05_a_frame_of_50_mb():
    """A frame over the limit is answered with 1009 and typed; it is never held whole, and the session goes on."""
    calm = rb.bridge.Heartbeat(
        every=5, timeout=10, probe_timeout=10
    )  # making the frame takes the loop its time
    policy = quick(dialect=rb.bridge.Dialect(max_frame_bytes=1 << 20), heartbeat=calm)
    async with proxied(policy=policy) as (server, _, watch):
        await push(server, 1)
        await watch.until(lambda: watch.ids == [1], 5)
        frame = '{"type":"tool_call","payload":{"x":"%s"}}' % ("x" * 50_000_000)
        before = memory()
        await server.push_raw(frame)
        await watch.until(lambda: watch.losses, 10)
        assert (
            memory() - before < 130_000_000
        )  # the server's own copies; ours would be as much again, and its text
        (loss,) = [
            event.failure for event in watch.events if getattr(event, "failure", None) is not None
        ][:1]
        assert loss.code == "PROTO_MESSAGE_TOO_BIG"
        assert loss.details["close_code"] == 1009
        assert loss.details["close_by"] == "us"
        await watch.recovered(2, within=10)
        await push(server, 2)
        await watch.until(lambda: watch.ids == [1, 2], 5)


async def flood(bridge, ws):
    """150,000 tiny frames, as fast as they are taken: fifty to a write, which costs a tenth of sending each."""
    for first in range(0, 150_000, 50):
        if ws.transport.is_closing():
            return
        texts = [
            b'{"type":"tick","id":"t%d","payload":{"n":%d}}' % (n, n)
            for n in range(first, first + 50)
        ]
        ws.transport.write(b"".join(b"\x81" + bytes([len(text)]) + text for text in texts))
        await ws.drain()
        bridge.sent = first + 50


@pytest.mark.real
@pytest.mark.parametrize("overflow", ["pause", "resync"])
async def test_row_05_a_flood_of_tiny_frames(overflow):
    """A reader that stops: at most the bound waits in memory and the server feels it; with resync the link is dropped."""
    bridge = HandBridge(flood)
    bridge.sent = 0
    policy = quick(
        inbox=rb.bridge.Inbox(max_messages=500, overflow=overflow),
        heartbeat=rb.bridge.Heartbeat(every=5, timeout=5),
        replay=rb.bridge.Replay(timeout=0.2, max_messages=500),
    )
    async with bridge.listening(), Watch(bridge.url, read=False, policy=policy) as watch:
        reader = aiter(watch.client)
        first = await anext(reader)
        assert first.payload == {"n": 0}
        await watch.until(lambda: watch.client.health().unread >= 499, 10)
        sent = -1
        while sent != bridge.sent:  # until the socket's buffers are full, too
            sent = bridge.sent
            await asyncio.sleep(0.1)
            assert watch.client.health().unread <= 1_100
        assert bridge.sent < 120_000
        if overflow == "resync":
            assert "SYS_INBOX_FULL" in watch.losses
            return
        seen = [(await anext(reader)).payload["n"] for _ in range(10_000)]
        assert seen == [*range(1, 10_001)]
        assert watch.losses == []


async def trickle(_, ws):
    """A frame of a megabyte, one byte at a time, for ever."""
    transport = ws.transport
    transport.write(b"\x81\x7f" + struct.pack("!Q", 1 << 20))
    while True:
        transport.write(b" ")
        await asyncio.sleep(0.02)


@pytest.mark.real
async def test_row_05_one_byte_at_a_time():
    """A frame that never ends is a dead link: its bytes are life for `max_seconds`, then the heartbeat finds it, and the client comes back."""
    bridge = HandBridge(trickle)
    policy = quick(heartbeat=HEARTBEAT, replay=rb.bridge.Replay(timeout=2, max_seconds=1))
    async with bridge.listening(), Watch(bridge.url, policy=policy) as watch:
        loop = asyncio.get_running_loop()
        await watch.until(lambda: watch.connects >= 1, 5)
        started = loop.time()
        await watch.until(lambda: watch.losses, 5)
        assert loop.time() - started < 1.0 + 0.6 + 0.25 + 1.0
        assert set(watch.losses) <= {"CONN_HEARTBEAT_TIMEOUT", "CONN_TIMEOUT"}
        bridge.script = None
        await watch.ready(5)


@pytest.mark.real
async def test_row_05_an_upgrade_of_one_byte_at_a_time():
    """An HTTP answer that trickles in is inside the connect timeout."""

    async def serve_slowly(_, writer):
        with suppress(ConnectionError):
            for byte in b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"y" * 10_000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.01)

    policy = quick(
        reconnect=rb.bridge.Reconnect(
            backoff=rb.Backoff.constant(0.02), connect_timeout=0.3, attempts=None
        )
    )
    handlers = []

    async def handle(reader, writer):
        handlers.append(asyncio.current_task())
        try:
            await serve_slowly(reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with Watch(f"ws://127.0.0.1:{port}/", policy=policy) as watch:
            await watch.until(lambda: len(watch.waits) >= 2, 5)
            assert set(watch.failures) == {"CONN_TIMEOUT"}
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
