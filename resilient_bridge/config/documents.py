"""Parse TOML, JSON and YAML documents into plain data, with the line of each key if known.

Rule: size and depth are bounded, and the result is a Document or a DocumentError. A path is written
in the same way for all formats. No format may run code or name a class, and a repeated key is an
error, because one of its values would be lost silently.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple, cast

from ..failure.extras import how_to_install
from .strict_json import unique


MOST_BYTES: Final = 256 * 1024
MOST_KEYS: Final = 5_000
DEEPEST: Final = 24
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class DocumentError(ValueError):
    """An error in the text itself, with its line where known."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def joined(path: str, key: object) -> str:
    """Return the path of a key below another: `tools.bash`, `rules."CONN RESET"`, `on[2]`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    text = str(key)
    if path and not text:
        return path  # an empty key stands for the table itself
    bare = text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)
    return f"{path}.{bare}" if path else bare


FORMATS: Final = {".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_AT_LINE: Final = re.compile(r"\s*\(?at line (\d+), column \d+\)?")
_MOST_DOTS: Final = 64  # on one line of TOML


class Document(NamedTuple):
    """A document's data, and the line on which each path begins; JSON has none."""

    data: Mapping[str, Any]
    lines: Mapping[str, int]


def read_document(raw: bytes, form: str) -> Document:
    """Read a document of at most 256 KiB; `form` is toml, json or yaml.

    DocumentError says what is wrong.
    """
    if len(raw) > MOST_BYTES:
        raise DocumentError(f"wanted at most {MOST_BYTES} bytes, got more")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"wanted UTF-8, got byte 0x{raw[error.start]:02x}", raw[: error.start].count(b"\n") + 1
        ) from None
    try:
        data, lines = _READERS[form](text)
    except RecursionError:
        raise DocumentError(f"wanted at most {DEEPEST} levels, got more") from None
    if not isinstance(data, dict):
        raise DocumentError(f"wanted a table of settings, got {_name(data)}")
    return Document(checked(data), lines)  # pyright: ignore[reportUnknownArgumentType] -- what a parser made


