"""What to do about a path that is there and was refused: permission, the wrong kind of thing, no space, a read-only system.

Rule: a fact first (whose it is, what its mode is, how much is free), then what follows from it; nothing that was not asked of the
system just now.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from .clues import Clue
from .near_misses import status_of, steps_there
from .suggestion_context import (
    Fix,
    SuggestionContext,
    is_directory,
    is_file,
    may_change_mode,
    nearest_there,
    typed,
)


_MOST_NAMED: Final = 3
_READ_ONLY: Final = 1  # ST_RDONLY, where the constant has no name
_NO_EXEC: Final = 8  # ST_NOEXEC
_WATCHES: Final = "/proc/sys/fs/inotify/max_user_watches"


def not_permitted(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield whose a path is, its mode, and what of its directory or file system forbids the call."""
    for path in clue.paths:
        absolute = _program_at(path) if clue.is_program else None
        absolute = absolute or context.absolute(path)
        if absolute is None:
            continue
        there = nearest_there(absolute)
        if there is None:
            continue
        yield from read_only(there, context)
        if clue.is_program and there == absolute and is_file(there) and not os.access(there, os.X_OK):
            yield from _not_executable(there, context)
        yield from _closed_to_us(Path(absolute), context, is_there=there == absolute)
        if (
            there == absolute and sys.platform != "win32"
        ):  # an access list decides there, which we do not read
            yield Fix(f"{context.shown(there)} {_belongs(there)}; this process runs as {_own_name()}", there)


