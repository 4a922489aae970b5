"""File operations that differ between systems: positioned I/O, renames that replace a file, and a
lock for a moment.

Rule: one function for each, with the same behaviour everywhere; the branch of a system is chosen by
`sys.platform`, which type checkers follow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..world import REAL


if TYPE_CHECKING:
    from pathlib import Path


def _read_into(handle: int, buffers: Sequence[bytearray], offset: int) -> int:
    (buffer,) = buffers
    data = read_at(handle, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


#: `read_into(handle, [buffer], offset)`: read without a new object; return how many bytes.
read_into: Final[Callable[[int, Sequence[bytearray], int], int]] = getattr(os, "preadv", _read_into)


if sys.platform == "win32":
    import msvcrt

    _LOCKED: Final = 1 << 30  # the offset of a byte that is never read

    def lock_now(handle: int) -> bool:
        """Lock the file for this open descriptor, if nobody has; return whether it is locked now."""
        os.lseek(handle, _LOCKED, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Unlock the file. Raises OSError."""
        os.lseek(handle, _LOCKED, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

    _PAUSES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.32)  # seconds; one second in all

    def read_at(handle: int, size: int, offset: int) -> bytes:
        """Read at an offset of a descriptor that no other thread or process uses.

        Its position changes.
        """
        os.lseek(handle, offset, os.SEEK_SET)
        return os.read(handle, size)

    def write_at(handle: int, data: bytes, offset: int) -> int:
        """Write at an offset of a descriptor that no other thread or process uses.

        Its position changes.
        """
        os.lseek(handle, offset, os.SEEK_SET)
        return os.write(handle, data)

    def move(old: Path, new: Path, replace: Callable[[Path, Path], None]) -> None:
        """Rename, replacing an existing file.

        If another program (a reader, an indexer) has a file open, try again for at most a second.
        """
        for pause in _PAUSES:
            try:
                return replace(old, new)
            except PermissionError:
                REAL.sleep(pause)
        return replace(old, new)

else:
    import fcntl

    # `flock`, not the lock of `owner`: that one belongs to the process, so two descriptors of one
    # process would both have it, and closing one would release it for both.
    def lock_now(handle: int) -> bool:
        """Lock the file for this open descriptor, if nobody has; return whether it is locked now.

        Raises OSError on a file system without locks.
        """
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Unlock the file. Raises OSError."""
        fcntl.flock(handle, fcntl.LOCK_UN)

    def read_at(handle: int, size: int, offset: int) -> bytes:
        """Read at an offset; the descriptor's position is unchanged."""
        return os.pread(handle, size, offset)

    def write_at(handle: int, data: bytes, offset: int) -> int:
        """Write at an offset; the descriptor's position is unchanged."""
        return os.pwrite(handle, data, offset)

    def move(old: Path, new: Path, replace: Callable[[Path, Path], None]) -> None:
        """Rename, replacing an existing file."""
        replace(old, new)
