"""Where a store may be: in files of ours alone, at a path that is one; everything else is refused before it is touched."""

from __future__ import annotations

import math
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from resilient_bridge.failure import ConfigError, StoreError
from resilient_bridge.stores import SQLiteStore
from tests.stores.database_content import done, entry, look, now, opened
from tests.stores.faulty_disk import files_in


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bridge" / "outbox.db"


def mode(path):
    return path.stat().st_mode & 0o777


async def test_its_files_are_ours_alone(path):
    """The directory that it makes is 0700, and every file in it 0600, whatever the umask: the log, its index, the lock, and what is new."""
    before = os.umask(0)
    try:
        async with opened(path.parent / "deeper" / path.name) as (store, _):
            await done(store.put(entry(1)))
            found = {one.name: mode(one) for one in (path.parent / "deeper").iterdir()}
        (path.parent / "deeper" / path.name).write_bytes(b"damaged")
        await look(path.parent / "deeper" / path.name)
        later = {one.name: mode(one) for one in (path.parent / "deeper").iterdir()}
    finally:
        os.umask(before)
    assert mode(path.parent) == mode(path.parent / "deeper") == 0o700
    assert found == dict.fromkeys(
        ["outbox.db", "outbox.db-end", "outbox.db-wal", "outbox.db-shm", "outbox.db.owner"], 0o600
    )
    assert len(later) >= 3
    assert set(later.values()) == {0o600}


@pytest.mark.parametrize("name", ["outbox.db", "outbox.db-end", "outbox.db-wal", "outbox.db.owner"])
@pytest.mark.parametrize("how", ["symbolic link", "second name", "pipe", "directory"])
async def test_what_is_no_file_of_ours_is_refused(path, tmp_path, name, how):
    """A link, a file with two names, a pipe or a directory in the place of any file: refused, and what it leads to is not touched."""
    await look(path)
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    folder = path.with_name(name)
    folder.unlink(missing_ok=True)
    if how == "symbolic link":
        folder.symlink_to(other)
    elif how == "second name":
        folder.hardlink_to(other)
    elif how == "pipe":
        os.mkfifo(folder, 0o600)
    else:
        folder.mkdir()
    with pytest.raises((ConfigError, StoreError)) as caught:
        await look(path)
    assert "store" in str(caught.value) or "directory" in str(caught.value)
    assert other.read_bytes() == b"precious"


async def test_a_directory_that_others_may_write_to_is_refused(path):
    """Somebody else could swap the file: ConfigError, and no file is made."""
    path.parent.mkdir()
    path.parent.chmod(0o777)
    with pytest.raises(ConfigError, match="nobody else may write"):
        await look(path)
    assert files_in(path.parent) == []


@pytest.mark.parametrize(
    "passed", [b"bytes", "", "\0", "a\0b", 5, None, "/", "..", "x" * 250], ids=repr
)
def test_a_path_that_is_none(passed):
    """ConfigError that names the field, from the constructor."""
    with pytest.raises(ConfigError, match=r"SQLiteStore\.path"):
        SQLiteStore(passed)


@pytest.mark.parametrize("passed", [-1, math.nan, "1", True, b""], ids=repr)
def test_a_wait_that_is_none(passed):
    """ConfigError that names the field."""
    with pytest.raises(ConfigError, match=r"SQLiteStore\.wait"):
        SQLiteStore("x.db", wait=passed)


@pytest.mark.parametrize("passed", ["full", "", None, True, ["process"]], ids=repr)
def test_a_durability_that_is_none(passed):
    """ConfigError that names the field."""
    with pytest.raises(ConfigError, match=r"SQLiteStore\.durability"):
        SQLiteStore("x.db", durability=passed)


async def test_a_path_is_taken_when_it_is_passed(path, tmp_path, monkeypatch):
    """Text or path; a relative one means the directory of that moment, and every character is one of the name."""
    monkeypatch.chdir(tmp_path)
    odd = "a?mode=ro&x=%41#b ü.db"
    stores = [SQLiteStore("bridge/one.db"), SQLiteStore(Path("bridge") / odd)]
    monkeypatch.chdir("/")
    for store in stores:
        await store.open(now())
        await done(store.put(entry(1)))
        await store.close()
    assert sorted(files_in(path.parent)) == sorted(["one.db", "one.db.owner", odd, f"{odd}.owner"])
    for name in ("one.db", odd):
        content, events = await look(path.parent / name)
        assert (list(content.entries), events) == ([1], [])


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        ("a directory", ConfigError, ["bridge.db", "a directory", "or the path of a new one"]),
        ("a pipe", ConfigError, ["bridge.db", "no regular file", "or the path of a new one"]),
        (
            "a loop of links",
            ConfigError,
            ["bridge.db", "a symbolic link", "or the path of a new one"],
        ),
        (
            "a loop in its folder",
            ConfigError,
            ["loop/bridge.db", "a loop of links", "that can be made"],
        ),
        (
            "a file as its folder",
            ConfigError,
            ["file/bridge.db", "a path in a directory", "that can be made"],
        ),
        ("a database of others", StoreError, ["bridge.db", "another program", "another path"]),
        (
            "no folder that can be made",
            StoreError,
            ["/proc/", "another path|can be made|this user"],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_bad_paths_say_what_was_wanted_and_got_and_what_to_write(
    tmp_path, kind, error, words
):
    """Each of them is a typed error, and what is at the path stays."""
    path = tmp_path / "bridge.db"
    if kind == "a directory":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a loop of links":
        path.symlink_to(tmp_path / "other")
        (tmp_path / "other").symlink_to(path)
    elif kind == "a loop in its folder":
        (tmp_path / "loop").symlink_to(tmp_path / "pool")
        (tmp_path / "pool").symlink_to(tmp_path / "loop")
        path = tmp_path / "loop" / "bridge.db"
    elif kind == "a file as its folder":
        (tmp_path / "file").write_text("precious")
        path = tmp_path / "file" / "bridge.db"
    elif kind == "a database of others":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE theirs (n)")
        path.chmod(0o600)
    else:
        path = Path("/proc/none/bridge.db")
    with pytest.raises(error) as caught:
        await look(path)
    for word in words:
        assert any(each in str(caught.value) for each in word.split("|")), (word, str(caught.value))
