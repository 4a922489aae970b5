"""Durations and sizes as people write them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.internals.config import read_bytes, read_seconds, read_span, write_span
from tests.rows import each_row


@each_row(
    ("text", "seconds"),
    [
        ("30", 30),
        ("30s", 30),
        ("500ms", 0.5),
        ("5m", 300),
        ("5min", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1.5s", 1.5),
        ("2d", 172_800),
        ("250us", 0.00025),
        ("0s", 0),
        (" 10S ", 10),
    ],
)
def test_a_duration_is_written_with_its_unit(text, seconds):
    """Seconds where there is no unit; `m` is minutes."""
    assert read_seconds(text) == seconds


@each_row(
    "text",
    ["", "s", "-3s", "30x", "1m30m", "30m1h", "1h30", "1:30", "1e3", "nan", "inf", "٣s", "9" * 200],
)
def test_anything_else_is_no_duration(text):
    """Units out of order, twice or missing, signs, exponents, and figures of other scripts."""
    with pytest.raises(ValueError, match="a duration such as 30"):
        read_seconds(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("100KB", 100_000),
        ("8MiB", 8 << 20),
        ("1.5kib", 1536),
        ("2 GB", 2_000_000_000),
        ("7b", 7),
    ],
)
def test_a_size_is_written_with_its_unit(text, size):
    """KB is a thousand, KiB is 1,024."""
    assert read_bytes(text) == size


@each_row("text", ["", "8M", "8 mebi", "-1KB", "0.5b", "1.0001KB", "10s", f"5{' ' * 99}MiB"])
def test_anything_else_is_no_size(text):
    """A size is whole bytes."""
    with pytest.raises(ValueError, match="bytes, such as 65536"):
        read_bytes(text)


@given(st.timedeltas(min_value=timedelta(0)))
def test_a_span_is_written_exactly(span):
    """What is written is read back, to the microsecond and over millions of days."""
    assert read_span(write_span(span)) == span
