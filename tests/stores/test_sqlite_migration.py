"""A database of version 1 in the hands of later versions: everything is carried over, nothing is doubted, and no crash leaves half of it."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge.errors import StoreError
from resilient_bridge.protocol import EntryState, Now
from resilient_bridge.stores import SQLiteStore
from tests.internals.stores import LAYOUTS, PAGE, Layout, faults_of, is_good, open_database
from tests.internals.stores import migration as sqlite_migration
from tests.stores.data.make_version_1 import WALL, reported
from tests.stores.database_content import checkpointed, crashed, look
from tests.stores.database_damage import (
    Damaged,
    files_of,
    flipped,
    write_out,
    wrong_event,
    wrong_rows,
)
from tests.stores.faulty_disk import files_in
from tests.stores.later_versions import put_in_force


DATA = Path(__file__).parent / "data"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.requirement("C5")


@pytest.fixture
def path(tmp_path):
    """A copy of the file that version 1 left."""
    tmp_path.chmod(0o700)
    shutil.copyfile(DATA / "version-1.db", tmp_path / "bridge.db")
    return tmp_path / "bridge.db"


@pytest.fixture
def version_1():
    """What version 1 said of it."""
    return json.loads((DATA / "version-1.json").read_text())


async def answers_of(path):
    """What a store says of the file a minute after it was written, and what its opening said."""
    heard = []
    store = SQLiteStore(path)
    with rb.listen(heard.append):
        await store.open(Now(asyncio.get_running_loop().time(), WALL + 60))
    try:
        return json.loads(json.dumps(reported(store))), heard
    finally:
        await store.close()


def table(path, name):
    """The rows of a table with their check sums, and the version."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()
        return rows, connection.execute("PRAGMA user_version").fetchone()[0]


def judged(path):
    """What is wrong with a file that nobody uses."""
    with closing(sqlite3.connect(path)) as connection:
        return faults_of(connection)


def the_lanes(rows):
    return {row[0]: row[-2] for row in rows}


# ---- what is carried over --------------------------------------------------------------------------------------------


def test_the_tables_of_version_1_are_those_of_its_file():
    """What is known of version 1 is what it left; and no two versions have the same tables, by which a file is told."""
    with closing(
        sqlite3.connect(f"{(DATA / 'version-1.db').as_uri()}?immutable=1", uri=True)
    ) as connection:
        found = [
            sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master ORDER BY rowid")
        ]
    assert list(LAYOUTS[1].schema) == found
    assert len({layout.schema for layout in LAYOUTS.values()}) == len(LAYOUTS)


@pytest.mark.parametrize(
    "numbers", [(3,), (2, 3)], ids=["by version 3", "by version 2, then by version 3"]
)
async def test_a_store_of_a_later_version_says_what_version_1_reported(
    path, version_1, monkeypatch, numbers
):
    """Through two versions at once, or one a day: sends, marks, outcomes, positions, records are exact, and no event says otherwise."""
    put_in_force(monkeypatch, 2)
    if 2 in numbers:
        open_database(path, is_machine=False)[0].close()
    put_in_force(monkeypatch, 3)
    assert await answers_of(path) == (version_1, [])
    assert await answers_of(path) == (version_1, [])
    notes, version = table(path, "notes")
    assert version == 3
    assert {seq: body for seq, body, _ in notes} == dict.fromkeys((2, 5, 6), "lane of note") | {
        3: "lane of approval"
    }
    assert files_in(path.parent) == ["bridge.db", "bridge.db.owner"]


async def test_a_column_more_and_a_table_more(path, monkeypatch):
    """Version 2: its rows have check sums of their own, its tables are those of a new file."""
    put_in_force(monkeypatch, 2)
    database, mended = open_database(path, is_machine=False)
    try:
        lanes = [(row[0], row[-1]) for row in database.rows("outbox")]
        notes = database.rows("notes")
    finally:
        database.close()
    assert mended is None
    assert lanes == [
        (2, "lane of note"),
        (3, "lane of approval"),
        (5, "lane of note"),
        (6, "lane of note"),
    ]
    assert notes == [(1, "approval"), (2, "note")]
    rows, version = table(path, "outbox")
    assert (version, all(map(is_good, rows))) == (2, True)
    found = judged(path)
    assert (bool(found), found.version) == (False, 2)


