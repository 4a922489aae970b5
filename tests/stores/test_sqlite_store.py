"""The store as one holds it: whose it is, what it leaves behind, how long its log gets, and what it writes for odd values."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from enum import StrEnum
from pathlib import Path

import pytest

from resilient_bridge.failure import ConfigError, Failure, StoreError
from resilient_bridge.protocol import Entry, EntryState
from resilient_bridge.stores import SQLiteStore
from tests.internals.stores import commits as sqlite_commits
from tests.internals.stores import log_of
from tests.internals.stores import sends as sqlite_sends
from tests.internals.stores import store as sqlite
from tests.stores.database_content import (
    copy,
    done,
    entry,
    look,
    now,
    opened,
    read,
    write_first,
    write_second,
)
from tests.stores.faulty_disk import files_in, open_files


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bridge" / "outbox.db"


# ---- whose it is -----------------------------------------------------------------------------------------------------

HOLD = """
import asyncio, sys
from resilient_bridge.stores import SQLiteStore
from tests.stores.database_content import now
async def main():
    store = SQLiteStore(sys.argv[1])
    await store.open(now())
    print("open", flush=True)
    sys.stdin.readline()
    await store.close()
asyncio.run(main())
"""


@pytest.mark.real
async def test_another_process_is_the_owner(path):
    """The second is refused and told which process has it; the first ends, and it is free."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    with holder:
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match=f"process {holder.pid}") as caught:
            await look(path)
        assert caught.value.failure.code == "SYS_STORE_IN_USE"
        holder.stdin.write("\n")
    assert holder.returncode == 0
    await look(path)


async def test_another_client_is_the_owner(path, tmp_path):
    """In this process, too, also under another name of the directory; once it is closed, the next has it at once."""
    path.parent.mkdir(mode=0o700)
    (tmp_path / "alias").symlink_to(path.parent)
    async with opened(path):
        for way in (path, tmp_path / "alias" / path.name):
            with pytest.raises(StoreError) as caught:
                await look(way)
            assert caught.value.failure.code == "SYS_STORE_IN_USE"
    await look(tmp_path / "alias" / path.name)


async def test_waiting_for_the_owner(path):
    """`wait=` seconds: opened as soon as it is free, refused when they are over, and nothing is left of the attempt."""
    loop = asyncio.get_running_loop()
    async with opened(path) as (store, _):
        started = loop.time()
        with pytest.raises(StoreError):
            await look(path, wait=0.25)
        assert 0.2 < loop.time() - started < 2
        waiting = asyncio.create_task(look(path, wait=30))
        await asyncio.sleep(0.15)
        assert not waiting.done()
        await done(store.put(entry(1)))
    content, _ = await asyncio.wait_for(waiting, 5)
    assert list(content.entries) == [1]


async def test_l05_waiting_for_the_owner_without_a_limit(path):
    """`wait=None` waits until it is free; the default, 0, does not wait."""
    async with opened(path):
        with pytest.raises(StoreError):
            await look(path, wait=0)
        waiting = asyncio.create_task(look(path, wait=None))
        await asyncio.sleep(0.15)
        assert not waiting.done()
    await asyncio.wait_for(waiting, 5)


@pytest.mark.real
@pytest.mark.parametrize("durability", ["process", "machine"])
async def test_a_fork_that_uses_the_store(path, durability):
    """Each verb of a fork is a ConfigError, `close` at once, too; the parent does not notice."""
    async with opened(path, durability=durability) as (store, _):
        await done(store.put(entry(1)))
        ends, begins = os.pipe()
        child = os.fork()
        if not child:
            parts = []
            uses = (
                lambda: store.put(entry(2)), lambda: store.mark(1, 1.0), lambda: store.keep(store.session("x")),
                lambda: store.keep_record("x", "{}"), lambda: store.drop_record("x"), lambda: store.close().send(None),
            )  # fmt: skip
            for use in uses:
                try:
                    use()
                except BaseException as error:  # noqa: BLE001 -- the child tells, and the parent judges
                    parts.append(f"{type(error).__name__}: {error}")
                else:
                    parts.append("nothing")
            os.write(begins, json.dumps(parts).encode())
            os._exit(0)
        os.close(begins)
        with os.fdopen(ends) as pipe:
            parts = json.loads(await asyncio.to_thread(pipe.read))
        os.waitpid(child, 0)
        assert [line[:11] for line in parts] == ["ConfigError"] * 6
        await done(store.put(entry(3)))
    content, events = await look(path)
    assert (sorted(content.entries), events) == ([1, 3], [])


