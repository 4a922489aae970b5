"""Resume with servers of other libraries: the `websockets` server and thirty lines around it, on a real socket.

Each differs from our own bridge as real ones do: they have no join, sort their answers, hold more or less than we remember.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

import resilient_bridge as rb
from tests.peers.plain_bridge import PlainBridge


pytestmark = pytest.mark.real

QUICK = rb.bridge.BridgePolicy(
    reconnect=rb.bridge.Reconnect(backoff=rb.Backoff.constant(0.05), connects_per_minute=6000)
)


class Consumer:
    """What a user of the client gets, in order: numbers, `n?` for a flagged message, texts for gaps."""

    def __init__(self, url, policy=QUICK, **options):
        self.seen = []
        self.events = []
        self.bridge = rb.BridgeClient(
            url,
            token="t",
            policy=policy,
            on_gap=lambda gap: self.seen.append(f"{gap.verdict} {gap.reason}"),
            **options,
        )

    async def read(self):
        async for message in self.bridge:
            flagged = message.maybe_duplicate or message.redelivered
            self.seen.append(f"{message.payload['i']}?" if flagged else message.payload["i"])

    async def until(self, wanted, seconds=15):
        """Wait until `wanted()` holds."""
        async with asyncio.timeout(seconds):
            while not wanted():
                await asyncio.sleep(0.01)

    async def resumed(self, verdicts):
        """Wait for these verdicts, and until `on_gap` was called with those other than RECOVERED."""
        await self.until(lambda: len(self.of("Resumed")) >= verdicts)
        gaps = sum(event.verdict != "RECOVERED" for event in self.of("Resumed"))
        await self.until(
            lambda: sum(isinstance(item, str) and " " in item for item in self.seen) >= gaps
        )
        await self.bridge.wait_ready(timeout=5)

    def of(self, name):
        return [event for event in self.events if type(event).__name__ == name]


class Pushing(PlainBridge):
    """Has no replay: after each auth it pushes all its messages, as if they were live."""

    def __init__(self):
        super().__init__()
        self.refuse = {"request_replay": "UNKNOWN_TYPE"}

    async def greeted(self, ws):
        for message in self.log:
            await ws.send(json.dumps(message))


@asynccontextmanager
async def client(bridge, policy=QUICK, **options):
    async with bridge.serving() as url:
        consumer = Consumer(url, policy, **options)
        with rb.listen(consumer.events.append):
            async with consumer.bridge as it:
                reading = asyncio.create_task(consumer.read())
                await it.wait_ready(timeout=5)
                yield consumer
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)


async def test_b01_without_a_join_every_connection_but_the_first_has_a_verdict():
    """Messages sent during a loss are lost on such a bridge, and the client reports that; with a replay they are not."""
    bridge = PlainBridge()
    bridge.refuse = {"request_replay": "UNKNOWN_TYPE"}
    async with client(bridge, QUICK.evolve(dialect=rb.bridge.Dialect(join=None))) as c:
        await bridge.push(bridge.message(1))
        await c.until(lambda: 1 in c.seen)
        bridge.cut()
        await bridge.push(bridge.message(2), live=False)
        await c.resumed(1)
        await bridge.push(bridge.message(3))
        await c.until(lambda: 3 in c.seen)
        assert c.seen == [1, "UNKNOWN no_replay", 3]
        assert [len(c.of("Joined")), len(c.of("Resumed"))] == [1, 1]
    bridge = PlainBridge()
    async with client(bridge, QUICK.evolve(dialect=rb.bridge.Dialect(join=None))) as c:
        await bridge.push(bridge.message(1))
        await c.until(lambda: 1 in c.seen)
        bridge.cut()
        await bridge.push(bridge.message(2), live=False)
        await c.until(lambda: 2 in c.seen)
        assert (c.seen, c.of("Resumed")[0].verdict) == ([1, 2], "RECOVERED")


class Sorted(PlainBridge):
    """Sorts its answers by timestamp and priority."""

    def replay(self, since):
        return sorted(self.log, key=lambda m: (m["timestamp"], m["payload"].get("prio", 9)))


async def test_b02_what_a_sorted_replay_puts_before_the_anchor_is_delivered():
    """3 was never seen and precedes 1: it is delivered first, in the answer's order, and the verdict says that the order proves nothing."""
    bridge = Sorted()
    async with client(bridge) as c:
        await bridge.push(bridge.message(1))
        await bridge.push(bridge.message(2))
        await c.until(lambda: 2 in c.seen)
        bridge.cut()
        await bridge.push(bridge.message(3, prio=1), live=False)
        await bridge.push(bridge.message(4), live=False)
        await c.resumed(1)
        await bridge.push(bridge.message(5))
        await c.until(lambda: 5 in c.seen)
        bridge.cut()  # the next answer is sorted as well, and has nothing new
        await c.resumed(2)
        await bridge.push(bridge.message(6))
        await c.until(lambda: 6 in c.seen)
        assert c.seen == [1, 2, "UNKNOWN order", 3, 4, 5, 6]
        assert [event.verdict for event in c.of("Resumed")] == ["UNKNOWN", "RECOVERED"]


