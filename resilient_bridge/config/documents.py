"""Parse TOML, JSON and YAML documents into plain data, with the line of each key if known.

Rule: size and depth are bounded, and the result is a Document or a DocumentError. No format may run
code, and a repeated key is an error, because one of its values would be lost silently.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from .paths import DEEPEST, MOST_BYTES, MOST_KEYS, DocumentError, joined


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
    from .toml_lines import lines_of  # imported here: only TOML documents need it

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


def _json(text: str) -> tuple[Any, Mapping[str, int]]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise DocumentError(f"{twice}: wanted once, got twice")
        return found

    try:
        return json.loads(text, object_pairs_hook=once), {}
    except json.JSONDecodeError as error:
        raise DocumentError(f"not JSON: {_lower(error.msg)}", error.lineno) from None
    except ValueError as error:
        raise (
            error if isinstance(error, DocumentError) else DocumentError(f"not JSON: {error}")
        ) from None


def _yaml(text: str) -> tuple[Any, Mapping[str, int]]:
    from .yaml_nodes import read_yaml

    return read_yaml(text)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


_READERS: Final[Mapping[str, Callable[[str], tuple[Any, Mapping[str, int]]]]] = {
    "toml": _toml,
    "json": _json,
    "yaml": _yaml,
}
