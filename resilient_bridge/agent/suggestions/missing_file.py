"""What to do about a missing file.

Near misses, the same path in a parent directory, backups, and how to create it.

Rule: each fix is checked when it is made: a path that is named exists, a backup is not empty, the
program of a command is installed, and its target can be written to. Nothing above the root of the
project is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from .existing_paths import is_directory, is_file, nearest_existing, status_of, up_to_project_root
from .missing_path import MissingPath
from .near_misses import near_paths
from .suggestion_context import Fix, SuggestionContext, with_commands


# levels above a path, up to the working directory, in which its backup is searched for
_PARENTS: Final = 6
_MOST_BACKUPS: Final = 2
_BACKUP_SUFFIXES: Final = (".bak", ".backup", "~", ".orig")
_BACKUP_DIRECTORIES: Final = ("backups", ".claude/backups")
_LONGEST_NAME: Final = 255  # bytes
_LONGEST_PATH: Final = 4_000  # bytes
_KERNEL: Final = ("/proc", "/sys")  # all names are spelled alike, and none is meant
_NOT_CREATABLE: Final = (*_KERNEL, "/dev")  # root may write there, and yet no file results
_SOCKETS: Final = (".sock", ".socket")  # an empty file would be in the way of the socket
_SLASHES = re.compile(rf"(?:{re.escape(os.sep)}\.?)+\Z")
_ENDING = re.compile(r"[\w-]\.[A-Za-z]\w{0,7}\Z")


def missing_file(missing: MissingPath, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what to do about a missing path, the likeliest first."""
    path = missing.path
    whole, absolute = context.whole(path), context.absolute(path)
    if whole is None or absolute is None:
        return
    home = os.path.expanduser(path)  # noqa: PTH111 -- Path raises for a user that does not exist
    if home != path and status_of(absolute, is_link_followed=False) is None:
        yield _in_home(home, context)
    elif status_of(absolute) is None:
        yield from _absent(missing, absolute, context)
    elif not missing.is_program and (is_directory(absolute) or not _is_directory_meant(path)):
        yield _existing(path, absolute, context, is_reached=status_of(str(whole)) is not None)


def _in_home(meant: str, context: SuggestionContext) -> Fix:
    """Return the path that a shell makes of `~`.

    No fix creates a directory named `~`: to remove it later is dangerous.
    """
    if status_of(meant) is not None:
        return Fix(f"did you mean {context.shown(meant)}? ~ was not expanded", meant)
    return Fix(f"give the whole path: ~ is expanded by shells only, and {meant} does not exist")


def _existing(path: str, absolute: str, context: SuggestionContext, *, is_reached: bool) -> Fix:
    """Return what to do about a path that was missing and exists now.

    Also for one that was not reached, through a missing directory and `..`.
    """
    if not is_reached:
        return Fix(f"did you mean {context.shown(absolute)}?", absolute)
    if Path(path).is_absolute():
        return Fix(f"{path} is there now: repeat the call", absolute)
    return Fix(
        f"{path} is in {context.directory}: run it there, or repeat the call if it is new", absolute
    )


def _absent(missing: MissingPath, absolute: str, context: SuggestionContext) -> Iterator[Fix]:
    path = missing.path
    is_wanted: Callable[[str], bool] = is_directory if _is_directory_meant(path) else lambda _: True
    existing = list(filter(is_file, dict.fromkeys(_backup_candidates(absolute, context))))
    nearest = nearest_existing(absolute)
    yield from _in_parent(path, context, is_wanted)
    yield from _near(absolute, nearest, context, existing, is_wanted)
    is_creatable = nearest is not None and _is_creatable(absolute, nearest)
    if not _is_directory_meant(path):
        backups = (backup for backup in existing if _has_content(backup))
        for backup in islice(backups, _MOST_BACKUPS):
            text = f"restore the backup {context.shown(backup)}"
            if is_creatable and os.access(backup, os.R_OK):
                text = with_commands(text, *_restoring(backup, path, absolute, context))
            yield Fix(text, backup)
    if is_creatable and nearest is not None and not missing.is_program:
        yield _creation(path, absolute, nearest, context)


