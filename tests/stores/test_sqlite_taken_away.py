"""D01 and D02: the files of a store are taken away while it is open, or somebody else becomes its owner.

Rule: what `send()` accepted is found by the next process, or the sender was told.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.errors import StoreError
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


WAYS = [
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
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
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


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
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
