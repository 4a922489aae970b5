"""What the rules of `suggest` work with: what was called and where, and the fixes that they return.

Rule: a fix that names a path carries it, so that a test can ask whether it is there; its text is made safe in one place, where
suggestions leave the room.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ..errors import redact
from .near_misses import Look, status_of


if TYPE_CHECKING:
    from ..errors import Failure

__all__ = ["Fix", "SuggestionContext", "SuggestionRule"]


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
    look: Look = attrs.field(repr=False, eq=False)

    def absolute(self, path: str) -> str | None:
        """Return a path as an absolute one without `..`, None if there is no directory to begin from."""
        if not path or "\0" in path:
            return None
        if Path(path).is_absolute():
            return os.path.normpath(path)
        return None if self.directory is None else os.path.normpath(self.directory / path)

    def shown(self, path: str) -> str:
        """Return an absolute path as it is said: relative if it lies below the directory."""
        if self.directory is None or not Path(path).is_relative_to(self.directory):
            return path
        return str(Path(path).relative_to(self.directory))


SuggestionRule: TypeAlias = "Callable[[Failure, SuggestionContext], Iterable[str]]"


def command(words: str, *paths: str) -> str:
    """Return `: <command>` to type, with its paths quoted; empty when a path holds what will not be shown as it is."""
    # "./" keeps a name that begins with a dash from being read as an option
    safe = [f"./{path}" if path.startswith("-") else path for path in paths]
    line = f": {words} {' '.join(map(shlex.quote, safe))}"
    return line if redact(line) == line else ""


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
    candidates = (path, *map(str, Path(path).parents))
    return next((candidate for candidate in candidates if status_of(candidate) is not None), None)
