"""A schedule as somebody types it: a Backoff written as in code, or the name of a specification.

Rule: the text is read and never run: calls of the five constructors, with numbers, words and one another as arguments.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Final

from .. import presets
from ..calls.retry.value import Retry
from ..errors import ConfigError
from ..presets import BridgePolicy
from ..values.backoff import Backoff


_SHAPES: Final = ("constant", "linear", "exponential", "decorrelated", "steps")
_PREFIXES: Final = ("", "Backoff.", "rb.Backoff.", "resilient_bridge.Backoff.")
_LONGEST: Final = 2_000  # characters
_SHOWN: Final = 60


def read_schedule(text: str) -> tuple[Backoff, Mapping[str, Backoff]]:
    """The schedule, and what a preset does instead after some failures. Raises ValueError with what was wanted."""
    name = text.strip()
    preset: object = getattr(presets, name, None) if name in presets.__all__ else None
    if isinstance(preset, BridgePolicy):
        return _of_preset(preset)
    if name.isidentifier() and name not in _SHAPES:
        known = sorted({*presets.__all__} - {"BridgePolicy"})
        raise ValueError(f"a Backoff, or one of {', '.join(known)} expected, got {name!r}")
    return schedule_of(name), {}


def _of_preset(preset: BridgePolicy) -> tuple[Backoff, Mapping[str, Backoff]]:
    """The waits after a loss of the link; those between calls, where the specification knows of no link."""
    backoff: object = preset.reconnect.backoff
    rules = preset.reconnect.rules
    if preset.reconnect == presets.default.reconnect:
        retry = next(layer for layer in preset.calls.layers if isinstance(layer, Retry))
        backoff, rules = retry.backoff, retry.rules
    own = {str(what): rule.backoff for what, rule in rules.items()}
    others = {what: found for what, found in own.items() if isinstance(found, Backoff)}
    return backoff if isinstance(backoff, Backoff) else preset.reconnect.backoff, others


def schedule_of(text: str) -> Backoff:
    """The Backoff that a text spells. Raises ValueError with what was wanted."""
    text = text.strip()
    if len(text) > _LONGEST:
        raise ValueError(f"at most {_LONGEST} characters expected, got {len(text)}")
    try:
        with warnings.catch_warnings(action="ignore"):
            body = ast.parse(text, mode="eval").body
        return _call(body)
    except SyntaxError as error:
        raise ValueError(f"a Backoff as in code expected, got {_short(text)}: {error.msg}") from None
    except ConfigError as error:
        raise ValueError(error.failure.message) from None
    except (RecursionError, MemoryError):
        raise ValueError("a Backoff as in code expected, got too deep a nesting") from None


def _call(node: ast.expr) -> Backoff:
    shape = _shape(node)
    if shape is None or not isinstance(node, ast.Call):
        wanted = ", ".join(f"{name}(...)" for name in _SHAPES)
        raise ValueError(f"a call of {wanted} expected, got {_short(ast.unparse(node))}")
    arguments = [_argument(argument) for argument in node.args]
    named: dict[str, object] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ValueError(f"arguments by name expected, got {_short('**' + ast.unparse(keyword.value))}")
        if keyword.arg in named:
            raise ValueError(f"{keyword.arg}= once expected, got it repeated")
        named[keyword.arg] = _argument(keyword.value)
    try:
        made: Backoff = getattr(Backoff, shape)(*arguments, **named)
    except TypeError as error:  # Python names the argument that is missing or unknown
        raise ValueError(str(error)) from None
    return made


def _shape(node: ast.expr) -> str | None:
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return next((shape for shape in _SHAPES for prefix in _PREFIXES if name == prefix + shape), None)


def _argument(node: ast.expr) -> object:
    if isinstance(node, ast.Call):
        return _call(node)
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(
        node.op, ast.USub
    ):  # so that the Backoff says what is wrong with -1
        sign, node = -1, node.operand
    value: object = node.value if isinstance(node, ast.Constant) else ...
    if isinstance(value, int | float) and not isinstance(value, bool):
        return sign * value
    if sign > 0 and (value is None or isinstance(value, str)):
        return value
    raise ValueError(f"a number, a word in quotes or a Backoff expected, got {_short(ast.unparse(node))}")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")