def _is_directory_meant(path: str) -> bool:
    return _SLASHES.search(path) is not None


def _has_content(path: str) -> bool:
    status = status_of(path)
    return status is not None and status.st_size > 0


def _in_parent(
    path: str, context: SuggestionContext, is_wanted: Callable[[str], bool]
) -> Iterator[Fix]:
    """Yield the same relative path below a parent directory: the working directory is wrong then."""
    here = context.directory
    if here is None or Path(path).is_absolute():
        return
    for parent in islice(up_to_project_root(here), 1, None):
        candidate = os.path.normpath(parent / path)
        if status_of(candidate) is not None and is_wanted(candidate):
            yield Fix(f"expected in {parent}: the working directory is {here}", candidate)
            return


def _near(
    absolute: str,
    nearest: str | None,
    context: SuggestionContext,
    backups: Collection[str],
    is_wanted: Callable[[str], bool],
) -> Iterator[Fix]:
    """Yield similar paths below the nearest existing directory and the working directory."""
    if any(map(Path(absolute).is_relative_to, _KERNEL)):
        return
    here = context.directory
    roots = [] if nearest is None else [nearest]
    if here is not None and Path(absolute).is_relative_to(here):
        roots.append(str(here))
    for near in filter(is_wanted, near_paths(absolute, roots, context.look, apart_from=backups)):
        yield Fix(f"did you mean {context.shown(near)}?", near)


def _backup_candidates(absolute: str, context: SuggestionContext) -> Iterator[str]:
    missing = Path(absolute)
    for suffix in _BACKUP_SUFFIXES:
        yield f"{absolute}{suffix}"
    is_here = context.directory is not None and missing.is_relative_to(context.directory)
    for parent in (
        islice(missing.parents, _PARENTS) if is_here else up_to_project_root(missing.parent)
    ):
        mirrored = missing.relative_to(parent)  # backups/src/app.json
        names = [mirrored]
        # backups/app.json, unless it is the backup of another app.json
        if status_of(str(parent / missing.name)) is None:
            names.append(Path(missing.name))
        for directory in _BACKUP_DIRECTORIES:
            for name in names:
                for suffix in ("", *_BACKUP_SUFFIXES):
                    yield f"{parent / directory / name}{suffix}"
        if parent == context.directory:
            return


def _restoring(
    backup: str, path: str, absolute: str, context: SuggestionContext
) -> Iterator[tuple[str, ...]]:
    parent = str(Path(absolute).parent)
    if not is_directory(parent):
        yield "mkdir -p", context.shown(parent)
    yield "cp", context.shown(backup), path


def _is_creatable(absolute: str, nearest: str) -> bool:
    path = Path(absolute)
    encoded = [os.fsencode(part) for part in path.parts]
    is_named = max(map(len, encoded)) <= _LONGEST_NAME and sum(map(len, encoded)) <= _LONGEST_PATH
    if not is_named or absolute.endswith(_SOCKETS) or any(map(path.is_relative_to, _NOT_CREATABLE)):
        return False
    return is_directory(nearest) and os.access(nearest, os.W_OK | os.X_OK)


def _creation(path: str, absolute: str, nearest: str, context: SuggestionContext) -> Fix:
    parent = str(Path(absolute).parent)
    if nearest != parent:
        text = with_commands("create the directory first", ("mkdir -p", context.shown(parent)))
    elif _is_directory_meant(path):
        text = with_commands("create the directory", ("mkdir", _SLASHES.sub(os.sep, path)))
    elif _ENDING.search(path) is not None:
        text = with_commands("create it", ("touch", path))
    else:
        text = "create it, as the file or the directory that the call wants"
    return Fix(text, nearest)
