"""What systems do in different ways with a file: reading and writing at a place, and taking the name of another.

Rule: one function for each, that does the same everywhere; the branch of a system is chosen by `sys.platform`, which checkers follow.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from ..world import REAL


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


if sys.platform == "win32":
    _PAUSES: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.32)  # seconds, one altogether

    def read_at(handle: int, size: int, offset: int) -> bytes:
        """Read at a place of a descriptor that no other thread or process moves; where it stands is changed."""
        os.lseek(handle, offset, os.SEEK_SET)
        return os.read(handle, size)

    def write_at(handle: int, data: bytes, offset: int) -> int:
        """Write at a place of a descriptor that no other thread or process moves; where it stands is changed."""
        os.lseek(handle, offset, os.SEEK_SET)
        return os.write(handle, data)

    def move(old: Path, new: Path, replace: Callable[[Path, Path], None]) -> None:
        """Rename, over what has the new name. Somebody who has either open (a reader, an indexer) is waited for, a second at most."""
        for pause in _PAUSES:
            try:
                return replace(old, new)
            except PermissionError:
                REAL.sleep(pause)
        return replace(old, new)

else:

    def read_at(handle: int, size: int, offset: int) -> bytes:
        """Read at a place; where the descriptor stands is unchanged."""
        return os.pread(handle, size, offset)

    def write_at(handle: int, data: bytes, offset: int) -> int:
        """Write at a place; where the descriptor stands is unchanged."""
        return os.pwrite(handle, data, offset)

    def move(old: Path, new: Path, replace: Callable[[Path, Path], None]) -> None:
        """Rename, over what has the new name."""
        replace(old, new)
