"""The store in Redis when its keys are not what it wrote: set aside, salvaged row by row, told once. Rule: never a silent empty start."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from math import inf

import pytest

from resilient_bridge.protocol import EntryState
from resilient_bridge.stores import RedisStore
from resilient_bridge.telemetry import listen
from resilient_bridge.testing import BridgeServer
from tests.internals.telemetry import StateSetAside
from tests.redis_server import redis_server_fixture
from tests.stores.port_suite import RedisBackend, ids, now, read, send
from tests.threats.watching import Watch, push, quick, until


pytestmark = [pytest.mark.real, pytest.mark.crash]
server = redis_server_fixture(scope="module")


@pytest.fixture
def client(server):
    """A client to do damage with."""
    with server.client() as client:
        yield client


@pytest.fixture
async def backend(server):
    """A store with three sends, of which the first two were handed out, an outcome, a position, and a record."""
    backend = RedisBackend(None, server)
    async with backend.opened() as store:
        for n in range(1, 5):
            await store.put(send(n))
        settled = send(4)
        settled.settle(EntryState.CONFIRMED, confirmation="applied")
        store.settle(settled)
        await store.mark(2, now().wall)
        watermark = store.session("s")
        watermark.asked_to_join = watermark.joined = True
        read(watermark, 1, 10)
        for name in ("a", "b"):
            await store.keep_record(name, "{}")
    return backend


@asynccontextmanager
async def _mended(backend, *, events=1):
    """The store, opened after the damage, with what it told in `told`; a second opening has nothing to tell."""
    parts = []
    with listen(lambda event: parts.append(event) if isinstance(event, StateSetAside) else None):
        async with backend.opened() as store:
            assert len(parts) == events
            store.reported = parts
            yield store
        async with backend.opened() as again:
            assert ids(again.entries()) == ids(store.found)
        assert len(parts) == events


def _entries(store):
    store.found = list(store.entries())
    return {entry.seq: entry for entry in store.found}


async def test_nothing_is_damaged(backend):
    """What the store itself wrote is in order: nothing is told."""
    async with _mended(backend, events=0) as store:
        assert sorted(_entries(store)) == [1, 2, 3]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'[1,"id"]', b'[9,"id-1","key-1","note","{}",null,null,1]', b'["1","i","k","t","f",null,null,1]'],
)  # fmt: skip
async def test_a_row_that_cannot_be_read(backend, client, text):
    """One bad row costs that send, and is set aside with its key; the others are sent."""
    client.hset(f"{backend.tag}:outbox", "1", text)
    async with _mended(backend) as store:
        assert sorted(_entries(store)) == [2, 3]
        (event,) = store.reported
        assert event.path == f"{backend.tag}:outbox"
        assert event.set_aside.startswith(f"{backend.tag}:outbox:damaged:")
        assert event.lost == "1 sends"
        assert event.failure.code == "SYS_STATE_DAMAGED"
        assert client.hget(event.set_aside, "2") is not None
        assert store.last_seq() == 4


@pytest.mark.parametrize(
    "part", ["outbox", "handed", "sessions", "records", "outcomes", "head", "tail:s"]
)
async def test_a_key_of_another_kind(backend, client, part):
    """A key that holds something else is set aside whole, and the rest is used."""
    key = f"{backend.tag}:{part}"
    client.delete(key)
    client.rpush(key, "of somebody else")
    async with _mended(backend) as store:
        entries = _entries(store)
        assert sorted(entries) == ([] if part == "outbox" else [1, 2, 3])
        (event,) = store.reported
        assert key in event.path
        assert client.lrange(event.set_aside, 0, -1) == ["of somebody else"]
        assert (dict(store.records()) == {}) is (part == "records")


@pytest.mark.parametrize("damage", ["bad wall", "bad number", "not a number", "evicted"])
async def test_marks_that_cannot_be_read(backend, client, damage):
    """Without its marks everything may have been handed out, at a time that nobody knows: as old as can be."""
    key = f"{backend.tag}:handed"
    if damage == "evicted":
        client.delete(key)
    else:
        client.hset(
            key,
            "x" if damage == "bad number" else "2",
            "nan" if damage == "not a number" else "soon",
        )
    async with _mended(backend) as store:
        entries = _entries(store)
        assert [entry.state for entry in entries.values()] == ["written"] * 3
        assert [entry.age(now()) for entry in entries.values()] == [inf] * 3


async def test_sends_that_were_evicted(backend, client):
    """Redis says there should be three sends and there are none: said, not passed over."""
    client.delete(f"{backend.tag}:outbox")
    async with _mended(backend) as store:
        assert _entries(store) == {}
        assert store.reported[0].lost == "3 sends"


async def test_a_head_that_was_evicted(backend, client):
    """Without its head the rest is used, and the numbers still go on."""
    client.delete(f"{backend.tag}:head")
    async with _mended(backend) as store:
        assert sorted(_entries(store)) == [1, 2, 3]
        assert store.last_seq() == 4
        assert "head is not there" in store.reported[0].failure.message


async def test_another_format(backend, client):
    """A store of another version is set aside whole; what can be read of it is used."""
    client.hset(f"{backend.tag}:head", "format", "2")
    async with _mended(backend) as store:
        assert sorted(_entries(store)) == [1, 2, 3]
        (event,) = store.reported
        assert event.failure.code == "SYS_STATE_FOREIGN"
        assert f"{backend.tag}:outbox" in event.path
        assert len(event.set_aside.split(", ")) == 7


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", json.dumps({"asked_to_join": True, "taken": "x"})]
)
async def test_a_position_that_cannot_be_read(backend, client, text):
    """The session had joined, and that is all that is known: the next join ends in a verdict, what comes again is flagged."""
    client.hset(f"{backend.tag}:sessions", "s", text)
    async with _mended(backend) as store:
        _entries(store)
        found = store.session("s")
        assert (found.asked_to_join, found.accepted) == (True, 0)
        assert found.was_in_hand(("tool_call", "m1"), "{}")


@pytest.mark.parametrize(
    ("row", "lost"),
    [
        (("head", "seq", "x"), "the session used last"), (("head", "last", "{"), "the session used last"),
        (("records", "a", "[1]"), "1 session records"), (("records", "a", "[1,2]"), "1 session records"),
        (("records", b"\xff", '[9,"{}"]'), "1 session records"), (("sessions", b"\xff", "{}"), "1 positions"),
        (("outcomes", "[1]", "1"), "1 outcomes"),
        (("outcomes", '[2,[1,"i","k","t","of no kind",null,"",1]]', "2"), "1 outcomes"),
    ],
)  # fmt: skip
async def test_each_part_row_by_row(backend, client, row, lost):
    """What cannot be read is named, and costs only itself."""
    part, field, text = row
    key = f"{backend.tag}:{part}"
    if part == "outcomes":
        client.zadd(key, {field: float(text)})
    else:
        client.hset(key, field, text)
    async with _mended(backend) as store:
        assert sorted(_entries(store)) == [1, 2, 3]
        assert store.reported[0].path == key
        assert lost in store.reported[0].lost
        assert [entry.key for entry in store.outcomes()] == ["key-4"]
        assert "b" in store.records()
        assert len(store.session("s").tail) == 10


async def test_positions_that_are_gone(backend, client):
    """Without the positions no session is taken for a new one."""
    client.delete(f"{backend.tag}:sessions")
    async with _mended(backend) as store:
        _entries(store)
        assert store.session("s").asked_to_join is True


@pytest.mark.parametrize("text", ["[", None])
@pytest.mark.parametrize(("bad", "remaining"), [(3, 7), (10, 0)])
async def test_a_hole_in_the_messages_behind_a_position(backend, client, bad, remaining, text):
    """The messages after a row that cannot be read, or is not there, are an anchor, those before it are not."""
    key = f"{backend.tag}:tail:s"
    client.zremrangebyscore(key, bad, bad)
    if text is not None:
        client.zadd(key, {text: bad})
    async with _mended(backend) as store:
        _entries(store)
        assert len(store.session("s").tail) == remaining
        assert store.session("s").taken == 10


async def test_messages_that_ran_out_are_no_damage_and_no_first_join(server, client):
    """The messages behind a position end a day after their last use, the position does not: the next join ends UNKNOWN."""
    backend = RedisBackend(None, server)
    async with BridgeServer() as bridge:
        async with Watch(bridge.url, store=backend.store(), policy=quick()) as watch:
            await watch.ready(5)
            await push(bridge, 1)
            await until(lambda: watch.ids == [1])
            tail = f"{backend.tag}:tail:{watch.client.session_id}"
            await until(lambda: client.exists(tail))
            assert client.ttl(tail) > 0
        assert 23.9 * 3600 < client.ttl(tail) <= 24 * 3600
        assert client.ttl(f"{backend.tag}:sessions") == -1
        client.delete(tail)
        with listen(
            lambda event: (
                pytest.fail("nothing is damaged") if isinstance(event, StateSetAside) else None
            )
        ):
            async with Watch(bridge.url, store=backend.store(), policy=quick()) as watch:
                await watch.ready(5)
                assert watch.verdicts == [("UNKNOWN", "no_anchor")]


async def test_keys_are_in_one_slot_and_apart(server, client):
    """Names with braces and colons: each store has its keys in one slot of a cluster, and no two stores share one."""
    names = [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a}", "{b"),
        ("{", "}"),
        ("%7D", "x"),
        ("\u00fc ", "\ud800"),
    ]
    tags = set()
    for prefix, name in names:
        store = RedisStore(server.url, prefix=prefix, name=name)
        await store.open(now())
        watermark = store.session("s}{:\ud800")
        read(watermark, 1, 1)
        await store.put(send(1))
        await store.close()
        tags.add(store._keys.tag)
    assert len(tags) == len(names)
    for tag in tags:
        assert tag.count("{") == tag.count("}") == 1
        assert len(client.keys(tag.replace("%", "[%]") + ":*")) >= 4
