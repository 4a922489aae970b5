"""Which path was missing.

It is read from the error of the operating system, else from a printed line, else from the
arguments.

Rule: what might be prose is not read as a path. A line names a path in quotes, or as one word
between colons that looks like a path.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

import attrs

from ...failure import MASK, Failure, is_sensitive
from ...failure.errnos import errno_name
from ...failure.system import errno_of
from .existing_paths import status_of
from .suggestion_context import SuggestionContext


_LONGEST: Final = 4_096  # characters of a path
_MOST_ARGUMENTS: Final = 50
_MOST_ERRORS: Final = 100  # of a chain or a group
_NO_PROGRAM: Final = 127  # the exit code of a shell that did not find its command
_NAMES_PATH = re.compile(
    r"(?:.*[_-])?(?:path|file|filename|dir|directory|folder|cwd)s?", re.IGNORECASE
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STATED = re.compile(r"no such file or directory|\bENOENT\b", re.IGNORECASE)
_ELSEWHERE = re.compile(  # another machine or container, or where a compiler searches
    r"\b(?:scp|sftp): |\bOCI runtime\b|\bcontainer process\b|\bfatal error: "
)
_QUOTED: Final = r"b?(?:'([^']+)'|\"([^\"]+)\"|\u2018([^\u2019]+)\u2019)"
_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # Python: "…: 'x'"; node: "…, open 'x'". Of the paths of a rename, "'a' -> 'b'", either may
        # be missing.
        rf"(?:{_STATED.pattern})(?:: |, )(?P<call>\w+ )?{_QUOTED}(?! -> )",
        # Programs of Unix: "cp: cannot stat 'x': …", "head: cannot open 'x' for reading: …"
        rf"(?P<call>)(?<![^\s(=:])(?<! to ){_QUOTED}(?: for \w+)?: no such file",
        # Unquoted: "cat: src/x: …"; go: "open x.json: …". A single word without a dot or a slash may be
        # anything.
        r"(?:^|: )(?P<call>(?:open|stat) )?([^\s:'\"()]*[./][^\s:'\"()]*): no such file or directory\.?(?: \(os error 2\))?\s*$",
    )
)
_ON_DIRECTORIES: Final = frozenset({"chdir", "opendir", "readdir", "rmdir", "scandir"})


@attrs.frozen
class MissingPath:
    """A path that was missing.

    A slash at its end: a directory was wanted. `is_program`: it was to be run.
    """

    path: str
    is_program: bool = False


def missing_path(failure: Failure, context: SuggestionContext) -> MissingPath | None:
    """Return the path that was missing; None for another failure, or if it is not certain."""
    error = _os_error(failure)
    if error is not None and error.filename is not None:
        return _path_of(error) if errno_of(error) == errno.ENOENT else None
    number = failure.details.get("errno") if error is None else errno_of(error)
    symbol = errno_name(number) if isinstance(number, int) else ""
    lines = list(filter(_STATED.search, _lines_of(failure)))
    if symbol not in {"", "ENOENT"} or not (symbol or lines):
        return None
    for line in lines:
        if path := _path_in(line):
            return MissingPath(path, is_program=failure.details.get("exit_code") == _NO_PROGRAM)
    absent = next(_absent_arguments(context), None)
    return None if absent is None else MissingPath(absent)


def _os_error(failure: Failure) -> OSError | None:
    """Return the OS error behind a failure.

    That is its cause, what the cause was raised from, or one error of its group.
    """
    reported = failure.details.get("errno")
    waiting: list[BaseException | None] = [failure.cause]
    for _ in range(_MOST_ERRORS):
        if not waiting:
            break
        error = waiting.pop()
        if error is None:
            continue
        number = errno_of(error) if isinstance(error, OSError) else None
        if isinstance(error, OSError) and number is not None and reported in {None, number}:
            return error
        below = error.__cause__
        waiting.append(
            below if below is not None or error.__suppress_context__ else error.__context__
        )
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(reversed(cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return None


def _path_of(error: OSError) -> MissingPath | None:
    """Return the path of an error.

    None if it has two, of a rename or a link, or if a program was searched for on PATH.
    """
    name: object = error.filename
    if not isinstance(name, str | bytes) or error.filename2 is not None:
        return None
    path = os.fsdecode(name)
    if not _is_start_of_program(error):
        return MissingPath(path)
    return MissingPath(path, is_program=True) if os.sep in path else None


def _is_start_of_program(error: BaseException) -> bool:
    """Return whether a program, or its working directory, was missing.

    The standard library raised the error while it started the program.
    """
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and step.tb_frame.f_code.co_name in {"_execute_child", "_execvpe"}


def _lines_of(failure: Failure) -> Iterator[str]:
    """Yield the lines of a failure, the output of a program first."""
    for name in ("stderr", "error", "stdout"):
        value = failure.details.get(name)
        if isinstance(value, str):
            # an error on one line has its line breaks escaped
            yield from re.split(r"\\r|\\n|[\r\n]", value)
    yield failure.message


def _path_in(line: str) -> str:
    """Return the path that a line says is missing; empty if it names none for certain."""
    if _ELSEWHERE.search(line) is not None:
        return ""
    for pattern in _PATTERNS:
        if (match := pattern.search(line)) is not None:
            path = next(group for group in match.groups()[1:] if group)
            is_of_directories = (match["call"] or "").strip() in _ON_DIRECTORIES
            return _unchanged(path) and path + (os.sep if is_of_directories else "")
    return ""


def _unchanged(path: str) -> str:
    """Return a printed path as it is; empty if it was cut, masked or escaped."""
    is_escaped = os.sep != "\\" and "\\" in path
    return "" if is_escaped or MASK in path or "…" in path or len(path) > _LONGEST else path


def _absent_arguments(context: SuggestionContext) -> Iterator[str]:
    """Yield the arguments that are named like paths and do not exist."""
    for name, value in islice(context.arguments.items(), _MOST_ARGUMENTS):
        text: object = (
            os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value
        )
        if not isinstance(text, str) or len(text) > _LONGEST or "\n" in text or "://" in text:
            continue
        is_named = _NAMES_PATH.fullmatch(_CAMEL.sub("_", str(name)[:100])) is not None
        absolute = context.absolute(text)
        if is_named and not is_sensitive(str(name)) and absolute and status_of(absolute) is None:
            yield text
