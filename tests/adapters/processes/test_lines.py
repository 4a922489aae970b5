"""Lines that arrive in pieces, too long, or without an end."""

from __future__ import annotations

import pytest

from tests.internals.adapters import Lines


@pytest.mark.parametrize("cut", [1, 2, 3, 7, 1000])
def test_lines_are_whole_however_they_were_cut(cut):
    """Any cut gives the same lines, ended by `\\n` or `\\r\\n`, empty ones too; an open end comes last."""
    data = b'{"a":1}\n\n{"b":2}\r\n\r\nlong ' + b"x" * 50 + b"\nopen"
    lines = Lines(100)
    found = [line for at in range(0, len(data), cut) for line in lines.feed(data[at : at + cut])]
    assert found == [b'{"a":1}', b"", b'{"b":2}', b"", b"long " + b"x" * 50]
    assert lines.end() == [b"open"]
    assert (lines.end(), lines.skipped) == ([], 0)


def test_lines_are_bytes_whatever_they_came_in():
    """The loop of Windows hands over what it reads from a pipe as a bytearray, which is no key, and equal to no text."""
    lines = Lines(100)
    found = [*lines.feed(bytearray(b"one\r\ntw")), *lines.feed(bytearray(b"o\nthree"))]
    assert [type(line) for line in found] == [bytes, bytes]
    assert found == [b"one", b"two"]
    assert lines.end() == [b"three"]


@pytest.mark.parametrize("cut", [1, 4, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_that_is_too_long_takes_no_other_with_it(cut, end):
    """A line of exactly the limit is kept, one byte more is skipped and counted, and the next is whole."""
    data = b"x" * 8 + end + b"y" * 9 + end + b"z" * 100 + end + b"next" + end
    lines = Lines(8)
    found = [line for at in range(0, len(data), cut) for line in lines.feed(data[at : at + cut])]
    assert found == [b"x" * 8, b"next"]
    assert lines.skipped == 2


def test_a_line_without_end_costs_no_memory():
    """However long it goes on, no more than the limit is kept, and it is counted once."""
    lines = Lines(1000)
    for _ in range(10_000):
        assert lines.feed(b"x" * 100) == []
        assert len(lines._partial) <= 1001
    assert lines.skipped == 1
    assert lines.feed(b"\nok\n") == [b"ok"]
