"""File operations that differ between systems: positioned I/O, and renames that replace a file.

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

    def read_at(handle: int, size: int, offset: int) -> bytes:
        """Read at an offset; the descriptor's position is unchanged."""
        return os.pread(handle, size, offset)

    def write_at(handle: int, data: bytes, offset: int) -> int:
        """Write at an offset; the descriptor's position is unchanged."""
        return os.pwrite(handle, data, offset)

    def move(old: Path, new: Path, replace: Callable[[Path, Path], None]) -> None:
        """Rename, replacing an existing file."""
        replace(old, new)
