"""A state file with `copies=2`: whatever was saved survives damage in one of its two files."""

from __future__ import annotations

import pytest

from resilient_bridge.errors import ConfigError, Executed, StoreError
from resilient_bridge.stores import StateFile
from tests.stores.faulty_disk import CODES, CrashError, FaultyDisk, failing, insert
from tests.stores.states import ONE, THREE, TWO, backup_of, damage, value_in, write


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flow" / "state.json"


def state_file(path):
    return StateFile(path, version=1, copies=2)


@pytest.fixture
def file(path):
    """A state file whose two files hold TWO."""
    made = state_file(path)
    made.save(ONE)
    made.save(TWO)
    return made


def contents(path):
    return {one: one.read_bytes() for one in path.parent.iterdir()}


def restore(path, files):
    for one in path.parent.iterdir():
        if one not in files:
            one.unlink()
    for one, data in files.items():
        one.write_bytes(data)


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    "harm", [damage, lambda path: path.unlink(), lambda path: path.write_bytes(b"")]
)
@pytest.mark.parametrize("which", ["file", "backup"])
def test_one_damaged_file_loses_nothing(file, path, heard, which, harm):
    """The other has the value, and both have it again after a load."""
    harm(path if which == "file" else backup_of(path))
    loaded = file.load()
    assert (loaded.value, loaded.lost) == (TWO, "")
    assert loaded.source == ("backup" if which == "file" else "file")
    assert len(heard) == (which == "file")
    assert value_in(path) == value_in(backup_of(path)) == TWO


def test_a_file_of_one_copy_gets_its_second(path, heard):
    """With the first load."""
    StateFile(path, version=1).save(ONE)
    StateFile(path, version=1).save(TWO)
    assert value_in(backup_of(path)) == ONE
    assert state_file(path).load().value == TWO
    assert value_in(backup_of(path)) == TWO
    assert heard == []


def test_a_backup_of_a_later_version_stays(file, path):
    """Nobody here can read it: a load does not write over it."""
    write(backup_of(path), version=2, value=THREE)
    before = backup_of(path).read_bytes()
    assert file.load().value == TWO
    assert backup_of(path).read_bytes() == before


@pytest.mark.parametrize("copies", [1, 2])
def test_a_save_costs_three_flushes(path, monkeypatch, copies):
    """Two files and their directory."""
    file = StateFile(path, version=1, copies=copies)
    file.save(ONE)
    disk = insert(monkeypatch, FaultyDisk(fsync=lambda handle: None))
    file.save(TWO)
    assert disk.calls.count("fsync") == 3


def calls_of_a_save(file, monkeypatch):
    with monkeypatch.context() as patch:
        disk = insert(patch, FaultyDisk(fsync=lambda handle: None))
        file.save(THREE)
        return len(disk.calls)


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("code", CODES)
def test_a_save_may_fail_at_any_call(file, path, monkeypatch, code, lasting):
    """A StoreError and the old value, or, if it says MAYBE, the new one."""
    files = contents(path)
    for at in range(1, calls_of_a_save(file, monkeypatch) + 1):
        restore(path, files)
        file.load()
        raised = None
        with monkeypatch.context() as patch:
            disk = FaultyDisk(at, failing(code), lasting=lasting, fsync=lambda handle: None)
            insert(patch, disk)
            try:
                file.save(THREE)
            except StoreError as error:
                raised = error
        is_saved = raised is None or raised.failure.executed is Executed.MAYBE
        loaded = state_file(path).load()
        assert (loaded.source, loaded.lost) == ("file", "")
        assert loaded.value == (THREE if is_saved else TWO)
        file.save(ONE)
        assert value_in(path) == value_in(backup_of(path)) == ONE


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("spoiled", [None, "file", "backup"])
def test_a_crash_at_any_call_of_a_save_leaves_one_of_the_two(file, path, monkeypatch, spoiled):
    """Also if a file is damaged besides."""
    files, found = contents(path), []
    for at in range(1, calls_of_a_save(file, monkeypatch) + 1):
        restore(path, files)
        file.load()
        with monkeypatch.context() as patch, pytest.raises(CrashError):
            insert(patch, FaultyDisk(at, CrashError(), lasting=True, fsync=lambda handle: None))
            file.save(THREE)
        if spoiled is not None:
            damage(path if spoiled == "file" else backup_of(path))
        loaded = state_file(path).load()
        assert loaded.lost == ""
        found.append(loaded.value)
    assert found == sorted(found, key=lambda value: value == THREE)
    assert {str(TWO), str(THREE)} == set(map(str, found))


@pytest.mark.parametrize("copies", [0, 3, "2", None, True])
def test_other_numbers_of_copies_are_refused(path, copies):
    """With what may be written."""
    with pytest.raises(ConfigError, match=r"StateFile\.copies: wanted 1 or 2, got"):
        StateFile(path, version=1, copies=copies)
