"""Replays that exceed a bound, arrive slowly, or never: no two connections end for the same reason, and every join ends.

The server is the `websockets` library with thirty lines around it; the slow line is a TCP proxy of ten lines.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

import resilient_bridge as rb
from tests.journeys.test_foreign_bridges import QUICK, Consumer, client
from tests.peers.plain_bridge import PlainBridge


pytestmark = pytest.mark.real


@pytest.mark.parametrize("answers", ["everything", "since"])
async def test_b05_a_replay_above_the_bound_is_not_asked_for_again(answers):
    """One connection ends because of it; the next asks for less, the third for nothing: UNKNOWN (too_large), and the client goes on."""

    class Bridge(PlainBridge):
        def replay(self, since):
            return [
                m
                for m in self.log
                if answers == "everything" or since is None or m["timestamp"] >= since
            ]

    bridge = Bridge()
    async with client(
        bridge, QUICK.evolve(dialect=rb.bridge.Dialect(max_frame_bytes=100_000))
    ) as c:
        for i in range(20):
            await bridge.push(
                bridge.message(i, stamp=f"2026-01-01T00:00:{2 * i:02}Z", text="x" * 10_000)
            )
        await c.until(lambda: 19 in c.seen)
        bridge.cut()
        await c.resumed(1)
        receipt = await c.bridge.send("note", {})
        assert await receipt.confirmed(timeout=20) == "read"
        await bridge.push(bridge.message(20, stamp="2026-01-01T00:01:00Z"))
        await c.until(lambda: 20 in c.seen)
        asked = [
            payload.get("since", "")
            for _, kind, payload in bridge.asked
            if kind == "request_replay"
        ]
        assert asked == ["2025-12-31T23:55:00Z", "2025-12-31T23:59:58Z"]
        assert c.seen[20:] == ["UNKNOWN too_large", 20]
        assert (
            bridge.connections == 4
        )  # the first, one that ends for each question, one that asks nothing
        bridge.cut()  # and the next loss does not start over
        await c.resumed(2)
        assert bridge.connections == 5


async def test_b05_a_later_question_that_fits_recovers():
    """The client asks for less, and the answer has the last message: RECOVERED, with the missed messages."""

    class Bridge(PlainBridge):
        def replay(self, since):
            return [m for m in self.log if since is None or m["timestamp"] >= since]

    bridge = Bridge()
    async with client(
        bridge, QUICK.evolve(dialect=rb.bridge.Dialect(max_frame_bytes=100_000))
    ) as c:
        for i in range(100):  # a question starts at the smallest of the last 64 timestamps
            text = "x" * (10_000 if i < 20 else 10)
            await bridge.push(
                bridge.message(i, stamp=f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z", text=text)
            )
        await c.until(lambda: 99 in c.seen)
        bridge.cut()
        await bridge.push(bridge.message(100, stamp="2026-01-01T00:02:00Z"), live=False)
        await c.until(lambda: 100 in c.seen)
        assert c.seen[100:] == [100]
        assert (c.of("Resumed")[-1].verdict, bridge.connections) == ("RECOVERED", 3)


@pytest.mark.parametrize("has_join", [True, False])
async def test_b05_a_pushed_replay_that_does_not_fit_ends_in_a_state(has_join):
    """The bridge pushes its whole buffer at each re-join: a new session is joined, and without sessions the client fails."""

    class Pushing(PlainBridge):
        async def write(self, ws, text):
            await super().write(ws, text)
            message = json.loads(text)
            name = message["payload"].get("session_id")
            if message["type"] == ("session_joined" if has_join else "connection_ack") and name in (
                None,
                self.first(name),
            ):
                await ws.send(
                    json.dumps({"type": "replay_buffer", "payload": {"messages": self.log}})
                )

        def first(self, name):
            if name not in self.names:
                self.names.append(name)
            return self.names[0] if len(self.log) else None

    bridge = Pushing()
    bridge.names = []
    dialect = rb.bridge.Dialect(max_frame_bytes=50_000, join="session_join" if has_join else None)
    async with client(bridge, QUICK.evolve(dialect=dialect)) as c:
        for i in range(10):
            await bridge.push(bridge.message(i, text="x" * 10_000))
        await c.until(lambda: 9 in c.seen)
        bridge.cut()
        await c.until(lambda: c.of("Resumed") or c.bridge.state == "FAILED")
        if has_join:
            assert c.of("Resumed")[0].reason == "new_session"
        else:
            with pytest.raises(rb.ConfigError, match="max_frame_bytes"):
                await c.bridge.wait_ready(timeout=5)
        assert bridge.connections <= 6


@asynccontextmanager
async def slow_line(url, bytes_per_second):
    """A TCP proxy whose answers are that slow while `slow` is set."""
    target, slow, tasks = urlsplit(url), asyncio.Event(), []

    async def carry(reader, writer, is_back):
        try:
            while data := await reader.read(
                max(1, bytes_per_second // 20) if is_back and slow.is_set() else 65536
            ):
                writer.write(data)
                await writer.drain()
                if is_back and slow.is_set():
                    await asyncio.sleep(0.05)
        except OSError:
            pass
        finally:
            writer.close()

    async def accept(reader, writer):
        back, forth = await asyncio.open_connection(target.hostname, target.port, limit=2048)
        tasks.extend(
            [
                asyncio.create_task(carry(reader, forth, False)),
                asyncio.create_task(carry(back, writer, True)),
            ]
        )

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}", slow
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


IMPATIENT = QUICK.evolve(
    heartbeat=rb.bridge.Heartbeat(every=0.3, timeout=0.4),
    replay=rb.bridge.Replay(timeout=0.4, max_seconds=10),
)


@asynccontextmanager
async def over_a_slow_line(policy, bytes_per_second=60_000):
    """A client behind the proxy that has 20 messages of 5 kB; the line is slow from now on."""
    bridge = PlainBridge()
    async with bridge.serving() as real, slow_line(real, bytes_per_second) as (url, slow):
        consumer = Consumer(url, policy)
        with rb.listen(consumer.events.append):
            async with consumer.bridge as it:
                reading = asyncio.create_task(consumer.read())
                await it.wait_ready(timeout=5)
                for i in range(20):
                    await bridge.push(bridge.message(i, text="x" * 5_000))
                await consumer.until(lambda: 19 in consumer.seen)
                slow.set()
                yield bridge, consumer
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)


async def test_b06_bytes_that_keep_coming_are_life():
    """A replay of 100 kB takes four times as long as a pong or an answer may take: the link is not declared dead."""
    async with over_a_slow_line(IMPATIENT) as (bridge, c):
        bridge.cut()
        await bridge.push(bridge.message(20), live=False)
        await c.until(lambda: 20 in c.seen)
        assert (bridge.connections, c.seen[20:], c.of("Resumed")[0].verdict) == (
            2,
            [20],
            "RECOVERED",
        )


async def test_b06_an_answer_that_takes_longer_than_one_may_is_not_asked_for_again():
    """After `max_seconds` in all it asks for less, and in the end for nothing: UNKNOWN (too_large), and the client goes on."""
    policy = IMPATIENT.evolve(replay=rb.bridge.Replay(timeout=0.4, max_seconds=0.8))
    async with over_a_slow_line(policy, 20_000) as (bridge, c):
        bridge.cut()
        await c.resumed(1)
        await bridge.push(bridge.message(20))
        await c.until(lambda: 20 in c.seen)
        assert (bridge.connections, c.seen[20:]) == (4, ["UNKNOWN too_large", 20])


async def test_b06_control_frames_are_no_life():
    """WebSocket pings may come from a proxy whose bridge is gone: they do not extend the wait for the answer."""

    class Chatty(PlainBridge):
        async def greeted(self, ws):
            if self.connections == 2:
                self.ignore = frozenset({"heartbeat_ping", "session_join", "request_replay"})
                self.chat = asyncio.create_task(self.chatter(ws))

        async def chatter(self, ws):
            while True:
                await ws.ping()
                await asyncio.sleep(0.05)

    bridge = Chatty()
    async with client(bridge, IMPATIENT) as c:
        bridge.cut()
        await c.until(lambda: len(c.of("Disconnected")) == 2, seconds=5)
        assert c.of("Disconnected")[1].reason == "heartbeat_timeout"
        bridge.chat.cancel()


async def test_b11_a_bridge_that_never_answers_is_waited_for_once():
    """It reads the join and the question, as its pongs show, and answers neither: the second re-join does not hold delivery again."""
    bridge = PlainBridge()
    bridge.ignore = frozenset({"session_join", "request_replay"})
    async with client(bridge, QUICK.evolve(replay=rb.bridge.Replay(timeout=0.5))) as c:
        for n in range(3):
            await bridge.push(bridge.message(n))
            await c.until(lambda n=n: n in c.seen)
            bridge.cut()
            await c.resumed(n + 1)
        assert c.seen == [0, "UNKNOWN timeout", 1, "UNKNOWN no_replay", 2, "UNKNOWN no_replay"]
        assert sum(kind == "request_replay" for _, kind, _ in bridge.asked) == 1
