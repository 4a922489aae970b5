"""Access rights of our files: their names, their directory, and how one is opened.

Rule: a link, a file of another user, and a directory in which others may replace files are refused.
An id never becomes a path, and what we create is private (0600, directories 0700). Every error is
typed and names the path. System calls go through `disk`, which tests replace with one whose k-th
call fails.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..failure import Executed, Failure, config_error, error_for


if TYPE_CHECKING:
    from collections.abc import Generator

    from ..failure import BridgeError


disk: Final = os

# bytes; file systems allow 255, and the names made from this one are longer
_LONGEST_NAME: Final = 200
_CHUNK: Final = 1 << 20
_NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
ALWAYS: Final[int] = (
    _NOFOLLOW
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
)
"""The flags of every open. Without O_NONBLOCK, opening a named pipe could block."""
_STRANGE: Final = {
    errno.ELOOP: "a symbolic link",
    errno.EMLINK: "a symbolic link",
    errno.ENXIO: "no regular file",
    errno.EISDIR: "a directory",
    errno.ENOTDIR: "in something that is no directory",
}
_FILE: Final = "a regular file of ours that has one name, or the path of a new one"
_IN_DIRECTORY: Final = "a path in a directory, or in one that can be made"
_HINTS: Final = {
    errno.EACCES: "let this user read and write the file and its directory, or name another path",
    errno.EPERM: "let this user read and write the file and its directory, or name another path",
    errno.EROFS: "name a path on a file system that can be written to",
    errno.ENOENT: "name a path in a directory that can be made",
}


def path_of(path: str | os.PathLike[str], field: str) -> Path:
    """Return the absolute path, so that a later change of the working directory does not matter.

    A path that begins with `~/` is below the home directory. The path need not exist.

    Raises ConfigError for a path without a file name, or with one too long for the names made from
    it.
    """
    wanted = f"a path to a file, with a name of 1 to {_LONGEST_NAME} bytes"
    try:
        found = Path(path)
        if os.fspath(path)[:2] in ("~/", f"~{os.sep}"):
            found = found.expanduser()
        fits = found.name not in {"", ".."} and len(os.fsencode(found.name)) <= _LONGEST_NAME
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: no home directory is known
        raise config_error(field, wanted, path) from None
    if not fits or "\0" in str(found):
        raise config_error(field, wanted, path)
    with typed_errors(found, "be found"):
        return found.absolute()


# ---- the directory ---------------------------------------------------------------------------------------------------


def prepare_directory(path: Path, field: str = "path") -> None:
    """Create the directory of `path` and its missing parents (0700), or check an existing one.

    Raises ConfigError for a directory in which another user could replace our file, StoreError
    (SYS_STORE_UNAVAILABLE) if it cannot be created or examined.
    """
    directory = path.parent
    try:
        found = _made(directory)
    except (NotADirectoryError, FileExistsError) as error:
        raise config_error(field, _IN_DIRECTORY, path) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise config_error(field, _IN_DIRECTORY, f"{path}, through a loop of links") from error
        raise unavailable(directory, "be made or looked at", error) from error
    if not stat.S_ISDIR(found.st_mode):
        raise config_error(field, _IN_DIRECTORY, path)
    # On Windows the directory's access list decides; a profile belongs to its user.
    if sys.platform != "win32":
        _check_directory(directory, found, field)


def _made(directory: Path) -> os.stat_result:
    """Create the directory and its parents, unless it exists; each is durable before the next."""
    missing: list[Path] = []
    ahead = directory
    while True:
        try:
            found = disk.stat(ahead)
            break
        except FileNotFoundError:
            missing.append(ahead)
            ahead = ahead.parent
    for one in reversed(missing):
        with suppress(FileExistsError):  # another process was faster; the owner is checked below
            disk.mkdir(one, 0o700)
            sync_directory(one.parent)
        found = disk.stat(one)
    return found


if sys.platform != "win32":

    def _check_directory(directory: Path, found: os.stat_result, field: str) -> None:
        # Our files are 0600, so it does no harm that others may list a directory: a home or a
        # project is 0755, and `store="bridge.db"` has to work there. Harm is done by users who may
        # rename: they could swap our file. These are the owner (root may do everything anyway), and
        # every user who may write, unless the sticky bit protects the files of others, as in /tmp.
        # A group without other members is harmless: distributions with umask 002 make every
        # directory 0775.
        if found.st_uid not in {disk.geteuid(), 0}:
            raise config_error(
                field,
                "a path in a directory of ours or of root",
                f"{directory}, of user {found.st_uid}",
            )
        mode = stat.S_IMODE(found.st_mode)
        others = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_ours_alone(found.st_gid))
        if others and not mode & stat.S_ISVTX:
            raise config_error(
                field,
                "a path in a directory that nobody else may write to",
                f"{directory}, mode {mode:04o}",
            )

    def _is_ours_alone(group: int) -> bool:
        """Return whether a group is this user's own: primary, of the same name, no other member."""
        try:
            import grp
            import pwd

            user, found = pwd.getpwuid(disk.geteuid()), grp.getgrgid(group)
        except (ImportError, KeyError, OSError):
            return False
        return (
            user.pw_gid == group
            and found.gr_name == user.pw_name
            and set(found.gr_mem) <= {user.pw_name}
        )


