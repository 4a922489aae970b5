"""`resilient-bridge check FILE`: validate a settings file, and print the settings in force.

`--explain` also prints the source of each setting.
"""

from __future__ import annotations

import argparse
import asyncio
import builtins
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..failure import CODES, Category, ConfigError, Kind, Problem
from ..failure.what import WORDS
from ..settings import Config, load
from ..settings.reading import near
from ..values.backoff import SHAPES
from .printing import complain, show
from .status_line import status_on_stderr
from .terminal import columns, fitted


_WRONG: Final = 1
_WORDS: Final = (*WORDS, *Kind, *Category, *CODES, *SHAPES)


class _AnyName(Mapping[str, Any]):
    """Stands in for a program's `names=`: accepts and records each name that may be a function's.

    It does not accept builtins, words of the settings, and words that are close to one of those.
    """

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self.asked.setdefault(name, _function(name))

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.isidentifier() or hasattr(builtins, name):
            return False
        # a word close to one of the settings is more likely a typing error
        return not near(name, _WORDS) and name not in _WORDS

    def __iter__(self) -> Iterator[str]:
        return iter(self.asked)

    def __len__(self) -> int:
        return len(self.asked)


def _function(name: str) -> Any:
    def stand_in(*_: object, **__: object) -> None: ...

    stand_in.__name__ = stand_in.__qualname__ = name
    return stand_in


def run(arguments: argparse.Namespace) -> int:
    """Check a file and print the result; return 0, 1 with every problem, or 2 for wrong usage."""
    if arguments.schema:
        from ..settings.schema import schema

        return show("check", json.dumps(schema(), indent=2), is_data=True)
    if arguments.file is None:
        return complain("check", "FILE: a file of settings expected, or --schema")
    if not os.path.exists(arguments.file):  # noqa: PTH110 -- a name that no file can have is no error here
        return complain("check", f"FILE: there is no {arguments.file!r}")
    names = _AnyName()
    try:
        config = load(arguments.file, names=names, env=arguments.env)
        problems = _providers(config, arguments) if arguments.providers else []
    except ConfigError as error:
        return _refused(error.problems, arguments)
    if problems:
        return _refused(tuple(problems), arguments)
    return show("check", _answer(config, names, arguments), is_data=arguments.json)


def _providers(config: Config, arguments: argparse.Namespace) -> list[Problem]:
    async def ask() -> list[Problem]:
        with status_on_stderr(
            lambda seconds: (
                f"asking the providers, {max(0.0, arguments.timeout - seconds):.0f} s at most"
            )
        ):
            return await config.failed_providers(None, arguments.timeout)

    return asyncio.run(ask())


def _refused(problems: tuple[Problem, ...], arguments: argparse.Namespace) -> int:
    if arguments.json:
        rows = [problem._asdict() for problem in problems]
        failed = show("check", json.dumps({"ok": False, "problems": rows}), is_data=True)
    else:
        lines = ["Configuration errors:", *(f"  - {problem}" for problem in problems)]
        text = fitted("\n".join(lines), columns(sys.stderr))
        print(text.encode("ascii", "backslashreplace").decode(), file=sys.stderr)
        failed = 0
    return failed or _WRONG


def _answer(config: Config, names: _AnyName, arguments: argparse.Namespace) -> str:
    lines = config.explain() if arguments.explain else []
    if arguments.json:
        settings = {line.path: {"value": line.value, "source": line.source} for line in lines}
        answer = {"ok": True, "warnings": list(config.warnings), "names": sorted(names.asked)}
        return json.dumps({**answer, "settings": settings} if arguments.explain else answer)
    text = [f"{arguments.file}: right"]
    if config.policies:
        text.append(f"policies: {', '.join(config.policies)}")
    if names.asked:
        text.append(f"to be given as names=: {', '.join(sorted(names.asked))}")
    text += [f"warning: {warning}" for warning in config.warnings]
    if lines:
        width = max(len(f"{line.path} = {json.dumps(line.value)}") for line in lines)
        width = min(width, 60)
        text += [
            f"{f'{line.path} = {json.dumps(line.value)}':<{width}}  {line.source}" for line in lines
        ]
    return "\n".join(text)
