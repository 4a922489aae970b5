"""Secrets away from their names: in calls, assertions and sentences of any tool; in columns of tables.

A value that is quoted, and given to something, near a name; tables with a header row, CSV, SQL's
lists of columns and their values.

Rule: linear. A bounded window around a name is read; a value that has a name of its own is not
taken. A row is read once, by the header above it; lines, rows and cells are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from .secret_values import AMBIGUOUS, Kind, Name, has_mix, is_opaque, is_secret, kind_of, names_in


_BEFORE: Final = 100
_AFTER: Final = 160
_QUOTED: Final = re.compile(
    r"\"([^\"\s]{4,200})\"|'([^'\s]{4,200})'|`([^`\s]{4,200})`|\[([^\[\]\s'\"]{4,200})\]"
)
_CLUE: Final = re.compile(r"\d|\(['\"]|(?:enters?|entered|types|typed|with) ['\"]|, ['\"]")
_BEFORE_VALUE: Final = re.compile(  # what precedes a value that is given: `send_keys(`, `with `, `"value": `, `$1 = 0x55 `
    r"(?:(?P<verb>\b(?:fill|type|send_?keys|set_?value|enter|press_sequentially|clear)\w{0,12}\((?:[^()\n]{0,60},\s?)?|\b(?:enter(?:s|ed)?|types|typed|with)\s)"
    r"|(?:[(,]|\s[-\u2013\u2014]|\]|0x[0-9a-f]{1,16}|\$\d{1,3}\s=)\s{0,4}|\b(?:value|values|data|input|got|given|found|received|actual|text|content|was|is|args?)['\"]?\s{0,2}[:=]?\s{0,2}[\[(]?)$",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(
    r"\w \w{2,20}: b?$"
)  # the end of a sentence: `is not an instance of int: `
_REPORTED: Final = re.compile(
    r"\b(?:given|got|received|actual):\s([^\s'\",;()]{6,200}+)", re.IGNORECASE
)
_NO_SECRETS: Final = re.compile(r"[#./~@<${\\-]|.*(?:[/\\=&?<>]|\.(?:\w{1,4}$|\w+\.))|.*\(")
_WORD: Final = re.compile(r"[A-Za-z0-9!#$%^&*+~_-]{6,}+")
_LONGEST: Final = 60
_OPENING: Final = frozenset(("", *" \t\r\n'\"`("))
_CLOSING: Final = frozenset(("", *" \t\r\n'\"`),;.!?"))
_CHANGES: Final = re.compile(r"(?<=\d)[A-Za-z]|(?<=[A-Za-z])\d")
_VERB: Final = re.compile(
    r"\b(?:is|was|got|entered|typed|tried|used|sent|but)\s[\s'\"`(]{0,3}$", re.IGNORECASE
)
_KEBAB: Final = re.compile(r"[a-z]+\d?-")
_OWN: Final = re.compile(
    r"[\w)\]]['\"]?\s?[:=]\s?[\[(]?$|\b(?:users?|account|host|name|named|id|file|object|kind|type|table|pod|service)\s$",
    re.IGNORECASE,
)
_HEX: Final = re.compile(r"[0-9a-f-]+|[0-9A-F-]+|[A-Z]{2,8}-?\d{2,8}[A-Z]?")
_TECHNICAL: Final = re.compile(
    r"^0x|sha\d|md5|base\d\d|utf-?\d|oauth|[ikl]\d{1,2}n\b|k8s|x509|ed25519|ipv\d|http\d|pkcs|p12|aes|rsa\d|x86|amd64|arm|win\d|log4j|web3|auth0|b64|ec2|s3|h2|\dfa|x64|v\d|\d(?:st|nd|rd|th|ms|s|kb|mb|gb|m|h|d|x)\b|[A-Z]+_|[a-z]+_[a-z]+",
    re.IGNORECASE,
)
_OF_ANOTHER: Final = re.compile(
    r"(?:\b(?:users?|username|login|host|hostname|id|req|request|trace|span|session|pod|container|node|server|db|database|table|role|account|client|build|job|task|run|commit"
    r"|version|release|file|module|function|class|line|column|port|from|on|at|by|in|package|image|branch|tag|device|plugin|bucket|topic|queue|cluster|region|zone|schema"
    r"|index|constraint|field|property|parameter|variable|method|type|service|namespace|named|called|error|code|status|ssid|domain|realm)|[:=/\\])[\s'\"`(#]{0,3}$",
    re.IGNORECASE,
)


class Nearby:
    """What is given near the names of one text; each value is judged once, by however many names it stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._quoted: dict[tuple[int, bool, bool], bool] = {}
        self._words: dict[int, bool] = {}

    def values(self, name: Name) -> Iterator[tuple[int, int]]:
        """Return what is given near a name: `find("password").send_keys("…")`, `fill in "Password" with "…"`."""
        if name.kind is not Kind.ANY and name.kind is not Kind.KEY:
            return
        text = self._text
        start, end = _window(text, name)
        if _CLUE.search(text, start, end) is None:
            return
        is_key, is_ambiguous = name.kind is Kind.KEY, _is_ambiguous(text, name)
        for quoted in _QUOTED.finditer(text, start, end):
            key = (quoted.start(), is_key, is_ambiguous)
            if key not in self._quoted:
                self._quoted[key] = _is_value(
                    text, quoted, is_key=is_key, is_ambiguous=is_ambiguous
                )
            if self._quoted[key] and not quoted.start() <= name.start < quoted.end():
                yield quoted.span(quoted.lastindex or 0)
        if is_key:
            return
        reported = _REPORTED.search(text, name.end, end)
        if (
            reported is not None
            and (reported[1].isdecimal() or has_mix(reported[1]))
            and is_secret(reported[1], is_bare=True)
        ):
            yield reported.span(1)
        if is_ambiguous:
            return
        for word in _WORD.finditer(text, start, end):
            begin = word.start()
            if begin not in self._words:
                self._words[begin] = _is_thrown_together(text, begin, word.end())
            if self._words[begin] and not begin <= name.start < word.end():
                yield word.span()


