"""A state file with a journal: a crash at any call, and damage in any one of its four files, loses no step."""

from __future__ import annotations

import pytest

from resilient_bridge import events
from resilient_bridge.errors import ConfigError, Executed, StoreError
from tests.internals.files import Owner
from tests.internals.stores import Entry, JournaledFile, SavedChange, history_of, journaled
from tests.samples import some
from tests.stores.faulty_disk import CODES, CrashError, FaultyDisk, failing, insert, open_files


FILES = ("state.json", "state.json.backup", "state.json.journal", "state.json.journal.backup")
FIRST = {"step": 0, "calls": []}
NEXT = SavedChange(added={"calls": (0, ["a"])})
STEPPED = {"step": 0, "calls": ["a"]}
ENDED = {"step": 1, "calls": ["a"]}
END = SavedChange(fields={"step": 1})


class Journaled:
    """A state file with a journal, and the owner of both."""

    def __init__(self, path):
        self.path = path
        self.file = JournaledFile(path, version=2, check=self.check, migrations={1: dict})
        self.owner = Owner(path)

    @staticmethod
    def check(value):
        return value.keys() == FIRST.keys()

    def __enter__(self):
        self.owner.take()
        return self

    def __exit__(self, *_):
        self.owner.release()

    def load(self):
        return self.file.load()

    def append(self, change, value, synced=2):
        """A step, saved as a whole where the journal does not have it."""
        if not self.file.append(self.owner, change, synced=synced):
            self.file.save_as(self.owner, value)

    def end(self):
        self.file.save_as(self.owner, ENDED, END)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "flow" / "state.json"


def disk(*fault, **options):
    """A disk that fails as told; nothing has to reach the plate."""
    return FaultyDisk(*fault, fsync=lambda handle: None, **options)


@pytest.fixture
def flow(path, monkeypatch):
    """Saved twice, and one step: each of the four files is there."""
    insert(monkeypatch, disk())
    with Journaled(path) as made:
        made.file.save_as(made.owner, {"step": -1, "calls": []})
        made.file.save_as(made.owner, FIRST)
        made.append(NEXT, STEPPED)
        yield made


def contents(path):
    return {one: one.read_bytes() for one in path.parent.iterdir() if one.suffix != ".owner"}


def restore(path, files):
    """The directory as it was, with the lock."""
    for one in path.parent.iterdir():
        if one not in files and one.suffix != ".owner":
            one.unlink()
    for one, data in files.items():
        one.write_bytes(data)


def found(path):
    """What the next process finds."""
    return JournaledFile(path, version=2, check=Journaled.check).load()


# ---- what the lines say ------------------------------------------------------------------------------------------------

LINES = [
    Entry(number=7, value=FIRST, files=("f1",)).to_line(),
    Entry(number=8, change=NEXT).to_line(),
    Entry(number=9, change=END, files=("f2",)).to_line(),
]


@pytest.mark.parametrize(
    ("copies", "value", "is_whole", "is_even"),
    [
        (((0, 1, 2), (0, 1, 2)), ENDED, True, True),
        (((0, 1, 2), (0, 1)), ENDED, True, False),
        (((0, 1), (0, 2)), ENDED, True, False),
        (((0, 1, 2), ()), ENDED, True, False),
        (((0, 1), (0, 1)), STEPPED, True, True),
        (((0, 2), (0, 2)), FIRST, False, True),
        (((1, 2), (1, 2)), None, False, False),
        (((), ()), None, True, True),
    ],
)
def test_a_line_counts_that_one_copy_has(copies, value, is_whole, is_even):
    """A line that both lack is missing, and so is what follows."""
    history = history_of(b"".join(LINES[index] for index in copy) for copy in copies)
    assert (history.value, history.is_whole, history.is_even) == (value, is_whole, is_even)


def test_a_line_that_was_not_written_to_its_end_is_none():
    """However much of it is there, in a copy alone or in both."""
    for size in range(len(LINES[1])):
        cut = LINES[0] + LINES[1][:size]
        assert history_of([cut, cut]).value == FIRST
        assert history_of([cut, LINES[0] + LINES[1]]).value == STEPPED


