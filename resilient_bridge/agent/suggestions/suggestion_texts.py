"""Which path, program or refusal a printed line speaks of: as the system, shells, node, Python, go and java write it.

Rule: what might be prose is not read as a path: an unquoted text is one only where a path stands, without the words before it, and
when it looks like one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from ...errors import MASK, Failure


LONGEST: Final = 4_096  # characters of a path
_PHRASES: Final = {
    "no such file or directory": "ENOENT",
    "permission denied": "EACCES",
    "operation not permitted": "EPERM",
    "read-only file system": "EROFS",
    "is a directory": "EISDIR",
    "not a directory": "ENOTDIR",
    "file already exists": "EEXIST",
    "file exists": "EEXIST",
    "directory not empty": "ENOTEMPTY",
    "no space left on device": "ENOSPC",
    "address already in use": "EADDRINUSE",
}
_OFTEN_PROSE: Final = frozenset({"EISDIR", "ENOTDIR", "EEXIST"})  # words that people use as well
_WATCHES = re.compile(
    r"\bwatch(?:es|ers?)?\b.{0,40}\b(?:limit|reached)\b|\blimit\b.{0,60}\bwatch", re.IGNORECASE
)
_QUOTED: Final = r"b?(?:'([^']+)'|\"([^\"]+)\"|\u2018([^\u2019]+)\u2019)"
_FIELDS = re.compile(r"^\s*(?:path|dest): '([^']+)',?\s*$")  # the error's fields, as node prints them
_ELSEWHERE = re.compile(  # another machine or container, or wherever a compiler looks
    r"\b(?:scp|sftp): |\bOCI runtime\b|\bcontainer process\b|\bfatal error: "
)
_WANTS_DIRECTORY = re.compile(r"\b(?:cd: |(?:chdir|opendir|readdir|rmdir|scandir) )")
_ENDING = re.compile(r"[\w-]\.[A-Za-z]\w{0,7}\Z")
_CLASS = re.compile(r"\A[A-Za-z_][\w.]*: ")
_CALLS: Final = "access|bind|chdir|connect|dial|execv?|execve|execvp|fopen|fork|mkdir|open|openat|read|rename|socket|spawn|stat|unlink|write"
_CALL = re.compile(_CALLS)
_BEFORE = re.compile(  # what people write before a path
    rf"{_CALLS}|an?|can|can't|cannot|config|could|couldn't|creat(?:e|ing)|directory|error|executable|execut(?:e|ing)|failed|failure|fatal"
    "|file|find(?:ing)?|for|from|in|load(?:ing)?|lock(?:ing)?|not|of|on|opening|reading|run(?:ning)?|script|starting|the|to|unable|while"
    "|writing",
    re.IGNORECASE,
)


def texts_of(failure: Failure) -> Iterator[str]:
    """Yield the lines that tell most about a failure, the program's own words first."""
    for name in ("stderr", "error", "stdout"):
        value = failure.details.get(name)
        if isinstance(value, str):
            # "RuntimeError: x": the class is no path; what was shown on one line has its breaks escaped.
            text = _CLASS.sub("", value) if name == "error" else value
            yield from re.split(r"\\r|\\n|[\r\n]", text)
    yield failure.message


def symbol_in(line: str) -> str:
    """Return the errno's name that a line states in words or by itself, empty if it states none."""
    lowered = line.lower()
    for phrase, symbol in _PHRASES.items():
        if re.search(rf"\b{symbol}\b", line):
            return symbol
        if phrase in lowered and (
            symbol not in _OFTEN_PROSE or _as_the_system_says_it(phrase).search(lowered)
        ):
            return symbol
    return ""


def is_about_here(line: str) -> bool:
    """Return whether what a line speaks of can be looked up on this machine's disk."""
    return _ELSEWHERE.search(line) is None


def is_about_watches(line: str) -> bool:
    """Return whether what is used up is watches of files, which is reported as a full device."""
    return _WATCHES.search(line) is not None


def program_in(line: str) -> str:
    """Return the program that a line says was not found."""
    for pattern in _programs():
        if (match := pattern.search(line)) is not None:
            return _usable(match[1].strip())
    return ""


