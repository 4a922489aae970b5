"""How files change: all or nothing, whatever fails, and what is damaged is kept under a name of its own."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from datetime import UTC, datetime

import pytest

from resilient_bridge.errors import Executed, StoreError
from resilient_bridge.world import REAL, WORLD, World
from tests.internals.files import (
    keep_copy,
    remove,
    remove_leftovers,
    replace_atomically,
    set_aside,
    write_all,
)
from tests.stores.faulty_disk import (
    CODES,
    CrashError,
    FaultyDisk,
    failing,
    files_in,
    insert,
    open_files,
)


OLD, NEW = b"old" * 100, b"new" * 200
#: The calls of one `replace_atomically`, in order.
STEPS = "open write fsync close replace open fsync close".split()


@pytest.fixture
def path(tmp_path):
    """A file that holds OLD."""
    made = tmp_path / "state.json"
    made.write_bytes(OLD)
    made.chmod(0o600)
    return made


def test_a_file_is_replaced_whole_and_durably(path, monkeypatch):
    """Written under another name, synchronised, renamed, and the rename synchronised; nothing else is left."""
    disk = insert(monkeypatch, FaultyDisk())
    replace_atomically(path, NEW)
    assert disk.calls == STEPS
    assert path.read_bytes() == NEW
    assert files_in(path.parent) == ["state.json"]


def test_a_new_file_is_private_and_its_name_is_not_to_be_guessed(path, monkeypatch):
    """0600 whatever the umask, made with O_EXCL, under a name with 64 random bits; a link in its place is replaced, not followed."""
    names = []

    def watched(source, target):
        names.append(source.name)
        os.replace(source, target)  # noqa: PTH105

    insert(monkeypatch, FaultyDisk(replace=watched))
    target = path.with_name("target")
    target.write_text("theirs")
    path.unlink()
    path.symlink_to(target)
    before = os.umask(0)
    try:
        for _ in range(3):
            replace_atomically(path, NEW)
    finally:
        os.umask(before)
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"\.state\.json\.[0-9a-f]{16}\.tmp", name) for name in names)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert target.read_text() == "theirs"


def test_a_name_that_is_taken_is_untouched(path, monkeypatch):
    """Should somebody have guessed it after all, their file stays as it is."""
    monkeypatch.setattr(REAL, "new_token", lambda: "0" * 16)
    taken = path.with_name(".state.json.0000000000000000.tmp")
    taken.write_text("theirs")
    with pytest.raises(StoreError, match="could not be written: file exists"):
        replace_atomically(path, NEW)
    assert (taken.read_text(), path.read_bytes()) == ("theirs", OLD)


@pytest.mark.parametrize("most", [1, 7, 599])
def test_a_short_write_is_continued(path, monkeypatch, most):
    """A system may take less than it was given."""
    insert(monkeypatch, FaultyDisk(most=most))
    replace_atomically(path, NEW)
    assert path.read_bytes() == NEW


def test_a_system_that_writes_nothing_is_an_error(path, monkeypatch):
    """Not an endless loop."""
    insert(monkeypatch, FaultyDisk(most=0))
    with pytest.raises(StoreError, match="input/output error"):
        replace_atomically(path, NEW)
    assert path.read_bytes() == OLD


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("at", range(1, len(STEPS) + 1))
def test_any_step_may_fail(path, monkeypatch, at, code):
    """Threat 36: typed with path and cause; the old file as it was, or, once the new one is in place, MAYBE; no temporary file, no
    descriptor is left; and it works again when the fault is gone.
    """
    before = open_files()
    insert(monkeypatch, FaultyDisk(at, failing(code)))
    if at == len(STEPS):  # the directory is synchronised already, and closing it can do no harm
        replace_atomically(path, NEW)
    else:
        with pytest.raises(
            StoreError, match=r"state\.json could not be (written|synchronised): "
        ) as caught:
            replace_atomically(path, NEW)
        failure = caught.value.failure
        assert failure.code == "SYS_STORE_UNAVAILABLE"
        assert failure.details["errno"] == getattr(errno, code)
        assert isinstance(caught.value.__cause__, OSError)
        replaced = at > STEPS.index("replace") + 1
        assert failure.executed is (Executed.MAYBE if replaced else Executed.NO)
        assert path.read_bytes() == (NEW if replaced else OLD)
    assert files_in(path.parent) == ["state.json"]
    assert open_files() == before
    insert(monkeypatch, FaultyDisk())
    replace_atomically(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("code", ["EINVAL", "ENOTSUP"])
def test_a_file_system_that_cannot_synchronise_names_will_do(path, monkeypatch, code):
    """Some refuse the request for a directory; that is no failure of the file."""
    insert(monkeypatch, FaultyDisk(2, failing(code), kinds={"fsync"}))
    replace_atomically(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("at", range(1, 7))
def test_an_interrupt_leaves_no_temporary_file(path, monkeypatch, at):
    """Ctrl-C passes, and tidies up."""
    insert(monkeypatch, FaultyDisk(at, KeyboardInterrupt(), kinds=set(STEPS) - {"close"}))
    with pytest.raises(KeyboardInterrupt):
        replace_atomically(path, NEW)
    assert files_in(path.parent) == ["state.json"]


@pytest.mark.parametrize("at", range(1, len(STEPS) + 1))
def test_a_crash_leaves_the_old_or_the_new(path, monkeypatch, at):
    """Whatever the last call was, the file is whole."""
    insert(monkeypatch, FaultyDisk(at, CrashError(), lasting=True))
    with pytest.raises(CrashError):
        replace_atomically(path, NEW)
    assert path.read_bytes() == (OLD if at <= STEPS.index("replace") + 1 else NEW)


def test_what_a_killed_process_leaves_is_removed_an_hour_later(path):
    """Its own temporary files only, and not those of a save that may still run."""
    old, fresh = f".{path.name}.{'0' * 16}.tmp", f".{path.name}.{'1' * 16}.tmp"
    others = [
        f".{path.name}.tmp",
        f".other.{'0' * 16}.tmp",
        f"{path.name}.damaged-20260320T143200Z",
    ]
    for name in (old, fresh, *others):
        path.with_name(name).write_text("")
        hour_ago = time.time() - (3500 if name == fresh else 3700)
        os.utime(path.with_name(name), (hour_ago, hour_ago))
    remove_leftovers(path)
    assert files_in(path.parent) == sorted([path.name, fresh, *others])


@pytest.mark.parametrize("kind", ["listdir", "lstat", "unlink"])
def test_remainingovers_that_cannot_be_removed_stay(path, monkeypatch, kind):
    """Tidying up is no reason to fail."""
    remaining = path.with_name(f".{path.name}.{'0' * 16}.tmp")
    remaining.write_text("")
    os.utime(remaining, (0, 0))
    insert(monkeypatch, FaultyDisk(1, failing("EIO"), kinds={kind}))
    remove_leftovers(path)
    assert remaining.exists()


def test_a_file_is_removed_once(path, monkeypatch):
    """A second time there is none; a refusal is typed."""
    remove(path)
    remove(path)
    assert files_in(path.parent) == []
    path.write_bytes(OLD)
    insert(monkeypatch, FaultyDisk(1, failing("EROFS"), kinds={"unlink"}))
    with pytest.raises(StoreError, match=r"state\.json could not be removed"):
        remove(path)


# ---- what is damaged -------------------------------------------------------------------------------------------------


@pytest.fixture
def noon():
    """All happens in the same second."""
    world = World()
    world.wall = datetime(2026, 3, 20, 14, 32, tzinfo=UTC).timestamp
    token = WORLD.set(world)
    yield
    WORLD.reset(token)


FIRST = "state.json.damaged-20260320T143200Z"


def test_a_damaged_file_is_renamed_with_its_time(path, noon):
    """The name says when; the file is the same."""
    inode = path.stat().st_ino
    aside = set_aside(path)
    assert aside == path.with_name(FIRST)
    assert files_in(path.parent) == [FIRST]
    assert aside.stat().st_ino == inode


def test_what_was_set_aside_is_never_overwritten(path, noon):
    """A second and a third of the same second get numbers, whichever way they are kept."""
    aside = [set_aside(path)]
    for number in range(2, 4):
        path.write_text(f"another {number}")
        aside.append(keep_copy(path, path.read_bytes()))
    aside.append(set_aside(path))
    assert [one.name for one in aside] == [FIRST, f"{FIRST}-2", f"{FIRST}-3", f"{FIRST}-4"]
    assert [one.read_text() for one in aside[1:]] == ["another 2", "another 3", "another 3"]
    assert aside[0].read_bytes() == OLD


def test_a_copy_leaves_the_file(path, noon):
    """The copy is private and durable, and may say that it is foreign instead."""
    aside = keep_copy(path, OLD, "foreign")
    assert aside.name == "state.json.foreign-20260320T143200Z"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert aside.read_bytes() == path.read_bytes() == OLD


@pytest.mark.parametrize(
    "keep", [set_aside, lambda path: keep_copy(path, OLD)], ids=["rename", "copy"]
)
@pytest.mark.parametrize("at", range(1, 9))
def test_saving_may_fail_at_any_step(path, monkeypatch, keep, at):
    """Threat 36: typed, and the file is there, under its name or, if MAYBE, the other; what was begun is gone."""
    disk = insert(monkeypatch, FaultyDisk(at, failing("EIO"), kinds=set(STEPS)))
    try:
        keep(path)
    except StoreError as error:
        assert re.search(
            r"state\.json could not be (set aside|synchronised as state\.json\.damaged-.*): input",
            str(error),
        )
        if error.failure.executed is Executed.NO:
            assert path.read_bytes() == OLD
        else:
            assert not path.exists()
    found = files_in(path.parent)
    assert len(found) <= 2
    assert all(path.with_name(name).read_bytes() == OLD for name in found)
    assert disk.calls


def test_all_of_it_is_written_or_an_error_says_not(path, monkeypatch):
    """`write_all` goes on after a short write, and what it has written stays written when the rest fails."""
    insert(monkeypatch, FaultyDisk(3, failing("ENOSPC"), kinds={"write"}, most=2))
    with path.open("r+b") as file, pytest.raises(OSError, match="No space left"):
        write_all(file.fileno(), b"123456")
    assert path.read_bytes() == b"1234" + OLD[4:]
