"""The line of each key of a TOML document; tomllib returns the values without lines.

Rule: it is for documents that tomllib accepts. It finds tables, and keys that begin a line; a value
inside an inline table or array has no line of its own.
"""

from __future__ import annotations

import re
from typing import Final

from .paths import joined


_KEY: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEYS: Final = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
_TABLE: Final = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_KEYS})[ \t]*\]")
_PAIR: Final = re.compile(rf"[ \t]*({_KEYS})[ \t]*=")
_ONE: Final = re.compile(_KEY)
# A one-line string, or a comment: quotes and `#` inside have no meaning.
_SHORT: Final = re.compile(r'"(?!"")(?:[^"\\\n]|\\.)*"|' + r"'(?!'')[^'\n]*'|#.*")
_LONG: Final = re.compile(r'"""|' + "'''")


def lines_of(text: str) -> dict[str, int]:
    """Return the line of each table, and of each key that begins a line, by path."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, quote = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        begins_inside = bool(quote)
        quote = _open_quote(line, quote)
        if begins_inside:
            continue
        if header := _TABLE.match(line):
            table = _path("", header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = joined(table, counts[table])
            found.setdefault(table, number)
        elif pair := _PAIR.match(line):
            found.setdefault(_path(table, pair[1]), number)
    return found


def _path(table: str, keys: str) -> str:
    for key in _ONE.findall(keys):
        table = joined(table, key[1:-1] if key[0] in "\"'" else key)
    return table


def _open_quote(line: str, quote: str) -> str:
    """Return the quotes of a multi-line string that is open at the line's end, "" if none is."""
    at = 0
    while at < len(line):
        if quote:
            end = line.find(quote, at)
            while quote == '"""' and end > 0 and _is_escaped(line, end):
                end = line.find(quote, end + 1)
            if end < 0:
                return quote
            at, quote = end + 3, ""
        elif opened := _LONG.match(line, at):
            at, quote = opened.end(), opened[0]
        else:
            short = _SHORT.match(line, at)
            at = short.end() if short else at + 1
    return quote


def _is_escaped(line: str, at: int) -> bool:
    before = line[:at]
    return (len(before) - len(before.rstrip("\\"))) % 2 == 1
