"""What the operating system refused, and for which path: read from the error, then from what was printed, then from the arguments.

Rule: the error itself beats a text, and a text beats the arguments. A clue is a place to look at; whether it is true is for the rules
to check.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import FrameType
from typing import Any, Final, cast

import attrs

from ..errors import MASK, Failure, is_sensitive
from .near_misses import status_of
from .suggestion_context import SuggestionContext


NO_COMMAND: Final = "NO_COMMAND"
"""The symbol of a program that is not there; all others are names of errnos."""

_PHRASES: Final = {
    "no such file or directory": "ENOENT",
    "permission denied": "EACCES",
    "operation not permitted": "EPERM",
    "read-only file system": "EROFS",
    "is a directory": "EISDIR",
    "not a directory": "ENOTDIR",
    "file exists": "EEXIST",
    "no space left on device": "ENOSPC",
    "address already in use": "EADDRINUSE",
}
_EXITS: Final = {77: "EACCES", 126: "EACCES", 127: NO_COMMAND}
_MOST_ERRORS: Final = 100  # of a chain or a group
_DEEPEST: Final = 1_000  # frames
_LONGEST: Final = 4_096  # characters of a path
_MOST_PATHS: Final = 3
_NAMES_PATH = re.compile(
    r"(?:.*[_-])?(?:path|file|filename|dir|directory|folder|cwd|src|source|dst|dest|destination|target)s?",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NAMES_PROGRAM: Final = frozenset({"command", "cmd", "program", "executable", "script", "argv"})
_NO_PATH = re.compile(r"[\s\"'<>|*?;&$`]")  # in an argument whose name does not say that it is one
_FIELDS: Final = (re.compile(r"^\s*path: '([^']+)',?\s*$"),)  # the error's fields, as node prints them
_ENDING = re.compile(r"[\w-]\.[A-Za-z]\w{0,7}\Z")
_STARTS_PROGRAM: Final = frozenset({"_execute_child", "_execvpe"})  # where the standard library starts one


@attrs.frozen(kw_only=True)
class Clue:
    """What was refused (an errno's name, NO_COMMAND or ""), for which paths, and whether it was about running a program."""

    symbol: str = ""
    paths: tuple[str, ...] = ()
    is_program: bool = False


def clue_of(failure: Failure, context: SuggestionContext) -> Clue:
    """Return what a failure says about a path or a program."""
    error = os_error(failure)
    if error is not None:
        clue = _of_error(error, context)
    else:
        number = failure.details.get("errno")
        symbol = errno.errorcode.get(number, "") if isinstance(number, int) else ""
        clue = _of_texts(failure, symbol) or Clue(symbol=symbol or _of_exit(failure))
    if clue.symbol == "ENOENT" and len(clue.paths) == 1 and _is_called(clue.paths[0], context):
        clue = attrs.evolve(clue, is_program=True)
    if not clue.paths:
        clue = _from_arguments(clue, context)
    if clue.is_program and clue.symbol == "ENOENT" and not any(os.sep in path for path in clue.paths):
        clue = attrs.evolve(clue, symbol=NO_COMMAND)
    return clue


def os_error(failure: Failure) -> OSError | None:
    """Return the error of the operating system behind a failure: its cause, what that was raised from, or one of its group."""
    told = failure.details.get("errno")
    waiting: list[BaseException | None] = [failure.cause]
    for _ in range(_MOST_ERRORS):
        if not waiting:
            break
        error = waiting.pop()
        if error is None:
            continue
        if isinstance(error, OSError) and isinstance(error.errno, int) and told in {None, error.errno}:
            return error
        below = error.__cause__
        waiting.append(below if below is not None or error.__suppress_context__ else error.__context__)
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(reversed(cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return None


def texts_of(failure: Failure) -> Iterator[str]:
    """Yield the lines that tell most about a failure, the program's own words first."""
    for name in ("stderr", "error", "stdout"):
        told = failure.details.get(name)
        if isinstance(told, str):
            yield from re.split(r"\\r|\\n|[\r\n]", told)  # what was shown on one line has its breaks escaped
    yield failure.message


def _of_error(error: OSError, context: SuggestionContext) -> Clue:
    given = (cast("object", error.filename), cast("object", error.filename2))
    paths = tuple(os.fsdecode(path) for path in given if isinstance(path, str | bytes) and path)
    symbol = errno.errorcode.get(error.errno or 0, "")
    if symbol == "ENOENT" and len(paths) == 2:  # of a rename, the end that is missing
        gone = [path for path in paths if (there := context.absolute(path)) and status_of(there) is None]
        paths = tuple(gone[:1]) or paths
    frame = _innermost(error)
    is_program = frame is not None and frame.f_code.co_name in _STARTS_PROGRAM
    if is_program and frame is not None and paths and frame.f_locals.get("cwd") == error.filename:
        # A missing working directory is refused by the same call; the slash says what was meant.
        return Clue(symbol=symbol, paths=(paths[0].rstrip(os.sep) + os.sep,))
    return Clue(symbol=symbol, paths=paths, is_program=is_program)


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
    lines = list(texts_of(failure))
    for line in lines:
        program = _first(_commands(), line)
        if program and symbol in {"", "ENOENT"}:
            return Clue(symbol=NO_COMMAND, paths=(program,), is_program=True)
        said = _symbol_in(line)
        if not said or (symbol and said != symbol):
            continue
        clue = Clue(symbol=said, is_program=is_program)
        if path := _first(_paths(said), line):
            return attrs.evolve(clue, paths=(path,))
        named = named or clue
    if named is not None and (path := next(filter(None, (_first(_FIELDS, line) for line in lines)), "")):
        return attrs.evolve(named, paths=(path,))
    return named


def _symbol_in(line: str) -> str:
    lowered = line.lower()
    for phrase, symbol in _PHRASES.items():
        if phrase in lowered or re.search(rf"\b{symbol}\b", line):
            return symbol
    return ""


def _first(patterns: Iterable[re.Pattern[str]], line: str) -> str:
    """Return what the first pattern that fits has found, empty if that was cut or masked."""
    for pattern in patterns:
        if (match := pattern.search(line)) is not None:
            path = match.group(1).strip()
            return "" if MASK in path or "…" in path or len(path) > _LONGEST else path
    return ""


@cache
def _commands() -> tuple[re.Pattern[str], ...]:
    return tuple(
        map(
            re.compile,
            (
                r"command not found: (\S+)",  # zsh
                r"([^\s:'\"]+): command not found",  # bash
                r"(?:^|/|\b)(?:sh|dash|ash|ksh): (?:(?:line )?\d+: )?([^\s:]+): not found",
                r"\bspawn (\S+) ENOENT",  # node
                r"exec: \"([^\"]+)\": executable file not found",  # go
                r"\benv: ['\"\u2018]?([^'\"\u2019:]+)['\"\u2019]?: No such file",
                r"'([^']+)' is not recognized as an internal or external command",
            ),
        )
    )


@cache
def _paths(symbol: str) -> tuple[re.Pattern[str], ...]:
    phrase = next((re.escape(text) for text, name in _PHRASES.items() if name == symbol), symbol)
    verbs = r"(?:(?:open|stat|lstat|mkdir|chdir|rename|unlink|remove|unlinkat|readdirent|fork/exec) )?"
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"{phrase}[^'\"]{{0,40}}['\"]([^'\"]+)['\"]",  # python: …: 'x'; node: …, open 'x'
            rf"['\"\u2018]([^'\"\u2018\u2019]+)['\"\u2019]: {phrase}",  # cp: cannot stat 'x': …
            rf"(?:^|: ){verbs}([^:]+): {phrase}\.?\s*$",  # cat: x: …; bash: line 1: x: …; go: open x: …
            rf"{phrase}: ([^'\":]+)$",  # zsh: …: x
            rf"(?:^|: )([^:()]+) \({phrase}\)",  # java: x (…)
        )
    )


def _from_arguments(clue: Clue, context: SuggestionContext) -> Clue:
    """Take a path or a program from the arguments, if it is in the state that the clue speaks of."""
    if clue.symbol == NO_COMMAND or (clue.is_program and clue.symbol in {"EACCES", "EPERM"}):
        called = tuple(_programs(context.arguments))
        return attrs.evolve(clue, paths=called[:1], is_program=True)
    if clue.symbol == "ENOENT":
        given = [path for path in _path_arguments(context.arguments) if _is_missing(path, context)]
    elif clue.symbol:
        given = [path for path in _path_arguments(context.arguments) if not _is_missing(path, context)]
    else:
        return clue
    return attrs.evolve(clue, paths=tuple(dict.fromkeys(given))[:_MOST_PATHS])


def _is_missing(path: str, context: SuggestionContext) -> bool:
    there = context.absolute(path)
    return there is not None and status_of(there) is None


def _path_arguments(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name, value in list(arguments.items())[:50]:
        if is_sensitive(str(name)):
            continue
        items: object = cast("object", value)
        several = cast("list[object]", items)[:50] if isinstance(items, list | tuple) else [items]
        is_named = _NAMES_PATH.fullmatch(_CAMEL.sub("_", str(name)[:100])) is not None
        for item in several:
            text: object = (
                os.fspath(cast("os.PathLike[str]", item)) if isinstance(item, os.PathLike) else item
            )
            if not isinstance(text, str) or not 0 < len(text) <= _LONGEST or "\n" in text or "://" in text:
                continue
            if is_named or (not _NO_PATH.search(text) and ("/" in text or _ENDING.search(text))):
                yield text


def _programs(arguments: Mapping[str, Any]) -> Iterator[str]:
    for name in _NAMES_PROGRAM & arguments.keys():
        value: object = arguments[name]
        if isinstance(value, list | tuple) and value:
            value = cast("list[object]", value)[0]
        if isinstance(value, str) and (words := value[:_LONGEST].split(None, 1)):
            yield words[0]


def _is_called(path: str, context: SuggestionContext) -> bool:
    return path in _programs(context.arguments)
