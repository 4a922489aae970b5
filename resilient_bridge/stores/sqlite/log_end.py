"""How far the log of a database goes: recorded after each transaction, checked before the next use.

SQLite reads a log up to the first damaged page and ignores the rest, so it takes a log that lost
its end for an older one. Therefore a note beside the log has a check sum of all its bytes up to the
last transaction. The note is a memory-mapped file, which survives the process; a clean close
removes it together with the log. Rule: a transaction is noted before its caller learns of it, so
the note covers all that was reported as written. This module does not know the form of a log, only
that no two logs begin with the same bytes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from mmap import mmap
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from ...files.portable import read_at, read_into, write_at
from ...files.private_files import ALWAYS, close_quietly, open_private, read_private


if TYPE_CHECKING:
    from pathlib import Path


NOTE: Final = "-end"
INDEX: Final = "-shm"
SIDES: Final = ("-wal", INDEX, NOTE)
"""What the names of the files beside a database end with."""
_START: Final = 32  # bytes that identify a log
_PIECE: Final = 12_288  # bytes; a transaction is seldom longer than five pages of the log
_FIELDS: Final = Struct("<32sQI?")  # the log's start, size, check sum, and whether it may restart
_GROWTH: Final = Struct("<QI")  # of these the size and the check sum
_VOID: Final = bytes(_FIELDS.size)


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def note_of(path: Path) -> Path:
    return path.with_name(path.name + NOTE)


def is_end_lost(path: Path, *, is_same_boot: bool) -> bool:
    """Return whether the log was shortened or changed; False without a note.

    `is_same_boot`: the last owner used it since the machine was started. If not, the note may be
    older than the log. Raises StoreError, ConfigError.
    """
    # The note first: if its owner is alive (somebody has removed the lock file), the log may grow.
    note = (read_private(note_of(path), "store") or b"")[: _FIELDS.size]
    log = read_private(log_of(path), "store") or b""
    if note in (b"", _VOID):
        return False
    start: bytes
    size: int
    total: int
    may_restart: bool
    start, size, total, may_restart = _FIELDS.unpack(note.ljust(_FIELDS.size, b"\0"))
    if size and log[:_START] == start:
        return len(log) < size or crc32(log[:size]) != total
    # Another log, or none: correct if the one that was noted was no longer needed.
    return not may_restart and (is_same_boot or crc32(start + log[_START:size]) == total)


class LogEnd:
    """The log of an open database, and the note about it, updated after each write.

    An earlier log that differs from its note is not followed until SQLite begins a new one: the end
    of its last transaction is unknown, and nothing is noted.
    """

    def __init__(self, path: Path) -> None:
        """Open the log and the note. Raises OSError, StoreError, ConfigError; then none is open."""
        self._path = path
        self._log = -1
        self._pieces = [bytearray(_PIECE)]
        self._view = memoryview(self._pieces[0])
        self._note: mmap | bytearray = bytearray(_VOID)
        with suppress(FileNotFoundError):  # on a file system that cannot have one
            self._log = os.open(log_of(path), os.O_RDWR | ALWAYS)
            self._map()
        self._start, self._size = self._found()
        start, size, self._total, _ = _FIELDS.unpack(self._note)
        self._may_restart = False
        self._is_noted = False  # the note has the start of this log, and that it may not restart
        self.is_followed = bool(size) and (start, size) == (self._start, self._size)
        if not self.is_followed:
            self._note[:] = _VOID

    def _map(self) -> None:
        try:
            handle = open_private(note_of(self._path), os.O_RDWR | os.O_CREAT, "store")
            try:
                if len(read_at(handle, _FIELDS.size, 0)) < _FIELDS.size:
                    write_at(handle, _VOID, 0)  # mmap needs a file of this size
                self._note = mmap(handle, _FIELDS.size)
            finally:
                os.close(handle)
        except BaseException:
            self.close_log()
            raise

    def _found(self) -> tuple[bytes, int]:
        if self._log < 0:
            return b"", 0
        return read_at(self._log, _START, 0), os.lseek(self._log, 0, os.SEEK_END)

    def add(self) -> None:
        try:
            is_plain = self.is_followed and not self._may_restart
            count = read_into(self._log, self._pieces, self._size) if is_plain else 0
            if 0 < count < _PIECE:
                self._size += count
                self._total = crc32(self._view[:count], self._total)
                if self._is_noted:
                    _GROWTH.pack_into(self._note, _START, self._size, self._total)
                    return
            elif not self._look_again():
                return
            self._is_noted = True
            _FIELDS.pack_into(
                self._note, 0, self._start, self._size, self._total, self._may_restart
            )
        except OSError:
            self.is_followed = False
            self._note[:] = _VOID

    def _look_again(self) -> bool:
        """Read to the end of the log, which may be a new one; return whether it is followed."""
        self._is_noted = False
        start, end = self._found()
        if start != self._start:
            self._start, self._size, self._total, self.is_followed = start, 0, 0, bool(end)
        if self.is_followed:
            self._may_restart &= self._size == end
            while data := read_at(self._log, _PIECE, self._size):
                self._size += len(data)
                self._total = crc32(data, self._total)
        self._size = end
        return self.is_followed

    def may_restart(self) -> None:
        """Note that all of the log is in the database: SQLite may begin a new one."""
        self._may_restart = True
        self._is_noted = False
        if self.is_followed:
            _FIELDS.pack_into(self._note, 0, self._start, self._size, self._total, True)

    def take_back(self, *, is_machine: bool) -> None:
        """Cut off a failed transaction: it may be complete, and a crash would bring it back."""
        with suppress(OSError):
            # If the failed one has restarted the log, the database has everything that was in it.
            os.ftruncate(
                self._log, self._size if read_at(self._log, _START, 0) == self._start else 0
            )
            if is_machine:
                os.fsync(self._log)
            return
        self.is_followed = False

    def close_log(self) -> None:
        """Close the log, so that SQLite can remove it: Windows refuses that while it is open."""
        if self._log >= 0:
            close_quietly(self._log)
            self._log = -1

    @property
    def has_note(self) -> bool:
        return isinstance(self._note, mmap)

    def empty_log(self) -> None:
        """Drop the content of the log, so that SQLite copies none of it into the database."""
        with suppress(OSError):
            os.ftruncate(self._log, 0)

    def close(self, *, keeps_note: bool = False) -> None:
        """Close the note, and remove it if there is no log, unless it `keeps_note`."""
        if isinstance(self._note, mmap):
            self._note.close()
        if keeps_note:
            return
        with suppress(OSError):
            if not log_of(self._path).exists():
                note_of(self._path).unlink(missing_ok=True)
