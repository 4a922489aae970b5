"""Calls as in code, parsed from text and never run: `steps(1, 2, then=exponential(10, cap=60))`.

Rule: arguments are numbers, durations (`30s`, in seconds), quoted text, None, further calls, and
where allowed True and False. Any other Python expression is refused.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Final, NamedTuple

from .quantities import DURATION, read_seconds


_LONGEST: Final = 2_000  # characters
_SHOWN: Final = 60
# A quoted text, which is left unchanged, or a number with a unit, which Python has not.
_DURATIONS: Final = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(?<![\w.])(?P<duration>\d[\d.]*(?:us|ms|min|[dhms])[\w.]*)""",
    re.IGNORECASE | re.ASCII,
)


class Call(NamedTuple):
    """A call: its name, its positional and its named arguments."""

    name: str
    arguments: tuple[object, ...]
    named: dict[str, object]


def read_call(
    text: str,
    what: str,
    names: tuple[str, ...],
    *,
    prefixes: tuple[str, ...] = ("",),
    has_bools: bool = False,
) -> Call:
    """Return the call that a text describes.

    `what` is the kind of result, for the ValueError, and `names` are the allowed functions.
    `has_bools` allows True and False as arguments.
    """
    text = text.strip()
    if len(text) > _LONGEST:
        raise ValueError(f"at most {_LONGEST} characters expected, got {len(text)}")
    text, written = _DURATIONS.sub(_in_seconds, text), text
    reader = _Reader(what, names, prefixes, has_bools)
    try:
        with warnings.catch_warnings(action="ignore"):
            body = ast.parse(text, mode="eval").body
        return reader.call(body)
    except SyntaxError as error:
        raise ValueError(
            f"a {what} as in code expected, got {shorten(written)}: {error.msg}"
        ) from None
    except (RecursionError, MemoryError):
        raise ValueError(f"a {what} as in code expected, got too deep a nesting") from None


def _in_seconds(found: re.Match[str]) -> str:
    duration = found["duration"]
    if duration is None:
        return found[0]
    try:
        return repr(read_seconds(duration))
    except ValueError:
        raise ValueError(f"{DURATION} expected, got {shorten(duration)}") from None


class _Reader(NamedTuple):
    what: str
    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    has_bools: bool

    def call(self, node: ast.expr) -> Call:
        written = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        spelled = (
            name for name in self.names for prefix in self.prefixes if written == prefix + name
        )
        name = next(spelled, None)
        if name is None or not isinstance(node, ast.Call):
            wanted = ", ".join(f"{each}(...)" for each in self.names)
            raise ValueError(
                f"a call of {wanted} expected, got {shorten(ast.unparse(node))}{self._near(written)}"
            )
        arguments = tuple(self._argument(argument) for argument in node.args)
        named: dict[str, object] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                got = shorten("**" + ast.unparse(keyword.value))
                raise ValueError(f"arguments by name expected, got {got}")
            if keyword.arg in named:
                raise ValueError(f"{keyword.arg}= once expected, got it repeated")
            named[keyword.arg] = self._argument(keyword.value)
        return Call(name, arguments, named)

    def _near(self, written: str) -> str:
        from difflib import get_close_matches  # imported here: only an error needs it

        found = get_close_matches(written.rpartition(".")[2].lower(), self.names, 1)
        return f", did you mean {found[0]}?" if found else ""

    def _argument(self, node: ast.expr) -> object:
        if isinstance(node, ast.Call):
            return self.call(node)
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = (
                -1,
                node.operand,
            )  # accepted, so that the receiver's error says what is wrong with -1
        value: object = node.value if isinstance(node, ast.Constant) else ...
        if isinstance(value, int | float) and not isinstance(value, bool):
            return sign * value
        if sign > 0 and (
            value is None or isinstance(value, str) or (self.has_bools and isinstance(value, bool))
        ):
            return value
        bools = "True, False, " if self.has_bools else ""
        wanted = f"a number, {bools}a word in quotes or a {self.what} expected"
        raise ValueError(f"{wanted}, got {shorten(ast.unparse(node))}")


def shorten(text: str) -> str:
    """Return a text in quotes, cut to 60 characters for an error."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
