"""Databases that are not as ours has to be: another program's, another version's, and what a crash in the middle of mending left."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path

import pytest

from resilient_bridge.failure import ConfigError, StoreError
from resilient_bridge.telemetry import listen
from tests.internals.stores import PAGE, Database, entry_row, insert, open_database, summed
from tests.internals.telemetry import StateSetAside
from tests.stores.database_content import (
    SETTLED,
    checkpointed,
    crashed,
    done,
    entry,
    look,
    opened,
    read,
)
from tests.stores.database_damage import (
    Damaged,
    answer,
    cut,
    files_of,
    flipped,
    write_out,
    wrong_event,
    wrong_rows,
)
from tests.stores.faulty_disk import CrashError, files_in


pytestmark = [pytest.mark.crash, pytest.mark.requirement("C5")]


@pytest.fixture
def room(tmp_path):
    """A directory of its own for each file."""
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
async def known(room):
    """The files of the known database, and the truth."""
    files = files_of(await checkpointed(room / "a"))
    truth, _ = await look(write_out(Damaged("", files), room / "b"))
    return files, truth


def changed(files, room, script):
    """The known database after this SQL of somebody else."""
    path = write_out(Damaged("", files), room / "a")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return files_of(path)


# ---- versions and shapes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 2, 99, -1])
async def test_another_version_of_ours(known, room, version):
    """Set aside whole, and all that this version can read is in the new file: not one row is lost, and every mark is doubted."""
    files, truth = known
    other = changed(files, room, f"PRAGMA user_version={version}")
    answered = await answer(Damaged("version", other), truth, room / "c")
    assert answered.wrong == []
    assert (answered.is_silent, answered.share) == (False, 1.0)


async def test_a_send_whose_outcome_is_known_does_not_come_back(known, room):
    """An old page of the sends beside a new one of the outcomes: what is settled stays settled."""
    files, truth = known
    row = summed(entry_row(entry(min(SETTLED)), 1.0))
    path = write_out(Damaged("", files), room / "a")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(insert("outbox"), row)
        connection.execute("PRAGMA user_version=2")
        connection.commit()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content, events = await look(path)
    assert len(events) == 1
    assert content.entries.keys() == truth.entries.keys()
    assert content.outcomes == truth.outcomes


SHAPES = {
    "no outbox": "DROP TABLE outbox",
    "no marks": "DROP TABLE marks",
    "no positions": "DROP TABLE positions",
    "no records": "DROP TABLE records",
    "a column less": "ALTER TABLE tail DROP COLUMN stamp",
    "a column more": "ALTER TABLE outbox ADD COLUMN more TEXT",
    "another name": "ALTER TABLE answers RENAME TO replies",
    "a trigger": "CREATE TRIGGER gone AFTER INSERT ON outbox BEGIN DELETE FROM outbox; END",
    "a type": "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = replace(sql, 'id TEXT', 'id TEXU')",
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_database_of_another_shape(known, room, shape):
    """A table or column less, one more, a trigger, a type that makes numbers of texts: set aside, and what is ours is used."""
    files, truth = known
    answered = await answer(Damaged(shape, changed(files, room, SHAPES[shape])), truth, room / "c")
    assert answered.wrong == []
    assert not answered.is_silent
    assert answered.share > 0.2


# ---- another program's -----------------------------------------------------------------------------------------------


FOREIGN = {
    "a table": "CREATE TABLE bookmarks (url)",
    "tables called as ours": "CREATE TABLE records (name); CREATE TABLE positions (x); CREATE TABLE outbox (mail)",
    "a number of its own": "PRAGMA application_id=252006675; CREATE TABLE outbox (mail)",
    "a number and no table": "PRAGMA application_id=252006675",
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("is_live", [False, True])
async def test_a_database_of_another_program(room, kind, is_live):
    """Refused with SYS_STATE_FOREIGN, and left as it is: in one file, or in use with everything in its log."""
    path = room / "a" / "known.db"
    with closing(sqlite3.connect(path)) as connection:
        if is_live:
            connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(FOREIGN[kind])
        if not is_live:
            connection.close()
        before = files_of(path)
        path.chmod(0o600)
        with pytest.raises(StoreError) as caught:
            await look(path)
    assert caught.value.failure.code == "SYS_STATE_FOREIGN"
    if not is_live:
        assert files_of(path) == before
    assert not [name for name in files_in(path.parent) if "damaged" in name]
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    assert tables == FOREIGN[kind].count("CREATE TABLE")


async def test_a_log_of_another_program(known, room):
    """Beside a database of ours: what is in our file is used, the log is set aside, and it is told."""
    files, truth = known
    other = room / "a" / "other.db"
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE bookmarks (url)")
        connection.execute("INSERT INTO bookmarks VALUES (zeroblob(20000))")
        log = files_of(other)["-wal"]
    answered = await answer(Damaged("a log of another", {**files, "-wal": log}), truth, room / "c")
    assert answered.wrong == []
    assert not answered.is_silent


async def test_a_log_of_another_database_of_ours(room):
    """It cannot be told from one's own; every row is one that was accepted, by the one or the other."""
    files = files_of(await checkpointed(room / "a"))
    other = files_of(await crashed(room / "b"))
    content, _ = await look(
        write_out(Damaged("", {"": files[""], "-wal": other["-wal"]}), room / "c")
    )
    assert wrong_rows(content) == []