async def test_b02_an_id_less_message_that_a_sort_moves_is_not_lost_either():
    """Without keys it is found because the messages before the anchor differ from those delivered."""

    class ByKind(PlainBridge):
        def replay(self, since):
            return sorted(self.log, key=lambda m: (m["timestamp"], m["type"]))

    bridge = ByKind()
    async with client(bridge) as c:
        await bridge.push(bridge.message(1))
        await bridge.push(bridge.chunk(2))
        await bridge.push(bridge.message(3))
        await c.until(lambda: 3 in c.seen)
        bridge.cut()
        await bridge.push(bridge.chunk(4), live=False)
        await c.resumed(1)
        await bridge.push(bridge.message(5))
        await c.until(lambda: 5 in c.seen)
        assert c.seen == [1, 2, 3, "UNKNOWN order", "4?", 5]


async def test_b03_what_is_older_than_the_memory_comes_flagged():
    """3,000 messages with ids; the server comes back without the newest and answers with all others."""
    bridge = PlainBridge()
    async with client(bridge) as c:
        for i in range(3000):
            await bridge.push(bridge.message(i, stamp=f"2026-01-01T00:{i // 60:02}:{i % 60:02}Z"))
        await c.until(lambda: 2999 in c.seen)
        bridge.log.pop()
        bridge.cut()
        await c.resumed(1)
        await bridge.push(bridge.message(4000, stamp="2026-01-01T01:00:00Z"))
        await c.until(lambda: 4000 in c.seen)
        index = c.seen.index("GAP truncated")
        assert c.seen[:index] == list(range(3000))
        assert c.seen[index + 1 :] == [*(f"{i}?" for i in range(952)), 4000]
        assert c.bridge.health().duplicates == 2999 - 952


async def test_b03_a_queue_that_is_pushed_as_if_it_were_live():
    """Three tool calls with ids, forty minutes of id-less messages, one cut, and a bridge that pushes all messages after each auth."""
    bridge = Pushing()
    async with client(bridge, QUICK.evolve(dialect=rb.bridge.Dialect(join=None))) as c:
        for i in range(3):
            await bridge.push(bridge.message(i, stamp="2026-01-01T00:00:00Z"))
        for i in range(3, 2100):
            await bridge.push(bridge.chunk(i, stamp=f"2026-01-01T00:{1 + i // 60:02}:{i % 60:02}Z"))
        await c.until(lambda: 2099 in c.seen)
        del bridge.log[3:]
        bridge.cut()
        await c.resumed(1)
        await bridge.push(bridge.message(3000, stamp="2026-01-01T01:00:00Z"))
        await c.until(lambda: 3000 in c.seen)
        assert c.seen[2100:] == ["UNKNOWN no_replay", "0?", "1?", "2?", 3000]


async def test_b09_what_came_again_is_counted():
    """After a queue of 200 at each of three reconnects, 600 duplicates were dropped."""
    bridge = Pushing()
    async with client(bridge, QUICK.evolve(dialect=rb.bridge.Dialect(join=None))) as c:
        for i in range(200):
            await bridge.push(bridge.message(i))
        await c.until(lambda: 199 in c.seen)
        for n in range(3):
            bridge.cut()
            await c.resumed(n + 1)
        assert (c.bridge.health().duplicates, c.seen[200:]) == (600, ["UNKNOWN no_replay"] * 3)


async def test_b10_the_bounds_of_a_gap_are_in_order():
    """With id-less messages only, a repeated message from before the loss says nothing about the end of the gap."""
    bridge = PlainBridge()
    gaps = []
    async with (
        bridge.serving() as url,
        rb.BridgeClient(url, token="t", policy=QUICK, on_gap=gaps.append) as it,
    ):
        reader = aiter(it)
        await it.wait_ready(timeout=5)
        for i in range(3):
            await bridge.push(bridge.chunk(i, stamp=f"2026-01-01T00:00:0{i}Z"))
        for _ in range(3):
            await anext(reader)
        bridge.cut()
        await bridge.push(bridge.chunk(3, stamp="2026-01-01T00:00:05Z"), live=False)
        await anext(reader)
    assert [gap.reason for gap in gaps] == ["no_anchor"]
    assert (gaps[0].since.second, gaps[0].until.second) == (2, 5)


