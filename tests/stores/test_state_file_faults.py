"""Every byte, every call, every moment: a state file after cuts, flipped bits, faults of the disk and the end of its process (R7).

Rule: what may come out is the right value, an older one that is told as such, or the news that all is lost; and every error is typed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient_bridge.errors import Executed, StoreError
from resilient_bridge.stores import StateFile
from tests.peers.zygote import PYTHON
from tests.samples import some
from tests.stores.faulty_disk import (
    CODES,
    CrashError,
    FaultyDisk,
    failing,
    files_in,
    insert,
    open_files,
)
from tests.stores.states import ONE, THREE, TWO, backup_of, is_state
from tests.stores.test_state_document import JSON


LARGE = {
    "phase": "build",
    "artifacts": [{"name": f"file-{n}.md", "size": n * 37, "é": [None, True]} for n in range(75)],
}
CUT = {"phase": "plan", "n": 1.5}


@pytest.fixture
def path(tmp_path):
    """Where the state is, in a directory of its own."""
    return tmp_path / "flow" / "state.json"


@pytest.fixture
def fast(monkeypatch):
    """Thousands of saves, and no power cut: nothing has to reach the plate."""
    insert(monkeypatch, FaultyDisk(fsync=lambda handle: None))


def restore(path, files):
    """The directory as it was."""
    for one in path.parent.iterdir():
        if one not in files:
            one.unlink()
    for one, data in files.items():
        one.write_bytes(data)


def contents(path):
    return {one: one.read_bytes() for one in path.parent.iterdir()}


def flips(data, bits):
    """The data with one bit of each byte flipped: every one, or a different one from byte to byte."""
    for at in range(len(data)):
        for bit in range(8) if bits == 8 else [at % 8]:
            yield data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def cuts(data):
    return (data[:length] for length in range(len(data)))


# ---- every byte ------------------------------------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.requirement("C5")
@pytest.mark.parametrize(
    ("value", "harm"),
    [
        (TWO, lambda data: flips(data, 8)),
        (TWO, cuts),
        (LARGE, lambda data: flips(data, 1)),
        (LARGE, cuts),
    ],
    ids=[
        "8 bits of every byte",
        "every length",
        "a bit of every byte of 4 kB",
        "every length of 4 kB",
    ],
)
def test_a_damaged_file_gives_the_right_value_or_the_backups(path, fast, heard, value, harm):
    """Threat 35: the value itself, or the older one, told by source and event, with the damaged file kept; nothing else, ever."""
    file = StateFile(path, version=1, check=is_state)
    file.save(ONE)
    file.save(value)
    files = contents(path)
    data = files[path]
    right = 0
    for damaged in some(harm(data), 500):
        path.write_bytes(damaged)
        heard.clear()
        loaded = file.load()
        if loaded.source == "file":
            right += 1
            assert (loaded.value, loaded.lost, heard) == (value, "", [])
        else:
            assert (loaded.value, loaded.source, len(heard)) == (ONE, "backup", 1)
            assert loaded.lost
            assert loaded.set_aside.read_bytes() == damaged
            assert file.load().value == ONE
        restore(path, files)
    assert right < 20  # the last line break, and the case of an escape


@pytest.mark.crash
@pytest.mark.requirement("C5")
@pytest.mark.parametrize("has_check", [True, False])
@pytest.mark.parametrize(
    "harm", [lambda data: flips(data, 8), cuts], ids=["8 bits of every byte", "every length"]
)
def test_a_damaged_file_without_a_backup_is_never_believed_silently(
    path, fast, heard, harm, has_check
):
    """The right value; or one that is called salvaged, which only a check can vouch for; or none, and all is lost: each is told."""
    file = StateFile(path, version=1, check=is_state if has_check else None)
    file.save(CUT)
    files = contents(path)
    found = {"file": 0, "salvaged": 0, "new": 0}
    for damaged in some(harm(files[path]), 700):
        path.write_bytes(damaged)
        heard.clear()
        loaded = file.load()
        found[loaded.source] += 1
        if loaded.source == "file":
            assert (loaded.value, heard) == (CUT, [])
        else:
            assert loaded.lost
            assert len(heard) == 1
            assert loaded.set_aside.read_bytes() == damaged
            assert (
                loaded.value is None
                if loaded.source == "new"
                else isinstance(loaded.value["phase"], str)
            )
        restore(path, files)
    assert found["new"] > 50
    assert (found["salvaged"] > 100) == (has_check and harm is not cuts)


@settings(max_examples=30)
@given(one=JSON, two=JSON, harm=st.binary(max_size=400))
def test_whatever_was_saved_comes_back(tmp_path_factory, one, two, harm):
    """Any JSON value, and the one before it when the file is overwritten with anything at all."""
    file = StateFile(tmp_path_factory.mktemp("any") / "s.json", version=1)
    file.save(one)
    file.save(two)
    assert repr(file.load().value) == repr(two)
    file.path.write_bytes(harm)
    loaded = file.load()
    assert (repr(loaded.value), loaded.source) == (repr(one), "backup")


# ---- every call ------------------------------------------------------------------------------------------------------


def count_calls(monkeypatch, do):
    with monkeypatch.context() as patch:
        disk = insert(patch, FaultyDisk())
        do()
        return len(disk.calls)


@pytest.mark.requirement("C7")
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("code", CODES)
def test_a_save_may_fail_at_any_call(file, monkeypatch, heard, code, lasting):
    """Threat 36: a StoreError with its cause and the old value, or, if it says MAYBE, the new one; no error, and it is the new one.
    No descriptor stays open, the disk that works again has no temporary file left by one fault, and the next save works.
    """
    path = file.path
    files, handles = contents(path), open_files()
    calls = count_calls(monkeypatch, lambda: file.save(THREE))
    assert calls > 15
    for at in range(1, calls + 1):
        restore(path, files)
        file.load()  # or it would say that somebody else has changed the file
        raised = None
        with monkeypatch.context() as patch:
            insert(patch, FaultyDisk(at, failing(code), lasting=lasting))
            try:
                file.save(THREE)
            except StoreError as error:
                raised = error
        assert open_files() == handles
        if raised is not None:
            assert raised.failure.code == "SYS_STORE_UNAVAILABLE"
            assert isinstance(raised.__cause__, OSError)
        is_saved = raised is None or raised.failure.executed is Executed.MAYBE
        loaded = StateFile(path, version=1).load()
        assert (loaded.source, loaded.lost) == ("file", "")
        assert loaded.value in (
            [THREE, TWO] if raised and is_saved else [THREE] if is_saved else [TWO]
        )
        assert lasting or files_in(path.parent) == ["state.json", "state.json.backup"]
        file.save(ONE)
        assert file.load().value == ONE
    assert heard == []


CONDITIONS = {
    "a backup": (b"", None, ONE, "backup"),
    "no backup": (b"", b"", None, "new"),
    "a wrong checksum": (None, b"", {"phase": "bwild"}, "salvaged"),
}


def condition(path, name):
    """The directory in one of three bad conditions; returns what a recovery may give."""
    main, backup, value, source = CONDITIONS[name]
    path.write_bytes(path.read_bytes().replace(b"build", b"bwild") if main is None else main)
    if backup is not None:
        backup_of(path).write_bytes(backup)
    return value, source


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_recovery_may_fail_at_any_call(file, monkeypatch, heard, name, code):
    """Typed, nothing lost by the failure, and the next load recovers; what is lost is told by one of the two, if not by both."""
    path = file.path
    value, source = condition(path, name)
    files, handles = contents(path), open_files()
    calls = count_calls(monkeypatch, file.load)
    for at in range(1, calls + 1):
        restore(path, files)
        heard.clear()
        with monkeypatch.context() as patch:
            insert(patch, FaultyDisk(at, failing(code)))
            try:
                first = file.load()
            except StoreError as error:
                first = None
                assert isinstance(error.__cause__, OSError)
        assert open_files() == handles
        if first is not None:
            assert (first.value, first.source) == (value, source)
        loaded = StateFile(path, version=1, check=is_state).load()
        assert loaded.value == value
        assert loaded.lost
        assert heard
        assert not [name for name in files_in(path.parent) if name.endswith(".tmp")]
        for saved in {path.parent / event.set_aside.partition(" and ")[0] for event in heard}:
            assert saved.read_bytes() in files.values()


# ---- every moment ----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("C7")
def test_a_crash_at_any_call_of_a_save_leaves_one_of_the_two(file, path, monkeypatch, heard):
    """The old value or the new one, whole, without a recovery; never the backup, never nothing."""
    files = contents(path)
    found = []
    for at in range(1, count_calls(monkeypatch, lambda: file.save(THREE)) + 1):
        restore(path, files)
        file.load()
        with monkeypatch.context() as patch, pytest.raises(CrashError):
            insert(patch, FaultyDisk(at, CrashError(), lasting=True))
            file.save(THREE)
        loaded = StateFile(path, version=1).load()
        assert loaded.source == "file"
        found.append(loaded.value)
    assert found == sorted(found, key=lambda value: value == THREE)
    assert {str(TWO), str(THREE)} == set(map(str, found))
    assert heard == []


@pytest.mark.requirement("C5")
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_crash_at_any_call_of_a_recovery_loses_neither_value_nor_news(
    file, path, monkeypatch, name
):
    """The next process finds the same value and the same loss, although nobody was told of it before."""
    value, _ = condition(path, name)
    files = contents(path)
    for at in range(1, count_calls(monkeypatch, file.load) + 1):
        restore(path, files)
        with monkeypatch.context() as patch, pytest.raises(CrashError):
            insert(patch, FaultyDisk(at, CrashError(), lasting=True))
            file.load()
        loaded = StateFile(path, version=1, check=is_state).load()
        assert loaded.value == value
        assert loaded.lost


WRITER = """
import sys
from resilient_bridge.stores import StateFile
file = StateFile(sys.argv[1], version=1)
number = file.load().value or 0
while True:
    number += 1
    file.save(number)
    print(number, flush=True)
