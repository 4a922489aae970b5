"""Parsers of option values; each error says what was expected.

Rule: this module imports nothing that is slow to import.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from .terminal import columns, fitted


FAULTS: Final[Mapping[str, str]] = {
    "cut": "connection cut, 0.8 s",
    "half-open": "connection silent",
    "reset": "cut inside a message",
    "fin": "ended, no close frame",
    "restart": "bridge restarted",
    "restart-lost": "bridge lost sessions",
    "expire": "session expired",
    "truncate": "replay log too short",
    "broken-buffer": "replay buffer broken",
}
"""The faults of the demo by name, and what its table calls each (21 columns)."""
KILLS: Final[Mapping[str, str]] = {
    "busy": "killed while sending",
    "offline": "killed while offline",
    "unheard": "killed on silent line",
}
"""When `demo --crash` kills the client, and what its table calls that."""
SHELLS: Final = ("bash", "zsh", "fish")
PRESETS: Final = ("default", "recursor", "ccsetup", "stdiobus", "gasoline", "openviber")
_LONGEST: Final = 86_400.0
_MOST: Final = 1_000
_DIGITS: Final = 20


_INDENT: Final = "  "
_WORD: Final = re.compile(r'(?:"[^"]*"|\S)+')


class Narrow(argparse.HelpFormatter):
    """A help formatter that wraps the usage to the width, and keeps examples.

    argparse itself does not wrap a group of options, or a long command. In a description or an
    epilog an indented line is a command that can be pasted: it is broken by a backslash only.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        prose: list[str] = []
        for line in [*text.splitlines(), ""]:
            if line and not line.startswith(_INDENT):
                prose.append(line)
                continue
            if prose:
                lines += super()._fill_text(" ".join(prose), width, indent).splitlines()
                prose = []
            lines += _command_lines(line, width)
        return "\n".join(lines[:-1])

    def _format_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any) -> str:
        text = super()._format_usage(usage, actions, groups, prefix)
        if max(map(len, text.splitlines()), default=0) <= self._width:
            return text
        words = " ".join(text.split())
        lines = textwrap.wrap(
            words,
            self._width,
            subsequent_indent=" " * 7,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return "\n".join(lines) + "\n\n"


def _command_lines(command: str, width: int) -> list[str]:
    """Return a shell command in lines of the width, all but the last with a backslash at the end."""
    lines = [_INDENT]
    for word in _WORD.findall(command):
        if lines[-1].strip() and len(lines[-1]) + len(word) + 2 > width:
            lines[-1] += "\\"
            lines.append(_INDENT * 2)
        lines[-1] += f"{word} "
    return [line.rstrip() for line in lines]


SECONDS, FETCHING = 20.0, 60.0
"""How long `doctor` may take, and of an MCP server whose start may fetch a package: 53 s were seen."""
_URL: Final = re.compile(r"[A-Za-z][\w+.-]*://")
_HOST_AND_PORT: Final = re.compile(r"[\w.\-\[\]:]+:\d+(/|$)")


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors fit the terminal, as do those of its subcommands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Narrow, **options)
        self.commands: dict[str, Parser] = {}  # its subcommands, by name

    def error(self, message: str) -> NoReturn:
        """Print the usage and the problem on stderr, and exit with code 2."""
        self.print_usage(sys.stderr)
        self.exit(2, fitted(f"{self.prog}: error: {message}", columns(sys.stderr)) + "\n")

    def split_command(self, words: list[str]) -> tuple[list[str], list[str] | None]:
        """Split words into our options and another program's command; None if there is no command.

        The command begins after `--`, or with the first word that is neither an option, nor its
        value, nor an address. The words end with the name of an unknown option, or with HOST:PORT
        without a scheme: it is then refused, without what follows, as that may be a secret.
        """
        has_address = False
        index = 0
        while index < len(words):
            word = words[index]
            name, equals, _ = word.partition("=")
            if word == "--":
                return words[:index], words[index + 1 :]
            if word.startswith("-"):
                option = self._option_of(name)
                if option is None:
                    return [*words[:index], name], None
                values = 1 if option.nargs is None else option.nargs
                if isinstance(values, int) and not equals:
                    index += values
            elif _HOST_AND_PORT.match(word):
                return words[: index + 1], None
            elif _URL.match(word):
                has_address = True
            elif not has_address:
                return words[:index], words[index:]
            index += 1
        return words, None

    def _option_of(self, name: str) -> argparse.Action | None:
        """Return the option with this name, or with the only name that begins so."""
        every = self._option_string_actions
        if name in every or not name.startswith("--"):
            return every.get(name)
        found = [option for option in every if option.startswith(name)]
        return every[found[0]] if len(found) == 1 else None


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a number above 0 expected, got {text!r}")
    return value


def seconds(text: str) -> float:
    """Return a duration in seconds, above 0 and at most a day."""
    value = positive(text)
    if value > _LONGEST:
        raise argparse.ArgumentTypeError(f"at most {_LONGEST:g} seconds expected, got {text!r}")
    return value


def whole(least: int, most: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` to `most`."""

    def read(text: str) -> int:
        word = text.strip()
        value = int(word) if word.removeprefix("-").isdecimal() and len(word) <= _DIGITS else None
        if value is None or not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"a whole number from {least} to {most} expected, got {text[:40]!r}"
            )
        return value

    return read


def picture_path(text: str) -> str:
    """Return the path unchanged; its suffix must be .svg or .txt."""
    if not text.lower().endswith((".svg", ".txt")):
        raise argparse.ArgumentTypeError(f"a file that ends in .svg or .txt expected, got {text!r}")
    return text


def fault_plan(text: str) -> int | tuple[str, ...]:
    """Return the number of faults, or their names in order."""
    if text.strip().isdecimal():
        count = int(text)
        if count > _MOST:
            raise argparse.ArgumentTypeError(f"at most {_MOST} faults expected, got {text!r}")
        return count
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in FAULTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"a number, or names out of {', '.join(FAULTS)} expected, got {text!r}"
        )
    return names


def preset_name(text: str) -> str:
    if text not in PRESETS:
        raise argparse.ArgumentTypeError(f"one of {', '.join(PRESETS)} expected, got {text!r}")
    return text


def moment(text: str) -> float:
    """Return a time in ISO 8601, UTC if it has no zone, as seconds since 1970."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"a time such as 2026-02-16T10:30:00Z expected, got {text[:40]!r}"
        ) from None


def token_from(name: str | None) -> str | None:
    """Return the token in the environment variable `name`; None without a name.

    Raises LookupError if the variable is not set, or empty.
    """
    if name is None:
        return None
    token = os.environ.get(name, "")
    if not token:
        raise LookupError(f"--token-env: the environment variable {name} is not set")
    return token
