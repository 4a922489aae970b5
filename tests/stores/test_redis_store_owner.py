"""Who owns a store in Redis: one process, by a lease, until it is killed, replaced or done. Rule: as in test_redis_store.py."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.failure import Failure, StoreError
from resilient_bridge.testing import BridgeServer
from tests.internals.telemetry import GaveUp
from tests.redis_server import redis_server_fixture
from tests.stores.port_suite import RedisBackend, accepted, after_a_crash, ids, now, refused, send
from tests.threats.watching import Watch, quick, until


pytestmark = [pytest.mark.real, pytest.mark.crash]
server = redis_server_fixture()


@pytest.fixture
def backend(server):
    """The keys of one name on a server of the test's own."""
    return RedisBackend(None, server)


@asynccontextmanager
async def _another(backend, server):
    """Another owner: the lease of the one before ran out while that slept, and it does not know yet."""
    store = backend.store()
    with server.client() as client:
        while True:  # the one before is awake in truth, and takes its lease again if it is quicker
            client.delete(f"{backend.tag}:owner")
            try:
                await store.open(now())
                break
            except StoreError:
                continue
    try:
        yield store
    finally:
        await store.close()


async def _killed(backend, lease):
    """A process that owned the store, and was killed."""
    program = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "tests.stores.redis_store_program",
            backend.server.url,
            backend.name,
            str(lease),
        ),
        stdout=asyncio.subprocess.PIPE,
    )
    assert await program.stdout.readline() == b"accepted\n"
    program.kill()
    await program.wait()


async def test_a_killed_owner(backend):
    """After `kill -9` the next process is told the seconds left, or waits for at most the lease, and finds everything."""
    await _killed(backend, 1.5)
    failure, _ = await refused(backend.store().open(now()))
    assert failure.code == "SYS_STORE_IN_USE"
    assert 0 < failure.retry_after <= 1.5
    assert "lease" in failure.message
    started = time.monotonic()
    async with backend.opened(wait=10) as store:
        assert time.monotonic() - started < 2.5
        assert ids(store.entries()) == ["id-1", "id-2", "id-3"]
        assert sorted(entry.state for entry in store.entries()) == ["queued", "written", "written"]


@pytest.mark.parametrize(
    "end", [StoreError(Failure.of("SYS_STORE_UNAVAILABLE")), asyncio.CancelledError()]
)
async def test_an_opening_that_fails_owns_nothing(backend, server, monkeypatch, end):
    """Whoever fails, or is cancelled, while he loads has let go: the next one need not wait for the lease."""

    async def load(*_):
        raise end

    with monkeypatch.context() as broken:
        broken.setattr("resilient_bridge.stores.redis.loading.load", load)
        with pytest.raises(type(end)):
            await backend.store().open(now())
    await until(lambda: server.connections() == 0, 5)
    async with backend.opened() as store:
        await accepted(store, 1)


async def test_waiting_has_an_end(backend):
    """A wait shorter than the lease ends with the same error."""
    async with backend.opened():
        failure, seconds = await refused(backend.store(wait=0.3).open(now()))
        assert failure.code == "SYS_STORE_IN_USE"
        assert 0.3 <= seconds < 1


async def test_l05_waiting_without_a_limit(backend):
    """`wait=None` waits for the lease to end; the default, 0, does not wait."""
    await _killed(backend, 1.0)
    failure, _ = await refused(backend.store(wait=0).open(now()))
    assert failure.code == "SYS_STORE_IN_USE"
    async with backend.opened(wait=None) as store:
        assert ids(store.entries()) == ["id-1", "id-2", "id-3"]


async def test_taken_over(backend, server):
    """An owner that was replaced is refused from then on, changes nothing, and hears of it even if it only listens."""
    heard = []
    old = backend.store(lease=0.6)
    await old.open(now())
    old.on_failure = heard.append
    await accepted(old, 1)
    async with _another(backend, server) as new:
        await accepted(new, 2)
        failure, _ = await refused(
            accepted(old, 3)
        )  # by the call itself, if the old one knows already
        assert failure.code == "SESS_SUPERSEDED"
        await until(lambda: heard, 5)
        assert heard[0].failure.code == "SESS_SUPERSEDED"
    with pytest.raises(StoreError):
        await old.put(send(4))
    await old.close()
    async with backend.opened() as found:
        assert ids(found.entries()) == ["id-1", "id-2"]


async def test_replaced_and_gone_again(backend, server):
    """The other owner has come and gone: the old one is refused all the same, because it does not know what happened."""
    old = backend.store()
    await old.open(now())
    async with _another(backend, server) as new:
        await accepted(new, 1)
    failure, _ = await refused(accepted(old, 2))
    assert failure.code == "SESS_SUPERSEDED"
    await old.close()
    assert await after_a_crash(backend) == ["id-1"]


async def test_replaced_on_an_empty_redis(backend, server):
    """Redis was emptied, and somebody else is just becoming the owner: he is, though nothing else says so yet."""
    store = backend.store()
    await store.open(now())
    await accepted(store, 1)
    with server.client() as client:
        client.flushall()
        client.set(f"{backend.tag}:owner", "somebody", px=60_000)
        failure, _ = await refused(store.put(send(2)))
        assert failure.code == "SESS_SUPERSEDED"
        assert client.keys() == [f"{backend.tag}:owner"]
    await store.close()


async def test_a_lease_that_no_one_took(backend, server):
    """A lease that ran out while nobody else came is taken again."""
    async with backend.opened() as store:
        with server.client() as client:
            client.delete(f"{backend.tag}:owner")
            await accepted(store, 1)
            assert 0 < client.pttl(f"{backend.tag}:owner") <= 30_000


async def test_a_lease_is_renewed(backend):
    """An owner that has nothing to write stays the owner for much longer than its lease."""
    async with backend.opened(lease=0.5):
        await asyncio.sleep(1.2)
        failure, _ = await refused(backend.store().open(now()))
        assert failure.code == "SYS_STORE_IN_USE"


async def test_a_client_that_was_replaced_fails(backend, server):
    """A client that only listens ends as superseded when another process has its store, and does not reconnect."""
    async with (
        BridgeServer() as bridge,
        Watch(bridge.url, store=backend.store(lease=0.6), policy=quick()) as watch,
    ):
        await watch.ready(5)
        async with _another(backend, server):
            await until(lambda: watch.of(GaveUp), 5)
            assert watch.client.state == "FAILED"
            assert watch.of(GaveUp)[0].failure.code == "SESS_SUPERSEDED"
            with pytest.raises(rb.errors.SessionError):
                await watch.client.send("note", {})


def _sockets():
    return sum(descriptor.is_socket() for descriptor in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")
async def test_nothing_stays_behind(backend, server):
    """After close there is no connection, no task and no owner; also when Redis is stopped."""
    before, sockets = asyncio.all_tasks(), _sockets()
    store = backend.store(timeout=0.3)
    await store.open(now())
    await accepted(store, 1)
    server.pause()
    await refused(store.put(send(2, frame="x" * 20_000_000)))  # more than the system's buffers take
    with contextlib.suppress(StoreError):
        await store.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert _sockets() == sockets
    server.resume()
    async with asyncio.timeout(5):
        while server.connections():
            await asyncio.sleep(0.01)
    with server.client() as client:
        client.delete(f"{backend.tag}:owner")
        async with backend.opened() as store:
            await accepted(store, 2)
        assert not client.exists(f"{backend.tag}:owner")
    await until(lambda: server.connections() == 0, 5)
    assert asyncio.all_tasks() == before