def test_a_client_of_a_later_version_goes_on(path, monkeypatch):
    """What was never handed out is sent; of what was handed out long ago, and only of that, the outcome is unknown."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM records")  # those of the fixture are no records of a client
        connection.commit()
    put_in_force(monkeypatch, 2, 3)
    heard = []

    async def after(server):
        with rb.listen(heard.append):
            async with rb.BridgeClient(server.url, store=path) as bridge:
                receipt = await bridge.send("note", {"n": 7}, idempotency_key="key-7")
                await receipt.confirmed(timeout=30)
        return [
            frame for frame in server.frames if frame.keys() == {"n"} or frame["type"] == "note"
        ]

    sent = rb.testing.simulate(after, seed=1)
    assert [frame.get("n") or frame["payload"]["n"] for frame in sent] == [6, 7]
    unknown = [event.key for event in heard if isinstance(event, rb.events.MessageUndelivered)]
    assert unknown == ["key-2", "key-3", "key-5"]
    assert not [event for event in heard if isinstance(event, rb.events.StateSetAside)]


async def test_a_file_with_a_log(tmp_path, monkeypatch):
    """Version 1 was killed, half of it is in its log: all of that is carried over."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o700)
    remaining = await crashed(tmp_path / "a")
    truth, _ = await look(write_out(Damaged("", files_of(remaining)), tmp_path / "b"))
    put_in_force(monkeypatch, 2, 3)
    assert await look(remaining) == (truth, [])
    assert table(remaining, "marks")[1] == 3


# ---- what interrupts it ----------------------------------------------------------------------------------------------


class FailingConnection(sqlite3.Connection):
    """One on a disk whose k-th statement fails."""

    rest = 0
    seen = ()

    def execute(self, sql, *passed):
        self._count(sql)
        return super().execute(sql, *passed)

    def executemany(self, sql, rows):
        self._count(sql)
        return super().executemany(sql, rows)

    def _count(self, sql):
        FailingConnection.seen += (sql,)
        FailingConnection.rest -= 1
        if FailingConnection.rest == 0:
            raise sqlite3.OperationalError("disk I/O error")


@pytest.fixture
def failing_at(monkeypatch):
    """A function that lets the k-th statement of the next migration fail."""
    real = sqlite_migration.connect

    def connect(*args, **options):
        with monkeypatch.context() as patch:
            plain = sqlite3.connect
            patch.setattr(
                sqlite3, "connect", lambda *a, **o: plain(*a, **o, factory=FailingConnection)
            )
            return real(*args, **options)

    def fail_at(number):
        FailingConnection.rest, FailingConnection.seen = number, ()
        monkeypatch.setattr(sqlite_migration, "connect", connect)

    return fail_at


async def test_an_error_at_every_statement(path, version_1, monkeypatch, failing_at):
    """Typed, the owner has let go, version 1 reads the file as it was; and the next attempt carries everything over."""
    plain = path.read_bytes()
    number, has_failed = 0, True
    while has_failed:
        number += 1
        path.write_bytes(plain)
        with monkeypatch.context() as patch:
            put_in_force(patch, 2, 3)
            failing_at(number)
            try:
                found = await answers_of(path)
                has_failed = False
            except StoreError as error:
                assert error.failure.code == "SYS_STORE_UNAVAILABLE"
                version = table(path, "marks")[1]
        made = FailingConnection.seen
        failing_at(0)
        if not has_failed:
            assert found == (version_1, [])
        else:
            assert version == 1
            assert (number, await answers_of(path)) == (number, (version_1, []))
            assert (number, table(path, "outbox")[0]) == (
                number,
                table(DATA / "version-1.db", "outbox")[0],
            )
        put_in_force(monkeypatch, 2, 3)
        assert (number, await answers_of(path)) == (number, (version_1, []))
        for later in (2, 3):
            del LAYOUTS[later]
    assert made[-1] == "COMMIT"
    assert number > 30