async def test_b07_a_send_before_the_client_was_entered_is_refused():
    """The message would not start the client and would be lost."""
    bridge = rb.BridgeClient("ws://127.0.0.1:1")
    with pytest.raises(rb.ConfigError, match="async with"):
        await bridge.send("note", {})
    assert bridge.pending() == []


@pytest.mark.parametrize("type_", ["auth", "session_join", "request_replay", "heartbeat_ping"])
async def test_b12_what_the_client_says_itself_is_refused_from_the_user(type_):
    """It would leave or end the session; a type that the dialect does not use is free for the user."""
    bridge = PlainBridge()
    async with client(bridge) as c:
        with pytest.raises(rb.ConfigError, match=type_):
            await c.bridge.send(type_, {})
        with pytest.raises(rb.ConfigError, match=type_):
            await c.bridge.request(type_, {})
    async with client(bridge, QUICK.evolve(dialect=rb.bridge.Dialect(join=None))) as c:
        await c.bridge.send("session_join", {"session_id": "x"})


class Dies(PlainBridge):
    """Runs a message, then drops the connection; the third one stays. It runs each copy, because it ignores ids and keys."""

    lives_from = 3

    async def took(self, ws, m):
        if self.connections < self.lives_from:
            await asyncio.sleep(0.02)
            ws.transport.abort()


async def test_b04_a_send_is_not_repeated_to_a_bridge_that_runs_every_copy():
    """Without deduplication a message that may have arrived ends unknown, was sent once, and ran once."""
    bridge = Dies()
    async with client(bridge) as c:
        receipt = await c.bridge.send("charge", {"order": 42})
        with pytest.raises(rb.OutcomeUnknownError, match="arrives twice"):
            await receipt.confirmed(timeout=10)
        assert (bridge.got[0]["order"], len(bridge.got), receipt.sends, receipt.state) == (
            42,
            1,
            1,
            "unknown",
        )
        assert [event.outcome for event in c.of("MessageUndelivered")] == ["unknown"]
        assert c.of("MessageResent") == []


async def test_b04_an_acknowledgement_proves_reading_and_not_deduping():
    """With a bridge that acknowledges and runs every copy an unacknowledged message is not resent either."""
    bridge = Dies()
    bridge.lives_from = 0
    bridge.ack = True
    async with client(bridge) as c:
        await (await c.bridge.send("charge", {"order": 1})).confirmed(timeout=5)
        bridge.ack, bridge.lives_from = False, 2
        receipt = await c.bridge.send("charge", {"order": 2})
        with pytest.raises(rb.OutcomeUnknownError):
            await receipt.confirmed(timeout=10)
        assert [m["order"] for m in bridge.got] == [1, 2]


async def test_b04_where_the_user_says_that_it_dedupes_it_is_repeated_and_counted():
    """With `dedupes=True` the same id and key are sent again, each time with an event, and the receipt counts the sends."""
    bridge = Dies()
    async with client(bridge, QUICK.evolve(dialect=rb.bridge.Dialect(dedupes=True))) as c:
        receipt = await c.bridge.send("charge", {"order": 42}, idempotency_key="k")
        assert await receipt.confirmed(timeout=10) == "read"
        assert (len(bridge.got), {m["idempotency_key"] for m in bridge.got}, receipt.sends) == (
            3,
            {"k"},
            3,
        )
        assert [(event.key, event.sends) for event in c.of("MessageResent")] == [("k", 2), ("k", 3)]


@pytest.mark.parametrize("how", ["auth", "join", "duplicate"])
async def test_b04_a_server_that_states_that_it_dedupes_gets_it_again(how):
    """By a field of its answer to auth or join, or by having answered one of our ids as a duplicate."""

    class Knows(Dies):
        def hello(self):
            return {"server_id": "one"} | ({"dedupes": True} if how == "auth" else {})

        async def run(self, ws, m, say):
            keys = [known["idempotency_key"] for known in self.got]
            if m["payload"]["idempotency_key"] in keys or m["type"] == "known":
                await say("message_ack", {"message_id": m["id"], "status": "already_processed"})
                return
            self.got.append(m["payload"])
            await self.took(ws, m)

        async def write(self, ws, text):
            if how == "join" and '"session_joined"' in text:
                text = json.dumps({**json.loads(text), "payload": {"dedupes": True}})
            await super().write(ws, text)

    bridge = Knows()
    async with client(bridge) as c:
        if how == "duplicate":
            assert await (await c.bridge.send("known", {})).confirmed(timeout=5) == "read"
        receipt = await c.bridge.send("charge", {"order": 42})
        assert await receipt.confirmed(timeout=10) == "read"
        assert (len(bridge.got), receipt.sends) == (1, 2)
