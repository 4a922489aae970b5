"""Values as people write them: durations ("1h30m"), sizes ("8MiB"), and calls as in code.

Rule: a number without a unit is in seconds or bytes. A call (`steps(1, 2, then=exponential(10))`)
is parsed and never run: its arguments are numbers, durations (`30s`), quoted text, None, further
calls, and where allowed True and False; any other Python expression is refused.
"""

from __future__ import annotations

import ast
import re
import warnings
from datetime import timedelta
from fractions import Fraction
from typing import Final, NamedTuple


_UNITS: Final = {
    "d": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "min": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 1_000),
    "us": Fraction(1, 1_000_000),
}
_SIZES: Final = {
    "b": 1,
    "kb": 1_000,
    "mb": 1_000_000,
    "gb": 1_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
_NUMBER: Final = r"\d{1,15}(?:\.\d{1,15})?"
_PART: Final = re.compile(rf"\s*({_NUMBER})\s*(us|ms|min|[dhms])", re.IGNORECASE | re.ASCII)
_PLAIN: Final = re.compile(_NUMBER, re.ASCII)
_SIZE: Final = re.compile(rf"({_NUMBER})\s*([kmg]i?b|b)?", re.IGNORECASE | re.ASCII)
_LONGEST: Final = 100  # characters

DURATION: Final = 'a duration such as 30, "30s", "500ms", "5m" or "1h30m"'
SIZE: Final = 'bytes, such as 65536, "100KB" or "8MiB"'


def read_duration(text: str) -> float:
    """Return the seconds of a text with a unit, as code gives one; a number alone is refused."""
    if _PLAIN.fullmatch(text.strip()):
        raise ValueError(DURATION)
    return float(_duration(text))


def read_seconds(text: str) -> float:
    """Return the seconds of a text; a number without a unit is seconds.

    ValueError says what was wanted.
    """
    return float(_duration(text))


def read_span(text: str) -> timedelta:
    """Return the duration of a text as a timedelta, exact to the microsecond."""
    try:
        return timedelta(microseconds=round(_duration(text) * 1_000_000))
    except OverflowError:
        raise ValueError(DURATION) from None


def write_span(span: timedelta) -> str:
    """Return the text that `read_span` reads back as an equal timedelta."""
    parts = ((span.days, "d"), (span.seconds, "s"), (span.microseconds, "us"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def _duration(text: str) -> Fraction:
    text = text.strip()
    if len(text) > _LONGEST:
        raise ValueError(DURATION)
    if _PLAIN.fullmatch(text):
        return Fraction(text)
    total, end, before = Fraction(0), 0, None
    while end < len(text):
        part = _PART.match(text, end)
        unit = None if part is None else _UNITS[part[2].lower()]
        if part is None or unit is None or (before is not None and unit >= before):
            # units must decrease, so "1m30m" is an error
            raise ValueError(DURATION)
        total += Fraction(part[1]) * unit
        end, before = part.end(), unit
    if before is None:
        raise ValueError(DURATION)
    return total


def read_bytes(text: str) -> int:
    """Return the whole bytes of a text: KB is 1,000, KiB 1,024. ValueError says what was wanted."""
    text = text.strip()
    found = None if len(text) > _LONGEST else _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(SIZE)
    size = Fraction(found[1]) * _SIZES[(found[2] or "b").lower()]
    if size.denominator != 1:
        raise ValueError(SIZE)
    return int(size)


# ---- calls as in code --------------------------------------------------------------------------------------------------


_LONGEST_CALL: Final = 2_000  # characters
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
    if len(text) > _LONGEST_CALL:
        raise ValueError(f"at most {_LONGEST_CALL} characters expected, got {len(text)}")
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
            # accepted, so that the receiver's error says what is wrong with -1
            sign, node = -1, node.operand
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