@pytest.mark.real
@pytest.mark.crash
async def test_a_kill_at_every_statement(path, version_1, monkeypatch):
    """Version 1 finds its file whole, or one that is all of version 3; and version 3 finds everything, in silence."""
    (path.parent / "room").mkdir(mode=0o700)
    path.rename(path.parent / "room" / "known.db")
    command = [sys.executable, "-m", "tests.stores.migration_worker", path.parent / "room"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100
    )
    count, old = int(done.stdout), 0
    for at in range(1, count + 1):
        remaining = path.parent / "room" / str(at) / "known.db"
        (remaining.parent / "copy").mkdir(mode=0o700)
        copy = write_out(Damaged("", files_of(remaining)), remaining.parent / "copy")
        try:
            assert (at, await answers_of(copy)) == (at, (version_1, []))
            old += 1
        except StoreError as error:
            assert error.failure.code == "SYS_STATE_FOREIGN"
        with monkeypatch.context() as patch:
            put_in_force(patch, 2, 3)
            assert (at, await answers_of(remaining)) == (at, (version_1, []))
            assert (at, judged(remaining)) == (at, ((), (), "", 3))
    assert count - 4 < old < count
    assert old > 30


async def test_a_step_that_raises(path, version_1, monkeypatch):
    """That is a defect of the program: its error comes out as it is, the file is not changed, and the owner has let go."""
    plain = path.read_bytes()

    def broken(rows):
        raise LookupError(len(rows["outbox"]))

    with monkeypatch.context() as patch:
        patch.setitem(
            LAYOUTS,
            2,
            Layout(LAYOUTS[1].tables | {"notes": ("seq", "body")}, LAYOUTS[1].keys, broken),
        )
        with pytest.raises(LookupError, match="4"):
            await answers_of(path)
    assert path.read_bytes() == plain
    assert await answers_of(path) == (version_1, [])


# ---- damage and versions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bit", range(32))
async def test_a_bit_of_the_number_of_a_version(path, version_1, monkeypatch, bit):
    """A sound file of version 1 that says another number, also one of a version that is known: damage, mended as what it is."""
    put_in_force(monkeypatch, 2, 3)
    data = bytearray(path.read_bytes())
    data[63 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    found, heard = await answers_of(path)
    assert [event.lost for event in heard] == [
        "nothing that could be counted, perhaps rows of any table"
    ]
    assert [entry[:5] for entry in found["entries"]] == [
        entry[:5] for entry in version_1["entries"]
    ]
    assert {entry[5] for entry in found["entries"]} == {EntryState.WRITTEN}
    assert found["records"] == version_1["records"]
    assert len(table(path, "notes")[0]) == 4


@pytest.fixture
async def known(tmp_path):
    """The files of a database of version 1 with the known content, and the truth."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir(mode=0o700)
    files = files_of(await checkpointed(tmp_path / "a"))
    return files, (await look(write_out(Damaged("", files), tmp_path / "d")))[0]


def without_page(files, page):
    """The same, this page of the file made zeros."""
    data = files[""]
    return Damaged("", {**files, "": data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :]})


@pytest.mark.parametrize("page", range(12))
async def test_a_damaged_file_of_version_1(known, tmp_path, monkeypatch, page):
    """A page of zeros: what version 1 would have saved is saved, and is of version 3."""
    broken = without_page(known[0], page)
    before, events = await look(write_out(broken, tmp_path / "b"))
    put_in_force(monkeypatch, 2, 3)
    found, later = await look(write_out(broken, tmp_path / "c"))
    assert found == before
    assert [event.lost for event in later] == [event.lost for event in events] != []
    assert judged(tmp_path / "c" / "known.db") == ((), (), "", 3)


async def test_damage_in_a_crashed_file_of_version_1(tmp_path, monkeypatch):
    """A bit in its log: told once, the original is beside the new file, and what is left is true and of version 3."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir(mode=0o700)
    files = files_of(await crashed(tmp_path / "a"))
    put_in_force(monkeypatch, 2, 3)
    broken = flipped(files, "-wal", len(files["-wal"]) * 3 // 4, 3)
    remaining = write_out(broken, tmp_path / "b")
    content, events = await look(remaining)
    assert len(events) == 1
    assert wrong_event(events[0], broken, content) == wrong_rows(content) == []
    assert len(content.entries) > 20
    assert await look(remaining) == (content, [])
    assert table(remaining, "marks")[1] == 3
