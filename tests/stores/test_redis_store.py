"""The store in Redis when Redis fails: away, killed, emptied, stopped, full. Rule: a real server, real seconds."""

from __future__ import annotations

import asyncio
import time

import pytest

from resilient_bridge.errors import StoreError
from resilient_bridge.protocol import EntryState
from resilient_bridge.stores import RedisStore
from resilient_bridge.testing import BridgeServer, Fault, FaultProxy
from tests.internals.stores import Change
from tests.internals.telemetry import StoreChanged
from tests.redis_server import redis_server_fixture
from tests.stores.port_suite import (
    RedisBackend,
    accepted,
    after_a_crash,
    ids,
    now,
    read,
    refused,
    send,
)
from tests.threats.watching import Watch, quick, until


pytestmark = [pytest.mark.real, pytest.mark.crash]
server = redis_server_fixture()


@pytest.fixture
def backend(server):
    """The keys of one name on a server of the test's own."""
    return RedisBackend(None, server)


async def test_restarted_empty(backend, server):
    """Killed and started empty under a living store: everything it knew is there again before anything new is accepted."""
    async with backend.opened() as store:
        await accepted(store, 1, 2, 3)
        await store.mark(2, now().wall - 100)
        await store.mark(2, now().wall)
        watermark = store.session("s")
        watermark.asked_to_join = True
        read(watermark, 1, 10)
        await store.keep(watermark)
        await store.keep_record("r", "{}")
        entry = send(1)
        entry.settle(EntryState.CONFIRMED, confirmation="applied")
        store.settle(entry)
        await store.keep(watermark)
        server.kill()
        failure, _ = await refused(store.put(send(4)))
        assert (failure.code, failure.retryable) == ("SYS_STORE_UNAVAILABLE", True)
        server.start()
        await accepted(store, 5)
        crashed = await backend.crashed()
    async with crashed.opened() as found:
        assert ids(found.entries()) == ["id-2", "id-3", "id-5"]
        entries = {entry.seq: entry for entry in found.entries()}
        assert [entries[n].state for n in (2, 3, 5)] == ["written", "queued", "queued"]
        assert 99 < entries[2].age(now()) < 110
        assert [entry.key for entry in found.outcomes()] == ["key-1"]
        assert len(found.session("s").tail) == 10
        assert found.session("s").asked_to_join
        assert dict(found.records()) == {"r": "{}"}
        assert found.last_seq() == 5


async def test_restarted_empty_while_nothing_happens(backend, server):
    """An idle owner notices when it renews its lease, and writes everything again."""
    async with backend.opened(lease=0.6) as store:
        await accepted(store, 1, 2)
        server.restart()
        with server.client() as client:
            await until(lambda: client.exists(f"{backend.tag}:outbox"), 5)
        assert await after_a_crash(backend) == ["id-1", "id-2"]


async def test_restarted_with_an_old_copy(backend, server):
    """A Redis that comes back with the state of a minute ago is told what came since."""
    async with backend.opened() as store:
        await accepted(store, 1, 2)
        old = await backend.crashed()
        entry = send(1)
        entry.settle(EntryState.CONFIRMED)
        store.settle(entry)
        await accepted(store, 3)
        with server.client() as client:
            for key in client.keys(f"{old.tag}:*"):
                client.copy(key, backend.tag + key[len(old.tag) :], replace=True)
        assert await after_a_crash(backend) == ["id-1", "id-2"]
        await accepted(store, 4)
        assert await after_a_crash(backend) == ["id-2", "id-3", "id-4"]


async def test_an_evicted_key(backend, server):
    """A key that Redis evicted, or somebody deleted, is written again before anything else is."""
    async with backend.opened() as store:
        await accepted(store, 1, 2)
        with server.client() as client:
            client.delete(f"{backend.tag}:outbox")
        await accepted(store, 3)
        assert await after_a_crash(backend) == ["id-1", "id-2", "id-3"]


async def test_stopped(backend, server):
    """Stopped in mid-use: refused within the timeout; what was refused is gone before anything else is accepted."""
    async with backend.opened(timeout=0.4) as store:
        await accepted(store, 1)
        server.pause()
        waiting = [asyncio.ensure_future(refused(store.put(send(n)))) for n in (2, 3)]
        await asyncio.sleep(0.2)
        waiting.append(asyncio.ensure_future(refused(store.mark(1, now().wall))))
        for failure, seconds in await asyncio.gather(*waiting):
            assert failure.code == "SYS_STORE_UNAVAILABLE"
            assert seconds < 0.6
        server.resume()
        await accepted(store, 4)
        crashed = await backend.crashed()
    async with crashed.opened() as found:
        assert ids(found.entries()) == ["id-1", "id-4"]
        assert {entry.state for entry in found.entries()} == {"queued"}


