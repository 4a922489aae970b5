"""While a store cannot keep how far the consumer is, he gets no more than a crash could bring back flagged; then he is told, in the type of it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import pytest

import resilient_bridge as rb
from resilient_bridge.testing import BridgeServer
from tests.internals.telemetry import StoreChanged
from tests.redis_server import redis_server_fixture
from tests.stores import port_suite
from tests.stores.port_suite import DURABLE, RedisBackend, backend_fixture, done
from tests.threats.watching import quick, until


pytestmark = pytest.mark.real
server = redis_server_fixture(scope="module")
durable = backend_fixture(DURABLE)

BOUND = 64  # what a crash may bring back, each flagged


@contextmanager
def refusing(backend, store):
    """The store's own engine refuses every write."""
    if hasattr(store, "_database"):
        execute = store._database.connection.execute
        execute("PRAGMA query_only=ON")
        try:
            yield
        finally:
            execute("PRAGMA query_only=OFF")
    else:
        with backend.server.client() as client:
            client.config_set("min-replicas-to-write", 1)
            try:
                yield
            finally:
                client.config_set("min-replicas-to-write", 0)


async def pushed(bridge, first, last):
    """Messages that carry their number."""
    for n in range(first, last + 1):
        await bridge.push("news", {"n": n})


async def read(client, into):
    """Read on until the store refuses; return what was raised."""
    try:
        async for message in client:
            into.append((message.payload["n"], message.redelivered))
    except rb.errors.StoreError as error:
        return error
    return None


async def read_all(client, into):
    """Read on, and ask again whenever the store refuses."""
    while await read(client, into) is not None:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("pause", [0.0, 0.3], ids=["steady", "quiet"])
async def test_the_reader_is_warned_and_goes_on_where_he_was(durable, pause):
    """At most 64 more, then StoreError for each request, told by one event; when the store is back every message comes, once, in order."""
    store, events = durable.store(), []
    async with (
        BridgeServer() as bridge,
        rb.BridgeClient(bridge.url, store=store, policy=quick()) as client,
    ):
        with rb.listen(events.append):
            await client.wait_ready(10)
            had = []
            reading = asyncio.create_task(read(client, had))
            await pushed(bridge, 1, 10)
            await until(lambda: len(had) == 10)
            await asyncio.sleep(pause)  # a position is exact 100 ms after the last message
            with refusing(durable, store):
                await pushed(bridge, 11, 210)
                for _ in range(3):
                    error = await asyncio.wait_for(reading, 10)
                    assert error.failure.code == "SYS_STORE_UNAVAILABLE"
                    reading = asyncio.create_task(read(client, had))
                assert len(had) <= 10 + BOUND
                await asyncio.wait_for(reading, 10)
            reading = asyncio.create_task(read_all(client, had))
            await until(lambda: len(had) == 210)
            assert had == [(n, False) for n in range(1, 211)]
            await until(
                lambda: any(
                    isinstance(event, StoreChanged) and event.state == "working" for event in events
                )
            )
            assert (
                sum(isinstance(event, StoreChanged) and event.state == "failed" for event in events)
                == 1
            )
            reading.cancel()
            await asyncio.wait([reading])


@pytest.mark.parametrize("pause", [0.0, 0.3], ids=["steady", "quiet"])
async def test_a_crash_while_nothing_can_be_saved(durable, pause):
    """No write succeeds, 200 messages, a crash: the next process gets at most 64 of those again that the consumer had, each flagged."""
    had, again = [], []
    async with BridgeServer() as bridge:
        store = durable.store()
        async with rb.BridgeClient(bridge.url, store=store, policy=quick()) as client:
            await client.wait_ready(10)
            reading = asyncio.create_task(read(client, had))
            await pushed(bridge, 1, 10)
            await until(lambda: len(had) == 10)
            await asyncio.sleep(pause)
            with refusing(durable, store):
                await pushed(bridge, 11, 210)
                assert await asyncio.wait_for(reading, 10) is not None
                remaining = await durable.remaining()
            after = await remaining()
        async with rb.BridgeClient(bridge.url, store=after.store(), policy=quick()) as client:
            reading = asyncio.create_task(read(client, again))
            await until(lambda: again and again[-1][0] == 210)
            reading.cancel()
            await asyncio.wait([reading])
    known = {n for n, _ in had}
    repeated = [flagged for n, flagged in again if n in known]
    assert len(repeated) <= BOUND
    assert all(repeated)
    assert known | {n for n, _ in again} == set(range(1, 211))


async def test_what_is_taken_while_redis_writes_counts_as_well(server):
    """30 messages are in the write that Redis is slow with, 33 are taken meanwhile: after it 30 more may go, and the next one has to wait."""
    async with RedisBackend(None, server).opened() as store:
        position = store.session("s")

        def take(first, last):
            for n in range(first, last + 1):
                assert store.touch(1) is None, n
                port_suite.read(position, n, n)

        await done(store.keep(position))
        take(1, 30)
        server.pause()
        try:
            writing = store.keep(position)
            await until(lambda: store._writer._under_way is not None)
            take(31, 63)
        finally:
            server.resume()
        await writing
        take(64, 93)  # without giving way: what is written after that has not been
        refused_until = store.touch(1)
        assert refused_until is not None
        await refused_until
        assert position.taken == 93