"""


@pytest.mark.real
@pytest.mark.requirement("C7")
def test_a_process_that_is_killed_loses_nothing_it_acknowledged(path, heard):
    """SIGKILL at any moment, again and again: the last number printed is there, or the one that was being saved."""
    for turn in range(12):
        writer = subprocess.Popen(
            [*PYTHON, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        try:
            first = int(writer.stdout.readline())
            time.sleep(0.003 * turn)
        finally:
            writer.send_signal(signal.SIGKILL)
            reported = writer.stdout.read().split()
            writer.wait()
            writer.stdout.close()
        last = int(reported[-1]) if reported else first
        loaded = StateFile(path, version=1).load()
        assert loaded.source == "file"
        assert loaded.value in {last, last + 1}
    assert heard == []


LIMITED = """
import resource, sys
from resilient_bridge.errors import StoreError
from resilient_bridge.stores import StateFile
file = StateFile(sys.argv[1], version=1)
file.save("small")
sys.dont_write_bytecode = True  # a module imported under the limit would leave half of its compiled file to all later runs
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    file.save("x" * 10_000)
except StoreError as error:
    print(error.failure.details["errno"], file.load().value)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
file.save("x" * 10_000)
print(len(file.load().value))
"""


@pytest.mark.real
def test_a_system_that_takes_only_a_part_is_survived(path):
    """The kernel itself writes 4,096 bytes and refuses the rest: typed, the old value is there, and later the new one."""
    command = [sys.executable, "-c", LIMITED, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "27 small\n10000\n"
    assert files_in(path.parent) == ["state.json", "state.json.backup"]


@pytest.mark.parametrize("which", ["state.json", "state.json.backup"])
@pytest.mark.parametrize("code", ["EACCES", "EIO"])
def test_a_file_that_cannot_be_read_is_not_touched(file, monkeypatch, heard, code, which):
    """It may be sound: a StoreError, and neither its backup nor a new beginning takes its place."""
    path = file.path
    if which.endswith("backup"):
        path.write_bytes(b"")
    files = contents(path)
    insert(monkeypatch, FaultyDisk(1 + which.endswith("backup"), failing(code), kinds={"open"}))
    with pytest.raises(StoreError, match=f"{which} could not be opened"):
        file.load()
    assert (contents(path), heard) == (files, [])
