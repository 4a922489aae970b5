"""What to do about a file or a program that is not there: where it is instead, its backups, and how to make it.

Rule: each fix was true when it was made: a path that is named was seen, a directory in which something is to be created can be
written to.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from .near_misses import close_names, near_paths, status_of
from .suggestion_clues import Clue
from .suggestion_context import Fix, SuggestionContext, command, is_directory, is_file, nearest_there


_PARENTS: Final = 6  # levels above in which a path or its backup is looked for
_MOST_BACKUPS: Final = 2
_ENDINGS: Final = (".bak", ".backup", "~", ".orig")
_STORES: Final = ("backups", ".claude/backups")


def missing_file(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what there is to do about each missing path."""
    for path in clue.paths:
        absolute = context.absolute(path)
        if absolute is None:
            continue
        there = status_of(absolute, is_link_followed=False)
        if there is None and (home := os.path.expanduser(path)) != path:  # noqa: PTH111 -- Path raises for a user there is not
            yield from _in_home(home, context)
        elif there is None:
            backups = [place for place in dict.fromkeys(_backup_places(absolute, context)) if is_file(place)]
            nearest = nearest_there(absolute)
            yield from _elsewhere(path, absolute, nearest, context, backups)
            for backup in backups[:_MOST_BACKUPS]:
                shown = context.shown(backup)
                yield Fix(f"restore the backup {shown}{command('cp', shown, path)}", backup)
            yield from _creation(path, absolute, nearest, context)
        elif stat.S_ISLNK(there.st_mode) and status_of(absolute) is None:
            yield Fix(f"{context.shown(absolute)} is a link to nothing: correct or remove it", absolute)
        elif clue.is_program and (interpreter := _interpreter(absolute)):
            yield Fix(
                f"the first line of {context.shown(absolute)} asks for {interpreter}, which is not there: correct it",
                absolute,
            )
        else:
            yield _there_after_all(path, absolute, context)


def _in_home(meant: str, context: SuggestionContext) -> Iterator[Fix]:
    """Yield the path that a shell would have made of `~`; a directory of that name is not to be made: it is a trap."""
    if status_of(meant) is not None:
        yield Fix(f"did you mean {context.shown(meant)}? ~ was not expanded", meant)
    else:
        yield Fix(f"give the whole path: ~ is expanded by shells only, and {meant} is not there")


def _there_after_all(path: str, absolute: str, context: SuggestionContext) -> Fix:
    if Path(path).is_absolute():
        return Fix(f"{path} is there now: repeat the call", absolute)
    return Fix(f"{path} is in {context.directory}: run it there, or repeat the call if it is new", absolute)


def _elsewhere(
    path: str, absolute: str, nearest: str | None, context: SuggestionContext, backups: list[str]
) -> Iterator[Fix]:
    here = context.directory
    if here is not None and not Path(path).is_absolute():
        for parent in list(here.parents)[:_PARENTS]:
            there = _below(parent, path)
            if status_of(there) is not None:
                yield Fix(f"expected in {parent}: the working directory is {here}", there)
                break
    roots = [str(here)] if here is not None and Path(absolute).is_relative_to(here) else []
    if nearest is not None:
        roots.insert(0, nearest)
    for near in near_paths(absolute, roots, context.look, apart_from=backups):
        yield Fix(f"did you mean {context.shown(near)}?", near)


def _below(parent: Path, path: str) -> str:
    """Return a relative path as one below `parent`."""
    return os.path.normpath(parent / path)


def _backup_places(absolute: str, context: SuggestionContext) -> Iterator[str]:
    missing = Path(absolute)
    for ending in _ENDINGS:
        yield f"{absolute}{ending}"
    for parent in list(missing.parents)[:_PARENTS]:
        for store in _STORES:
            # as a mirror of the tree (backups/src/app.json) and as a heap (backups/app.json)
            for kept in (missing.relative_to(parent), Path(missing.name)):
                for ending in ("", *_ENDINGS):
                    yield f"{parent / store / kept}{ending}"
        if parent == context.directory:  # what lies above belongs to somebody else
            return


def _creation(path: str, absolute: str, nearest: str | None, context: SuggestionContext) -> Iterator[Fix]:
    parent = str(Path(absolute).parent)
    if nearest is None or not is_directory(nearest) or not os.access(nearest, os.W_OK | os.X_OK):
        return
    if nearest != parent:
        shown = context.shown(parent)
        yield Fix(f"create the directory first{command('mkdir -p', shown)}", nearest)
    elif path.endswith(os.sep):
        yield Fix(f"create the directory{command('mkdir', path)}", nearest)
    else:
        yield Fix(f"create it{command('touch', path)}", nearest)


def _interpreter(script: str) -> str:
    """Return the interpreter that a script asks for and that is not there, else nothing."""
    if not is_file(script):  # a pipe would block
        return ""
    try:
        with Path(script).open("rb") as file:
            first = file.read(256).partition(b"\n")[0]
    except OSError:
        return ""
    words = first.removeprefix(b"#!").split() if first.startswith(b"#!") else []
    interpreter = os.fsdecode(words[0]) if words else ""
    return interpreter if interpreter and status_of(interpreter) is None else ""


def missing_program(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what there is to do about a program that was not found: one here, one spelled alike."""
    for name in clue.paths:
        if os.sep in name:
            yield from missing_file(Clue(symbol="ENOENT", paths=(name,), is_program=True), context)
            continue
        if (found := shutil.which(name)) is not None:
            yield Fix(f"{name} is at {found}: give the call a search path with its directory", found)
            continue
        yield from _program_here(name, context)
        for near in _programs_like(name, context):
            yield Fix(f"did you mean {Path(near).name}? It is at {near}", near)


def _program_here(name: str, context: SuggestionContext) -> Iterator[Fix]:
    here = context.absolute(name)
    if here is None or not is_file(here):
        return
    if os.access(here, os.X_OK):
        yield Fix(f"call it by its path: ./{name} is here, and this directory is not searched", here)
    else:
        yield Fix(
            f"make the file of that name here executable, and call it by its path{command('chmod +x', './' + name)}",
            here,
        )


def _programs_like(name: str, context: SuggestionContext) -> Iterator[str]:
    places: dict[str, str] = {}
    for directory in os.get_exec_path():
        if directory and Path(directory).is_absolute():
            for entry in context.look.entries(directory):
                places.setdefault(entry.name, entry.path)
    close = (places[near] for near in close_names(name, places, most=20))
    yield from islice((path for path in close if is_file(path) and os.access(path, os.X_OK)), 3)
