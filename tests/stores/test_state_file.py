"""A state file: what is saved is there, what is damaged is kept, and what is lost is told."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import stat
import threading
from datetime import UTC, datetime

import pytest

from resilient_bridge.failure import ConfigError, StoreError
from resilient_bridge.stores import Loaded, StateFile
from resilient_bridge.telemetry import listen
from tests.internals.stores import read_document
from tests.stores.faulty_disk import FaultyDisk, failing, files_in, insert
from tests.stores.states import ONE, THREE, TWO, backup_of, damage, value_in


@pytest.fixture
def path(tmp_path):
    """Where the state is, in a directory of its own."""
    return tmp_path / "flow" / "state.json"


# ---- save and load ---------------------------------------------------------------------------------------------------


def test_nothing_is_touched_before_it_is_used(path):
    """Making the object reads and writes nothing."""
    assert repr(StateFile(path, version=2)) == f"<StateFile {path} version 2>"
    assert not path.parent.exists()


def test_a_new_state_is_new_and_no_loss(path, heard):
    """No file and no backup: None, and nothing is told; the directory is ours alone."""
    assert StateFile(path, version=1).load() == Loaded(value=None, source="new")
    assert heard == []
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_what_is_saved_is_loaded(file, path, heard):
    """By another object, as by another process, with the time."""
    before = datetime.now(UTC)
    file.save(THREE)
    loaded = StateFile(str(path), version=1).load()
    assert (loaded.value, loaded.source, loaded.lost, loaded.set_aside) == (THREE, "file", "", None)
    assert abs((loaded.saved_at - before).total_seconds()) < 5
    assert heard == []
    assert {stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()} == {0o600}


@pytest.mark.requirement("C7")
def test_the_backup_is_what_was_there_before(file, path):
    """One backup, rolling: always the state before the last change, with its own time in it."""
    assert (value_in(path), value_in(backup_of(path))) == (TWO, ONE)
    before = path.read_bytes()
    file.save(THREE)
    assert backup_of(path).read_bytes() == before
    assert read_document(before).saved_at is not None
    assert files_in(path.parent) == ["state.json", "state.json.backup"]


@pytest.mark.requirement("C7")
def test_the_original_changes_only_after_its_backup_did(file, path, monkeypatch):
    """While the backup cannot be written, the original stays; both take their place in one step."""
    order = []

    def watched(source, target):
        order.append((target.name, value_in(path)))
        os.replace(source, target)  # noqa: PTH105

    insert(monkeypatch, FaultyDisk(replace=watched))
    file.save(THREE)
    assert order == [("state.json.backup", TWO), ("state.json", TWO)]
    insert(monkeypatch, FaultyDisk(1, failing("ENOSPC"), kinds={"replace"}))
    with pytest.raises(StoreError):
        file.save(ONE)
    assert (value_in(path), value_in(backup_of(path))) == (THREE, TWO)


def test_a_value_of_null_is_a_value(path):
    """Saved and loaded, it is not a new state."""
    file = StateFile(path, version=1)
    file.save(None)
    assert file.load().source == "file"


@pytest.mark.parametrize(
    "value", [float("nan"), {1: 2}, "\ud800", {"a": object()}, pytest.param(10**5_000, id="digits")]
)
def test_what_cannot_be_saved_is_refused_before_anything_is_touched(file, path, value):
    """Not even the backup changes."""
    before = {one: one.read_bytes() for one in path.parent.iterdir()}
    with pytest.raises(ConfigError, match="value"):
        StateFile(path, version=1).save(value)
    assert {one: one.read_bytes() for one in path.parent.iterdir()} == before


def test_what_the_check_refuses_is_not_saved(file, path):
    """Its own error comes out; False is a refusal too; it sees the value as it will come back."""
    with pytest.raises(KeyError, match="phase"):
        file.save({})
    with pytest.raises(ConfigError, match="wanted one that passes its check"):
        StateFile(path, version=1, check=lambda value: value == (1,)).save((1,))
    StateFile(path, version=1, check=lambda value: value == [1]).save((1,))
    assert value_in(backup_of(path)) == TWO


def test_threads_alternate(path):
    """Four threads save and load one object: every load is something that was saved."""
    file = StateFile(path, version=1)
    file.save(0)
    seen: list[object] = []

    def work(number):
        for turn in range(20):
            file.save([number, turn])
            seen.append(file.load())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 80
    assert {loaded.source for loaded in seen} == {"file"}
    assert files_in(path.parent) == ["state.json", "state.json.backup"]


async def test_async_code_uses_a_thread(path):
    """Nothing in it belongs to a thread or a loop."""
    file = StateFile(path, version=1)
    await asyncio.gather(*(asyncio.to_thread(file.save, number) for number in range(5)))
    assert (await asyncio.to_thread(file.load)).value in range(5)


# ---- the log, and arguments ------------------------------------------------------------------------------------------


def test_without_a_listener_the_log_says_it_once(file, path, caplog):
    """One warning of one line in the logger `resilient_bridge`."""
    damage(path)
    with caplog.at_level(logging.DEBUG):
        loaded = file.load()
    ((name, level, line),) = caplog.record_tuples
    assert (name, level) == ("resilient_bridge", logging.WARNING)
    assert all(
        stated in line
        for stated in (str(path), str(loaded.set_aside), "the backup of", loaded.lost)
    )
    assert line.isprintable()


def test_j02_a_listener_takes_nothing_from_the_log(file, path, caplog, heard):
    """Both hear of it, once each."""
    damage(path)
    with caplog.at_level(logging.DEBUG):
        file.load()
    assert (len(caplog.records), len(heard)) == (1, 1)


def test_a_broken_log_does_not_break_a_load(file, path):
    """What a filter of the application raises stays in the log."""

    def broken(record):
        raise ValueError

    damage(path)
    logger = logging.getLogger("resilient_bridge")
    logger.addFilter(broken)
    try:
        assert file.load().value == ONE
    finally:
        logger.removeFilter(broken)


def test_a_listener_may_use_the_file(file, path):
    """It is told when all is done, and may save at once."""
    damage(path)
    with listen(lambda event: file.save(THREE)):
        assert file.load().value == ONE
    assert file.load().value == THREE


async def _never(value):
    pass


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"version": 0}, "version"), ({"version": True}, "version"), ({"version": "1"}, "version"), ({"version": 1.0}, "version"),
        ({"check": 5}, "check"), ({"check": _never}, "check"), ({"orphans": _never}, "orphans"),
        ({"migrations": {0: dict}}, "migrations"), ({"migrations": {2: dict}}, "migrations"), ({"migrations": {"1": dict}}, "migrations"),
        ({"version": 2, "migrations": {1: 5}}, "migrations"), ({"version": 2, "migrations": {1: _never}}, "migrations"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_meant_are_refused(path, arguments, field):
    """At once, with the name of the field; an async function would never run."""
    with pytest.raises(ConfigError, match=rf"StateFile\.{field}: wanted"):
        StateFile(path, **{"version": 1, **arguments})


def test_a_path_that_is_none_is_refused(file, path):
    """At once; and what is in the way of it when it is used, with the name of the field."""
    with pytest.raises(ConfigError, match=r"StateFile\.path"):
        StateFile("", version=1)
    below = StateFile(path / "state.json", version=1)
    for use in (below.load, lambda: below.save(ONE)):
        with pytest.raises(ConfigError, match=r"StateFile\.path: wanted a path in a directory"):
            use()
    path.unlink()
    path.symlink_to(backup_of(path))
    with pytest.raises(ConfigError, match=r"StateFile\.path: wanted a regular file"):
        file.save(ONE)


@pytest.mark.parametrize("which", ["state.json", "state.json.backup"])
def test_a_link_is_refused_and_nothing_is_touched(file, path, which):
    """Threat 38: neither is followed, and what is damaged stays where it is until somebody has looked."""
    damage(path)
    target = path.with_name("target")
    path.with_name(which).rename(target)
    path.with_name(which).symlink_to(target)
    before = files_in(path.parent)
    with pytest.raises(ConfigError, match=r"StateFile\.path: .*a symbolic link"):
        file.load()
    assert files_in(path.parent) == before
    assert json.loads(target.read_text()) if which.endswith("backup") else target.read_bytes()
