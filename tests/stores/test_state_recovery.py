"""A damaged state file: what can be had of it is used, what is unusable is kept, and what is lost is told (C5)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import attrs
import pytest

from resilient_bridge import events
from resilient_bridge.failure import ConfigError
from resilient_bridge.stores import StateFile
from tests.internals.stores import InvalidDocumentError, read_document
from tests.rows import each_row
from tests.stores.faulty_disk import files_in
from tests.stores.states import EPOCH, ONE, THREE, TWO, backup_of, damage, is_state, value_in, write


@pytest.fixture
def path(tmp_path):
    """Where the state is, in a directory of its own."""
    return tmp_path / "flow" / "state.json"


# ---- damage ----------------------------------------------------------------------------------------------------------


def without_missing(value):
    """Drop the artifacts that are not there."""
    rows = [name for name in value["artifacts"] if name != "gone.md"]
    gone = len(value["artifacts"]) - len(rows)
    return {**value, "artifacts": rows}, f"{gone} artifact that is missing" if gone else ""


def read_saved_at(path):
    """When a file says that it was saved, whatever its checksum says."""
    return datetime.fromisoformat(json.loads(path.read_text())["saved_at"])


@pytest.mark.requirement("C5")
def test_a_damaged_file_is_set_aside_and_its_backup_used(file, path, heard):
    """The backup's value, its time, what may be gone, and one event; file and backup are sound again."""
    saved = read_document(backup_of(path).read_bytes()).saved_at
    damage(path)
    damaged = path.read_bytes()
    loaded = file.load()
    time = saved.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert (loaded.value, loaded.source, loaded.saved_at) == (ONE, "backup", saved)
    assert loaded.lost == f"what was saved after {time}"
    assert loaded.set_aside.parent == path.parent
    assert loaded.set_aside.name.startswith("state.json.damaged-2")
    assert loaded.set_aside.read_bytes() == damaged
    (event,) = heard
    assert isinstance(event, events.StateSetAside)
    assert (event.path, event.set_aside) == (str(path), str(loaded.set_aside))
    assert (event.source, event.lost) == (f"the backup of {time}", loaded.lost)
    assert event.failure.code == "SYS_STATE_DAMAGED"
    assert event.failure.message == f"{path}: {event.failure.cause}"
    assert isinstance(event.failure.cause, InvalidDocumentError)
    assert value_in(path) == value_in(backup_of(path)) == ONE


def test_a_loss_is_remembered_until_the_next_save(file, path, heard):
    """A process that dies right after a recovery has not kept it from the next one; the event comes once."""
    damage(path)
    lost = file.load().lost
    for _ in range(2):
        again = StateFile(path, version=1).load()
        assert (again.value, again.source, again.lost) == (ONE, "file", lost)
    assert len(heard) == 1
    file.save(TWO)
    assert file.load().lost == ""


@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"phase": 5}, "TypeError: expected a phase"),
        ({}, "KeyError: 'phase'"),
        ([], "TypeError: "),
        (None, "TypeError: "),
    ],
)
def test_a_value_that_its_check_refuses_is_damaged(file, path, heard, wrong, reported):
    """Whole, but not what the program can work with: the backup takes its place, and the reason is told."""
    write(path, value=wrong)
    loaded = file.load()
    assert (loaded.value, loaded.source) == (ONE, "backup")
    assert heard[0].failure.message.startswith(f"{path}: its check raised {reported}")
    assert heard[0].failure.cause is not None


def test_a_check_that_raises_without_a_word_is_reported_by_its_class(path, heard):
    """An assertion, say."""

    def silent(value):
        raise AssertionError

    write(path, value=ONE)
    StateFile(path, version=1, check=silent).load()
    assert heard[0].failure.message == f"{path}: its check raised AssertionError"


def test_a_check_may_return_false(file, path, heard):
    """As a predicate does."""
    picky = StateFile(path, version=1, check=lambda value: value == ONE)
    assert (picky.load().value, len(heard)) == (ONE, 1)
    assert (
        heard[0].failure.message
        == f"{path}: wanted a value that passes its check, got one that does not"
    )


