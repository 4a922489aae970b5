"""The log of a SQLite database, read before SQLite reads it: what it would drop without a word.

The log is a run of pages, each with a check sum over all before it. SQLite goes as far as they agree, and takes the rest for the
leavings of an earlier log. Rule: what may have been told as done must not disappear unsaid.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ...files.private_files import ALWAYS, read_private


if TYPE_CHECKING:
    from collections.abc import Mapping


LOG_HEADER: Final = 32
FRAME_HEADER: Final = 24


class Log(NamedTuple):
    """A log up to its last commit: page number -> content, the `size` of the database then in pages, its own `end` in bytes; `lost`: what is behind it."""

    pages: Mapping[int, bytes]
    size: int
    end: int
    lost: str


def log_of(path: Path) -> Path:
    """Where the log of a database is."""
    return path.with_name(path.name + "-wal")


def read_log(path: Path) -> Log:
    """The log of this database, and what SQLite would drop of it; `lost` is "" if that is nothing. Raises StoreError, ConfigError.

    A write that its process did not finish is no loss: nobody was told that it was done. It stands at the end, cut short, or
    alone in a log that has just begun; and what `cut_log` leaves behind none.
    """
    log = read_private(log_of(path), "store") or b""
    if len(log) <= LOG_HEADER:
        return Log({}, 0, 0, "")
    is_native = (log[3] & 1) == (sys.byteorder == "big")
    total = _sum(log[:24], (0, 0), is_native=is_native)
    page = int.from_bytes(log[8:12], "big")
    if log[:3] != b"\x37\x7f\x06" or _pair(log, 24) != total or not 512 <= page <= 65_536:
        return Log({}, 0, 0, "all of its log")
    salts, size = log[16:24], FRAME_HEADER + page
    places = range(LOG_HEADER, len(log) - size + 1, size)
    pages: dict[int, bytes] = {}
    started: dict[int, bytes] = {}
    remaining = end = 0
    for offset in places:
        found = log[offset + 8 : offset + 16]
        total = _sum(log[offset : offset + 8], total, is_native=is_native)
        total = _sum(log[offset + FRAME_HEADER : offset + size], total, is_native=is_native)
        if found != salts or total != _pair(log, offset + 16):
            others = sum(log[at + 8 : at + 16] == salts for at in places if at > offset)
            is_lost = others or (end and not _is_older(found, salts))
            return Log(pages, remaining, end, f"{1 + others} pages of its log" if is_lost else "")
        number, size_after = _pair(log, offset)
        started[number] = log[offset + FRAME_HEADER : offset + size]
        if size_after:
            pages.update(started)
            started, remaining, end = {}, size_after, offset + size
    return Log(pages, remaining, end, "")


def cut_log(path: Path, end: int) -> None:
    """Take away what stands behind the last commit, so that it is never taken for something that was. Raises OSError."""
    try:
        handle = os.open(log_of(path), os.O_WRONLY | ALWAYS)
    except FileNotFoundError:
        return
    try:
        if os.fstat(handle).st_size > end:
            os.ftruncate(handle, end)
    finally:
        os.close(handle)


def _is_older(salts: bytes, now: bytes) -> bool:
    """Do these stand in the log before this one? The first is counted up, the second drawn anew."""
    return _pair(salts, 0)[0] == (_pair(now, 0)[0] - 1) & 0xFFFFFFFF and salts[4:] != now[4:]


def _pair(log: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(log[at : at + 4], "big"), int.from_bytes(log[at + 4 : at + 8], "big")


def _sum(data: bytes, start: tuple[int, int], *, is_native: bool) -> tuple[int, int]:
    """Go on with SQLite's check sum."""
    if not is_native:
        data = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    first, second = start
    words = iter(memoryview(data).cast("I"))
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
