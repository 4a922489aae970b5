"""Whether a path still leads to the file that was opened: the one check of every file we hold.

An open file can be removed, moved, or replaced, and writing to it goes on without an error: what is
written then is lost with it. A file is identified by its device and its inode, which no other file
has while this one is open.

Rule: before it matters (what was written counts as stored, a lock counts as held, a file is
replaced) the path is compared with the file. System calls go through `disk`, which tests replace.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from ..world import REAL


if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


disk: Final = os

# seconds; a file system may give two changes of a directory the same time if they are closer
_TICK: Final = 0.012


class Identity(NamedTuple):
    """The device and the inode of a file: unique among all files that exist or are open."""

    device: int
    inode: int


def identity_of(handle: int) -> Identity:
    """Return the identity of an open file. Raises OSError."""
    found = disk.fstat(handle)
    return Identity(found.st_dev, found.st_ino)


def identity_at(path: str | os.PathLike[str], *, follows: bool = False) -> Identity | None:
    """Return the identity of what is at a path, None if nothing is.

    A link is followed only with `follows`. Raises OSError, if that cannot be found out.
    """
    try:
        found = disk.stat(path) if follows else disk.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Identity(found.st_dev, found.st_ino)


def leads_to(path: str | os.PathLike[str], handle: int, *, follows: bool = False) -> bool:
    """Return whether the path leads to this open file. False if that cannot be found out."""
    try:
        return identity_at(path, follows=follows) == identity_of(handle)
    except OSError:
        return False


class HeldFiles:
    """The files of one directory that are in use, as they were when `note` was called.

    `may_have_changed` costs one system call: as long as the directory is the same and has the same
    time of change, no name in it was added, removed or replaced. It does not notice a file that was
    changed in place.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        """The paths are of one directory. Raises OSError."""
        self._paths = tuple(paths)
        self._directory = str(self._paths[0].parent)
        self._known: dict[Path, Identity | None] = {}
        self._time = self._inode = -1
        self.note()

    def note(self) -> None:
        """Take the files that are there now for those that are held. Raises OSError."""
        self._known = {path: identity_at(path) for path in self._paths}
        self.agree()

    def agree(self) -> None:
        """Note that the files were compared now, so the directory need not be until it changes."""
        found = disk.stat(self._directory)
        self._inode = found.st_ino
        # A change within the same tick would not be seen: look again until it is over.
        is_over = abs(REAL.wall() - found.st_mtime) > _TICK
        self._time = found.st_mtime_ns if is_over else -1

    def may_have_changed(self) -> bool:
        """Return whether a file may have been removed, moved or replaced."""
        try:
            found = disk.stat(self._directory)
        except OSError:
            return True
        return found.st_mtime_ns != self._time or found.st_ino != self._inode

    def is_same(self, path: Path) -> bool:
        """Return whether the path leads to the file that was noted. Raises OSError."""
        return identity_at(path) == self._known[path]

    def is_missing(self, path: Path) -> bool:
        """Return whether nothing is at the path. Raises OSError."""
        return identity_at(path) is None
