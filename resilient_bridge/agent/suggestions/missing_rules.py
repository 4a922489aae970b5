"""What to do about a file or a program that is not there: where it is instead, its backups, and how to make it.

Rule: each fix was true when it was made: a path that is named was seen, a backup holds something, and a command was looked through:
its program is there, and where it puts something can be written to.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from .clues import Clue
from .near_misses import close_names, near_paths, status_of, steps_there, up_to_root
from .suggestion_context import (
    Fix,
    SuggestionContext,
    is_directory,
    is_file,
    may_change_mode,
    nearest_there,
    typed,
)
from .suggestion_texts import has_ending


_PARENTS: Final = 6  # levels above a path, as far as the working directory, in which its backup is looked for
_MOST_BACKUPS: Final = 2
_BACKUP_SUFFIXES: Final = (".bak", ".backup", "~", ".orig")
_STORES: Final = ("backups", ".claude/backups")
_MOST_STEPS_UP: Final = 20  # times that a path may go up again, and be looked after
_LONGEST_NAME: Final = 255  # bytes
_LONGEST_PATH: Final = 4_000  # bytes
_NOT_CREATABLE: Final = ("/proc", "/sys", "/dev")  # root may write there, and yet nothing comes of it
_NO_NEAR: Final = ("/proc", "/sys")  # all are spelled alike, and none is meant
_SOCKETS: Final = (".sock", ".socket")  # an empty file in its place would only be in the way
_SLASHES = re.compile(rf"(?:{re.escape(os.sep)}\.?)+\Z")
_LOADER = re.compile(rb"\0(/[^\0]{1,300}/ld[^/\0]{0,60}\.so[^/\0]{0,20})\0")


def missing_file(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what there is to do about each missing path."""
    for path in clue.paths:
        absolute = context.absolute(path)
        if absolute is None:
            continue
        there = status_of(absolute, is_link_followed=False)
        if there is None and (home := os.path.expanduser(path)) != path:  # noqa: PTH111 -- Path raises for a user there is not
            yield from _in_home(home, context)
        elif (step := _missing_step(path, context)) is not None:
            shown = context.shown(absolute)
            yield Fix(
                f"no directory {context.shown(step)} is seen, and {path} goes through it: correct the path"
            )
            if there is not None:
                yield Fix(f"did you mean {shown}?", absolute)
        elif there is None:
            yield from _not_there(path, absolute, clue, context)
        elif (fix := _there(path, absolute, clue, context)) is not None:
            yield fix


def _there(path: str, absolute: str, clue: Clue, context: SuggestionContext) -> Fix | None:
    """Return why a path that is there was said not to be."""
    if _is_dead(absolute):
        return _dead(absolute, context)
    if clue.is_program and (why := _cannot_start(absolute, context)):
        return Fix(why, absolute)
    if _is_directory_meant(path) and not is_directory(absolute):
        return Fix(f"{context.shown(absolute)} is there, and is no directory: correct the path", absolute)
    if not clue.is_reported:
        return None
    if Path(path).is_absolute():
        return Fix(f"{path} is there now: repeat the call", absolute)
    return Fix(f"{path} is in {context.directory}: run it there, or repeat the call if it is new", absolute)