def test_a_journal_knows_its_file():
    """By the contents that it was written with, before and after."""
    history = history_of([b"".join(LINES), b""])
    assert [history.is_of(name) for name in ("f1", "f2", "f3")] == [True, True, False]
    assert not history_of([b"", b""]).is_of("f1")


@pytest.mark.parametrize("value", [{"step": float("nan")}, {"step": object()}, {"step": "\ud800"}])
def test_what_json_cannot_hold_is_refused(flow, value):
    """Before anything is written."""
    files = contents(flow.path)
    with pytest.raises(ConfigError):
        flow.append(SavedChange(fields=value), value)
    assert contents(flow.path) == files
    flow.end()
    assert found(flow.path).value == ENDED


# ---- damage ------------------------------------------------------------------------------------------------------------


def harms(data):
    """A bit of each byte flipped, each length, and no file at all."""
    for at in range(len(data)):
        yield data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        yield data[:at]
    yield None


@pytest.mark.requirement("C5")
@pytest.mark.requirement("C7")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("is_ended", [False, True])
def test_damage_in_one_file_loses_no_step(flow, heard, name, is_ended):
    """Whichever it is, and wherever it is damaged; the files that remain are made whole again."""
    if is_ended:
        flow.end()
    files = contents(flow.path)
    path = flow.path.with_name(name)
    for harm in some([*harms(files[path])], 60):
        restore(flow.path, files)
        path.unlink()
        if harm is not None:
            path.write_bytes(harm)
        loaded = found(flow.path)
        assert (loaded.value, loaded.lost) == (ENDED if is_ended else STEPPED, "")
        again = found(flow.path)
        assert (again.value, again.source, again.lost) == (loaded.value, "file", "")


@pytest.mark.requirement("C5")
def test_a_file_without_its_journal_says_what_may_be_lost(flow, heard):
    """Both copies are gone: it has what it had when it was saved, and says so, in an event too, until it is saved again."""
    for name in FILES[2:]:
        flow.path.with_name(name).unlink()
    for _ in range(2):
        loaded = flow.load()
        assert (loaded.value, loaded.source) == (FIRST, "file")
        assert loaded.lost.startswith("what was recorded after 20")
    assert [type(event) for event in heard] == [events.StateSetAside] * 2
    flow.append(NEXT, STEPPED)
    assert (found(flow.path).value, found(flow.path).lost) == (STEPPED, "")


@pytest.mark.requirement("C5")
def test_the_journal_alone_knows_the_value(flow):
    """File and backup are damaged: nothing is lost. Both removed: somebody wants to begin anew."""
    files = contents(flow.path)
    for name in FILES[:2]:
        flow.path.with_name(name).write_bytes(b"\0" * 50)
    loaded = found(flow.path)
    assert (loaded.value, loaded.source, loaded.lost) == (STEPPED, "backup", "")
    restore(flow.path, files)
    for name in FILES[:2]:
        flow.path.with_name(name).unlink()
    assert (found(flow.path).value, found(flow.path).source) == (None, "new")


def test_the_journal_of_another_file_is_not_used(flow, path):
    """A file of version 1 took the place of ours, or one that somebody has saved: its own value counts."""
    other = JournaledFile(path.with_name("other.json"), version=2, check=Journaled.check)
    other.save(FIRST)
    flow.path.write_bytes(other.path.read_bytes())
    loaded = flow.load()
    assert loaded.value == FIRST
    assert loaded.lost.startswith("what was recorded after")


def test_a_journal_of_a_later_version_is_refused(flow):
    """Untouched, with both versions."""
    for name in FILES[2:]:
        path = flow.path.with_name(name)
        path.write_bytes(line_of_version_2(path.read_bytes()))
    files = contents(flow.path)
    with pytest.raises(StoreError, match="wanted version 1 of a journal, got version 2") as caught:
        flow.load()
    assert caught.value.failure.code == "SYS_STATE_FOREIGN"
    assert contents(flow.path) == files


def line_of_version_2(data):
    from zlib import crc32

    text = data.split(b',"crc"')[0].replace(b'"journal":1', b'"journal":2')
    return text + b',"crc":"%08x"}\n' % crc32(text)


