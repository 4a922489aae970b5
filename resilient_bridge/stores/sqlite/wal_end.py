"""Is the end of a log gone? A log that was cut after any of its transactions is sound, and only older than it was.

SQLite keeps an index of the log beside it, in memory that processes share, and notes there with each transaction how many pages
the log has: after the pages are in the log, and before the log is emptied. What a process that was killed has left of it is
therefore never ahead of its log. Rule: only what is certain is told; after a restart of the machine the two files may be of
different moments, and then only a log of the same salts can be short.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from ...files.private_files import close_quietly, open_private
from .wal import FRAME_HEADER, LOG_HEADER, log_of


if TYPE_CHECKING:
    from pathlib import Path


#: Bytes of the index's header. It stands there twice: while the two differ, it is being written.
_HEADER: Final = 48
_VERSION: Final = 3_007_000


def lost_end(path: Path, end: int, *, is_same_boot: bool) -> str:
    """What the log of this database has lost behind `end`, its last transaction; "" if nothing is known to be. Raises StoreError, ConfigError.

    To be asked before SQLite opens the file, which makes the index anew. `is_same_boot`: whoever used it last did so since the
    machine was started.
    """
    header = _start(path.with_name(path.name + "-shm"), 2 * _HEADER)
    number = _number(header, 0), header[12:13], header[:_HEADER] == header[_HEADER:]
    pages, salts = _number(header, 16), header[32:40]
    if number != (_VERSION, b"\1", True) or not pages:
        return ""
    log = _start(log_of(path), LOG_HEADER)
    if log[16:24] == salts:
        page = int.from_bytes(log[8:12], "big")
        is_short = end < LOG_HEADER + pages * (FRAME_HEADER + page)
    else:  # emptied since, and nothing came after that; or another one in its place
        is_short = is_same_boot
    return "the end of its log" if is_short else ""


def _start(path: Path, count: int) -> bytes:
    try:
        handle = open_private(path, os.O_RDONLY, "store")
    except FileNotFoundError:
        return b""
    try:
        return os.read(handle, count)
    finally:
        close_quietly(handle)


def _number(header: bytes, at: int) -> int:
    return int.from_bytes(header[at : at + 4], sys.byteorder)