async def test_done_and_refused(backend, server):
    """Redis did it and the answer was lost: the sender was refused, so it is erased before anything else is accepted."""
    async with FaultProxy("127.0.0.1", server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}/0", name=backend.name, timeout=0.4)
        await store.open(now())
        await accepted(store, 1)
        await store.keep_record("r", "old")
        proxy.apply(Fault.black_hole("down"))
        waiting = [store.put(send(2)), store.mark(1, now().wall), store.keep_record("r", "new")]
        with server.client() as client:
            await until(
                lambda: sorted(client.hkeys(f"{backend.tag}:outbox")) == ["1", "2"], 5
            )  # it was done
        for each in waiting:
            await refused(each)
        proxy.heal()
        await accepted(store, 3)
        crashed = await backend.crashed()
        await store.close()
    async with crashed.opened() as found:
        assert ids(found.entries()) == ["id-1", "id-3"]
        assert {entry.state for entry in found.entries()} == {"queued"}
        assert dict(found.records()) == {"r": "old"}


async def test_done_and_asked_again(backend, server):
    """Redis did it and the connection died before the answer: the same write on a new connection changes nothing, and is acknowledged."""
    async with FaultProxy("127.0.0.1", server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}/0", name=backend.name, timeout=10)
        await store.open(now())
        await accepted(store, 1)
        revision = store._writer._revision
        proxy.apply(Fault.black_hole("down"))
        accepting = store.put(send(2))
        with server.client() as client:
            await until(lambda: client.hexists(f"{backend.tag}:outbox", "2"), 5)
            assert not accepting.done()
            proxy.apply(Fault.abort())
            await accepting
            assert client.hget(f"{backend.tag}:head", "revision") == str(revision + 1)
        assert await after_a_crash(backend) == ["id-1", "id-2"]
        await store.close()


async def test_new_records_of_one_write_stay_in_their_order(backend):
    """Three records that share a write are listed in the order in which they were saved, here and by the next process."""
    async with backend.opened() as store:
        await asyncio.gather(*(store.keep_record(name, "{}") for name in ("c", "a", "b")))
        await store.keep_record("c", "[]")
        assert list(store.records()) == ["c", "a", "b"]
    async with backend.opened() as found:
        assert list(found.records().items()) == [("c", "[]"), ("a", "{}"), ("b", "{}")]


async def test_what_was_refused_is_not_done_later(backend, server):
    """Stopped, refused, and the process ends: when Redis goes on it finds the send in its buffers, and does not accept it."""
    store = backend.store(timeout=0.4, lease=1.5)
    await store.open(now())
    await accepted(store, 1)
    server.pause()
    await refused(store.put(send(2)))
    started = time.monotonic()
    with pytest.raises(StoreError):
        await store.close()
    assert time.monotonic() - started < 1.5
    server.resume()
    async with backend.opened(wait=5) as found:
        assert ids(found.entries()) == ["id-1"]


async def test_more_refused_than_can_be_remembered(backend, server):
    """Far more is done and refused than anybody could list: afterwards exactly what was accepted is there."""
    async with FaultProxy("127.0.0.1", server.port) as proxy:
        store = RedisStore(f"redis://127.0.0.1:{proxy.port}/0", name=backend.name, timeout=1)
        await store.open(now())
        await accepted(store, 1)
        proxy.apply(Fault.black_hole("down"))
        await asyncio.gather(*(refused(store.put(send(n))) for n in range(10, 1_210)))
        assert not store._writer.pending.erased_sends
        with server.client() as client:
            assert client.hlen(f"{backend.tag}:outbox") == 1_201  # it was done
        proxy.heal()
        await accepted(store, 5_000)
        assert await after_a_crash(backend) == ["id-1", "id-5000"]
        await store.close()


async def test_writing_everything_again_may_take_long(backend, server):
    """While everything is written again, and that takes longer than the timeout, a send is refused at once; then it goes on."""
    async with backend.opened(timeout=0.3) as store:
        await accepted(store, 1)
        writer = store._writer
        with server.client() as client:
            client.flushall()
            client.execute_command("CLIENT", "PAUSE", "1500", "WRITE")
            writer._is_lost = writer._has_failed_to_restore = True
            writer.wake()
            await until(lambda: writer._under_way is not None)
            failure, seconds = await refused(accepted(store, 2))
            assert "is being written again" in failure.message
            assert seconds < 0.3
        await until(lambda: not writer._is_restoring, 5)
        await accepted(store, 3)
        assert await after_a_crash(backend) == ["id-1", "id-3"]