def _not_executable(there: str, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what lets a file be run: another file system, or the x bit, which its owner can set."""
    shown = context.shown(there)
    if _mount_flags(there) & getattr(os, "ST_NOEXEC", _NO_EXEC):
        yield Fix(f"nothing on the file system of {shown} may be run: put it on another", there)
    elif may_change_mode(there):
        yield Fix(typed("make it executable", ("chmod +x", shown)), there)
    else:
        yield Fix(f"have its owner make {shown} executable", there)


def _program_at(name: str) -> str | None:
    # A shell names a program as it was called; one that cannot be run is passed over by the search, and not found.
    if Path(name).name != name:
        return None
    for directory in os.get_exec_path():
        path = str(Path(directory) / name)
        if is_file(path):
            return path
    return None


def _closed_to_us(absolute: Path, context: SuggestionContext, *, is_there: bool) -> Iterator[Fix]:
    """Yield the directory that forbids it: one that may not be entered, or the one that may not be written to."""
    for step in steps_there(str(absolute)):
        if step != str(absolute) and is_directory(step) and not os.access(step, os.X_OK):
            shown = context.shown(step)
            yield Fix(f"the directory {shown} may not be entered: it {_belongs(step)}", step)
            return
    parent = absolute.parent
    if is_directory(str(parent)) and not os.access(parent, os.W_OK):
        what = "added or removed" if is_there else "created"
        shown = context.shown(str(parent))
        yield Fix(
            f"nothing can be {what} in the directory {shown}: it {_belongs(str(parent))}",
            str(parent),
        )


def read_only(there: str, context: SuggestionContext) -> Iterator[Fix]:
    """Yield that the file system of a path is read-only, if it is."""
    if _mount_flags(there) & getattr(os, "ST_RDONLY", _READ_ONLY):
        yield Fix(
            f"the file system of {_shown_path(there, context)} is read-only: write elsewhere, or have it mounted writable",
            there,
        )


def on_read_only(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield whether the file system is still read-only."""
    for path in clue.paths:
        there = _nearest(path, context)
        if there is None:
            continue
        parts = list(read_only(there, context))
        yield from parts or [
            Fix(
                f"the file system of {_shown_path(there, context)} is not read-only now: repeat the call",
                there,
            )
        ]


def is_a_directory(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield files of the directory that was taken for one; of a rename, the name that the file would have in it."""
    if len(clue.paths) == 2:
        yield from _moved_onto(*clue.paths, context)
        return
    for path in clue.paths:
        absolute = context.absolute(path)
        if absolute is None or not is_directory(absolute):
            continue
        files = sorted(
            entry.name for entry in islice(context.look.entries(absolute), 200) if _is_regular(entry)
        )
        named = [str(Path(absolute) / name) for name in files[:_MOST_NAMED]]
        text = " or ".join(context.shown(one) for one in named if status_of(one) is not None)
        what = f"{path} is a directory: name a file"
        yield Fix(f"{what} in it, as {text}", named[0]) if text else Fix(what, absolute)


def _moved_onto(first: str, last: str, context: SuggestionContext) -> Iterator[Fix]:
    absolute = context.absolute(last)
    if absolute is None or not is_directory(absolute):
        return
    inside = str(Path(absolute) / Path(first).name)
    if Path(first).name and status_of(inside, is_link_followed=False) is None:
        yield Fix(f"{last} is a directory: name the file in it, {context.shown(inside)}", absolute)
    else:
        yield Fix(f"{last} is a directory: name a file", absolute)


def not_a_directory(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield the part of a path that is no directory."""
    for path in clue.paths:
        absolute = context.absolute(path)
        if absolute is None:
            continue
        for step in steps_there(absolute):
            if is_file(step):
                shown = context.shown(step)
                yield Fix(f"{shown} is a file and no directory: correct the path", step)
                if step == absolute:
                    parent = str(Path(step).parent)
                    yield Fix(f"name the directory that it is in, {parent}", parent)
                break


def exists_already(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what is in the way."""
    for path in clue.paths:
        absolute = context.absolute(path)
        there = absolute and status_of(absolute, is_link_followed=False)
        if not absolute or not there:
            continue
        mode = there.st_mode
        if stat.S_ISREG(mode):
            what = f"a file of {_size(there.st_size)}"
        elif stat.S_ISDIR(mode):
            what = "a directory"
        else:
            what = "a link" if stat.S_ISLNK(mode) else "no ordinary file"
        yield Fix(f"{path} is there already, {what}: use it, or take another name", absolute)


def not_empty(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what a directory holds that was to be empty."""
    for path in clue.paths:
        absolute = context.absolute(path)
        if absolute is None or not is_directory(absolute):
            continue
        held = sorted(entry.name for entry in islice(context.look.entries(absolute), 200))
        if held:
            names = ", ".join(held[:_MOST_NAMED]) + (", …" if len(held) > _MOST_NAMED else "")
            yield Fix(f"{path} is not empty, it holds {names}: see whether that can go", absolute)
        elif context.look.remaining and os.access(absolute, os.R_OK):
            yield Fix(f"{path} is empty now: repeat the call", absolute)


def no_watches(_: Clue, __: SuggestionContext) -> Iterator[Fix]:
    """Yield how many watches of files a user may have, where the system tells."""
    most = Path(_WATCHES).read_text("ascii").strip()
    yield Fix(
        f"watch fewer files, or raise fs.inotify.max_user_watches, which is {most}: the device need not be full"
    )


def no_space(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield how much is free on the device."""
    for path in clue.paths or (".",):
        there = _nearest(path, context)
        if there is None:
            continue
        shown = _shown_path(there, context)
        if _is_out_of_names(there):
            yield Fix(f"the device of {shown} can hold no more files: remove some, however small", there)
        else:
            free = _size(shutil.disk_usage(there).free)
            yield Fix(f"{free} are free on the device of {shown}: free more, or write less", there)


def _shown_path(there: str, context: SuggestionContext) -> str:
    return there if there == str(context.directory) else context.shown(there)


def _nearest(path: str, context: SuggestionContext) -> str | None:
    absolute = context.absolute(path)
    return None if absolute is None else nearest_there(absolute)


def _is_regular(entry: os.DirEntry[str]) -> bool:
    try:
        return not entry.name.startswith(".") and entry.is_file(follow_symlinks=False)
    except OSError:
        return False


if sys.platform == "win32":

    def _mount_flags(there: str) -> int:  # noqa: ARG001 -- a volume has none that we could ask for
        return 0

    def _is_out_of_names(there: str) -> bool:  # noqa: ARG001 -- NTFS has no number of them
        return False

    def _belongs(path: str) -> str:  # noqa: ARG001 -- a list of its own says who may
        return "has an access list that forbids it"

else:

    def _mount_flags(there: str) -> int:
        return os.statvfs(there).f_flag

    def _is_out_of_names(there: str) -> bool:
        found = os.statvfs(there)
        return bool(found.f_files) and not found.f_favail

    def _belongs(path: str) -> str:
        found = Path(path).stat()
        return f"belongs to {_user(found.st_uid)}, mode {stat.filemode(found.st_mode)}"

    def _own_name() -> str:
        return _user(os.geteuid())

    def _user(number: int) -> str:
        try:
            import pwd

            return pwd.getpwuid(number).pw_name
        except (ImportError, KeyError):  # the first: in a browser
            return f"user {number}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1_000:
            return f"{size:.1f}".removesuffix(".0") + f" {unit}"
        size /= 1_000
    return f"{size:.1f} TB"
