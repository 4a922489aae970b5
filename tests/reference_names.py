"""The rows that a public name has: in the index of names, in the golden file, and a strategy's in the table of strategies.

Rule: a row that stands keeps its words, which are written by hand; its link follows the source. A name without a row gets one,
beside its nearest neighbour, with the first sentence of its docstring. No name is taken out: that is nobody's accident.
"""

from __future__ import annotations

import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Final

import resilient_bridge as rb

from .strategies import LAYERS, page_of


ROOT: Final = Path(__file__).parents[1]
DOORS: Final = sorted(name for name in rb.__all__ if inspect.ismodule(getattr(rb, name)))
"""The modules that users import from: each holds a table of names, and its code may move behind it."""
ELSEWHERE: Final = {"dialects", "events", "presets"}
"""Their names are values or records, and stand on pages of their own."""
_ROW: Final = re.compile(r"\| \[`(?P<name>[\w.]+)`\]\((?P<link>[^)]+)\) \|")
_STRATEGY: Final = re.compile(r"\| \[(\w+)\]\(")


def names() -> list[str]:
    """Each public name, with the door that lists it."""
    offered = {door: import_module(f"resilient_bridge.{door}").__all__ for door in DOORS}
    return [*rb.__all__, *(f"{door}.{name}" for door in DOORS for name in offered[door])]


def indexed() -> list[str]:
    """The names that have a row in docs/reference/api.md."""
    return [name for name in names() if name.partition(".")[0] not in ELSEWHERE or name in DOORS]


def golden(text: str) -> str:
    """Add the new names to tests/public_names.txt."""
    before = text.split()
    gone = [name for name in before if name not in names()]
    return "\n".join([*names(), *gone]) + "\n"


def api(text: str) -> str:
    """Renew the link of each row of docs/reference/api.md, and add the rows that are missing."""
    lines = text.splitlines()
    links = {name: _link(name) for name in indexed()}
    rows = {found["name"]: at for at, line in enumerate(lines) if (found := _ROW.match(line))}
    for name in rows.keys() & links:
        old = _ROW.match(lines[rows[name]])["link"]
        lines[rows[name]] = lines[rows[name]].replace(f"({old})", f"({links[name]})", 1)
    for name, link in links.items():
        if name not in rows:
            at = _nearest(name, link, lines)
            lines.insert(at + 1, f"| [`{name}`]({link}) | {_about(name)} |")
    return "\n".join(lines) + "\n"


def strategies(text: str) -> str:
    """Add the rows of new strategies to the table of docs/strategies/index.md, in the usual order."""
    lines = text.splitlines()
    rows = {found[1]: at for at, line in enumerate(lines) if (found := _STRATEGY.match(line))}
    order = [kind.__name__ for kind in LAYERS]
    for kind in LAYERS:
        if kind.__name__ not in rows:
            outside = order[: order.index(kind.__name__)]
            at = max([rows[name] for name in outside if name in rows] or [min(rows.values()) - 1])
            fails = re.search(r"\b(?!Config)\w+Error\b", inspect.getdoc(kind))
            cells = f"[{kind.__name__}]({page_of(kind)}.md)", _first(kind), f"`{fails[0]}`" if fails else "your own error"  # fmt: skip
            lines.insert(at + 1, f"| {' | '.join(cells)} |")
            rows = {name: line + (line > at) for name, line in rows.items()}
            rows[kind.__name__] = at + 1
    return "\n".join(lines) + "\n"


def _named(name: str) -> object:
    value: object = rb
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _link(name: str) -> str:
    """The file that defines it, as the page links to it."""
    value = _named(name)
    module = import_module(value.__name__ if inspect.ismodule(value) else value.__module__)
    return os.path.relpath(module.__file__, ROOT / "docs/reference")


def _nearest(name: str, link: str, lines: list[str]) -> int:
    """The last row of the same door whose source is nearest; else the last line."""
    door = name.rpartition(".")[0]
    same = [
        (os.path.commonpath([found["link"], link]).count("/"), at)
        for at, line in enumerate(lines)
        if (found := _ROW.match(line)) and found["name"].rpartition(".")[0] == door
    ]
    return max(same)[1] if same else len(lines) - 1


def _about(name: str) -> str:
    value = _named(name)
    page = f": [{page_of(value).replace('-', ' ')}](../strategies/{page_of(value)}.md)" if value in LAYERS else ""  # fmt: skip
    return f"{_first(value)}{page}"


def _first(value: object) -> str:
    """The first sentence of a docstring, as a cell of a table."""
    line = " ".join(inspect.getdoc(value).partition("\n\n")[0].split())
    sentence = re.split(r"(?<=\w)[.;] ", line)[0].rstrip(".").replace("|", "\\|")
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]
