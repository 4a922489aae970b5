"""Ids from elsewhere: whatever a session id or an idempotency key says, it is a value in the store and never a path or a name.

Rule: everything below the directory of the test is looked at, and the paths that the ids spell lead there.
"""

from __future__ import annotations

import pytest

import resilient_bridge as rb
from resilient_bridge.stores import RedisStore
from resilient_bridge.testing import BridgeServer
from tests.redis_server import redis_server_fixture


pytestmark = pytest.mark.real
server = redis_server_fixture(scope="module")

OURS = {"bridge.db", "bridge.db-end", "bridge.db-shm", "bridge.db-wal", "bridge.db.owner"}
HOSTILE = {
    "a way up": "../../escaped",
    "a way up in Windows": "..\\..\\escaped",
    "a file of the system": "../../etc/passwd",
    "this directory": ".",
    "the directory above": "..",
    "a device": "con",
    "the database": "bridge.db",
    "NUL": "a\0b",
    "lines": "a\nb\r\nc\u2028",
    "escapes": "%2e%2e%2f\x1b[2J",
    "a key of Redis": "x}:*",
    "a statement": "'; DROP TABLE records; --",
}
LONG = "x" * 4_096


@pytest.fixture
def room(tmp_path, monkeypatch):
    """The directory of the store, from which every path that an id could spell stays below that of the test."""
    made = tmp_path / "one" / "two" / "three"
    made.mkdir(parents=True, mode=0o700)
    monkeypatch.chdir(made)
    return made


@pytest.fixture(params=["sqlite", "redis"])
def store(request, room, tmp_path):
    """What a store is named by; in the end there is nothing but its own files, and its own keys."""
    if request.param == "sqlite":
        yield room / "bridge.db"
    else:
        running = request.getfixturevalue("server")
        with running.client() as client:
            client.flushall()
            yield running.url
            keys = client.keys("*")
            assert keys
            assert [
                key for key in keys if not key.startswith(RedisStore("redis://x")._keys.tag + ":")
            ] == []
    found = {path for path in tmp_path.rglob("*") if not path.is_dir()}
    assert {path for path in found if path.parent != room or path.name not in OURS} == set()
    assert bool(found) == (request.param == "sqlite")
    assert [path for path in tmp_path.rglob("*") if path.is_dir()] == [
        tmp_path / "one",
        tmp_path / "one" / "two",
        room,
    ]


@pytest.mark.parametrize("session_id", [*HOSTILE.values(), LONG], ids=[*HOSTILE, "4 KB"])
async def test_as_the_id_of_a_session(store, session_id):
    """It is kept, found by exactly this id in the next process, listed, and forgotten, beside one that looks like it."""
    async with rb.stores.Sessions(store) as sessions:
        other = await sessions.create("claude", "/work", session_id=session_id + "x")
        await sessions.create("claude", "../../work\0", session_id=session_id)
        await sessions.activate(session_id)
        saved = await sessions.checkpoint(
            session_id, last_message_id=session_id, context_snapshot=[session_id]
        )
    async with rb.stores.Sessions(store) as sessions:
        assert await sessions.get(session_id) == saved
        assert {record.id for record in await sessions.list()} == {session_id, other.id}
        await sessions.forget(session_id)
        assert await sessions.list() == [other]


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
async def test_as_the_session_and_the_key_of_a_client(store, hostile):
    """It joins, sends and remembers: the next client of the store knows session and key exactly, and sends nothing twice."""
    async with BridgeServer() as bridge:
        for again in (False, True):
            named = {} if again else {"session_id": hostile}
            async with rb.BridgeClient(bridge.url, store=store, **named) as client:
                await client.wait_ready(5)
                assert client.session_id == hostile
                receipt = await client.send("note", {"n": 1}, idempotency_key=hostile)
                assert await receipt.confirmed(5) == "applied"
        assert [message["payload"]["idempotency_key"] for message in bridge.received] == [hostile]


@pytest.mark.parametrize("key", ["", LONG], ids=["nothing", "4 KB"])
async def test_a_key_that_is_refused_leaves_nothing_behind(store, key):
    """Empty, or longer than a key may be: a ConfigError that names the field, and nothing is accepted."""
    async with BridgeServer() as bridge, rb.BridgeClient(bridge.url, store=store) as client:
        await client.wait_ready(5)
        with pytest.raises(
            rb.ConfigError, match=r"send\.idempotency_key: wanted 1 to 256 characters"
        ):
            await client.send("note", {"n": 1}, idempotency_key=key)
        assert client.pending() == []


async def test_no_session_has_an_empty_id(store):
    """Neither a record nor a client: a ConfigError, and what is there already stays as it is."""
    async with rb.stores.Sessions(store) as sessions:
        saved = await sessions.create("claude", "/work", session_id="s1")
        with pytest.raises(
            rb.ConfigError, match=r"SessionRecord\.id: wanted text that is not empty"
        ):
            await sessions.create("claude", "/work", session_id="")
        assert await sessions.list() == [saved]
    with pytest.raises(
        rb.ConfigError, match=r"BridgeClient\.session_id: wanted a non-empty string"
    ):
        rb.BridgeClient("ws://127.0.0.1:1/", store=store, session_id="")


def test_an_id_that_no_store_could_write_is_refused():
    """Half a character, which UTF-8 cannot write, is told before anything is opened."""
    with pytest.raises(
        rb.ConfigError, match=r"^BridgeClient\.session_id: wanted text that UTF-8 can write"
    ):
        rb.BridgeClient("ws://127.0.0.1:9/", session_id="a\ud800")