def _not_there(path: str, absolute: str, clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    existing = [
        candidate for candidate in dict.fromkeys(_backup_places(absolute, context)) if is_file(candidate)
    ]
    nearest = nearest_there(absolute)
    is_wanted = _wanted(path, clue)
    others = [other for other in map(context.absolute, clue.others) if other is not None]
    yield from _elsewhere(path, absolute, context, existing=[*existing, *others], is_wanted=is_wanted)
    if (link := _dead_link(absolute)) is not None:
        yield _dead(link, context)
    can_be_made = link is None and nearest is not None and _can_be_made(absolute, nearest)
    backups = (
        [] if _is_directory_meant(path) else [candidate for candidate in existing if _has_content(candidate)]
    )
    for backup in backups[:_MOST_BACKUPS]:
        text = f"restore the backup {context.shown(backup)}"
        if can_be_made and os.access(backup, os.R_OK):
            text = typed(text, *_restoring(backup, path, absolute, context))
        yield Fix(text, backup)
    if can_be_made and nearest is not None and not clue.is_program:
        yield _creation(path, absolute, nearest, context)


def _restoring(
    backup: str, path: str, absolute: str, context: SuggestionContext
) -> Iterator[tuple[str, ...]]:
    parent = str(Path(absolute).parent)
    if not is_directory(parent):
        yield "mkdir -p", context.shown(parent)
    yield "cp", context.shown(backup), path


def _wanted(path: str, clue: Clue) -> Callable[[str], bool]:
    """Return whether something that is there can be what was meant: a directory, a program, or anything."""
    if clue.is_program:
        return lambda there: is_file(there) and os.access(there, os.X_OK)
    return is_directory if _is_directory_meant(path) else lambda _: True


def _is_directory_meant(path: str) -> bool:
    return _SLASHES.search(path) is not None


def _has_content(path: str) -> bool:
    there = status_of(path)
    return there is not None and there.st_size > 0


def _missing_step(path: str, context: SuggestionContext) -> str | None:
    """Return what a path goes through and out of again by `..`, if that is no directory."""
    whole = context.whole(path)
    parts = () if whole is None else whole.parts
    dotdots = islice((number for number, part in enumerate(parts) if part == ".."), _MOST_STEPS_UP)
    steps = (str(Path(*parts[:number])) for number in dotdots)
    return next((step for step in steps if not is_directory(step)), None)


def _dead_link(absolute: str) -> str | None:
    """Return the link to nothing that stands for a directory of a path, if one does."""
    return next((step for step in steps_there(absolute) if step != absolute and _is_dead(step)), None)


def _is_dead(path: str) -> bool:
    """Return whether a path is a link to nothing, or to itself; one whose end may not be seen is neither."""
    there = status_of(path, is_link_followed=False)
    if there is None or not stat.S_ISLNK(there.st_mode):
        return False
    try:
        Path(path).stat()
    except OSError as error:
        return error.errno in {errno.ENOENT, errno.ELOOP}
    return False


def _dead(link: str, context: SuggestionContext) -> Fix:
    return Fix(f"{context.shown(link)} is a link to nothing: correct or remove it", link)


def _can_be_made(absolute: str, nearest: str) -> bool:
    """Return whether a path can be made below the nearest directory that is there."""
    path = Path(absolute)
    encoded = [os.fsencode(part) for part in path.parts]
    is_named = max(map(len, encoded)) <= _LONGEST_NAME and sum(map(len, encoded)) <= _LONGEST_PATH
    if not is_named or absolute.endswith(_SOCKETS) or any(map(path.is_relative_to, _NOT_CREATABLE)):
        return False
    return is_directory(nearest) and os.access(nearest, os.W_OK | os.X_OK)


def _in_home(meant: str, context: SuggestionContext) -> Iterator[Fix]:
    """Yield the path that a shell would have made of `~`; a directory of that name is not to be made: it is a trap."""
    if status_of(meant) is not None:
        yield Fix(f"did you mean {context.shown(meant)}? ~ was not expanded", meant)
    else:
        yield Fix(f"give the whole path: ~ is expanded by shells only, and no {meant} is seen")


def _elsewhere(
    path: str,
    absolute: str,
    context: SuggestionContext,
    *,
    existing: Collection[str],
    is_wanted: Callable[[str], bool],
) -> Iterator[Fix]:
    here = context.directory
    if here is not None and not Path(path).is_absolute():
        for parent in islice(up_to_root(here), 1, None):
            there = _below(parent, path)
            if status_of(there) is not None and is_wanted(there):
                yield Fix(f"expected in {parent}: the working directory is {here}", there)
                break
    roots = [str(here)] if here is not None and Path(absolute).is_relative_to(here) else []
    if (nearest := nearest_there(absolute)) is not None:
        roots.insert(0, nearest)
    if any(map(Path(absolute).is_relative_to, _NO_NEAR)):
        return
    for near in filter(is_wanted, near_paths(absolute, roots, context.look, apart_from=existing)):
        yield Fix(f"did you mean {context.shown(near)}?", near)


def _below(parent: Path, path: str) -> str:
    """Return a relative path as one below `parent`."""
    return os.path.normpath(parent / path)


def _backup_places(absolute: str, context: SuggestionContext) -> Iterator[str]:
    missing = Path(absolute)
    for ending in _BACKUP_SUFFIXES:
        yield f"{absolute}{ending}"
    is_here = context.directory is not None and missing.is_relative_to(context.directory)
    for parent in islice(missing.parents, _PARENTS) if is_here else up_to_root(missing.parent):
        mirrored = missing.relative_to(parent)  # backups/src/app.json
        places = [mirrored]
        if (
            status_of(str(parent / missing.name)) is None
        ):  # backups/app.json, unless it is that of another app.json
            places.append(Path(missing.name))
        for store in _STORES:
            for existing in places:
                for ending in ("", *_BACKUP_SUFFIXES):
                    yield f"{parent / store / existing}{ending}"
        if parent == context.directory:  # what lies above belongs to somebody else
            return


def _creation(path: str, absolute: str, nearest: str, context: SuggestionContext) -> Fix:
    parent = str(Path(absolute).parent)
    if nearest != parent:
        return Fix(typed("create the directory first", ("mkdir -p", context.shown(parent))), nearest)
    if _is_directory_meant(path):
        return Fix(typed("create the directory", ("mkdir", _SLASHES.sub(os.sep, path))), nearest)
    if has_ending(path):
        return Fix(typed("create it", ("touch", path)), nearest)
    return Fix("create it, as the file or the directory that the call wants", nearest)


def _cannot_start(program: str, context: SuggestionContext) -> str:
    """Return why a program that is there is said not to be: what it needs to start is missing; empty if nothing is."""
    if not is_file(program):  # a pipe would block
        return ""
    try:
        with Path(program).open("rb") as file:
            begin = file.read(4_096)
    except OSError:
        return ""
    if begin.startswith(b"#!"):
        # Not `split()`: the system takes a carriage return for a part of the name.
        needed = re.split(rb"[ \t\n]", begin[2:].lstrip(b" \t"), maxsplit=1)[0]
        what, then = f"the first line of {context.shown(program)}", "correct it"
    else:
        match = _LOADER.search(begin) if begin.startswith(b"\x7fELF") else None
        needed = b"" if match is None else match[1]
        what, then = f"the program {context.shown(program)}", "take one that was built for this system"
    name = os.fsdecode(needed)
    there = context.absolute(name)
    if there is None or status_of(there) is not None:
        return ""
    if needed.endswith(b"\r"):
        return f"{what} ends with a carriage return: save it with the line ends of Unix"
    return f"{what} asks for {name}, which is not there: {then}"


def missing_program(clue: Clue, context: SuggestionContext) -> Iterator[Fix]:
    """Yield what there is to do about a program that was not found: one here, one spelled alike."""
    for name in clue.paths:
        if os.sep in name:
            one = Clue(symbol="ENOENT", paths=(name,), is_program=True, is_reported=clue.is_reported)
            yield from missing_file(one, context)
            continue
        if (found := shutil.which(name)) is not None:
            if why := _cannot_start(os.path.abspath(found), context):  # noqa: PTH100 -- a link is called by its own name
                yield Fix(why, found)
            elif clue.is_reported:  # what only may have been called was not what failed
                yield Fix(f"{name} is at {found}: give the call a search path with its directory", found)
            continue
        yield from _program_here(name, context)
        for near in _programs_like(name, context):
            yield Fix(f"did you mean {Path(near).name}? It is at {near}", near)


def _program_here(name: str, context: SuggestionContext) -> Iterator[Fix]:
    here = context.absolute(name)
    if here is None or not is_file(here):
        return
    called = f"./{name}"
    if os.access(here, os.X_OK):
        yield Fix(
            f"call it by its path: {shlex.quote(called)} is here, and this directory is not searched", here
        )
    elif may_change_mode(here):
        text = "make the file of that name here executable, and call it by its path"
        yield Fix(typed(text, ("chmod +x", called)), here)


def _programs_like(name: str, context: SuggestionContext) -> Iterator[str]:
    places: dict[str, str] = {}
    for directory in os.get_exec_path():
        if directory and Path(directory).is_absolute():
            for entry in context.look.entries(directory):
                places.setdefault(entry.name, entry.path)
    close = (places[near] for near in close_names(name, places, most=20))
    yield from islice((path for path in close if is_file(path) and os.access(path, os.X_OK)), 3)