def _window(text: str, name: Name) -> tuple[int, int]:
    """Return the part of the text around a name: its line, the one before, the one behind, bounded.

    It ends at a mask: so what is masked once is read no further when it is masked again.
    """
    first, last = max(0, name.start - _BEFORE), min(len(text), name.end + _AFTER)
    start = text.rfind("\n", first, name.start)
    start = text.rfind("\n", first, start) + 1 if start >= 0 else 0
    line = text.find("\n", name.end, last)
    end = text.find("\n", line + 1, last) if line >= 0 else -1
    mask = text.find("[redacted]", name.end, last)
    return (
        max(first, start, text.rfind("[redacted]", first, name.start)),
        min(last, *(at for at in (end, mask) if at >= 0), last),
    )


def _is_ambiguous(text: str, name: Name) -> bool:
    """Return whether the name is a word of other things as well, and stands alone: token, but not auth_token."""
    before = text[name.start - 1 : name.start]
    return name.word in AMBIGUOUS and not (before.isalnum() or before in ("_", "-"))


def _is_value(text: str, quoted: re.Match[str], *, is_key: bool, is_ambiguous: bool) -> bool:
    """Return whether a text in quotes is given as the value of a secret, and not as a name, a path, a user."""
    value, at = quoted[quoted.lastindex or 0], quoted.start()
    before = text[at - 1 : at] if at else ""
    if (before.isalnum() and before != "b") or (quoted[4] and before not in (" ", "-", "\n")):
        return False
    if not has_mix(value):
        return not is_ambiguous and not is_key and _is_entered(text, at, value)
    if is_key:
        return is_secret(value, Kind.KEY) and (_ends_sentence(text, at) or not _is_own(text, at))
    if not is_secret(value, is_bare=True) or kind_of(value) is not None:
        return False
    if _NO_SECRETS.match(value) is not None:
        is_long = len(value) >= 24 and "/" not in value and " " not in value and is_opaque(value)
        return is_long and _BEFORE_VALUE.search(text, max(0, at - 60), at) is not None
    is_stated = _BEFORE_VALUE.search(text, max(0, at - 60), at) is not None or _ends_sentence(
        text, at
    )
    if is_ambiguous:
        return (
            (is_stated or not _is_own(text, at))
            and is_opaque(value)
            and _KEBAB.match(value) is None
        )
    is_other = _is_technical(value) or _OF_ANOTHER.search(text, max(0, at - 40), at) is not None
    return is_stated or not is_other


def _is_entered(text: str, at: int, value: str) -> bool:
    """Return whether a word is entered into a field: `fill("#password", "…")`, `"Password" with "…"`."""
    if text[at - 1 : at] not in ("(", " "):
        return False
    opening = _BEFORE_VALUE.search(text, max(0, at - 80), at)
    is_entered = opening is not None and bool(opening["verb"])
    return is_entered and _NO_SECRETS.match(value) is None and is_secret(value, is_bare=True)


def _ends_sentence(text: str, at: int) -> bool:
    return (
        text[at - 2 : at] in (": ", " b")
        and _SENTENCE.search(text, max(0, at - 30), at) is not None
    )


def _is_own(text: str, at: int) -> bool:
    return _OWN.search(text, max(0, at - 40), at) is not None


def _is_thrown_together(text: str, begin: int, stop: int) -> bool:
    """Return whether a word mixes letters and digits as a password does, and belongs to nothing else."""
    if _CHANGES.search(text, begin, stop) is None or not _is_alone(text, begin, stop):
        return False
    before, value = (max(0, begin - 30), begin), text[begin:stop]
    is_stated = len(_CHANGES.findall(value)) > 1 or _VERB.search(text, *before) is not None
    return is_stated and _is_password(value) and _OF_ANOTHER.search(text, *before) is None


def _is_alone(text: str, begin: int, stop: int) -> bool:
    """Return whether these letters are a whole word, and no option, part of a path, or host."""
    is_host = text[stop : stop + 1] == "." and text[stop + 1 : stop + 2].isalnum()
    is_whole = text[begin - 1 : begin] in _OPENING and text[stop : stop + 1] in _CLOSING
    return is_whole and not is_host and text[begin] != "-" and stop - begin <= _LONGEST


def _is_password(value: str) -> bool:
    is_name = _KEBAB.match(value) is not None or _is_technical(value) or kind_of(value) is not None
    return not is_name and is_secret(value, is_bare=True)


def _is_technical(value: str) -> bool:
    return _HEX.fullmatch(value) is not None or _TECHNICAL.search(value) is not None


# ---- tables -----------------------------------------------------------------------------------------


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
