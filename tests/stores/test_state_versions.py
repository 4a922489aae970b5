"""A state file of another version or program: migrated, or kept for those who can read it, and never misread."""

from __future__ import annotations

from pathlib import Path

import pytest

from resilient_bridge.failure import ConfigError
from resilient_bridge.stores import StateFile
from tests.internals.stores import Document, InvalidDocumentError, read_document, write_document
from tests.stores.faulty_disk import files_in
from tests.stores.states import EPOCH, ONE, backup_of, damage, value_in, write


MIGRATIONS = {1: lambda value: {**value, "one": 1}, 2: lambda value: {**value, "two": 2}}


@pytest.fixture
def path(tmp_path):
    """Where the state is."""
    return tmp_path / "state.json"


def test_an_older_version_is_migrated_step_by_step(path, heard):
    """Each step makes the next version; nothing is written by that, and the time is that of the file."""
    write(path, value={"a": 1})
    before = path.read_bytes()
    loaded = StateFile(path, version=3, migrations=MIGRATIONS).load()
    assert (loaded.value, loaded.source, loaded.saved_at) == (
        {"a": 1, "one": 1, "two": 2},
        "file",
        EPOCH,
    )
    assert (path.read_bytes(), heard) == (before, [])


def test_the_backup_of_a_migrated_state_is_the_old_version(path):
    """The next save writes the new version, and who goes back a release finds the old one."""
    write(path, value={"a": 1})
    file = StateFile(path, version=3, migrations=MIGRATIONS)
    file.save(file.load().value)
    assert (
        read_document(path.read_bytes()).version,
        read_document(backup_of(path).read_bytes()).version,
    ) == (3, 1)
    assert value_in(backup_of(path)) == {"a": 1}


def test_only_the_steps_that_are_needed_are_taken(path):
    """From version 2 on."""
    write(path, version=2, value={})
    assert StateFile(path, version=3, migrations=MIGRATIONS).load().value == {"two": 2}


def test_a_backup_is_migrated_too(path, heard):
    """It takes the place of a damaged file in the version of today, and itself stays what it was."""
    write(backup_of(path), value={})
    path.write_bytes(b"")
    assert StateFile(path, version=3, migrations=MIGRATIONS).load().value == {"one": 1, "two": 2}
    assert read_document(path.read_bytes()).version == 3
    assert read_document(backup_of(path).read_bytes()).version == 1


def test_the_check_is_about_the_migrated_value(path):
    """What an old version looked like is no concern of it."""
    write(path, value={})
    file = StateFile(path, version=3, migrations=MIGRATIONS, check=lambda value: "two" in value)
    assert file.load().source == "file"


def test_a_migration_that_raises_is_a_defect_of_the_program(path, heard):
    """Its error comes out with a note, and the file stays: tomorrow's release may do better."""
    write(path, value={"a": 1})
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError) as caught:
        StateFile(path, version=2, migrations={1: lambda value: 1 / 0}).load()
    assert caught.value.__notes__ == [
        f"migration of {path} from version 1 to 2; the file is as it was"
    ]
    assert (files_in(path.parent), path.read_bytes(), heard) == (["state.json"], before, [])


def test_a_migration_to_what_json_cannot_hold_touches_nothing(path):
    """It is noticed before anything is written."""
    path.write_bytes(b"")
    write(backup_of(path), value={})
    with pytest.raises(ConfigError, match=r"value: .* of type object"):
        StateFile(path, version=2, migrations={1: lambda value: object()}).load()
    assert files_in(path.parent) == ["state.json", "state.json.backup"]
    assert path.read_bytes() == b""