# ---- writes that were not finished -----------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [1, 2, 3, 5])
async def test_a_write_that_was_not_finished(room, frames):
    """Pages of a transaction without its last one: never there, no damage, and none later when less than them was written over them."""
    files = {**files_of(await crashed(room / "b")), "-end": None}
    frame, log = 24 + PAGE, files["-wal"]
    ends = [at for at in range(32, len(log), frame) if log[at + 4 : at + 8] != bytes(4)]
    start = next(at + frame for at, then in pairwise(ends) if then - at > (frames + 1) * frame)
    before, _ = await look(write_out(Damaged("", {**files, "-wal": log[:start]}), room / "a"))
    torn = {**files, "-wal": log[: start + frames * frame]}
    async with opened(write_out(Damaged("", torn), room / "c")) as (store, events):
        assert (read(store), events) == (before, [])
        await done(store.put(entry(99)))
        remaining = files_of(room / "c" / "known.db")
    (room / "d").mkdir(mode=0o700)
    content, events = await look(write_out(Damaged("", remaining), room / "d"))
    assert events == []
    assert content.entries.keys() == {*before.entries, 99}


# ---- what cannot be used ---------------------------------------------------------------------------------------------


async def test_a_directory_in_its_position(room):
    """Refused as a configuration, and nothing is changed."""
    (room / "a" / "known.db").mkdir()
    with pytest.raises(ConfigError, match="a directory"):
        await look(room / "a" / "known.db")
    assert (room / "a" / "known.db").is_dir()


async def test_a_disk_too_full_for_the_new_file(known, room, monkeypatch):
    """The damaged file stays where it is, whole; when there is room it is mended, and told once."""
    files, truth = known
    broken = {**files, "": files[""][:-PAGE]}
    path = write_out(Damaged("", broken), room / "c")
    with monkeypatch.context() as patch:
        patch.setattr(
            Database, "_restart_log", lambda _: None
        )  # as on a full disk: nothing is copied
        patch.setattr(Database, "log_size", lambda _: PAGE)
        with pytest.raises(StoreError) as caught:
            await look(path)
    assert caught.value.failure.code == "SYS_STORE_UNAVAILABLE"
    assert files_of(path)[""] == broken[""]
    answered = await answer(Damaged("", broken), truth, room / "c")
    assert (answered.wrong, answered.is_silent) == ([], False)


# ---- crashes while mending -------------------------------------------------------------------------------------------