# ---- one file --------------------------------------------------------------------------------------------------------


def open_private(path: Path, flags: int, field: str = "path", *, is_shared: bool = False) -> int:
    """Open a private file and return its descriptor; a new one, or one open to others, gets 0600.

    `is_shared`: one that is open to others stays so.

    Raises ConfigError, before anything is changed, for a link, a file that is not regular, a file
    with a second name, or one of another user; StoreError (SYS_STORE_UNAVAILABLE) for other errors
    of the system. Without O_CREAT a missing file is FileNotFoundError, because only the caller
    knows its meaning.
    """
    if not _NOFOLLOW and path.is_symlink():
        raise config_error(field, _FILE, f"{path}, a symbolic link")
    try:
        handle = disk.open(path, flags & ~os.O_TRUNC | ALWAYS, 0o600)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not flags & os.O_CREAT:
            raise
        # Opening a directory on Windows raises PermissionError. `Path.is_dir` may raise it, too.
        is_directory = isinstance(error, PermissionError) and os.path.isdir(path)  # noqa: PTH112
        strange = "a directory" if is_directory else _STRANGE.get(error.errno or 0)
        if strange:
            raise config_error(field, _FILE, f"{path}, {strange}") from error
        raise unavailable(path, "be opened", error) from error
    try:
        with typed_errors(path, "be opened"):
            _check_file(handle, path, field, is_shared=is_shared)
            if flags & os.O_TRUNC:  # only now: a file that is refused keeps its content
                disk.ftruncate(handle, 0)
    except BaseException:
        close_quietly(handle)
        raise
    return handle


def _check_file(handle: int, path: Path, field: str, *, is_shared: bool) -> None:
    found = disk.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        raise config_error(
            field, _FILE, f"{path}, no regular file ({stat.filemode(found.st_mode)})"
        )
    if found.st_nlink > 1:
        raise config_error(field, _FILE, f"{path}, which has {found.st_nlink} names")
    if sys.platform != "win32":
        if found.st_uid != disk.geteuid():
            raise config_error(field, _FILE, f"{path}, of user {found.st_uid}")
        if stat.S_IMODE(found.st_mode) & 0o077 and not is_shared:
            disk.fchmod(handle, 0o600)


def read_private(path: Path, field: str = "path", *, is_shared: bool = False) -> bytes | None:
    """Return the content of a private file, or None without one. Raises as `open_private` does."""
    try:
        handle = open_private(path, os.O_RDONLY, field, is_shared=is_shared)
    except FileNotFoundError:
        return None
    parts: list[bytes] = []
    with typed_errors(path, "be read"):
        try:
            while part := disk.read(handle, _CHUNK):
                parts.append(part)
        finally:
            close_quietly(handle)
    return b"".join(parts)


# ---- steps ----------------------------------------------------------------------------------------------------------


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    if sys.platform == "win32":
        return  # Windows cannot do that
    handle = disk.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        disk.fsync(handle)
    except OSError as error:
        # some file systems do not support it
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        close_quietly(handle)


def close_quietly(handle: int) -> None:
    """Close a descriptor and ignore errors: its data was read, or is lost already."""
    with suppress(OSError):
        disk.close(handle)


@contextmanager
def typed_errors(path: Path, problem: str, executed: Executed | None = None) -> Generator[None]:
    """Raise an OSError inside the block as the StoreError of `unavailable`."""
    try:
        yield
    except OSError as error:
        raise unavailable(path, problem, error, executed) from error


def unavailable(
    path: Path, problem: str, error: OSError, executed: Executed | None = None
) -> BridgeError:
    """Return the StoreError for a file that could not `problem` ("be opened"), with its cause."""
    reason = (error.strerror or type(error).__name__).lower()
    return error_for(
        Failure.of(
            "SYS_STORE_UNAVAILABLE",
            f"{path} could not {problem}: {reason}",
            details={"path": str(path), "errno": error.errno},
            executed=executed,
            suggestions=(hint,) if (hint := _HINTS.get(error.errno or 0)) else (),
            cause=error,
        )
    )