# ---- its life --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["process", "machine"])
async def test_nothing_remains_after_closing(path, durability):
    """No descriptor, no thread of ours, no task, one file and the lock; closing again does nothing, and it may be opened again."""
    await look(path)
    await asyncio.to_thread(int)  # the loop's own threads
    gc.collect()  # what an earlier test has left goes now, and not while we count
    held, tasks, threads = open_files(), asyncio.all_tasks(), set(threading.enumerate())
    store = SQLiteStore(path, durability=durability)
    await store.close()
    for turn in range(3):
        await store.open(now())
        await done(store.put(entry(turn + 1)))
        assert repr(store) == "<SQLiteStore outbox.db open>"
        await store.close()
        await store.close()
        assert repr(store) == "<SQLiteStore outbox.db closed>"
        assert files_in(path.parent) == ["outbox.db", "outbox.db.owner"]
    for thread in set(threading.enumerate()) - threads:
        if thread.name.startswith("resilient_bridge"):
            thread.join(5)
    remaining = {thread.name for thread in set(threading.enumerate()) - threads}
    assert not [name for name in remaining if name.startswith("resilient")]
    assert not asyncio.all_tasks() - tasks
    assert open_files() <= held


async def test_senders_of_one_turn_share_a_flush_of_the_disk(path):
    """With "machine", a hundred who send again and again cost one transaction a round, not one for the first and one for the rest."""
    store = SQLiteStore(path, durability="machine")
    await store.open(now())

    async def sender(nth):
        for turn in range(3):
            await store.put(entry(1 + nth + 100 * turn))

    before = transactions_in(path)
    await asyncio.gather(*map(sender, range(100)))
    assert transactions_in(path) - before == 3
    await store.close()
    found, _ = await look(path)
    assert len(found.entries) == 300


def transactions_in(path):
    """How many ends of a transaction there are in the log: frames that say how large the database is after them."""
    log = log_of(path).read_bytes()
    size = 24 + int.from_bytes(log[8:12], "big")
    return sum(any(log[at + 4 : at + 8]) for at in range(32, len(log), size))


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_store_that_is_not_open(path, when):
    """Every verb that keeps something says so; every one that reads finds nothing."""
    store = SQLiteStore(path, durability="machine")
    if when == "after":
        await store.open(now())
        await store.close()
    for use in (
        lambda: store.put(entry(1)),
        lambda: store.mark(1, 1.0),
        lambda: store.keep(store.session("x")),
        lambda: store.keep_record("x", "{}"),
        lambda: store.drop_record("x"),
    ):
        with pytest.raises(ConfigError):
            use()
    store.touch(100)
    store.drop_session("x")
    store.settle(entry(1))
    assert (
        list(store.entries()),
        list(store.outcomes()),
        store.last_seq(),
        store.last_session(),
    ) == (
        [],
        [],
        0,
        None,
    )
    assert dict(store.records()) == {}


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_cancelled_while_opening(path, times):
    """At every turn of the loop, once or more often: no lock, no connection and no thread is left, and the next opens it."""
    await look(path)
    await asyncio.to_thread(int)
    held = open_files()
    cancelled = 0
    for turn in range(60):
        store = SQLiteStore(path)
        task = asyncio.create_task(store.open(now()))
        for _ in range(turn % 20):
            await asyncio.sleep(0 if turn < 20 else 0.0003)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait([task])
        cancelled += task.cancelled()
        await store.close()
        assert (turn, open_files()) == (turn, held)
        await look(path)
    assert cancelled >= 10


async def test_what_cannot_be_loaded_is_let_go(path, monkeypatch):
    """An error after the file was opened: raised, and neither lock nor connection is left."""
    await look(path)
    held = open_files()
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "Positions", None)
        with pytest.raises(TypeError):
            await look(path)
    assert open_files() == held
    await look(path)


# ---- the log ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["process", "machine"])
async def test_the_log_stays_bounded(path, monkeypatch, durability):
    """Under a load that never pauses it is copied every so often, and begun anew above its limit: everything is there in the end."""
    monkeypatch.setattr(sqlite_commits, "_LOOK_EVERY", 16)
    monkeypatch.setattr(sqlite_commits, "_LOG_LIMIT", 200_000)
    log, sizes = path.with_name("outbox.db-wal"), []
    async with opened(path, durability=durability) as (store, _):
        for seq in range(1, 1_501):
            await done(store.put(entry(seq)))
            await asyncio.sleep(0.01 if seq % 50 == 0 else 0)
            sizes.append(log.stat().st_size)
    assert max(sizes) < 3_000_000  # of more than 6 MB that were written
    content, events = await look(path)
    assert (len(content.entries), events) == (1_500, [])


