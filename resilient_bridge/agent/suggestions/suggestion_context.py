"""What the rules of `suggest` work with: what was called and where, and the fixes that they return.

Rule: a fix that names a path carries it, so that a test can ask whether it is there; its text is made safe in one place, where
suggestions leave the room.
"""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ...errors import redact
from .near_misses import SearchAllowance, status_of, steps_there


if TYPE_CHECKING:
    from ...errors import Failure


_ROOT: Final = os.sep


@attrs.frozen
class Fix:
    """One suggestion; `path` is what it says is there, None if it says so of nothing."""

    text: str
    path: str | None = None


@attrs.frozen(kw_only=True)
class SuggestionContext:
    """What is known about a failed call besides its failure; a rule gets it as its second argument.

    `arguments`: the call's own, never shown by the repr. `names`: what could have been called. `directory`: where relative paths
    begin, None if there is no such place any more. `now`: an aware datetime. `look`: what may still be read of directories.
    """

    arguments: Mapping[str, Any] = attrs.field(repr=False)
    names: tuple[str, ...]
    directory: Path | None
    now: datetime
    look: SearchAllowance = attrs.field(repr=False, eq=False)

    def absolute(self, path: str) -> str | None:
        """Return a path as an absolute one without `..`, None if there is no directory to begin from."""
        if not path or "\0" in path:
            return None
        whole = self.whole(path)
        if whole is None or ".." not in whole.parts:
            return None if whole is None else os.path.normpath(whole)
        # Above a link is what is above the place that it leads to; the last part may be a link itself, and stays one.
        above = whole if whole.name == ".." else whole.parent
        real = os.path.realpath(above)
        return real if whole.name == ".." else str(Path(real) / whole.name)

    def whole(self, path: str) -> Path | None:
        """Return a path from the root on, as it was given, None if there is no directory to begin from."""
        if Path(path).is_absolute():
            return Path(path)
        return None if self.directory is None else self.directory / path

    def shown(self, path: str) -> str:
        """Return an absolute path as it is said: relative if it lies below the directory."""
        if self.directory is None or not Path(path).is_relative_to(self.directory):
            return path
        return str(Path(path).relative_to(self.directory))


SuggestionRule: TypeAlias = "Callable[[Failure, SuggestionContext], Iterable[str]]"


def typed(text: str, *commands: tuple[str, ...]) -> str:
    """Return `<text>: <command>` to type; the text alone where a program of it is not there, or a path will not be shown as it is.

    A command is its words and then its paths, which are quoted; several are joined so that each waits for the one before.
    """
    lines: list[str] = []
    for words, *paths in commands:
        # "./" keeps a name that begins with a dash from being read as an option
        safe = [f"./{path}" if path.startswith("-") else path for path in paths]
        lines.append(f"{words} {' '.join(map(shlex.quote, safe))}")
        if shutil.which(words.partition(" ")[0]) is None:
            return text
    whole = f"{text}: {' && '.join(lines)}"
    return whole if redact(whole) == whole else text


def may_change_mode(path: str) -> bool:
    """Return whether this process may make a file executable: its owner may, and root."""
    there = status_of(path)
    if sys.platform == "win32":  # no bit of a file says there that it may be run
        return False
    return there is not None and os.geteuid() in {0, there.st_uid}


def is_directory(path: str) -> bool:
    """Return whether a directory is there."""
    there = status_of(path)
    return there is not None and stat.S_ISDIR(there.st_mode)


def is_file(path: str) -> bool:
    """Return whether a regular file is there, or a link to one."""
    there = status_of(path)
    return there is not None and stat.S_ISREG(there.st_mode)


def nearest_there(path: str) -> str | None:
    """Return the path itself, or else the nearest directory above it, that is there; None if none can be seen."""
    nearest = None
    for step in (_ROOT, *steps_there(path)):
        if status_of(step) is None:  # a link to nothing
            break
        nearest = step
    return nearest