def crash_at(number, monkeypatch):
    """The process ends before the rename with this number; the calls that it made."""
    calls = []

    def counted(plain):
        def call(*args, **kwargs):
            calls.append(args)
            if len(calls) >= number:
                raise CrashError
            return plain(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return calls


@pytest.mark.parametrize("harm", ["a bit", "an end"])
async def test_a_crash_at_every_step_of_mending(room, monkeypatch, harm):
    """The next process mends it again: told once in all, the original whole beside it, the same rows, and no leftovers."""
    files = files_of(await crashed(room / "b"))
    offset = len(files["-wal"]) * 3 // 4
    broken = flipped(files, "-wal", offset, 3) if harm == "a bit" else cut(files, "-wal", offset)
    number, has_crashed = 0, True
    while has_crashed:
        number += 1
        directory = room / f"at {number}"
        directory.mkdir(mode=0o700)
        path = write_out(broken, directory)
        parts = []
        with listen(
            lambda event, reported=parts: (
                reported.append(event) if isinstance(event, StateSetAside) else None
            )
        ):
            with monkeypatch.context() as patch, suppress(CrashError):
                calls = crash_at(number, patch)
                await look(path)
            has_crashed = len(calls) >= number
            content, _ = await look(path)
            again, _ = await look(path)
        assert (number, len(parts)) == (number, 1)
        assert (number, wrong_event(parts[0], broken, content)) == (number, [])
        assert (number, wrong_rows(content), len(content.entries) > 20) == (number, [], True)
        assert (number, [name for name in files_in(directory) if "salvaged" in name]) == (
            number,
            [],
        )
        assert (number, again) == (number, content)
    assert number >= 8


REMAINING = {
    "a new file that was not finished": ({".salvaged": b"half"}, True),
    "and its log": ({".salvaged": b"half", ".salvaged-wal": b"log", ".salvaged-shm": b"x"}, True),
    "a first file that was not finished": (
        {".new": b"half", ".new-wal": b"log", ".new-journal": b"x"},
        True,
    ),
    "the same, and nothing else": ({".new": b"half", ".new-wal": b"log"}, False),
}


@pytest.mark.parametrize("name", REMAINING)
async def test_leftovers(known, room, name):
    """Beside a sound database they are removed, and nothing is said; without one a new one is begun."""
    files, truth = known
    remaining, has_database = REMAINING[name]
    path = write_out(Damaged("", files if has_database else {}), room / "c")
    for end, data in remaining.items():
        Path(f"{path}{end}").write_bytes(data)
    content, events = await look(path)
    assert events == []
    assert (content == truth) == has_database
    assert files_in(path.parent) == ["known.db", "known.db.owner"]


@pytest.mark.parametrize("has_log", [False, True])
async def test_a_mended_file_whose_original_was_taken_away(known, room, has_log):
    """A crash before the last step, and somebody has moved the original: what was made of it is used, and no old log with it."""
    files, truth = known
    path = write_out(Damaged("", {".salvaged": files[""]}), room / "c")
    if has_log:
        log = files_of(await crashed(room / "b"))["-wal"]
        Path(f"{path}-wal").write_bytes(log)
    content, _ = await look(path)
    assert content == truth
    assert len([one for one in path.parent.iterdir() if "damaged" in one.name]) == has_log


def test_d06_a_store_of_which_the_last_pages_are_in_its_log(tmp_path):
    """So a full disk leaves it: the first page counts pages that are not in the file yet. It opens, and nothing was damaged."""
    before, path = tmp_path / "before.db", tmp_path / "bridge.db"
    database, _ = open_database(before, is_machine=False)
    database.close()
    with closing(sqlite3.connect(before, isolation_level=None)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute(f"PRAGMA user_version = {version}")
        for side in ("", "-wal"):
            path.with_name(path.name + side).write_bytes(
                before.with_name(before.name + side).read_bytes()
            )
    data = bytearray(path.read_bytes())
    data[28:32] = (int.from_bytes(data[28:32], "big") + 100).to_bytes(4, "big")
    path.write_bytes(data)
    assert path.with_name("bridge.db-wal").stat().st_size > 32

    database, mended = open_database(path, is_machine=False)
    database.close()
    assert mended is None