@pytest.mark.requirement("C5")
def test_without_a_backup_the_value_itself_may_do(path, heard):
    """Only the checksum is wrong, and the check lets the value pass: used, flagged, and the file kept."""
    file = StateFile(path, version=1, check=is_state)
    file.save(ONE)
    path.write_text(path.read_text().replace("plan", "plam"))
    saved_at = read_saved_at(path)
    loaded = file.load()
    assert (loaded.value, loaded.source, loaded.saved_at) == (
        {"phase": "plam"},
        "salvaged",
        saved_at,
    )
    assert loaded.lost == "perhaps a part: the checksum is wrong, and the check lets the value pass"
    assert b"plam" in loaded.set_aside.read_bytes()
    (event,) = heard
    assert event.source == "the value of the file, although its checksum is wrong"
    assert isinstance(event.failure.cause, InvalidDocumentError)
    assert value_in(path) == value_in(backup_of(path)) == {"phase": "plam"}


def test_a_damaged_backup_may_be_salvaged_too(file, path, heard):
    """The last resort of all: the file is gone, and its backup has a wrong checksum."""
    path.unlink()
    backup_of(path).write_text(backup_of(path).read_text().replace("plan", "plam"))
    loaded = file.load()
    assert (loaded.value, loaded.source) == ({"phase": "plam"}, "salvaged")
    assert loaded.set_aside.name.startswith("state.json.backup.damaged-")
    assert [event.source for event in heard] == [
        "the value of the backup, although its checksum is wrong"
    ]


def test_a_salvaged_value_may_have_lost_more(path, heard):
    """What an earlier load had lost, and orphans, are told with it."""
    file = StateFile(
        path, version=1, check=lambda value: "artifacts" in value, orphans=without_missing
    )
    write(path, value={"artifacts": ["plan.md", "gone.md"]}, lost="an arm")
    path.write_text(path.read_text().replace("plan.md", "plam.md"))
    loaded = file.load()
    assert (loaded.value, loaded.source) == ({"artifacts": ["plam.md"]}, "salvaged")
    assert loaded.lost.partition("; ")[2] == "1 artifact that is missing; an arm"
    assert file.load().lost == loaded.lost


def test_without_a_check_no_one_vouches_for_a_wrong_checksum(path, heard):
    """The value could be any other one: it is kept, and not used."""
    file = StateFile(path, version=1)
    file.save(ONE)
    path.write_text(path.read_text().replace("plan", "plam"))
    assert (file.load().source, len(heard)) == ("new", 1)


@pytest.mark.requirement("C5")
def test_when_nothing_remains_it_begins_anew_and_says_so(file, path, heard):
    """Both are kept; None is loaded, also the next time, with what was lost, until something is saved."""
    for one in (path, backup_of(path)):
        one.write_bytes(b"\0" * 50)
    loaded = file.load()
    assert (loaded.value, loaded.source, loaded.saved_at) == (None, "new", None)
    assert loaded.lost.startswith("all of it")
    rows = [name for name in files_in(path.parent) if "damaged" in name]
    assert len(rows) == 2
    (event,) = heard
    assert all(name in event.set_aside for name in rows)
    again = StateFile(path, version=1).load()
    assert (again.value, again.source, again.lost) == (None, "new", loaded.lost)
    assert len(heard) == 1
    file.save(ONE)
    assert file.load() == attrs.evolve(
        again, value=ONE, source="file", lost="", saved_at=file.load().saved_at
    )
    assert not backup_of(path).exists()  # what had no value is no backup


def test_a_backup_that_comes_back_is_used(file, path, heard):
    """After a new beginning somebody finds an old backup and puts it there."""
    old = backup_of(path).read_bytes()
    for one in (path, backup_of(path)):
        one.write_bytes(b"")
    assert file.load().source == "new"
    backup_of(path).write_bytes(old)
    assert (file.load().value, file.load().source) == (ONE, "file")
    assert len(heard) == 2


def test_a_missing_file_with_a_backup_is_no_new_state(file, path, heard):
    """Nothing can be kept of it, and the loss is told all the same."""
    path.unlink()
    loaded = file.load()
    assert (loaded.value, loaded.source, loaded.set_aside) == (ONE, "backup", None)
    (event,) = heard
    assert (event.set_aside, event.lost) == ("", loaded.lost)
    assert "wanted a file, got none" in event.failure.message
    assert files_in(path.parent) == ["state.json", "state.json.backup"]


