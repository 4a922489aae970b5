"""What the rules of `suggest` get and return: the failed call, and the fixes.

Rule: a fix that names a path carries that path, so that a test can check that it exists. Secrets
are masked once, in `suggest`.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from ...failure import redact
from .near_misses import SearchAllowance


if TYPE_CHECKING:
    from ...failure import Failure


@attrs.frozen
class Fix:
    """One suggestion; `path` is the existing path that it names, None if it names none."""

    text: str
    path: str | None = None


@attrs.frozen(kw_only=True)
class SuggestionContext:
    """What is known about a failed call besides its failure: the second argument of a rule.

    `arguments`: those of the call, never shown by the repr. `directory`: where relative paths
    begin, None if the working directory was removed. `look`: how much of the file system may still
    be searched.
    """

    arguments: Mapping[str, Any] = attrs.field(repr=False)
    directory: Path | None
    look: SearchAllowance = attrs.field(repr=False, eq=False)

    def absolute(self, path: str) -> str | None:
        """Return a path as an absolute one without `..`; None if there is no directory to begin in."""
        whole = self.whole(path)
        if whole is None or ".." not in whole.parts:
            return None if whole is None else os.path.normpath(whole)
        # `..` after a link leads to the directory above the link's target. The last part may be a
        # link itself, and stays one.
        if whole.name == "..":
            return os.path.realpath(whole)
        return str(Path(os.path.realpath(whole.parent)) / whole.name)

    def whole(self, path: str) -> Path | None:
        """Return a path from the root on, with its `..`; None if there is no directory to begin in."""
        if not path or "\0" in path:
            return None
        if Path(path).is_absolute():
            return Path(path)
        return None if self.directory is None else self.directory / path

    def shown(self, path: str) -> str:
        """Return an absolute path as text: relative if it lies below the directory."""
        if self.directory is None or not Path(path).is_relative_to(self.directory):
            return path
        return str(Path(path).relative_to(self.directory))


SuggestionRule: TypeAlias = "Callable[[Failure, SuggestionContext], Iterable[str]]"


def with_commands(text: str, *commands: tuple[str, ...]) -> str:
    """Return `<text>: <commands>` as a line for a shell.

    The text alone if a program is not installed or a path may not be shown. A command is a tuple:
    its program with options, then its paths, which are quoted. Commands are joined by `&&`.
    """
    lines: list[str] = []
    for words, *paths in commands:
        if shutil.which(words.partition(" ")[0]) is None:
            return text
        # "./" keeps a name that begins with a dash from being read as an option
        safe = [f"./{path}" if path.startswith("-") else path for path in paths]
        lines.append(f"{words} {' '.join(map(shlex.quote, safe))}")
    whole = f"{text}: {' && '.join(lines)}"
    return whole if redact(whole) == whole else text
