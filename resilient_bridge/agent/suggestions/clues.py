"""What the operating system refused, and for which path: read from the error, then from what was printed, then from the arguments.

Rule: the error itself beats a text, and a text beats the arguments. A clue is a place to look at; whether it is true is for the rules
to check. What cannot be told for certain is no clue.
"""

from __future__ import annotations

import itertools
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Final, cast

import attrs

from ...errors import Failure, is_sensitive
from ...errors.errnos import errno_name, errno_of
from .near_misses import status_of
from .suggestion_context import SuggestionContext, is_directory
from .suggestion_texts import (
    LONGEST,
    fields_in,
    is_about_here,
    is_about_watches,
    paths_in,
    program_in,
    symbol_in,
    texts_of,
)


NO_COMMAND: Final = "NO_COMMAND"
"""The symbol of a program that is not there."""
NO_WATCHES: Final = "NO_WATCHES"
"""The symbol of watches of files that are used up, which the system reports as a full device; all others are names of errnos."""

_EXITS: Final = {77: "EACCES", 126: "EACCES", 127: NO_COMMAND}
_MOST_ERRORS: Final = 100  # of a chain or a group
_DEEPEST: Final = 1_000  # frames
_MOST_PATHS: Final = 3
_NAMES_PATH = re.compile(r"(?:.*[_-])?(?:path|file|filename|dir|directory|folder|cwd)s?", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMES_PROGRAM: Final = ("command", "cmd", "program", "executable", "script", "argv")
# A command of which another part than the first word may have failed.
_NO_LINE = re.compile(r"[\n;&|<>()`$*?#]|\A\s*\w+=")
_BUILT_IN = re.compile(
    r"[.:\[{]|alias|bg|break|builtin|case|cd|command|continue|declare|dirs|echo|eval|exec|exit|export|false|fg|for|function|getopts|hash"
    r"|help|history|if|jobs|kill|let|local|popd|printf|pushd|pwd|read|readonly|return|select|set|shift|shopt|source|test|time|times|trap"
    r"|true|type|typeset|ulimit|umask|unalias|unset|until|wait|while"
)
_STARTS_PROGRAM: Final = frozenset({"_execute_child", "_execvpe"})  # where the standard library starts one


@attrs.frozen(kw_only=True)
class Clue:
    """What was refused (an errno's name, NO_COMMAND, NO_WATCHES or ""), for which paths, and whether it was about running a program.

    `is_reported`: the paths are the error's or a text's, not only likely ones of the arguments. `others`: the end of a rename or a link
    that was not refused.
    """

    symbol: str = ""
    paths: tuple[str, ...] = ()
    is_program: bool = False
    is_reported: bool = True
    others: tuple[str, ...] = ()


def clue_of(failure: Failure, context: SuggestionContext) -> Clue:
    """Return what a failure says about a path or a program."""
    error = os_error(failure)
    if error is not None:
        clue = _of_error(error)
    else:
        number = failure.details.get("errno")
        symbol = errno_name(number) if isinstance(number, int) else ""
        clue = _of_texts(failure, symbol) or Clue(symbol=symbol or _of_exit(failure))
    if clue.symbol == "ENOENT" and len(clue.paths) == 1 and _is_called(clue.paths[0], context):
        clue = attrs.evolve(clue, is_program=True)
    if clue.symbol == "ENOSPC" and any(map(is_about_watches, texts_of(failure))):
        return attrs.evolve(clue, symbol=NO_WATCHES)
    clue = _with_the_end_that_counts(clue, context) if clue.paths else _from_arguments(clue, context)
    if clue.is_program and clue.symbol == "ENOENT" and all(Path(path).name == path for path in clue.paths):
        clue = attrs.evolve(clue, symbol=NO_COMMAND)
    return clue


def os_error(failure: Failure) -> OSError | None:
    """Return the error of the operating system behind a failure: its cause, what that was raised from, or one of its group."""
    try:
        return _os_error(failure)
    except Exception:  # noqa: BLE001 -- somebody else's error: its attributes may be anything, and may fail
        return None


def _os_error(failure: Failure) -> OSError | None:
    reported = failure.details.get("errno")
    waiting: list[BaseException | None] = [failure.cause]
    for _ in range(_MOST_ERRORS):
        if not waiting:
            break
        error = waiting.pop()
        if error is None:
            continue
        if (
            isinstance(error, OSError)
            and (number := errno_of(error)) is not None
            and reported in {None, number}
        ):
            return error
        below = error.__cause__
        waiting.append(below if below is not None or error.__suppress_context__ else error.__context__)
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(reversed(cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return None


def _of_error(error: OSError) -> Clue:
    received = (cast("object", error.filename), cast("object", error.filename2))
    paths = tuple(os.fsdecode(path) for path in received if isinstance(path, str | bytes) and path)
    symbol = errno_name(errno_of(error) or 0)
    frame = _innermost(error)
    if frame is None or frame.f_code.co_name not in _STARTS_PROGRAM:
        return Clue(symbol=symbol, paths=paths)
    folder: object = frame.f_locals.get("cwd")
    if not paths or not isinstance(folder, str | bytes | os.PathLike):
        return Clue(symbol=symbol, paths=paths, is_program=True)
    begin = os.fsdecode(cast("str", folder))
    if folder == error.filename:
        # A missing working directory is refused by the same call; the slash says what was meant.
        return Clue(symbol=symbol, paths=(begin.rstrip(os.sep) + os.sep,))
    # A program with a slash in its name is looked for where it was to run.
    shown = tuple(str(Path(begin) / path) if Path(path).name != path else path for path in paths)
    return Clue(symbol=symbol, paths=shown, is_program=True)


def _with_the_end_that_counts(clue: Clue, context: SuggestionContext) -> Clue:
    """Return the clue about the one of the two ends of a rename or a link that was refused, about both if it may be either."""
    if len(clue.paths) != 2 or clue.symbol not in {"EEXIST", "ENOTEMPTY", "ENOENT"}:
        return clue
    first, last = clue.paths
    if clue.symbol == "ENOENT" and (
        _is_missing(first, context) or not _is_missing(str(Path(last).parent), context)
    ):
        return attrs.evolve(clue, paths=(first,), others=(last,))
    return attrs.evolve(clue, paths=(last,), others=(first,))


def _innermost(error: BaseException) -> FrameType | None:
    """Return the frame that raised an error, None if it was never raised."""
    frame: FrameType | None = None
    for frame, _ in itertools.islice(traceback.walk_tb(error.__traceback__), _DEEPEST):  # noqa: B007 (the last one counts)
        pass
    return frame


def _of_exit(failure: Failure) -> str:
    ended = failure.details.get("exit_code")
    return _EXITS.get(ended, "") if isinstance(ended, int) else ""


def _of_texts(failure: Failure, symbol: str) -> Clue | None:
    """Read the first line that says what was refused; if the symbol is known, only one that says the same."""
    is_program = failure.details.get("exit_code") in {126, 127}
    named: Clue | None = None
    lines = list(filter(is_about_here, texts_of(failure)))
    for line in lines:
        program = program_in(line)
        if program and symbol in {"", "ENOENT"}:
            return Clue(symbol=NO_COMMAND, paths=(program,), is_program=True)
        stated = symbol_in(line)
        if not stated or (symbol and stated != symbol):
            continue
        clue = Clue(symbol=stated, is_program=is_program)
        if paths := paths_in(stated, line):
            return attrs.evolve(clue, paths=paths)
        named = named or clue
    return named and attrs.evolve(named, paths=fields_in(lines)[:2])


def _from_arguments(clue: Clue, context: SuggestionContext) -> Clue:
    """Take a path or a program from the arguments, if it is in the state that the clue speaks of."""
    if clue.symbol == NO_COMMAND or (clue.is_program and clue.symbol in {"EACCES", "EPERM"}):
        called = tuple(_programs(context.arguments))
        return attrs.evolve(clue, paths=called[:1], is_program=True, is_reported=False)
    if clue.symbol == "ENOENT":
        received = [path for path in _path_arguments(context) if _is_missing(path, context)]
    elif clue.symbol:
        received = [path for path in _path_arguments(context) if not _is_missing(path, context)]
    else:
        return clue
    return attrs.evolve(clue, paths=tuple(dict.fromkeys(received))[:_MOST_PATHS], is_reported=False)


def _is_missing(path: str, context: SuggestionContext) -> bool:
    there = context.absolute(path)
    return there is not None and status_of(there) is None


def _path_arguments(context: SuggestionContext) -> Iterator[str]:
    for name, value in list(context.arguments.items())[:50]:
        if is_sensitive(str(name)):
            continue
        items: object = cast("object", value)
        several = cast("list[object]", items)[:50] if isinstance(items, list | tuple) else [items]
        is_named = _NAMES_PATH.fullmatch(_CAMEL.sub("_", str(name)[:100])) is not None
        for item in several:
            text: object = (
                os.fspath(cast("os.PathLike[str]", item)) if isinstance(item, os.PathLike) else item
            )
            if not isinstance(text, str) or not 0 < len(text) <= LONGEST or "\n" in text or "://" in text:
                continue
            if is_named or isinstance(item, os.PathLike) or _begins_somewhere(text, context):
                yield text


def _begins_somewhere(text: str, context: SuggestionContext) -> bool:
    """Return whether a text begins with a directory that is there: a route, a media type or a host's name mostly does not."""
    begin, sep, _ = text.lstrip(os.sep).partition(os.sep)
    if text.startswith(os.sep):
        begin = os.sep + begin
    there = context.absolute(begin) if sep else None
    return (bool(sep) and begin == "~") or (there is not None and is_directory(there))


def _programs(arguments: Mapping[str, Any], *, is_sure: bool = True) -> Iterator[str]:
    """Yield the programs that arguments name; where it must be sure, none of a line in which another may have failed."""
    for name in _NAMES_PROGRAM:
        value: object = arguments.get(name)
        if isinstance(value, list | tuple) and value:
            first = cast("list[object]", value)[0]
            if isinstance(first, str) and 0 < len(first) <= LONGEST and "\n" not in first:
                yield first
            continue
        line = value[:LONGEST] if isinstance(value, str) else ""
        word = line.strip().partition(" ")[0]
        is_code = name == "script" and word != line.strip()  # its text, and no command line
        if word and not (is_sure and (is_code or _BUILT_IN.fullmatch(word) or _NO_LINE.search(line))):
            yield word


def _is_called(path: str, context: SuggestionContext) -> bool:
    return path in _programs(context.arguments, is_sure=False)