@pytest.mark.requirement("C5")
def test_a_newer_version_is_set_aside_for_the_newer_program(path, heard):
    """It is not read, not destroyed, and not called damaged; the backup of our own version takes its place."""
    write(path, version=2, value={"from": "the future"})
    newer = path.read_bytes()
    write(backup_of(path), value=ONE)
    loaded = StateFile(path, version=1).load()
    assert (loaded.value, loaded.source) == (ONE, "backup")
    assert loaded.set_aside.name.startswith("state.json.foreign-2")
    assert loaded.set_aside.read_bytes() == newer
    (event,) = heard
    assert event.failure.code == "SYS_STATE_FOREIGN"
    assert "wanted version 1 of a state document, got version 2" in event.failure.message


def test_a_newer_version_alone_is_not_salvaged(path, heard):
    """Nobody here knows what it means, even if the check would let it pass."""
    write(path, version=2, value=ONE)
    loaded = StateFile(path, version=1, check=lambda value: True).load()
    assert (loaded.value, loaded.source) == (None, "new")
    assert read_document(loaded.set_aside.read_bytes()) == Document(
        version=2, saved_at=EPOCH, value=ONE
    )


def test_a_damaged_file_of_another_version_is_not_salvaged(path, heard):
    """Its version may be what is damaged."""
    data = write_document(Document(version=1, saved_at=EPOCH, value=ONE)).replace(
        b'"version":1', b'"version":2'
    )
    path.write_bytes(data)
    file = StateFile(path, version=3, migrations=MIGRATIONS, check=lambda value: True)
    assert (file.load().source, len(heard)) == ("new", 1)


def test_an_older_version_without_a_way_from_it_is_foreign(path, heard):
    """One step is missing: kept, and told."""
    write(path, value=ONE)
    loaded = StateFile(path, version=3, migrations={2: dict}).load()
    assert loaded.source == "new"
    assert loaded.set_aside.name.startswith("state.json.foreign-")
    assert "got version 1" in heard[0].failure.message


@pytest.mark.parametrize("text", ["{}", '{"phase": "plan"}', "[1]", "5", '{"format": "theirs"}'])
def test_a_file_of_another_program_is_set_aside(path, heard, text):
    """Somebody's JSON is not ours to use or to lose."""
    path.write_text(text)
    loaded = StateFile(path, version=1, check=lambda value: True).load()
    assert (loaded.source, loaded.set_aside.read_text()) == ("new", text)
    failure = heard[0].failure
    assert failure.code == "SYS_STATE_FOREIGN"
    assert failure.message == f"{path}: wanted version 1 of a state document, got other JSON"
    assert isinstance(failure.cause, InvalidDocumentError)


@pytest.mark.parametrize("text", ['{"phase": "plan"}', None])
def test_saving_over_a_foreign_file_keeps_it(path, heard, text):
    """Also without a load before: another program's, or a newer version's, and the backup stays ours."""
    write(path, version=2, value={"from": "the future"})
    if text is not None:
        path.write_text(text)
    foreign = path.read_bytes()
    write(backup_of(path), value=ONE)
    StateFile(path, version=1).save({"phase": "build"})
    (saved,) = path.parent.glob("*.foreign-*")
    assert saved.read_bytes() == foreign
    assert value_in(backup_of(path)) == ONE
    assert heard[0].set_aside == str(saved)


def test_going_forth_and_back_loses_nothing_silently(path, heard):
    """An older program after a newer one gets the older state, and is told; the newer finds its own set aside."""
    old = StateFile(path, version=1)
    old.save({"n": 1})
    new = StateFile(path, version=2, migrations={1: lambda value: {**value, "new": True}})
    new.save({**new.load().value, "n": 2})
    assert (old.load().value, len(heard)) == ({"n": 1}, 1)
    saved = heard[0].set_aside
    assert new.load().value == {"n": 1, "new": True}
    Path(saved).replace(path)
    assert new.load().value == {"n": 2, "new": True}


def test_a_damaged_newer_file_is_set_aside_as_damaged(path, heard):
    """It is both: told as damage, and kept."""
    write(path, version=2, value=ONE)
    damage(path)
    assert "damaged-" in StateFile(path, version=1).load().set_aside.name