# ---- every call --------------------------------------------------------------------------------------------------------

ACTS = {
    "a step": (lambda state: state.append(END, ENDED), STEPPED),
    "the end": (lambda state: state.end(), STEPPED),
}


def calls_of(flow, monkeypatch, act):
    with monkeypatch.context() as patch:
        counting = insert(patch, disk())
        act(flow)
        return len(counting.calls)


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("fault", [(code, lasting) for code in CODES for lasting in (False, True)])
@pytest.mark.parametrize("name", ACTS)
def test_a_step_may_fail_at_any_call(flow, monkeypatch, heard, name, fault):
    """A StoreError and the old value, or, if it says MAYBE, perhaps the new one; no error, and it is the new one. The next step works."""
    (act, before), (code, lasting) = ACTS[name], fault
    files, handles = contents(flow.path), open_files()
    for at in range(1, calls_of(flow, monkeypatch, act) + 1):
        restore(flow.path, files)
        flow.load()
        raised = None
        with monkeypatch.context() as patch:
            insert(patch, disk(at, failing(code), lasting=lasting))
            try:
                act(flow)
            except StoreError as error:
                raised = error
        assert open_files() == handles
        allowed = [ENDED]
        if raised is not None:
            assert isinstance(raised.__cause__, OSError)
            is_unknown = raised.failure.executed is Executed.MAYBE
            allowed = [before, ENDED] if is_unknown else [before]
        loaded = found(flow.path)
        assert (loaded.source, loaded.lost) == ("file", "")
        assert loaded.value in allowed
        flow.append(END, ENDED)
        assert found(flow.path).value == ENDED
    assert heard == []


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("spoiled", [None, *FILES])
@pytest.mark.parametrize("name", ACTS)
def test_a_crash_at_any_call_leaves_one_of_the_two(flow, monkeypatch, name, spoiled):
    """The old value or the new one; also if one file is damaged besides: then at least the old one."""
    act, before = ACTS[name]
    files, values = contents(flow.path), []
    for at in range(1, calls_of(flow, monkeypatch, act) + 1):
        restore(flow.path, files)
        flow.load()
        with monkeypatch.context() as patch, pytest.raises(CrashError):
            insert(patch, disk(at, CrashError(), lasting=True))
            act(flow)
        if spoiled is not None:
            flow.path.with_name(spoiled).write_bytes(b"\0" * 50)
        loaded = found(flow.path)
        assert loaded.lost == ""
        values.append(loaded.value)
    assert values == sorted(values, key=lambda value: value == ENDED)
    assert {str(before), str(ENDED)} >= set(map(str, values))


# ---- the files ---------------------------------------------------------------------------------------------------------


def test_a_copy_that_was_removed_is_made_again(flow):
    """With the step for which it is missing."""
    flow.path.with_name(FILES[3]).unlink()
    flow.append(END, ENDED)
    assert all(flow.path.with_name(name).exists() for name in FILES)
    flow.path.with_name(FILES[2]).unlink()
    assert found(flow.path).value == ENDED


def test_a_large_journal_begins_anew_with_the_file(flow, monkeypatch):
    """So it does not grow with the steps of a whole life."""
    monkeypatch.setattr(journaled, "_LARGEST", 2_000)
    for _ in range(60):
        flow.append(NEXT, STEPPED, synced=0)
        flow.end()
    sizes = [flow.path.with_name(name).stat().st_size for name in FILES[2:]]
    assert max(sizes) < 3_000
    assert (found(flow.path).value, found(flow.path).lost) == (ENDED, "")


def test_another_owner_ends_this_one(flow):
    """Its lock was removed, and another process has saved: nothing is appended any more."""
    flow.path.with_name(f"{FILES[0]}.owner").unlink()
    other = JournaledFile(flow.path, version=2, check=Journaled.check)
    other.load()
    other.save(ENDED)
    files = contents(flow.path)
    for _ in range(2):
        with pytest.raises(StoreError) as caught:
            flow.append(NEXT, STEPPED)
        assert caught.value.failure.code == "SESS_SUPERSEDED"
    assert contents(flow.path) == files
