"""A database that a later version of ours has left: refused by name, and left as it is, whatever else is wrong with it."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.errors import StoreError
from tests.internals.stores import open_database
from tests.stores.database_content import checkpointed, copy, crashed, done, entry, look, opened
from tests.stores.database_damage import Damaged, files_of, flipped, write_out
from tests.stores.faulty_disk import files_in
from tests.stores.later_versions import put_in_force


pytestmark = pytest.mark.requirement("C5")


@pytest.fixture
async def later(tmp_path, monkeypatch):
    """The files of a database of version 2 with sends of its own, in one file and as its process left it when it was killed."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o700)
    path = await checkpointed(tmp_path / "a")
    with monkeypatch.context() as patch:
        put_in_force(patch, 2)
        open_database(path, is_machine=False)[0].close()
        whole = files_of(path)
        database, _ = open_database(path, is_machine=False)
        database.run([("DELETE FROM records", ())])
        live = files_of(path)
        database.close()
    return {"whole": whole, "live": live}


async def refused(path):
    """What refuses to open the file; and it is as it was, with nothing new beside it but the lock."""
    before, names = files_of(path), set(files_in(path.parent))
    with pytest.raises(StoreError) as caught:
        await look(path)
    assert caught.value.failure.code == "SYS_STATE_FOREIGN"
    assert files_of(path) == before
    assert set(files_in(path.parent)) - names <= {"known.db.owner", "known.db-shm"}
    return str(caught.value)


@pytest.mark.parametrize("condition", ["whole", "live"])
async def test_a_database_of_a_later_version(later, tmp_path, monkeypatch, condition):
    """StoreError names the file, its version and ours; the owner has let go, and its own version finds everything."""
    path = write_out(Damaged("", later[condition]), tmp_path / "b")
    for _ in range(2):
        answered = await refused(path)
        assert re.search(r"known\.db is of version 2, wanted 1 or earlier", answered)
    put_in_force(monkeypatch, 2)
    database, mended = open_database(path, is_machine=False)
    try:
        lanes = {row[-1] for row in database.rows("outbox")}
    finally:
        database.close()
    assert (lanes, mended) == ({"lane of note"}, None)


async def test_a_client_is_refused(later, tmp_path):
    """On entering, with the same error: nothing is sent."""
    path = write_out(Damaged("", later["whole"]), tmp_path / "b")
    with pytest.raises(StoreError) as caught:
        async with rb.BridgeClient("ws://127.0.0.1:9", store=path):
            raise AssertionError("it was entered")
    assert caught.value.failure.code == "SYS_STATE_FOREIGN"
    assert files_of(path)[""] == later["whole"][""]


async def test_a_version_that_is_only_in_the_log(tmp_path, monkeypatch):
    """Killed right after it had made a file of ours one of its own: what is in the log counts."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir(mode=0o700)
    path = await checkpointed(tmp_path / "a")
    before = path.read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA wal_autocheckpoint=0")
        connection.executescript("BEGIN; CREATE TABLE notes (n); PRAGMA user_version=2; COMMIT")
        copy(path, tmp_path / "b" / "known.db")
    assert (tmp_path / "b" / "known.db").read_bytes()[60:64] == before[60:64]
    assert "version 2" in await refused(tmp_path / "b" / "known.db")


DAMAGES = {
    "a bit in a row": lambda files: flipped(files, "", len(files[""]) - 40, 3).files,
    "no tree on its first page": lambda files: (
        files | {"": files[""][:100] + bytes(8) + files[""][108:]}
    ),
    "cut off": lambda files: files | {"": files[""][:4096]},
    "no bytes but its header": lambda files: files | {"": files[""][:100]},
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_one(later, tmp_path, damage):
    """It is not for us to mend: of what it holds we would know only a part."""
    path = write_out(Damaged(damage, DAMAGES[damage](later["whole"])), tmp_path / "b")
    assert "version 2" in await refused(path)


async def test_a_damaged_log_of_one(later, tmp_path):
    """The same, beside its file, when its last page is bad."""
    files = later["live"]
    path = write_out(flipped(files, "-wal", 40, 3), tmp_path / "b")
    assert "version 2" in await refused(path)


async def test_a_file_of_ours_is_never_refused(tmp_path):
    """With a version that is not there yet in its number, and otherwise sound, it was damaged: mended, and everything is in it."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o700)
    files = files_of(await crashed(tmp_path / "a"))
    for side in ("", "-wal"):
        assert Path(f"{write_out(Damaged('', files), tmp_path / 'b')}{side}").exists()
    path = tmp_path / "b" / "known.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=65537")
    async with opened(path) as (store, events):
        assert [event.failure.code for event in events] == ["SYS_STATE_DAMAGED"]
        assert len(list(store.entries())) == 31
        await done(store.put(entry(99)))
