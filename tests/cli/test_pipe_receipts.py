"""The receipts of `pipe --store`: a line for each line of input, and a key that a repeated line gets again."""

from __future__ import annotations

import json
import os
import shutil
import stat
from itertools import count, product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from resilient_bridge.failure import ConfigError, StoreError
from tests.internals.cli import Receipts
from tests.samples import some
from tests.stores.database_damage import ROOM
from tests.stores.faulty_disk import FaultyDisk, failing, insert


@pytest.fixture
def path(tmp_path):
    return tmp_path / "receipts"


@pytest.fixture
def quick():
    """A place in memory, where flushes cost nothing."""
    with TemporaryDirectory(prefix="receipts-", dir=ROOM) as made:
        yield Path(made) / "receipts"


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def filled(path, lines):
    """A file of so many receipts; the keys that its lines had, and that of the next one."""
    receipts, keys = Receipts(str(path)), []
    for n in range(lines):
        keys.append(receipts.key_of(b"line %d" % n))
        receipts.add("accepted", keys[-1])
    keys.append(receipts.key_of(b"line %d" % lines))
    receipts.close()
    return keys


def reopened(path):
    """What the file says now: lines, what was wrong with it, and the key of the next line."""
    receipts = Receipts(str(path))
    receipts.close()
    return receipts.lines, receipts.notice, receipts.key_of(b"line %d" % receipts.lines)


def test_each_line_of_input_has_one_line(path):
    """In order, numbered over all runs, with state and key; so the number of lines is that of the input dealt with."""
    first = Receipts(str(path))
    first.add("accepted", "a")
    first.add("empty")
    first.close()
    second = Receipts(str(path))
    assert (second.lines, second.notice) == (2, "")
    second.add("refused")
    second.close()
    assert [(one["line"], one["state"], one.get("key")) for one in written(path)] == [
        (1, "accepted", "a"),
        (2, "empty", None),
        (3, "refused", None),
    ]
    assert len({one["input"] for one in written(path)}) == 1


@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_line_whose_receipt_was_not_written_gets_its_key_again(path, before):
    """A kill before the receipt: the same line at that place has the same key, another line or another place another."""
    killed = Receipts(str(path))
    for _ in range(before):
        killed.add("accepted", "k")
    key = killed.key_of(b"line\n")
    again = Receipts(str(path))
    assert again.notice == ""
    assert again.key_of(b"line") == again.key_of(b"line\r\n") == key
    assert again.key_of(b"another\n") != key
    again.add("accepted", key)
    assert again.key_of(b"line\n") != key
    assert len(written(path)) == before + 1
    killed.close()
    again.close()


def test_two_files_have_different_keys(tmp_path):
    """The same line in another input is another message."""
    assert filled(tmp_path / "a", 0) != filled(tmp_path / "b", 0)


@pytest.mark.parametrize(
    "key", ['","line":7,"crc":"00000000"}', "\n\r\0\u2028", "x" * 5_000, "\ud800"]
)
def test_a_key_may_be_any_text(path, key):
    """It is one line all the same, and read again as it is."""
    receipts = Receipts(str(path))
    for _ in range(2):
        receipts.add("accepted", key)
    receipts.close()
    assert reopened(path)[:2] == (2, "")
    assert [one["key"] for one in written(path)] == [key] * 2


# ---- whose file it is
def test_the_file_is_ours_alone(path):
    """0600 from its beginning on, also an old one that others could read; its directory is made."""
    deep = path.parent / "new" / "receipts"
    filled(deep, 1)
    assert stat.S_IMODE(deep.stat().st_mode) == 0o600
    deep.chmod(0o644)
    assert reopened(deep)[0] == 1
    assert stat.S_IMODE(deep.stat().st_mode) == 0o600


def _text(path):
    path.write_text("my data")


def _later_version(path):
    path.write_text('{"receipts":2,"input":"0123456789abcdef"}\n')


def _link(path):
    (path.parent / "victim").write_text("")
    path.symlink_to("victim")


def _second_name(path):
    filled(path.parent / "victim", 1)
    path.hardlink_to(path.parent / "victim")


@pytest.mark.parametrize("make", [_text, _later_version, _link, _second_name, os.mkdir, os.mkfifo])
def test_another_file_is_refused_and_not_touched(path, make):
    """What is no file of receipts, a link, a file with a second name, a directory, a pipe: nothing is written, nothing set aside."""
    make(path)
    before = {one: one.read_bytes() for one in path.parent.iterdir() if one.is_file()}
    with pytest.raises(ConfigError, match=r"--receipts: wanted a .*file"):
        Receipts(str(path))
    assert {one: one.read_bytes() for one in path.parent.iterdir() if one.is_file()} == before
    with pytest.raises(ConfigError, match="regular file"):
        Receipts("/dev/null")


