"""The store in Redis before it works: its arguments, its address, what it says of both. Rule: a password is in nothing that is said."""

from __future__ import annotations

import contextlib
import sys

import pytest
import redis

import resilient_bridge as rb
from resilient_bridge.failure import ConfigError, StoreError
from resilient_bridge.protocol import EntryState
from resilient_bridge.stores import RedisStore
from tests.redis_server import redis_server, redis_server_fixture
from tests.stores.port_suite import RedisBackend, accepted, now, refused, send


pytestmark = pytest.mark.real
server = redis_server_fixture()


@pytest.fixture
def backend(server):
    """The keys of one name on a server of the test's own."""
    return RedisBackend(None, server)


async def test_without_the_package(server, monkeypatch):
    """Without the package `redis` the error says what to install, when the store is opened."""
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    store = RedisStore(server.url)
    with pytest.raises(ConfigError, match=r"pip install 'resilient-bridge\[redis\]'"):
        await store.open(now())


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("name", {"name": ""}), ("prefix", {"prefix": 1}), ("lease", {"lease": 0}), ("timeout", {"timeout": float("nan")}),
        ("wait", {"wait": -1}),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(field, options):
    """Each argument is checked when the store is made."""
    with pytest.raises(ConfigError, match=rf"RedisStore\.{field}"):
        RedisStore("redis://localhost", **options)


@pytest.mark.parametrize(
    "url",
    ["redis://:hunter2secret@host:not-a-port/0", "http://:hunter2secret@host", "redis://:hunter2secret@host?db=x&no_such_option=1"],
)  # fmt: skip
async def test_a_wrong_url_is_not_shown(url):
    """What is wrong with a URL is said without the URL: it has a password in it."""
    with pytest.raises(ConfigError, match=r"RedisStore\.url") as caught:
        await RedisStore(url).open(now())
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"


async def test_a_password_is_never_shown():
    """Not in the repr of the store, not in an error of a wrong password, not in its cause."""
    with redis_server("--requirepass", "hunter2secret") as locked:
        good = f"redis://:hunter2secret@127.0.0.1:{locked.port}/0"
        store = RedisStore(good)
        await store.open(now())
        await accepted(store, 1)
        assert (
            repr(store)
            == f"<RedisStore redis://127.0.0.1:{locked.port}/0 {{resilient_bridge:default}} open>"
        )
        locked.kill()
        failure, _ = await refused(store.put(send(2)))
        assert "hunter2" not in repr(failure)
        with contextlib.suppress(StoreError):
            await store.close()
        locked.start()
        wrong = RedisStore(f"redis://joe:hunter2wrong@127.0.0.1:{locked.port}/0")
        failure, _ = await refused(wrong.open(now()))
        assert failure.code == "SYS_STORE_UNAVAILABLE"
        assert not failure.retryable
        assert "hunter2" not in f"{failure!r} {failure} {failure.cause!r} {wrong!r}"


def test_what_the_package_says_is_masked():
    """Should an error of the package quote the url, neither user nor password is passed on."""
    store = RedisStore("redis://jo%C3%A9:hunter%402secret@localhost/0?password=other2secret")
    store._link.open()
    error = redis.RedisError(
        "url redis://jo%C3%A9:hunter%402secret@localhost, hunter@2secret, joé, other2secret"
    )
    text = str(store._link.failed(error))
    assert not any(secret in text for secret in ("hunter", "2secret", "jo%C3%A9", "joé"))


async def test_outcomes_are_remembered_for_a_day(backend):
    """An outcome is found again for a day, and not after that."""
    wall = now().wall
    async with backend.opened(wall) as store:
        entry = send(1)
        await store.put(entry)
        entry.settle(EntryState.CONFIRMED)
        store.settle(entry)
    async with backend.opened(wall + 23 * 3600) as store:
        assert len(list(store.outcomes())) == 1
    async with backend.opened(wall + 25 * 3600) as store:
        assert list(store.outcomes()) == []


async def test_no_server(server):
    """A Redis that is away is said at once, one that does not answer within the timeout; the client does not start."""
    server.kill()
    failure, _ = await refused(RedisStore(server.url).open(now()))
    assert (failure.code, failure.retryable) == ("SYS_STORE_UNAVAILABLE", True)
    assert failure.cause is not None
    server.start()
    server.pause()
    failure, seconds = await refused(RedisStore(server.url, timeout=0.3).open(now()))
    server.resume()
    assert failure.code == "SYS_STORE_UNAVAILABLE"
    assert 0.25 < seconds < 1.5
    with pytest.raises(StoreError):
        async with rb.BridgeClient(
            "ws://127.0.0.1:9", store=RedisStore("redis://127.0.0.1:1", timeout=0.3)
        ):
            pass
