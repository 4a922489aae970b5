"""Changes of a file: all of it or nothing, or a line at its end.

Rule: an existing file is never written to, but for a journal, which is appended to. A new file
takes its name when it is complete and durable; a damaged one is kept under another name, and an
existing name is never reused. Every error is typed and names the path. System calls go through `disk`, which tests replace with one whose k-th
call fails.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final

from ..failure import Executed
from ..world import REAL, current_world
from .portable import move
from .private_files import (
    ALWAYS,
    close_quietly,
    open_private,
    sync_directory,
    typed_errors,
)


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


disk: Final = os

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | ALWAYS
_LEFTOVER_AFTER: Final = 3600.0  # seconds: no save runs for an hour


def replace_atomically(path: Path, data: bytes) -> None:
    """Replace the file by `data`: readers see the old or the new content, also after a power cut.

    Raises StoreError (SYS_STORE_UNAVAILABLE); the old file is then unchanged. There is one
    exception: if the directory cannot be synchronised, the new file is in place already,
    `failure.executed` is MAYBE, and the change may not survive a power cut.
    """
    replace_in_order((path, data))


def replace_in_order(*changes: tuple[Path, bytes], counts_with: Path | None = None) -> None:
    """Replace files of one directory, each atomically, and synchronise the directory once.

    A file is replaced after those before it. Raises what `replace_atomically` does; the files
    before the one that failed are replaced then, and those after it are unchanged. `counts_with`:
    once this file is replaced, the new content counts, so an error says MAYBE (default: the last).
    """
    executed: Executed | None = None
    for path, data in changes:
        temporary = path.with_name(f".{path.name}.{REAL.new_token()}.tmp")
        with typed_errors(path, "be written", executed):
            _write_new(temporary, data)
            try:
                move(temporary, path, disk.replace)
            except BaseException:
                _unlink_quietly(temporary)
                raise
        if path == counts_with:
            executed = Executed.MAYBE
    path = changes[-1][0]
    with typed_errors(path, "be synchronised", Executed.MAYBE):
        sync_directory(path.parent)


def append(path: Path, data: bytes, field: str, *, is_synced: bool) -> None:
    """Append to an existing private file; `is_synced`: it is durable when this returns.

    Raises FileNotFoundError without a file, ConfigError for one that is not ours, and StoreError:
    a part of the data may be in the file then.
    """
    handle = open_private(path, os.O_WRONLY | os.O_APPEND, field)
    with typed_errors(path, "be written", Executed.MAYBE):
        try:
            write_all(handle, data)
            if is_synced:
                disk.fsync(handle)
        except BaseException:
            close_quietly(handle)
            raise
        disk.close(handle)


def remove(path: Path) -> None:
    """Remove the file if it exists, durably. Raises StoreError."""
    with typed_errors(path, "be removed"), suppress(FileNotFoundError):
        disk.unlink(path)
        sync_directory(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files, older than an hour, of processes killed in `replace_atomically`.

    Never raises.
    """
    remaining = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{16}}\.tmp")
    now = current_world().wall()
    with suppress(OSError):
        for name in filter(remaining.fullmatch, disk.listdir(path.parent)):
            if now - disk.lstat(path.with_name(name)).st_mtime > _LEFTOVER_AFTER:
                disk.unlink(path.with_name(name))


# ---- what is damaged -------------------------------------------------------------------------------------------------


def set_aside(path: Path, label: str = "damaged", *, like: Path | None = None) -> Path:
    """Rename the file to `<name>.<label>-<UTC time>`, plus a number if it exists; return the path.

    Nothing is overwritten. The name is that of `like`, if it is another.

    Raises StoreError (SYS_STORE_UNAVAILABLE); the file has its old name then, or the new one if
    `failure.executed` is MAYBE.
    """
    with typed_errors(path, "be set aside"):
        # the name is reserved first, because a rename overwrites
        aside = _written_aside(like or path, b"", label)
        try:
            move(path, aside, disk.replace)
        except BaseException:
            _unlink_quietly(aside)
            raise
    with typed_errors(path, f"be synchronised as {aside.name}", Executed.MAYBE):
        sync_directory(path.parent)
    return aside


def keep_copy(path: Path, data: bytes, label: str = "damaged") -> Path:
    """Write `data`, the file's content, beside it under a name as in `set_aside`; return the path.

    The file stays. Raises StoreError.
    """
    with typed_errors(path, "be set aside"):
        copy = _written_aside(path, data, label)
        sync_directory(path.parent)
    return copy


def _written_aside(path: Path, data: bytes, label: str) -> Path:
    for copy in _free_names(path, label):
        with suppress(FileExistsError):
            _write_new(copy, data)
            return copy
    raise AssertionError  # pragma: no cover -- there is no last number


def _free_names(path: Path, label: str) -> Iterator[Path]:
    first = f"{path.name}.{label}-{current_world().now():%Y%m%dT%H%M%SZ}"
    yield path.with_name(first)
    for number in count(2):
        yield path.with_name(f"{first}-{number}")


# ---- steps -----------------------------------------------------------------------------------------------------------


def _write_new(path: Path, data: bytes) -> None:
    """Write a new file, durable except for its name; on failure it is removed."""
    handle = disk.open(path, _NEW, 0o600)
    try:
        try:
            write_all(handle, data)
            disk.fsync(handle)
        except BaseException:
            close_quietly(handle)
            raise
        disk.close(handle)  # a network file system may report an error only now
    except BaseException:
        _unlink_quietly(path)
        raise


def write_all(handle: int, data: bytes) -> None:
    """Write all of `data`, in as many steps as the system takes.

    Earlier steps stay written if one fails.

    Raises OSError.
    """
    remaining = memoryview(data)
    while remaining:
        written = disk.write(handle, remaining)
        if not written:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        remaining = remaining[written:]


def _unlink_quietly(path: Path) -> None:
    with suppress(OSError):
        disk.unlink(path)
