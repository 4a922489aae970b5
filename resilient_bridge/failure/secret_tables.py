"""Secrets in columns: tables with a header row, CSV, SQL's lists of columns and their values.

Rule: linear. A row is read once, by the header above it; lines, rows and cells are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from .secret_names import Kind, Name, kind_of, names_in
from .secret_values import is_secret


Span = tuple[int, int]

_LINE: Final = 2_000
_ROWS: Final = 500
_RULE: Final = re.compile(r"[\s+|:=─┼│├┤┌┐└┘┬┴━-]*+")
_HEADER_CELL: Final = re.compile(r"[\"'`\[]?[\w#%/.-]{0,40}(?: [\w#%/().-]{1,40}){0,2}[\"'`\]]?")
_BARS: Final = re.compile(r"[^|│\n]*+")
_TABS: Final = re.compile(r"[^\t\n]*+")
_COLUMNS: Final = re.compile(r"[^\s]++(?: [^\s]++)*+")
_COMMAS: Final = re.compile(r'"(?:[^"]|"")*+"?|\'(?:[^\']|\'\')*+\'?|[^,\n]*+')
_SEMICOLONS: Final = re.compile(r'"(?:[^"]|"")*+"?|[^;\n]*+')
_QUOTES: Final = " \t\r\"'`"


class Tables:
    """The tables of one text: which of its columns hold secrets."""

    def __init__(self, text: str) -> None:
        self._text, self._read = text, 0

    def column(self, name: Name) -> Iterator[Span]:
        """Return the values below a name, if it is the head of a column."""
        text = self._text
        if name.start < self._read:
            return
        after = text[name.end : name.end + 60].lstrip(" \"'`]\r")[:1]
        if after not in _DELIMITERS and text[name.end : name.end + 2] not in ("  ", ""):
            return
        end = text.find("\n", name.end, name.end + _LINE)
        if end < 0:
            return
        start = text.rfind("\n", max(0, name.start - _LINE), name.start) + 1
        self._read = end
        start += text[start : name.start].rfind(": ") + 2 if ": " in text[start : name.start] else 0
        line = text[start:end]
        for delimiter, cells in _CELLS:
            if delimiter in line:
                yield from self._below(start, end, cells, delimiter)
                return

    def _below(self, start: int, end: int, cells: _Cells, delimiter: str) -> Iterator[Span]:
        text = self._text
        heads = cells(text, start, end)
        texts = [text[begin:stop].strip(_QUOTES) for begin, stop in heads]
        if len(heads) < 2 or not all(map(_HEADER_CELL.fullmatch, texts)):
            return
        if delimiter in ",;" and any(" " in head for head in texts):
            return
        kinds = [kind_of(head) for head in texts]
        at = end + 1
        for _ in range(_ROWS):
            stop = text.find("\n", at, at + 2 * _LINE)
            stop = len(text) if stop < 0 else stop
            row = text[at : min(stop, at + 2 * _LINE)]
            if at >= len(text) or not row.strip():
                return
            if _RULE.fullmatch(row) is None:
                found = (
                    _aligned(at, heads, start, stop) if delimiter == "  " else cells(text, at, stop)
                )
                if len(found) < len(heads) or (len(found) > len(heads) and delimiter not in "|│"):
                    return
                self._read = stop
                yield from _hidden(text, found, kinds)
            at = stop + 1


_Cells = Callable[[str, int, int], list[Span]]


def _hidden(text: str, cells: list[Span], kinds: list[Kind | None]) -> Iterator[Span]:
    for (begin, end), kind in zip(cells, kinds, strict=False):
        if kind is None:
            continue
        whole = text[begin:end]
        inner = whole.strip(_QUOTES)
        at = begin + whole.find(inner)
        if (
            inner
            and is_secret(inner, kind)
            and not (kind is Kind.ANY and inner.isdecimal() and len(inner) < 4)
        ):
            yield at, at + len(inner)


def _matched(pattern: re.Pattern[str]) -> _Cells:
    """Return a function that finds the cells between delimiters; the outer ones may be empty."""

    def cells(text: str, start: int, end: int) -> list[Span]:
        found: list[Span] = []
        at = start
        while at <= end and len(found) < 200:
            cell = pattern.match(text, at, end)
            stop = end if cell is None else cell.end()
            found.append((at, stop))
            at = stop + 1
        return found

    return cells


def _in_columns(text: str, start: int, end: int) -> list[Span]:
    return [one.span() for one in _COLUMNS.finditer(text, start, end)]


def _aligned(at: int, heads: list[Span], start: int, end: int) -> list[Span]:
    """Return the cells that begin in the same column as their heads; of none, an empty cell."""
    columns = [begin - start for begin, _ in heads]
    cells: list[Span] = []
    for column, following in zip(columns, [*columns[1:], end - at], strict=True):
        begin, stop = min(at + column, end), min(at + max(following, column), end)
        cells.append((begin, stop))
    return cells


_CELLS: Final[tuple[tuple[str, _Cells], ...]] = (
    ("|", _matched(_BARS)),
    ("│", _matched(_BARS)),
    ("\t", _matched(_TABS)),
    (";", _matched(_SEMICOLONS)),
    ("  ", _in_columns),
    (",", _matched(_COMMAS)),
)
_DELIMITERS: Final = frozenset("|│\t;,\n")


# ---- SQL -------------------------------------------------------------------------------------------------------------

_INSERT: Final = re.compile(
    r"\b(?:insert|replace)\s{1,9}+(?:ignore\s{1,9}+)?into\s{1,9}+[^\s(]{1,200}+\s{0,9}+\(([^()]{1,2000}+)\)\s{0,9}+(?:values|select)?\s{0,9}+",
    re.IGNORECASE,
)
_ROW: Final = re.compile(r"\s{0,9}+,?\s{0,9}+\(((?:'(?:[^'\\]|''|\\.)*+'|[^()'])*+)\)", re.DOTALL)
_KEY: Final = re.compile(r"\(([\w\s,\".]{1,500}+)\)=\(([^()\n]{0,1000}+)\)")
_PARAMETERS: Final = re.compile(r"\[parameters: (?=[\[(])")
_LITERAL: Final = re.compile(r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|[\])]\]")
_CELL: Final = re.compile(r"'(?:[^'\\]|''|\\.)*+'?|\"(?:[^\"\\]|\\.)*+\"?|[^,]*+", re.DOTALL)
_LIST: Final = _matched(re.compile(r"[^,]*+"))


def spans_in_sql(text: str, lowered: str) -> Iterator[Span]:
    """Return the secrets of `INSERT … (name, password) VALUES (…)` and `Key (token)=(…)`."""
    if " into " in lowered:
        for found in _INSERT.finditer(text):
            kinds = [
                kind_of(text[begin:end].strip(_QUOTES + "[]\n"))
                for begin, end in _LIST(text, *found.span(1))
            ]
            row = _ROW.match(text, found.end()) if any(kinds) else None
            for _ in range(_ROWS):
                if row is None:
                    break
                yield from _hidden(text, _values(text, *row.span(1)), kinds)
                row = _ROW.match(text, row.end())
    if ")=(" in text:
        for found in _KEY.finditer(text):
            kinds = [
                kind_of(text[begin:end].strip(_QUOTES))
                for begin, end in _LIST(text, *found.span(1))
            ]
            yield from _hidden(text, _values(text, *found.span(2)), kinds)
    first = _PARAMETERS.search(text) if "[parameters: " in text else None
    if first is not None and any(names_in(text, text)):
        yield from _parameters(text, first.end())


def _parameters(text: str, at: int) -> Iterator[Span]:
    """Return each text in SQLAlchemy's list of parameters, which has no names."""
    for literal in _LITERAL.finditer(text, at):
        if literal.group()[0] in "])":
            return
        if not text.startswith(":", literal.end()):
            yield literal.start() + 1, literal.end() - 1


def _values(text: str, start: int, end: int) -> list[Span]:
    found: list[Span] = []
    at = start
    while at <= end and len(found) < 200:
        while at < end and text[at] in " \t\n":
            at += 1
        cell = _CELL.match(text, at, end)
        stop = end if cell is None else cell.end()
        found.append((at, stop))
        comma = text.find(",", stop, end)
        at = end + 1 if comma < 0 else comma + 1
    return found