@pytest.mark.parametrize("durability", ["process", "machine"])
async def test_a_log_that_cannot_be_copied_stalls_no_one(path, monkeypatch, durability):
    """Somebody reads the file all the while: the log grows, every write is done at once, and nothing is lost."""
    monkeypatch.setattr(sqlite_commits, "_LOOK_EVERY", 8)
    monkeypatch.setattr(sqlite_commits, "_LOG_LIMIT", 1_000)
    loop = asyncio.get_running_loop()
    async with opened(path, durability=durability) as (store, _):
        await done(store.put(entry(1)))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM outbox").fetchone()
            slowest = 0.0
            for seq in range(2, 60):
                started = loop.time()
                await done(store.put(entry(seq)))
                await asyncio.sleep(0.001)
                slowest = max(slowest, loop.time() - started)
    assert slowest < 1.5
    content, events = await look(path)
    assert (len(content.entries), events) == (59, [])


async def test_marks_go_when_what_they_cover_is_settled(path, monkeypatch):
    """Also if a send was refused meanwhile: it is no reason to keep every mark from there on."""
    monkeypatch.setattr(sqlite_sends, "_PRUNE_EVERY", 10)
    async with opened(path) as (store, _):
        refused = entry(1)
        with monkeypatch.context() as patch:
            patch.setattr(store._database, "run", _refuse)
            with pytest.raises(StoreError):
                store.put(refused)
        for sent in (refused, *map(entry, range(2, 60))):
            if sent is not refused:
                await done(store.put(sent))
                await done(store.mark(sent.seq, 1.0))
            sent.settle(EntryState.DROPPED if sent is refused else EntryState.CONFIRMED)
            store.settle(sent)
            await asyncio.sleep(0)
        assert len(store._database.rows("marks")) < 20


def _refuse(ops):
    raise StoreError(Failure.of("SYS_STORE_UNAVAILABLE"))


# ---- odd values ------------------------------------------------------------------------------------------------------


class Kind(StrEnum):
    """What a program may call its messages."""

    NOTE = "note"


async def test_subclasses_and_whole_numbers_are_saved_exactly(path):
    """A type from an enumeration, times that are whole: the next process finds them sound, as what they are."""
    odd = Entry(
        1,
        "id-1",
        Kind.NOTE,
        Kind.NOTE,
        "{}",
        coalesce=Kind.NOTE,
        expires=type(now())(10**9, 10**10),
    )
    async with opened(path) as (store, _):
        await done(store.put(odd))
        await done(store.mark(1, 2_000_000_000))
        position = store.session(Kind.NOTE)
        position.accept((Kind.NOTE, Kind.NOTE), "{}", None, 5)
        position.hand()
        position.take()
        position.use_up((Kind.NOTE, Kind.NOTE))
        await done(store.keep_record(Kind.NOTE, "{}"))
    content, events = await look(path)
    assert events == []
    assert content.entries[1][:3] == ("id-1", "note", "note")
    assert (content.taken, content.last, dict(content.records)) == (1, "note", {"note": "{}"})


async def test_a_text_that_cannot_be_written_is_refused(path):
    """A lone surrogate in any text: StoreError, and the next write is not hindered by it."""
    async with opened(path) as (store, _):
        with pytest.raises(StoreError):
            await done(store.put(Entry(1, "id", "key", "note", "{}", coalesce="\ud800")))
        await done(store.put(entry(2)))
    content, events = await look(path)
    assert (list(content.entries), events) == ([2], [])


async def test_nothing_changes_by_opening_and_closing(path):
    """Ten times opened and read: the same content, no event, and a position that stays exact."""
    async with opened(path) as (store, _):
        await write_first(store)
        await write_second(store)
        truth = read(store)._replace(entries={}, outcomes={})
    for _ in range(10):
        content, events = await look(path)
        assert (content._replace(entries={}, outcomes={}), events) == (truth, [])
        assert (len(content.entries), len(content.outcomes)) == (31, 9)


async def test_another_program_that_writes_meanwhile(path):
    """Nothing is refused and nothing of either is lost; a kill after that leaves what is told as whole."""
    (path.parent.parent / "copy").mkdir(mode=0o700)
    async with opened(path) as (store, _):
        await done(store.put(entry(1)))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("DELETE FROM outbox WHERE seq = 1")
            await done(store.put(entry(2)))
            assert other.execute("SELECT seq FROM outbox").fetchall() == [(2,)]
        copy(path, path.parent.parent / "copy" / path.name)
    for one in (path, path.parent.parent / "copy" / path.name):
        content, events = await look(one)
        assert (set(content.entries), events) == ({2}, [])