# ---- a backup that is newer than the file ----------------------------------------------------------------------------


@pytest.mark.requirement("C5")
def test_a07_a_file_older_than_its_backup_is_not_used_silently(path, heard):
    """ "Compare backup timestamp to current state": the newer one is used, the older one is kept, and one event says so."""
    file = StateFile(path, version=1, check=is_state)
    write(path, value=ONE)
    write(backup_of(path), value=TWO, saved_at=EPOCH + timedelta(minutes=5))
    older = path.read_bytes()
    loaded = file.load()
    assert (loaded.value, loaded.source, loaded.lost) == (TWO, "backup", "")
    assert loaded.set_aside.name.startswith("state.json.outdated-")
    assert loaded.set_aside.read_bytes() == older
    (event,) = heard
    assert (event.source, event.failure.code) == (
        "the backup of 2026-03-20T14:37:00.000Z",
        "SYS_STATE_DAMAGED",
    )
    assert "older than its backup" in event.failure.message
    assert (file.load().value, file.load().source, len(heard)) == (TWO, "file", 1)
    file.save(THREE)
    assert (value_in(path), value_in(backup_of(path))) == (THREE, TWO)


@each_row("minutes", [0, -5])
def test_a07_a_backup_that_is_no_newer_changes_nothing(tmp_path, minutes):
    """The normal case, and two saves in one millisecond."""
    path = tmp_path / f"flow{minutes}" / "state.json"
    file = StateFile(path, version=1, check=is_state)
    write(path, value=ONE)
    write(backup_of(path), value=TWO, saved_at=EPOCH + timedelta(minutes=minutes))
    assert (file.load().value, file.load().source) == (ONE, "file")


@each_row("harm", ["damaged", "foreign", "refused", "later version"])
def test_a07_a_newer_backup_that_cannot_be_used_changes_nothing(tmp_path, harm):
    """A sound file is better than a backup that is not; it is not touched either."""
    path = tmp_path / harm / "state.json"
    file = StateFile(path, version=1, check=is_state)
    write(path, value=ONE)
    newer = {
        "value": {"phase": 5} if harm == "refused" else TWO,
        "saved_at": EPOCH + timedelta(minutes=5),
    }
    write(backup_of(path), **newer, version=2 if harm == "later version" else 1)
    if harm == "damaged":
        damage(backup_of(path))
    if harm == "foreign":
        backup_of(path).write_text('{"saved_at": "2030-01-01T00:00:00Z"}')
    before = backup_of(path).read_bytes()
    assert (file.load().value, file.load().source) == (ONE, "file")
    assert backup_of(path).read_bytes() == before


def test_a07_a_clock_that_steps_back_makes_no_file_older_than_its_backup(path, heard):
    """What is saved after a step back of the clock has the time of what it replaces, so that it is found again."""
    file = StateFile(path, version=1, check=is_state)
    write(path, value=ONE, saved_at=datetime(2999, 1, 1, tzinfo=UTC))
    file.save(TWO)
    assert (file.load().value, file.load().source) == (TWO, "file")
    damage(path)
    assert file.load().value == ONE
    assert (file.load().value, file.load().source, len(heard)) == (ONE, "file", 1)


def test_saving_over_something_damaged_keeps_it_and_the_backup(file, path, heard):
    """The good backup is not overwritten by something damaged, which is kept beside it."""
    damage(path)
    damaged = path.read_bytes()
    file.save(THREE)
    assert (value_in(path), value_in(backup_of(path))) == (THREE, ONE)
    (event,) = heard
    assert (event.source, event.lost) == ("the value that is being saved", "what was there")
    assert path.with_name(event.set_aside.rpartition("/")[2]).read_bytes() == damaged


