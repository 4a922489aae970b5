"""A binary protocol against a server nobody of us wrote: Yjs over npm's y-websocket, and the document as npm's own client reads it."""

from __future__ import annotations

import asyncio

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import Fault, FaultProxy
from tests.bridges.servers import yjs
from tests.bridges.servers.line_faults import AT_ONCE
from tests.bridges.servers.yjs_dialect import items_of, number, set_key, sized
from tests.bridges.servers.yjs_dialect import yjs as dialect_of
from tests.peers.ports import HOST


pytestmark = pytest.mark.real
POLICY = rb.bridge.BridgePolicy(reconnect=AT_ONCE)


@pytest.fixture
async def server(tmp_path):
    """A server with no document."""
    async with yjs.running(tmp_path) as one:
        yield one


def client(url, **options):
    """A client of the document "doc"."""
    return rb.BridgeClient(f"{url}/doc", dialect=dialect_of(), policy=POLICY, **options)


async def keys(messages, count):
    """The keys of so many messages."""
    return [(await anext(messages)).payload["key"] for _ in range(count)]


@pytest.mark.requirement("X20")
async def test_l10_updates_arrive_and_are_read_at_the_far_end(server):
    """Bytes out and in, a cut between: npm's client reads what was sent, the reader gets what it set, and each once."""
    async with (
        FaultProxy(HOST, server.port) as proxy,
        client(f"ws://{HOST}:{proxy.port}") as bridge,
    ):
        events, messages = bridge.events(), aiter(bridge)
        assert await keys(messages, 1) == ["begin"]
        first = await bridge.send("update", set_key(1, "sent", "1", "à"))
        assert await first.confirmed(20) in {"applied", "read"}
        await server.publish("doc", 1)
        assert await keys(messages, 1) == ["1"]
        proxy.apply(Fault.abort())
        await server.publish("doc", 2)
        second = await bridge.send("update", set_key(2, "sent", "2", "b"))
        assert await keys(messages, 1) == ["2"]
        assert await second.confirmed(20) in {"applied", "read"}
        async for event in events:
            if isinstance(event, rb.events.Resumed):
                assert (str(event.verdict), event.proof) == ("RECOVERED", "window")
                break
    document = await server.document("doc")
    assert document["sent"] == {"1": "à", "2": "b"}
    assert document["numbers"] == {"begin": 0, "1": 1, "2": 2}
    assert server.ledger("doc") == {"1": 1, "2": 1}


async def test_l10_a_store_keeps_bytes_for_the_next_process(server, tmp_path):
    """What was queued while the server was away is sent by another client of the same file; what was read is not delivered again."""
    path = str(tmp_path / "bridge.db")
    async with client(server.url, store=path) as bridge:
        messages = aiter(bridge)
        await server.publish("doc", 1)
        assert await keys(messages, 2) == ["begin", "1"]
        await server.publish("doc", 2)
        assert await keys(messages, 1) == ["2"]
        task = asyncio.ensure_future(
            anext(messages)
        )  # asking for the next one says that this one was taken
        await asyncio.sleep(0)
        await bridge.aclose(drain=0)
        await asyncio.wait([task])
        task.exception()
    async with client("ws://127.0.0.1:9", store=path) as bridge:
        await bridge.send("update", set_key(3, "sent", "3", "c\x00"), idempotency_key="third")
        await bridge.aclose(drain=0)
    await server.publish("doc", 4)
    async with client(server.url, store=path) as bridge:
        assert await bridge.receipt("third").confirmed(20) in {"applied", "read"}
        assert await keys(aiter(bridge), 1) == ["4"]
    assert (await server.document("doc"))["sent"] == {"3": "c\x00"}
    assert server.ledger("doc") == {"3": 1}


async def test_l10_on_connect_sends_and_expects_bytes(server):
    """A state of awareness is said at each connection, and waited for as it comes back; every other client hears of it."""
    first, second = (
        number(1) + sized(number(1) + number(7) + number(clock) + sized(b'{"name":"a"}'))
        for clock in (1, 2)
    )
    greeted = []

    async def greet(link):
        await link.send(first)
        greeted.append((await link.expect(first)).raw)
        await link.send(second)
        greeted.append((await link.expect(lambda raw: isinstance(raw, bytes) and raw[0] == 1)).raw)

    async with client(server.url) as bridge:
        messages = aiter(bridge)
        assert await keys(messages, 1) == ["begin"]
        async with client(server.url, on_connect=greet) as other:
            await other.wait_ready(20)
            message = await anext(messages)
            assert (message.type, message.raw) == ("awareness", first)
        assert str(bridge.state) == "READY"
    assert greeted == [first, second]


def test_the_updates_of_the_dialect_are_those_of_yjs():
    """What `set_key` writes is read back by `items_of`."""
    for text in ("", "a", "é" * 100, "x" * 20_000):
        assert items_of(set_key(2**20, "sent", "key", text)) == [(2**20, 0, "key", text)]
