"""D01 and D02: the files of a store are taken away while it is open, or somebody else becomes its owner.

Rule: what `send()` accepted is found by the next process, or the sender was told.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

import resilient_bridge as rb
from resilient_bridge.errors import StoreError
from resilient_bridge.protocol import EntryState
from resilient_bridge.stores import SQLiteStore
from tests.internals.telemetry import StateSetAside
from tests.stores.database_content import done, entry, look, now


pytestmark = pytest.mark.requirement("C5")

SIDES = ("-wal", "-shm", "-end")


def foreign(path):
    """A database of another program."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (n)")
        connection.execute("INSERT INTO theirs VALUES (1)")
        connection.commit()
    path.chmod(0o600)
    return path


def unlinked(path):
    path.unlink()


def moved(path):
    path.rename(path.with_name("moved.db"))


def all_removed(path):
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()


def folder_removed(path):
    shutil.rmtree(path.parent)


def folder_moved(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced_by_a_copy(path):
    copy = path.with_name("copy.db")
    shutil.copy2(path, copy)
    copy.replace(path)


def log_removed(path):
    path.with_name(path.name + "-wal").unlink()


def index_removed(path):
    path.with_name(path.name + "-shm").unlink()


def sides_removed(path):
    for side in SIDES:
        path.with_name(path.name + side).unlink()


def lock_removed(path):
    path.with_name(path.name + ".owner").unlink()


def emptied(path):
    os.truncate(path, 0)


CASES = [
    unlinked, moved, all_removed, folder_removed, folder_moved, replaced_by_a_copy,
    log_removed, index_removed, sides_removed, lock_removed, emptied,
]  # fmt: skip


@pytest.fixture
def path(tmp_path):
    (tmp_path / "here").mkdir(mode=0o700)
    return tmp_path / "here" / "bridge.db"


async def opened(path, durability):
    store = SQLiteStore(path, durability=durability)
    await store.open(now())
    return store


@pytest.mark.parametrize("durability", ["process", "machine"])
@pytest.mark.parametrize("way", CASES, ids=lambda way: way.__name__)
async def test_d01_what_was_accepted_is_in_the_file_again(path, way, durability):
    """Whatever is taken away: the next process finds what was accepted before and after, and the settled one settled."""
    store = await opened(path, durability)
    for seq in (1, 2, 3):
        await done(store.put(entry(seq)))
    way(path)
    await done(store.put(entry(4)))
    await store.close()
    content, _ = await look(path)
    assert set(content.entries) == {1, 2, 3, 4}


@pytest.mark.parametrize("way", CASES, ids=lambda way: way.__name__)
async def test_d01_at_the_close_too(path, way, heard):
    """The files are taken away after the last send: the close writes them again, and says so."""
    store = await opened(path, "process")
    for seq in (1, 2, 3):
        await done(store.put(entry(seq)))
    way(path)
    await store.close()
    assert set((await look(path))[0].entries) == {1, 2, 3}
    if way is not lock_removed:
        assert [type(event) for event in heard] == [StateSetAside]


# ---- another's file ----------------------------------------------------------------------------------------------------


def replaced_by_another(path):
    foreign(path.with_name("other.db")).replace(path)


def overwritten_by_another(path):
    shutil.copyfile(foreign(path.with_name("other.db")), path)


def replaced_by_a_folder(path):
    path.unlink()
    path.mkdir()


def replaced_by_a_link(path):
    path.unlink()
    path.symlink_to(foreign(path.with_name("other.db")))


FOREIGN = [replaced_by_another, overwritten_by_another, replaced_by_a_folder, replaced_by_a_link]


@pytest.mark.parametrize("durability", ["process", "machine"])
@pytest.mark.parametrize("way", FOREIGN, ids=lambda way: way.__name__)
async def test_d01_a_file_of_others_is_not_touched(path, way, durability):
    """It is refused with a typed error, not written to, and what the store had is kept beside it; a store opens it."""
    store = await opened(path, durability)
    failures = []
    store.on_failure = failures.append
    for seq in (1, 2):
        await done(store.put(entry(seq)))
    way(path)
    store._commits.look()
    await store._commits.quiet() if durability == "machine" else None
    with pytest.raises(StoreError) as caught:
        await done(store.put(entry(3)))
    assert caught.value.failure.code == "SYS_STATE_FOREIGN"
    assert [one.failure.code for one in failures] == ["SYS_STATE_FOREIGN"]
    refused = entry(3)
    refused.settle(EntryState.DROPPED, reason="refused by the store")
    store.settle(refused)
    with pytest.raises(StoreError):
        await store.close()
    other = path.with_name("other.db")
    theirs = other if other.exists() else path
    if theirs.is_file():
        with closing(sqlite3.connect(theirs)) as connection:
            assert connection.execute("SELECT n FROM theirs").fetchall() == [(1,)]
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    (copy,) = path.parent.glob("bridge.db.kept-*")
    assert copy.name in str(caught.value)
    assert set((await look(copy))[0].entries) == {1, 2}


async def test_d01_it_goes_on_when_the_file_of_others_is_gone(path):
    """The other file is moved away: the next send is accepted again, and the next process finds all."""
    store = await opened(path, "process")
    await done(store.put(entry(1)))
    replaced_by_another(path)
    with pytest.raises(StoreError):
        store.put(entry(2))
        store.put(entry(2))
    path.rename(path.with_name("away.db"))
    await done(store.put(entry(3)))
    await store.close()
    assert set((await look(path))[0].entries) >= {1, 3}
    assert not list(path.parent.glob("bridge.db.kept-*"))


async def test_d01_a_store_that_was_moved_sends_nothing(path):
    """The folder is moved, and everything written anew at the path: a store of the moved folder has nothing left to send."""
    store = await opened(path, "process")
    for seq in (1, 2):
        await done(store.put(entry(seq)))
    folder_moved(path)
    await done(store.put(entry(3)))
    elsewhere = path.parent.with_name("elsewhere") / path.name
    content, events = await look(elsewhere)
    assert content.entries == {}
    assert [event for event in events if event.path == str(elsewhere)] == []
    await store.close()
    assert set((await look(path))[0].entries) == {1, 2, 3}


async def test_d01_a_folder_that_cannot_be_made_again(path):
    """The folder is removed, and a file has its name: StoreError, and nothing was accepted."""
    store = await opened(path, "process")
    await done(store.put(entry(1)))
    folder_removed(path)
    path.parent.write_text("a file")
    with pytest.raises((StoreError, rb.ConfigError)) as caught:
        await done(store.put(entry(2)))
    assert "bridge.db" in str(caught.value) or "here" in str(caught.value)
    path.parent.unlink()
    await done(store.put(entry(3)))
    await store.close()
    assert {1, 3} <= set((await look(path))[0].entries)


async def test_d01_another_program_may_read_and_copy_the_log(path):
    """The `sqlite3` shell reads the file and copies the log into it: that is no damage, and nothing is set aside."""
    store = await opened(path, "process")
    await done(store.put(entry(1)))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    store._commits.look()
    await done(store.put(entry(2)))
    await store.close()
    assert set((await look(path))[0].entries) == {1, 2}
    assert {one.name for one in path.parent.iterdir()} == {"bridge.db", "bridge.db.owner"}


# ---- another owner -----------------------------------------------------------------------------------------------------

OWNER = """
import asyncio, os, sys, time
from pathlib import Path
from tests.stores.database_content import done, entry, now
from resilient_bridge.protocol import EntryState
from resilient_bridge.stores import SQLiteStore

async def main():
    store = SQLiteStore(Path(sys.argv[1]))
    await store.open(now())
    print(sorted(one.seq for one in store.entries()), flush=True)
    if sys.argv[2] == "close":
        await store.close()
        print("closed", flush=True)
    sys.stdin.read()
    os._exit(0)

asyncio.run(main())
"""


def another_owner(path, how):
    """A process that opens the store, and what it found."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path), how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    found = process.stdout.readline().strip()
    if how == "close":
        process.stdout.readline()
    return process, found


@pytest.mark.real
@pytest.mark.parametrize("durability", ["process", "machine"])
@pytest.mark.parametrize("how", ["stay", "close"])
async def test_d02_the_owner_before_is_refused(path, how, durability):
    """Its lock file was removed, and another process owns the store, or has owned it: each write is refused (SESS_SUPERSEDED)."""
    store = await opened(path, durability)
    await done(store.put(entry(1)))
    lock_removed(path)
    other, found = another_owner(path, how)
    try:
        assert found == "[1]"
        for work in (lambda: store.put(entry(2)), lambda: store.mark(1, time.time())):
            with pytest.raises(StoreError) as caught:
                await done(work())
            assert caught.value.failure.code == "SESS_SUPERSEDED"
            assert caught.value.failure.executed is rb.errors.Executed.NO
        with pytest.raises(StoreError):
            await store.close()
    finally:
        other.communicate("")
    content, events = await look(path)
    assert set(content.entries) == {1}
    assert events == []


@pytest.mark.real
async def test_d02_an_idle_owner_ends_too(path):
    """It writes nothing: when it looks at its files it hears that it is the owner no more."""
    store = await opened(path, "process")
    failures = []
    store.on_failure = failures.append
    lock_removed(path)
    other, _ = another_owner(path, "stay")
    try:
        store._commits.look()
        assert [one.failure.code for one in failures] == ["SESS_SUPERSEDED"]
        with pytest.raises(StoreError):
            await store.close()
    finally:
        other.communicate("")


async def test_d02_a_lock_file_that_is_removed_is_made_again(path):
    """Nobody came: the owner locks a new file, and a second owner is refused."""
    store = await opened(path, "process")
    lock_removed(path)
    await done(store.put(entry(1)))
    probe = subprocess.run(
        [sys.executable, "-c", OWNER, str(path), "close"],
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "SYS_STORE_IN_USE" in probe.stderr or "in use by process" in probe.stderr
    await store.close()


@pytest.mark.real
@pytest.mark.parametrize("way", CASES, ids=lambda way: way.__name__)
def test_d01_and_then_it_is_killed(path, way):
    """The process is killed right after the first send that follows: the next one finds what was accepted, or is told of a loss."""
    program = f"""
import asyncio, os, sys
from pathlib import Path
from tests.stores import test_sqlite_taken_away as t
from tests.stores.database_content import done, entry

async def main():
    path = Path(sys.argv[1])
    store = await t.opened(path, "process")
    await done(store.put(entry(1)))
    t.{way.__name__}(path)
    await done(store.put(entry(2)))
    print("accepted", flush=True)
    os.kill(os.getpid(), {signal.SIGKILL})

asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "accepted\n", ran.stderr
    content, events = asyncio.run(look(path))
    assert set(content.entries) == {1, 2} or events, way
