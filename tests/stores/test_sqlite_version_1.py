"""A database that version 1 has left, in the hands of the code of today. Rule: tests/stores/data/version-1.db is never made again.

If this fails, the code has to read what it does not read any more; the file is what users have on their disks.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from resilient_bridge.protocol import Entry, Now
from resilient_bridge.stores import SQLiteStore
from resilient_bridge.telemetry import listen
from tests.stores.data.make_version_1 import WALL, reported
from tests.stores.database_content import done


DATA = Path(__file__).parent / "data"
SHA256 = "ef21883487f60781c0b68ccd3c2c9d39059cdbf6027c438c626f228f04c9549c"


@pytest.fixture
def path(tmp_path):
    """A copy of the file that version 1 left."""
    shutil.copyfile(DATA / "version-1.db", tmp_path / "version-1.db")
    return tmp_path / "version-1.db"


async def open_at(path, seconds):
    """The store, so many seconds after it was written, and what its opening said."""
    heard = []
    store = SQLiteStore(path)
    with listen(heard.append):
        await store.open(Now(asyncio.get_running_loop().time(), WALL + seconds))
    return store, heard


def test_the_file_is_the_one_that_version_1_wrote():
    """Byte for byte: whoever makes it anew makes the other tests here prove nothing."""
    assert sha256((DATA / "version-1.db").read_bytes()).hexdigest() == SHA256
    with closing(
        sqlite3.connect(f"{(DATA / 'version-1.db').as_uri()}?immutable=1", uri=True)
    ) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


async def test_a_database_of_version_1_is_read_as_it_was_meant(path):
    """Sends, marks, outcomes, positions, answers and records: each as version 1 wrote it, without an event."""
    store, heard = await open_at(path, 60)
    try:
        found = json.loads(json.dumps(reported(store)))
    finally:
        await store.close()
    assert heard == []
    assert found == json.loads((DATA / "version-1.json").read_text())


async def test_a_database_of_version_1_is_written_further(path):
    """The next send has the next number, and is there with the others."""
    store, _ = await open_at(path, 60)
    number = store.last_seq() + 1
    await done(store.put(Entry(number, "id-new", "key-new", "note", "{}")))
    await store.close()
    store, heard = await open_at(path, 120)
    try:
        assert [entry.seq for entry in store.entries()] == [2, 3, 5, 6, 7]
    finally:
        await store.close()
    assert (number, heard) == (7, [])