def paths_in(symbol: str, line: str) -> tuple[str, ...]:
    """Return the path that a line says was refused, with a slash if it says that a directory was wanted.

    Both ends, from first to last, if it names the two of a rename or a link.
    """
    for pattern in _quoted(symbol):
        if (match := pattern.search(line)) is not None:
            end = os.sep if symbol == "ENOENT" and _WANTS_DIRECTORY.search(match["verb"]) else ""
            return _all_usable(group + end for group in match.groups()[1:] if group)
    for pattern in _bare(symbol):
        if (match := pattern.search(line)) is not None:
            is_placed = match.start() > 0 or bool(match["verb"])
            path = _without_prose(match["path"].strip(), is_placed=is_placed)
            before = line[: match.start("path")]
            end = os.sep if symbol == "ENOENT" and _WANTS_DIRECTORY.search(before) else ""
            return _all_usable([path and path + end])
    return ()


def fields_in(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that stand in the fields of a printed error."""
    return _all_usable(match[1] for line in lines if (match := _FIELDS.match(line)) is not None)


def has_ending(text: str) -> bool:
    """Return whether a text ends as the names of files do."""
    return _ENDING.search(text) is not None


def _without_prose(text: str, *, is_placed: bool) -> str:
    """Return what of an unquoted text is a path, empty if none of it is for certain."""
    words = text.split()
    if len(words) == 1 and is_placed:
        return "" if _CALL.fullmatch(text) else text
    first = next((number for number, word in enumerate(words) if not _BEFORE.fullmatch(word)), len(words))
    path = text if first == 0 else " ".join(words[first:])
    return path if "/" in path or os.sep in path or has_ending(path) else ""


def _usable(path: str) -> str:
    """Return a path as it was read, empty if it was cut, masked, or printed with escapes."""
    is_escaped = os.sep != "\\" and "\\" in path
    return "" if is_escaped or MASK in path or "…" in path or len(path) > LONGEST else path


def _all_usable(paths: Iterable[str]) -> tuple[str, ...]:
    found = tuple(map(_usable, paths))
    return found if all(found) else ()


@cache
def _as_the_system_says_it(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[:\])(,-] ?|\d ){phrase}(?=$|[:.,;)\]('\" -]{{1,2}}(?:[^a-z]|$)|, \w+ ['\"])")


@cache
def _programs() -> tuple[re.Pattern[str], ...]:
    return tuple(
        map(
            re.compile,
            (
                r"command not found: (\S+)",  # zsh
                r"([^\s:'\"]+): command not found",  # bash
                r"(?:^|/|\b)(?:sh|dash|ash|ksh): (?:(?:line )?\d+: )?([^\s:]+): not found",
                r"([^\s:'\"]+): cannot execute: required file not found",  # bash, of a script without its interpreter
                r"\bspawn (\S+) ENOENT",  # node
                r"exec: \"([^\"]+)\": executable file not found",  # go
                r"\benv: ['\"\u2018]?([^'\"\u2019:]+)['\"\u2019]?: No such file",
                r"'([^']+)' is not recognized as an internal or external command",
            ),
        )
    )


def _words(symbol: str) -> str:
    return "|".join(re.escape(text) for text, name in _PHRASES.items() if name == symbol) or re.escape(symbol)


@cache
def _quoted(symbol: str) -> tuple[re.Pattern[str], ...]:
    text = f"(?:{_words(symbol)})"
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"{text}(?:: |, )(?P<verb>(?:\w+ )?){_QUOTED}(?: -> {_QUOTED})?",  # python: …: 'a' -> 'b'; node: …, open 'x'
            # cp: cannot stat 'x': …; mv: cannot move 'a' to 'b': …; head: cannot open 'x' for reading: …
            rf"(?P<verb>)(?<![^\s(=:])(?:{_QUOTED} to )?{_QUOTED}(?: for \w+)?: {text}",
        )
    )


@cache
def _bare(symbol: str) -> tuple[re.Pattern[str], ...]:
    text = f"(?:{_words(symbol)})"
    verb = r"(?P<verb>(?:open|stat|lstat|mkdir|chdir|rename|unlink|remove|unlinkat|readdirent|fork/exec) )?"
    path = r"(?P<path>(?:[A-Za-z]:(?=[\\/]))?[^:'\"`\u2018\u2019]+)"
    return tuple(
        re.compile(pattern, re.IGNORECASE)
        for pattern in (
            rf"(?:^|: ){verb}{path}: {text}\.?(?: \(os error \d{{1,5}}\))?\s*$",  # cat: x: …; go: open x: …; rust
            rf"{text}: (?P<path>[^'\":]+)(?P<verb>$)",  # zsh: …: x
            rf"(?:^|: )(?P<path>[^:()'\"]+)(?P<verb>) \({text}\)",  # java: x (…)
        )
    )
