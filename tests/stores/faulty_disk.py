"""A disk that fails when a test wants it to: it stands in the place of `os` in the modules that write files.

Rule: what does not fail really happens. After `crash`, nothing does any more: the files are as a dying process leaves them.
"""

from __future__ import annotations

import errno
import os

from tests.internals.files import file_changes, private_files
from tests.internals.stores import session_log
from tests.peers.processes import open_files


__all__ = [
    "CODES",
    "KINDS",
    "MODULES",
    "CrashError",
    "FaultyDisk",
    "failing",
    "files_in",
    "insert",
    "open_files",
]
MODULES = (private_files, file_changes, session_log)
KINDS = frozenset(
    "open read write fsync replace unlink mkdir stat fstat lstat lseek ftruncate fchmod listdir close".split()
)
CODES = ("ENOSPC", "EIO", "EROFS", "EMFILE")


class CrashError(BaseException):
    """The process ends here; not an Exception, and no OSError: nothing catches it in order to go on."""


class FaultyDisk:
    """`os`, whose call number `at` fails, and with `lasting` every later one; `most` bytes are written at once.

    `replaced` holds other functions in the place of those of `os`. `calls` are the names of the calls made.
    """

    def __init__(self, at=0, error=None, *, lasting=False, kinds=KINDS, most=None, **replaced):
        self.calls = []
        self._at, self._error, self._lasting = at, error, lasting
        self._kinds, self._most, self._replaced = kinds, most, replaced

    def __getattr__(self, name):
        plain = self._replaced.get(name) or (self._part if name == "write" else getattr(os, name))
        return self._counted(name, plain) if name in self._kinds else plain

    def _part(self, handle, data):
        return os.write(handle, data[: self._most])

    def _counted(self, name, plain):
        def call(*args):
            self.calls.append(name)
            number = len(self.calls)
            fails = self._at and (number == self._at or (self._lasting and number > self._at))
            if fails and name == "close":
                os.close(*args)  # it is closed, whatever it says
            if fails:
                raise self._error
            return plain(*args)

        return call


def failing(code):
    """The OSError of a code given by its name; the class follows from it."""
    number = getattr(errno, code)
    return OSError(number, os.strerror(number))


def insert(monkeypatch, disk):
    """Put the disk in the place of `os` in every module that writes files, and return it."""
    for module in MODULES:
        monkeypatch.setattr(module, "disk", disk)
    return disk


def files_in(directory):
    """The names in a directory, in order."""
    return sorted(path.name for path in directory.iterdir())