def test_what_the_system_refuses_is_typed(path, monkeypatch):
    """A file whose last line cannot be cut off: StoreError with the path, and it is as it was."""
    filled(path, 2)
    with path.open("ab") as file:
        file.write(b"{")
    before = path.read_bytes()

    def refuse(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(StoreError, match="receipts could not be written: input/output error"):
        Receipts(str(path))
    assert path.read_bytes() == before


# ---- a kill, and damage
@pytest.mark.parametrize("lines", [0, 2])
def test_a_receipt_that_was_cut_off_counts_as_not_written(path, lines):
    """A kill, a full disk or a power cut left a part of a line, however long: it goes, what is whole stays, and it is told."""
    *_, key = filled(path, lines)
    whole = path.read_bytes()
    receipts = Receipts(str(path))
    receipts.add("accepted", key)
    receipts.close()
    longer = path.read_bytes()
    for size in range(len(whole) + 1, len(longer)):
        path.write_bytes(longer[:size])
        found, notice, next_key = reopened(path)
        assert (size, found, next_key) == (size, lines, key)
        assert f"line {lines + 1} of the input has no receipt yet" in notice
        assert path.read_bytes() == whole
    assert reopened(path) == (lines, "", key)


def copied(path):
    """The one file that was set aside, and takes it away."""
    (found,) = path.parent.glob("receipts.damaged-*")
    data = found.read_bytes()
    assert stat.S_IMODE(found.stat().st_mode) == 0o600
    found.unlink()
    return data


def test_lines_in_the_middle_that_are_damaged(path):
    """They are marked as lost in a new file, the old is beside it, and no line gets another key; the next run finds nothing to tell."""
    *_, key = filled(path, 5)
    rows = path.read_bytes().splitlines(keepends=True)
    rows[1] = rows[1].replace(b"accepted", b"accepteD")
    rows[3] = b"\0" * 50 + b"\n"
    path.write_bytes(b"".join(rows))
    lines, notice, next_key = reopened(path)
    assert (lines, next_key) == (5, key)
    assert "what became of line 2, 4 is lost" in notice
    assert copied(path) == b"".join(rows)
    assert [one["state"] for one in written(path)] == [
        "accepted",
        "lost",
        "accepted",
        "lost",
        "accepted",
    ]
    assert reopened(path) == (5, "", key)


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (lambda rows: [*rows[:4], b"\0\n"], 4),  # the last line: it may have been two, or a half
        (lambda rows: [*rows[:2], rows[2][:-1], *rows[3:]], 5),  # two lines in one
        (lambda rows: [*rows[:1], *rows[3:]], 5),
        (lambda rows: [rows[0].replace(b"accepted", b"accepteD")], 0),
    ],
    ids=["the last", "a line end", "lines are gone", "the only one"],
)
def test_no_input_is_read_if_it_was_counted_wrongly(path, change, lines):
    """Whoever counted the lines of this file gives the wrong part of the input: SYS_STATE_DAMAGED; the file is right now."""
    keys = filled(path, 5)
    damaged = b"".join(change(path.read_bytes().splitlines(keepends=True)))
    path.write_bytes(damaged)
    with pytest.raises(
        StoreError, match=rf"no input was read: give it from line {lines + 1} on"
    ) as caught:
        Receipts(str(path))
    assert caught.value.failure.code == "SYS_STATE_DAMAGED"
    assert copied(path) == damaged
    assert reopened(path) == (lines, "", keys[lines])


@pytest.mark.parametrize("is_new", [False, True], ids=["damaged", "new"])
def test_every_call_that_fails(quick, monkeypatch, is_new):
    """While a file is mended or made: a StoreError, and the next run finds all that there was, and a name that stays."""
    *_, key = filled(quick, 3)
    damaged = quick.read_bytes().replace(b'"line":2', b'"line":3')
    refused = 0
    for at in count(1):
        for one in quick.parent.iterdir():
            one.unlink()
        if not is_new:
            quick.write_bytes(damaged)
            quick.chmod(0o600)
        disk = FaultyDisk(at, failing("EIO"))
        with monkeypatch.context() as patch:
            insert(patch, disk)
            try:
                Receipts(str(quick)).close()
            except StoreError as error:
                assert error.failure.code == "SYS_STORE_UNAVAILABLE"
                refused += 1
        lines, _, again = reopened(quick)
        assert (at, lines, again == key) == (at, 0 if is_new else 3, not is_new)
        assert (at, again) == (at, reopened(quick)[2])
        assert is_new or damaged in [one.read_bytes() for one in quick.parent.iterdir()]
        if len(disk.calls) < at:
            break
    assert refused > 5