def checked(data: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return a copy of the data with text as keys, and lists for tuples.

    DocumentError for data that is too deep or too large, and for keys that are neither text nor
    whole numbers. Other values than mappings, lists and tuples stay as they are: their readers
    check them.
    """
    return cast("dict[str, Any]", _Copy().of(data, "", 0))


class _Copy:
    def __init__(self) -> None:
        self.count = 0

    def of(self, value: Any, path: str, depth: int) -> Any:
        if depth > DEEPEST:
            raise DocumentError(f"wanted at most {DEEPEST} levels, got more")
        if isinstance(value, Mapping):
            copied: dict[str, Any] = {}
            pairs: list[tuple[Any, Any]] = list(cast("Any", value).items())
            for key, item in pairs:
                self._counted()
                if isinstance(key, bool) or not isinstance(key, str | int):
                    raise DocumentError(
                        f"{path or 'the document'}: wanted keys that are text, got {_name(key)}"
                    )
                if str(key) in copied:
                    raise DocumentError(f"{joined(path, str(key))}: wanted once, got twice")
                copied[str(key)] = self.of(item, joined(path, str(key)), depth + 1)
            return copied
        if isinstance(value, list | tuple):
            items: list[Any] = []
            for index, item in enumerate(cast("list[Any]", value)):
                self._counted()
                items.append(self.of(item, joined(path, index), depth + 1))
            return items
        return value

    def _counted(self) -> None:
        self.count += 1
        if self.count > MOST_KEYS:
            raise DocumentError(f"wanted at most {MOST_KEYS} keys, got more")


def _name(value: object) -> str:
    words: dict[type, str] = {
        list: "a list",
        str: "a text",
        type(None): "nothing",
        bool: "true or false",
        dict: "a table",
    }
    return words.get(type(value), f"a value of {type(value).__name__}")


# ---- the formats ---------------------------------------------------------------------------------------------------


def _toml(text: str) -> tuple[Any, Mapping[str, int]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MOST_DOTS and not line.lstrip().startswith("#"):
            raise DocumentError(f"wanted at most {_MOST_DOTS} dots on a line, got more", number)
    try:
        return tomllib.loads(text), lines_of(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT_LINE.search(str(error))
        words = _AT_LINE.sub("", str(error))
        raise DocumentError(f"not TOML: {_lower(words)}", int(at[1]) if at else None) from None
    except ValueError as error:  # a number of more digits than Python reads
        raise DocumentError(f"not TOML: {_lower(str(error))}") from None


_ONCE: Final = unique("{}: wanted once, got twice", DocumentError)


def _json(text: str) -> tuple[Any, Mapping[str, int]]:
    try:
        return json.loads(text, object_pairs_hook=_ONCE), {}
    except json.JSONDecodeError as error:
        raise DocumentError(f"not JSON: {_lower(error.msg)}", error.lineno) from None
    except ValueError as error:
        raise (
            error if isinstance(error, DocumentError) else DocumentError(f"not JSON: {error}")
        ) from None


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


# ---- the lines of TOML: tomllib returns the values without them --------------------------------------------------------


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


# ---- YAML, by the rules of YAML 1.2's core schema: `on`, `no` and `1:30` are text --------------------------------------


_TAG: Final = "tag:yaml.org,2002:"
_TAG_OF: Final = {"sequence": "seq", "mapping": "map"}  # by the kind of the node
_CORE: Final = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?\d+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)


@cache
def _loader() -> tuple[Any, Any]:
    try:
        yaml = import_module("yaml")
    except ImportError:
        raise DocumentError(f"YAML needs {how_to_install('yaml')}") from None
    loader: Any = type("CoreLoader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {}})
    for name, pattern, first in _CORE:
        loader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{pattern})\Z", re.ASCII), first)
    return yaml, loader


def read_yaml(text: str) -> tuple[Any, dict[str, int]]:
    """Return the data of one document, and the line of each path, or raise DocumentError."""
    yaml, loader = _loader()
    lines: dict[str, int] = {}
    try:
        node = yaml.compose(text, loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        words = (
            getattr(error, "problem", None)
            or getattr(error, "reason", None)
            or type(error).__name__
        )
        raise DocumentError(f"not YAML: {words}", None if mark is None else mark.line + 1) from None
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError):
        # Errors of pyyaml on unusual texts.
        raise DocumentError("not YAML") from None
    return _Nodes(lines).value(node, "", 0), lines


class _Nodes:
    def __init__(self, lines: dict[str, int]) -> None:
        self.lines = lines
        self.count = 0

    def value(self, node: Any, path: str, depth: int) -> Any:
        if node is None:
            return None
        self.count += 1
        line = node.start_mark.line + 1
        # an alias may refer to the node around it, or be expanded many times
        if depth > DEEPEST or self.count > 2 * MOST_KEYS:
            raise DocumentError(
                f"wanted at most {DEEPEST} levels and {MOST_KEYS} keys, got more", line
            )
        if path:
            self.lines.setdefault(path, line)  # of a list item; `_mapping` sets that of a key
        kind = str(node.tag).removeprefix(_TAG)
        if isinstance(node.value, str):
            return self._scalar(kind, node.value, line)
        if kind != _TAG_OF[node.id]:
            raise DocumentError(f"{path or 'the document'}: wanted plain data, got a tag", line)
        if kind == "seq":
            return [
                self.value(item, joined(path, n), depth + 1) for n, item in enumerate(node.value)
            ]
        return self._mapping(node, path, depth)

    def _mapping(self, node: Any, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key.value, str):
                raise DocumentError(f"{path or 'the document'}: wanted keys that are text", line)
            below = joined(path, key.value)
            if key.value in found:
                raise DocumentError(f"{below}: wanted once, got twice", line)
            self.lines[below] = line
            found[key.value] = self.value(item, below, depth + 1)
        return found

    def _scalar(self, kind: str, text: str, line: int) -> Any:
        try:
            if kind == "str":
                return text
            if kind == "null":
                return None
            if kind == "bool":
                return text.lower() == "true"
            if kind == "int":
                return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)
            if kind == "float":
                return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:  # more digits than Python reads, or a tag that the text does not fit
            raise DocumentError("wanted a number that can be read", line) from None
        raise DocumentError("wanted plain data, got a tag", line)


_READERS: Final[Mapping[str, Callable[[str], tuple[Any, Mapping[str, int]]]]] = {
    "toml": _toml,
    "json": _json,
    "yaml": read_yaml,
}
