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
from .private_files import close_quietly


if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


disk: Final = os

# flags by which a directory is opened; 0 on Windows, which cannot
_DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
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

    `may_have_changed` costs one system call: as long as the directory has the same time of change,
    it was not moved, and no name in it was added, removed or replaced. It does not notice a file
    that was changed in place, nor that a directory further up was moved: `others` does the latter.
    """

    def __init__(self, directory: Path, names: Iterable[str]) -> None:
        """The names are those of files in the directory. Raises OSError."""
        self._directory = str(directory)
        # texts: a look takes microseconds, and a `Path` for each file would be most of them
        self._paths = {name: f"{self._directory}{os.sep}{name}" for name in names}
        self._known: dict[str, Identity | None] = {}
        self._handle = -1
        self._time = self._noted = -1
        self.note()

    def note(self) -> None:
        """Take the files that are there now for those that are held. Raises OSError."""
        self._known = {name: identity_at(path) for name, path in self._paths.items()}
        self.close()
        if _DIRECTORY:
            self._handle = disk.open(self._directory, os.O_RDONLY | _DIRECTORY)
        self.agree()

    def agree(self) -> None:
        """Note that the files were compared now, so the directory need not be until it changes."""
        self._noted = changed = self._changed()
        # A change within the same tick would not be seen: compare the files until it is over.
        self._time = changed if abs(REAL.wall() - changed / 1e9) > _TICK else -1

    if _DIRECTORY:

        def _changed(self) -> int:
            return disk.fstat(self._handle).st_ctime_ns  # also of a directory that was moved

    else:

        def _changed(self) -> int:
            try:
                return disk.stat(self._directory).st_mtime_ns
            except OSError:
                return 0

    def may_have_changed(self) -> bool:
        """Return whether a file may have been removed, moved or replaced."""
        changed = self._changed()
        return changed != self._time and self._has_changed(changed)

    def _has_changed(self, changed: int) -> bool:
        try:
            if changed != self._noted or self.others():
                return True
            self.agree()
        except OSError:
            return True
        return False

    def close(self) -> None:
        """Close the directory. May be called again."""
        if self._handle >= 0:
            close_quietly(self._handle)
            self._handle = -1

    def others(self) -> dict[str, Identity | None]:
        """Return the names that lead to another file, or to none (None). Raises OSError."""
        found = {name: identity_at(path) for name, path in self._paths.items()}
        return {name: at for name, at in found.items() if at != self._known[name]}