def _two_inputs(path):
    rows = path.read_bytes()
    filled(path.with_name("other"), 1)
    return rows + path.with_name("other").read_bytes()


@pytest.mark.parametrize(
    "damaged",
    [
        lambda path: b"",
        lambda path: bytes(300),
        lambda path: path.read_bytes()[:30],
        lambda path: path.read_bytes()[:22],
        lambda path: b'{"receipts":1,"input":"0123456789abcdef01234567"',
        lambda path: path.read_bytes() * 2,
        _two_inputs,
    ],
    ids=["empty", "zeros", "half a name", "no name", "a wrong name", "twice", "two inputs"],
)
def test_what_cannot_be_used_is_set_aside_and_no_input_is_read(path, damaged):
    """Never a silent new beginning: SYS_STATE_DAMAGED says what the next run, which begins anew, costs."""
    filled(path, 2)
    path.write_bytes(damaged(path))
    before = path.read_bytes()
    with pytest.raises(
        StoreError, match=r"no input was read.*those without a key of their own .* sent again"
    ):
        Receipts(str(path))
    assert copied(path) == before
    assert not path.exists()
    assert reopened(path)[:2] == (0, "")


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_every_bit_that_is_turned_over_is_reported(quick, lines):
    """None changes a key in silence: refused, mended, or set aside; where the input is read on, the lines are those that were counted."""
    path = quick
    keys = filled(path, lines)
    data = path.read_bytes()
    went_on = 0
    for bit, at in some(product(range(8), range(len(data))), 1_000):
        damaged = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
        path.write_bytes(damaged)
        try:
            found, notice, key = reopened(path)
        except (ConfigError, StoreError) as error:
            assert path.exists() or error.failure.code == "SYS_STATE_DAMAGED"
        else:
            went_on += 1
            assert notice
            assert found == damaged.count(b"\n")
            assert key == keys[found]
        for one in path.parent.glob("receipts.damaged-*"):
            assert one.read_bytes() == damaged
            one.unlink()
    assert (went_on > 0) == (lines > 0)


@pytest.mark.parametrize("lines", [1, 3])
def test_every_length_is_reported_or_an_older_state(path, lines):
    """Cut at the end of a line it is what it was before; cut to less than its head it is set aside."""
    keys = filled(path, lines)
    data = path.read_bytes()
    head = data.index(b',"line"')
    for size in range(len(data)):
        path.write_bytes(data[:size])
        if size < head:
            with pytest.raises(StoreError):
                Receipts(str(path))
            assert copied(path) == data[:size]
            continue
        found, notice, key = reopened(path)
        assert (found, key) == (data[:size].count(b"\n"), keys[found])
        assert bool(notice) == (size != head and not data[:size].endswith(b"\n"))


@pytest.mark.parametrize("way", ["removed", "moved", "folder removed"])
def test_d01_receipts_that_are_taken_away_are_written_again(tmp_path, way):
    """The file goes while it is open: the next receipt is in a new one with all before it, and the notice says so."""
    path = tmp_path / "folder" / "receipts"
    receipts = Receipts(str(path))
    receipts.add("accepted", receipts.key_of(b"one"))
    if way == "removed":
        path.unlink()
    elif way == "moved":
        path.rename(path.with_name("moved"))
    else:
        shutil.rmtree(path.parent)
    for line in (b"two", b"three"):
        receipts.add("accepted", receipts.key_of(line))
    receipts.close()
    assert "written anew" in receipts.notice
    assert [row["line"] for row in written(path)] == [1, 2, 3]
    again = Receipts(str(path))
    assert (again.lines, again.notice) == (3, "")
    again.close()


def test_d01_another_file_at_the_path_of_receipts_is_not_touched(path):
    """StoreError names the file that has the receipts; the other one is not written to."""
    receipts = Receipts(str(path))
    receipts.add("accepted", receipts.key_of(b"one"))
    path.unlink()
    path.write_text("precious")
    with pytest.raises(StoreError) as caught:
        receipts.add("accepted", receipts.key_of(b"two"))
    receipts.close()
    assert caught.value.failure.code == "SYS_STATE_FOREIGN"
    assert path.read_text() == "precious"
    (copy,) = path.parent.glob("receipts.kept-*")
    assert copy.name in str(caught.value)
    assert [row["line"] for row in written(copy)] == [1, 2]
