"""The receipts of `pipe --store`: a line for each line of input, and a key that a repeated line gets again."""

from __future__ import annotations

import json

import pytest

from resilient_bridge.cli.pipe_receipts import Receipts


@pytest.fixture
def path(tmp_path):
    return tmp_path / "receipts"


def written(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_line_of_input_has_one_line(path):
    """In order, numbered over all runs, with state and key; so the number of lines is that of the input dealt with."""
    first = Receipts(str(path))
    first.add("accepted", "a")
    first.add("empty")
    first.close()
    second = Receipts(str(path))
    assert second.lines == 2
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
    assert again.key_of(b"line") == again.key_of(b"line\r\n") == key
    assert again.key_of(b"another\n") != key
    again.add("accepted", key)
    assert again.key_of(b"line\n") != key
    assert len(written(path)) == before + 1


def test_two_files_have_different_keys(tmp_path):
    """The same line in another input is another message."""
    keys = {Receipts(str(tmp_path / name)).key_of(b"line") for name in "ab"}
    assert len(keys) == 2


@pytest.mark.parametrize("before", [0, 2])
def test_a_receipt_that_was_cut_off_counts_as_not_written(path, before):
    """A full disk or a power cut left half a line: it goes, what is whole stays."""
    receipts = Receipts(str(path))
    for _ in range(before):
        receipts.add("accepted", "k")
    key = receipts.key_of(b"line")
    with path.open("ab") as file:
        file.write(b',"line":1,"sta' if before == 0 else b'{"input":"0')
    again = Receipts(str(path))
    assert (again.lines, again.key_of(b"line")) == (before, key)
    again.add("accepted", key)
    assert len(written(path)) == before + 1


def test_another_file_is_refused_and_left_alone(path):
    """What is no file of receipts is not written to; a directory and a device are none either."""
    path.write_text("my data")
    with pytest.raises(ValueError, match="a file of receipts expected"):
        Receipts(str(path))
    assert path.read_text() == "my data"
    with pytest.raises(ValueError, match="a regular file expected"):
        Receipts("/dev/null")
    with pytest.raises(IsADirectoryError):
        Receipts(str(path.parent))
