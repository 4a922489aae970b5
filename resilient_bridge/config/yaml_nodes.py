"""YAML as plain data, by the rules of YAML 1.2's core schema: `on`, `no` and `1:30` are text.

Rule: pyyaml only parses nodes, and constructs no objects. Any tag outside of the core schema is
refused, so no document can name a class.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any, Final

from ..failure.extras import how_to_install
from .paths import DEEPEST, MOST_KEYS, DocumentError, joined


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
