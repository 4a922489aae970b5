"""Calls as in code, parsed from text and never run: `steps(1, 2, then=exponential(10, cap=60))`.

Rule: names, numbers, quoted text, None, nested calls, and True and False where allowed. Any other
Python syntax is refused.
"""

from __future__ import annotations

import ast
import warnings
from typing import Final, NamedTuple


_LONGEST: Final = 2_000  # characters
_SHOWN: Final = 60


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
    reader = _Reader(what, names, prefixes, has_bools)
    try:
        with warnings.catch_warnings(action="ignore"):
            body = ast.parse(text, mode="eval").body
        return reader.call(body)
    except SyntaxError as error:
        raise ValueError(f"a {what} as in code expected, got {shorten(text)}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise ValueError(f"a {what} as in code expected, got too deep a nesting") from None


class _Reader(NamedTuple):
    what: str
    names: tuple[str, ...]
    prefixes: tuple[str, ...]
    has_bools: bool

    def call(self, node: ast.expr) -> Call:
        name = self._name(node)
        if name is None or not isinstance(node, ast.Call):
            wanted = ", ".join(f"{each}(...)" for each in self.names)
            raise ValueError(f"a call of {wanted} expected, got {shorten(ast.unparse(node))}")
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

    def _name(self, node: ast.expr) -> str | None:
        written = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        return next(
            (name for name in self.names for prefix in self.prefixes if written == prefix + name), None
        )

    def _argument(self, node: ast.expr) -> object:
        if isinstance(node, ast.Call):
            return self.call(node)
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -1, node.operand  # so that the receiver says what is wrong with -1
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
    """Return a text in quotes, cut where it is too long to be shown."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
