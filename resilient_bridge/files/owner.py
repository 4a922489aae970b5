"""An exclusive file lock that the system releases when its process ends, however it ends.

The lock is on a separate file, because closing any descriptor of a file drops every POSIX lock that
its process has on it, and SQLite has its own on the database. For the same reason a second owner in
this process is found in a list, without opening the file. Rule: without the lock the state is not
touched.

Whoever removes the lock file lets a second owner in, because that one makes a file of its own. So
`check` compares the file at the path with the one that is locked; a database has a number besides,
which grows with each owner.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..failure import Executed, Failure, StoreError
from ..locks import new_lock
from .identity import leads_to
from .portable import read_at, write_at
from .private_files import open_private, prepare_directory


if TYPE_CHECKING:
    from typing import Self


# by process, because a fork inherits the list and not the locks
_held: Final[set[tuple[int, str]]] = set()
_held_lock: Final = new_lock()
_TRIES: Final = 100


class Owner:
    """The lock of `path`, taken by `take` and released by `release`.

    The lock file, beside `path`, names the process and is not deleted.

    `is_same_boot`: the last owner that called `note_boot` did so since the machine was started;
    False if that is unknown.
    """

    def __init__(self, path: Path) -> None:
        self._of = path
        self._path = path.with_name(path.name + ".owner")
        self._key = os.getpid(), os.path.realpath(self._path)
        self._descriptor = -1
        self._is_listed = False
        self.is_same_boot = False
        self._is_superseded = False

    def take(self) -> Self:
        """Become the owner; create the directory, or check that it is safe.

        Raises StoreError (SYS_STORE_IN_USE) if another owner exists, in this process or another.
        """
        with _held_lock:
            if self._key in _held:
                raise _in_use("another client of this process")
            _held.add(self._key)
            self._is_listed = True
            self._is_superseded = False
        try:
            self._descriptor = self._locked_file()
        except BaseException:
            self.release()
            raise
        return self

    def check(self) -> bool:
        """Return True while the lock file is the one that is locked; else lock the new one: False.

        Raises StoreError: SESS_SUPERSEDED if another process has locked the new one,
        SYS_STORE_UNAVAILABLE if there can be none. The old lock is then still held.
        """
        if self._is_superseded:
            raise self.superseded()
        if leads_to(self._path, self._descriptor):
            return True
        try:
            descriptor = self._locked_file()
        except StoreError as error:
            if error.failure.code != "SYS_STORE_IN_USE":
                raise
            raise self.superseded() from error
        os.close(self._descriptor)
        self._descriptor = descriptor
        self.note_boot()
        return False

    def superseded(self) -> StoreError:
        """Be the owner no more, for good; return the error that says so: it did nothing."""
        self._is_superseded = True
        text = f"{self._of.name} was taken over by another process"
        hints = ("let one process use it; never remove its lock file (.owner) while one does",)
        return StoreError(
            Failure.of("SESS_SUPERSEDED", text, executed=Executed.NO, suggestions=hints)
        )

    def _locked_file(self) -> int:
        """Return the descriptor of the lock file, locked. Raises StoreError."""
        prepare_directory(self._of, "store")
        for _ in range(_TRIES):
            descriptor = open_private(self._path, os.O_RDWR | os.O_CREAT, "store")
            try:
                self._lock(descriptor)
                if leads_to(self._path, descriptor):
                    return descriptor
            except OSError as error:
                os.close(descriptor)
                text = f"{self._path.name} cannot be locked: {error.strerror}"
                raise StoreError(Failure.of("SYS_STORE_UNAVAILABLE", text, cause=error)) from error
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # removed between the two steps: another process has a new one
        raise _in_use("another process, and its lock file is removed again and again")

    def _lock(self, descriptor: int) -> None:
        is_free = is_locked_now(descriptor)
        text = read_at(descriptor, 100, 0).decode("ascii", "replace").split("\n")
        if not is_free:
            raise _in_use(f"process {text[0]}" if text[0].isdigit() else "another process")
        boot = boot_id()
        self.is_same_boot = bool(boot) and boot in text[1:]
        _write(descriptor, boot if self.is_same_boot else "")

    def note_boot(self) -> None:
        """Record that the state has been used since this start of the machine.

        A write that fails, as on a full disk, is ignored.
        """
        with suppress(OSError):
            _write(self._descriptor, boot_id())

    def release(self) -> None:
        """Release the lock. May be called again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._is_listed:
            self._is_listed = False
            with _held_lock:
                _held.discard(self._key)


def boot_id() -> str:
    """Return the id of this start of the machine; "" on a system without one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _write(descriptor: int, boot: str) -> None:
    text = f"{os.getpid()}\n{boot}\n".encode()
    write_at(descriptor, text, 0)
    os.ftruncate(descriptor, len(text))


def _in_use(by: str) -> StoreError:
    return StoreError(Failure.of("SYS_STORE_IN_USE", f"the store is in use by {by}"))


if sys.platform == "win32":
    import msvcrt

    def is_locked_now(descriptor: int) -> bool:
        try:
            os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # a byte that is never read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def is_locked_now(descriptor: int) -> bool:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except PermissionError:  # some systems raise this for a lock that is held
            return False
        return True