async def test_what_is_no_more_than_noted_raises_nothing(backend):
    """64 messages were taken and the position cannot be saved: a further one is refused, a note that something moved is not."""
    async with backend.opened() as store:
        writer = store._writer
        await store.keep(store.session("s"))
        writer.taken = writer.stored + 64
        writer._is_lost = writer._has_failed_to_restore = True
        assert store.touch() is None
        with pytest.raises(StoreError, match="is being written again"):
            store.touch(1)


async def test_full(backend, server):
    """Out of memory: a send is refused, marks and outcomes are not, so that what is kept can go and make room."""
    async with backend.opened() as store:
        await accepted(store, 1, 2)
        with server.client() as client:
            client.config_set("maxmemory", "1mb")
            failure, _ = await refused(store.put(send(3)))
            assert (failure.code, failure.retryable) == ("SYS_STORE_UNAVAILABLE", True)
            assert failure.message.endswith(
                "out of memory: command not allowed when used memory > 'maxmemory'"
            )
            accepting = store.put(send(4))
            await store.mark(2, now().wall)
            await refused(accepting)
            entry = send(1)
            entry.settle(EntryState.CONFIRMED)
            store.settle(entry)
            await store.keep(store.session("s"))
            assert client.hkeys(f"{backend.tag}:outbox") == ["2"]
            client.config_set("maxmemory", "0")
        await accepted(store, 5)
        assert await after_a_crash(backend) == ["id-2", "id-5"]


async def test_a_replica(backend, server):
    """A server that became a replica refuses writes: so does the store, and goes on when it is a master again."""
    async with backend.opened() as store:
        with server.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
            failure, _ = await refused(store.put(send(1)))
            assert failure.code == "SYS_STORE_UNAVAILABLE"
            client.execute_command("REPLICAOF", "NO", "ONE")
        await accepted(store, 2)
        assert await after_a_crash(backend) == ["id-2"]


async def test_forgotten_scripts(backend, server):
    """A server that forgot the scripts is sent them again."""
    async with backend.opened() as store:
        with server.client() as client:
            client.script_flush()
        await accepted(store, 1)


async def test_a_dropped_connection(backend, server):
    """A connection that Redis closed is replaced, and nobody notices."""
    async with backend.opened() as store:
        await accepted(store, 1)
        with server.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        await accepted(store, 2)
        assert await after_a_crash(backend) == ["id-1", "id-2"]


async def test_what_no_one_waits_for_is_tried_again(backend, server):
    """An outcome that could not be written is written when Redis is back, and who listens hears of both."""
    heard = []
    async with backend.opened() as store:
        store.on_failure = heard.append
        await accepted(store, 1, 2)
        server.kill()
        entry = send(1)
        entry.settle(EntryState.CONFIRMED)
        store.settle(entry)
        await until(lambda: heard, 5)
        server.start()
        await until(lambda: heard[-1] is None, 5)
        assert heard[0].failure.code == "SYS_STORE_UNAVAILABLE"
        assert await after_a_crash(backend) == ["id-2"]


async def test_a_defect_leaves_no_one_waiting(backend, monkeypatch):
    """Should the store itself be broken, who waits is refused, and the next one is served if it was for once."""
    async with backend.opened() as store:
        with monkeypatch.context() as broken:
            broken.setattr(Change, "add", lambda *_: 1 / 0)
            failure, _ = await refused(store.put(send(1)))
        assert failure.code == "SYS_STORE_UNAVAILABLE"
        assert isinstance(failure.cause, ZeroDivisionError)
        await accepted(store, 2)
        assert await after_a_crash(backend) == ["id-2"]


async def test_one_script_for_all_that_came_meanwhile(backend, server):
    """A thousand senders share a few writes."""
    async with backend.opened() as store:
        await accepted(store, 1)
        with server.client() as client:
            before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
            await asyncio.gather(*(store.put(send(n)) for n in range(2, 1_002)))
            assert client.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 3


async def test_a_client_tells_the_outage_once(backend, server):
    """A client whose Redis is away refuses sends, says so once, goes on receiving, and says once that it works again."""
    async with (
        BridgeServer() as bridge,
        Watch(bridge.url, store=backend.store(timeout=0.5), policy=quick()) as watch,
    ):
        await watch.ready(5)
        server.kill()
        for _ in range(3):
            await refused(watch.client.send("note", {}))
        await bridge.push("tool_call", {"n": 1})
        await until(lambda: watch.ids == [1])
        server.start()
        await until(lambda: len(watch.of(StoreChanged)) == 2, 10)
        receipt = await watch.client.send("note", {"n": 2})
        await receipt.confirmed(5)
        assert [event.state for event in watch.of(StoreChanged)] == ["failed", "working"]
        assert [message["payload"]["n"] for message in bridge.received] == [2]
