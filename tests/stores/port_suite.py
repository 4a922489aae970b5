"""Every store as one kind of thing: a place that outlives the objects that open it, and can be left as a crash would leave it.

Rule: a test says what any store must do, and a store is in the suite by standing in PLACES.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import asynccontextmanager

import pytest

from resilient_bridge.errors import StoreError
from resilient_bridge.protocol import Entry, Now
from resilient_bridge.stores import MemoryStore, RedisStore, SQLiteStore


WALL = 1_774_000_000.0  # 2026-03-20T09:46:40Z


def now(wall=None):
    """Both clocks, the monotonic one of this loop."""
    return Now(asyncio.get_running_loop().time(), time.time() if wall is None else wall)


async def done(durable):
    """What a store promised, once it has kept it."""
    if durable is not None:
        await durable


def send(seq, *, ttl=None, at=None, coalesce=None, frame=None):
    """A send as a client makes it."""
    entry = Entry(
        seq, f"id-{seq}", f"key-{seq}", "note", frame or f'{{"n":{seq}}}', coalesce=coalesce
    )
    if ttl is not None:
        entry.expires = Now(at.mono + ttl, at.wall + ttl)
    return entry


def read(watermark, first, last, *, taken=True, at=None, kind="tool_call"):
    """Messages `first` to `last` arrive, are handed to the consumer, and `taken` by him."""
    mono = asyncio.get_running_loop().time() if at is None else at
    for n in range(first, last + 1):
        key = None if kind.startswith("stream_") else (kind, f"m{n}")
        watermark.accept(
            key, f'{{"n":{n}}}', f"2026-03-20T10:{n // 60 % 60:02d}:{n % 60:02d}Z", mono
        )
        watermark.hand()
        if taken:
            watermark.take()


class Backend:
    """Where a store keeps things. `store()` makes an object that opens it."""

    is_durable = True

    @asynccontextmanager
    async def opened(self, wall=None, **options):
        """An open store, closed at the end."""
        store = self.store(**options)
        await store.open(now(wall))
        try:
            yield store
        finally:
            await store.close()


class MemoryBackend(Backend):
    """One object is the place."""

    is_durable = False

    def __init__(self, folder, server):
        self._store = MemoryStore()

    def store(self, **options):
        """The same object."""
        return self._store


class SQLiteBackend(Backend):
    """A file."""

    durability = "process"

    def __init__(self, folder, server, name="store"):
        self._folder, self._server, self._name = folder, server, name

    def store(self, **options):
        """One more object on the file."""
        return SQLiteStore(
            self._folder / self._name / "outbox.db", durability=self.durability, **options
        )

    async def crashed(self):
        """A copy of what a `kill -9` at this moment would leave."""
        copy = type(self)(self._folder, self._server, f"{self._name}+{time.monotonic_ns()}")
        shutil.copytree(self._folder / self._name, self._folder / copy._name)
        return copy

    async def remaining(self):
        """What a `kill -9` at this moment would leave, as a function that makes a place of it later, when the engine may be written."""
        copy = await self.crashed()

        async def made():
            return copy

        return made


class MachineBackend(SQLiteBackend):
    """A file that survives a power cut."""

    durability = "machine"


class RedisBackend(Backend):
    """The keys of one name."""

    def __init__(self, folder, server, name=None):
        self.server = server() if callable(server) else server
        self.name = name or f"t{time.monotonic_ns()}"
        self.tag = f"{{resilient_bridge:{self.name}}}"

    def store(self, **options):
        """One more object on the keys."""
        return RedisStore(self.server.url, name=self.name, **options)

    async def crashed(self):
        """A copy of the keys, without an owner: his lease has run out."""
        made = await self.remaining()
        return await made()

    async def remaining(self):
        """The keys as they are now, as a function that makes a place of them later, when Redis may be written."""
        copy = RedisBackend(None, self.server, f"{self.name}+{time.monotonic_ns()}")
        copy.tag = copy.store()._keys.tag
        with self.server.client(decode_responses=False) as client:
            keys = [key for key in client.keys(f"{self.tag}:*") if not key.endswith(b":owner")]
            found = [(key[len(self.tag) :], client.dump(key), client.pttl(key)) for key in keys]

        async def made():
            with self.server.client(decode_responses=False) as client:
                for part, value, ttl in found:
                    client.restore(copy.tag.encode() + part, max(ttl, 0), value)
            return copy

        return made


PLACES = [
    pytest.param(MemoryBackend, id="memory"),
    pytest.param(SQLiteBackend, id="sqlite"),
    pytest.param(MachineBackend, id="machine"),
    pytest.param(RedisBackend, id="redis", marks=pytest.mark.real),
]
DURABLE = PLACES[1:]


def ids(entries):
    """The ids of entries, by number."""
    return [entry.id for entry in sorted(entries, key=lambda entry: entry.seq)]


def backend_fixture(places):
    """A fixture that gives a place of each kind; the module has a `server` for the one that needs it."""

    @pytest.fixture(params=places)
    def backend(request, tmp_path):
        return request.param(tmp_path, lambda: request.getfixturevalue("server"))

    return backend


async def refused(awaitable):
    """The failure of what a store refuses, and the seconds until it did."""
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        await awaitable
    return caught.value.failure, time.monotonic() - started


async def accepted(store, *numbers):
    """Sends with these numbers, one after the other."""
    for n in numbers:
        await store.put(send(n))


async def after_a_crash(backend):
    """What the next process would find now."""
    async with (await backend.crashed()).opened() as store:
        return ids(store.entries())
