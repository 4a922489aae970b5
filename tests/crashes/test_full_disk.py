"""A disk that is full in the middle of a write, and has room again: what the write left behind is no damage after a crash."""

from __future__ import annotations

import resource
import shutil
import time

import pytest

import resilient_bridge as rb
from resilient_bridge.protocol import Entry, Now
from resilient_bridge.stores import SQLiteStore
from tests.internals.stores import PAGE


FRAME = 24 + PAGE  # in SQLite's log


def _now():
    return Now(time.monotonic(), time.time())


def _entry(n, size):
    return Entry(n, f"id-{n}", f"m{n}", "note", "x" * size)


@pytest.mark.parametrize("pages", [1, 2, 5])
async def test_a_write_that_failed_for_want_of_room_is_no_damage_later(tmp_path, pages):
    """The send is refused; the next is accepted in a shorter write; a process that finds the files so reads both, and nothing is set aside."""
    store = SQLiteStore(tmp_path / "bridge.db")
    await store.open(_now())
    store.put(_entry(1, 100))
    size = (tmp_path / "bridge.db-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (size + pages * FRAME + 100, hard)
    )  # the signal is ignored
    try:
        with pytest.raises(rb.errors.StoreError):
            store.put(_entry(2, 40_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.put(_entry(3, 100))
    for side in ("", "-wal"):
        shutil.copyfile(tmp_path / f"bridge.db{side}", tmp_path / f"left.db{side}")
    await store.close()
    after = SQLiteStore(tmp_path / "left.db")
    with rb.testing.record() as events:
        await after.open(_now())
    assert [entry.key for entry in after.entries()] == ["m1", "m3"]
    assert events == []
    await after.close()