# ---- orphans ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C5")
def test_orphans_are_taken_out_and_reported(path, heard):
    """The value without them is used and saved, the file with them kept; a second load finds none."""
    file = StateFile(path, version=1, orphans=without_missing)
    file.save({"artifacts": ["plan.md", "gone.md"]})
    loaded = file.load()
    assert (loaded.value, loaded.source) == ({"artifacts": ["plan.md"]}, "salvaged")
    assert loaded.lost == "1 artifact that is missing"
    assert "gone.md" in loaded.set_aside.read_text()
    (event,) = heard
    assert event.source == "the file without its orphans"
    assert event.failure.message == f"{path}: wanted references to what exists, got orphans"
    assert value_in(path) == value_in(backup_of(path)) == {"artifacts": ["plan.md"]}
    assert (file.load().value, file.load().source) == ({"artifacts": ["plan.md"]}, "file")
    assert len(heard) == 1


def test_orphans_in_a_backup_are_taken_out_too(path, heard):
    """Both losses are told, and the backup with the orphans is kept."""
    file = StateFile(path, version=1, orphans=without_missing)
    file.save({"artifacts": ["gone.md"]})
    file.save({"artifacts": []})
    damage(path)
    loaded = file.load()
    assert (loaded.value, loaded.source) == ({"artifacts": []}, "backup")
    assert loaded.lost.endswith("; 1 artifact that is missing")
    assert sum("backup.damaged" in name for name in files_in(path.parent)) == 1
    assert value_in(path) == value_in(backup_of(path)) == {"artifacts": []}


def test_losses_add_up_until_the_next_save(path, heard):
    """An earlier one is told with the later ones, from the file as from its backup."""
    file = StateFile(path, version=1, orphans=without_missing)
    write(path, value={"artifacts": ["gone.md"]}, lost="an arm")
    write(backup_of(path), value={"artifacts": ["gone.md"]}, lost="a leg")
    assert file.load().lost == "1 artifact that is missing; an arm"
    write(backup_of(path), value={"artifacts": ["gone.md"]}, lost="a leg")
    path.write_bytes(b"")
    assert (
        file.load().lost
        == "what was saved after 2026-03-20T14:32:00.000Z; 1 artifact that is missing; a leg"
    )


def test_a_state_without_orphans_is_as_it_was(path, heard):
    """Nothing is told, and nothing written."""
    file = StateFile(
        path, version=1, check=lambda value: "artifacts" in value, orphans=without_missing
    )
    file.save({"artifacts": ["plan.md"]})
    before = path.read_bytes()
    assert file.load().source == "file"
    assert (path.read_bytes(), heard) == (before, [])


def test_what_remains_has_to_pass_the_check(path, heard):
    """A state that is nothing without its orphans is no state."""
    file = StateFile(
        path, version=1, check=lambda value: bool(value["artifacts"]), orphans=without_missing
    )
    file.save({"artifacts": ["gone.md"]})
    assert (file.load().source, len(heard)) == ("new", 1)


def test_a_search_for_orphans_that_raises_counts_against_the_value(path, heard):
    """As a check that raises does."""
    file = StateFile(path, version=1, orphans=without_missing)
    file.save({"something": "else"})
    assert file.load().source == "new"
    assert (
        heard[0].failure.message == f"{path}: the search for orphans raised KeyError: 'artifacts'"
    )
    assert heard[0].failure.code == "SYS_STATE_DAMAGED"


def test_what_remains_is_what_is_checked(path, heard):
    """The value with its orphans, and then the one without them."""
    seen = []
    file = StateFile(path, version=1, check=seen.append, orphans=without_missing)
    file.save({"artifacts": ["gone.md"]})
    seen.clear()
    file.load()
    assert seen == [{"artifacts": ["gone.md"]}, {"artifacts": []}]


@pytest.mark.parametrize("answer", [None, ["a"], ("value",), ("value", None)])
def test_a_function_that_finds_no_orphans_as_wanted_is_the_programs_defect(
    file, path, heard, answer
):
    """ConfigError, and nothing is touched: the file is not to blame."""
    before = path.read_bytes()
    text = rf"StateFile\.orphans: wanted a function that returns the value .*, got 'one that returns {type(answer).__name__}'"
    with pytest.raises(ConfigError, match=text):
        StateFile(path, version=1, orphans=lambda value: answer).load()
    assert (path.read_bytes(), heard) == (before, [])
