"""Dialects as settings write them: the name of a ready one, a family with its arguments as in code,
or a table of names.

Rule: a dialect's functions come from `rb.dialects` or from the caller's names; no text is
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, TypeGuard, cast

from .. import dialects
from ..config.spelled_calls import read_call
from ..failure import ConfigError
from ..protocol.policies.dialect import Dialect
from .fields import make
from .reading import Reading, violation_of
from .walk import arrange


_PREFIXES: Final = ("", "rb.dialects.", "dialects.")


def ready() -> dict[str, Dialect]:
    """Return the dialects that need no arguments, by name."""
    return {name: value for name, value in _all().items() if isinstance(value, Dialect)}


def families() -> dict[str, Callable[..., Dialect]]:
    """Return the functions that make a dialect, by name."""
    return {name: value for name, value in _all().items() if makes_dialects(value)}


def _all() -> dict[str, Any]:
    return {name: getattr(dialects, name) for name in dir(dialects) if name.islower()}


def makes_dialects(found: object) -> TypeGuard[FunctionType]:
    """Return whether this is a function that makes a dialect."""
    return isinstance(found, FunctionType) and found.__annotations__.get("return") in {
        "Dialect",
        Dialect,
    }


def read_dialect(data: Any, path: str, reading: Reading, base: Any = None) -> Any:
    """Return the dialect of a name, a call as in code, or a table; BAD after a problem."""
    if isinstance(data, Mapping):
        table = dict(cast("Mapping[str, Any]", data))
        return make(Dialect, arrange(Dialect, table, path, reading), path, reading, base=base)
    if not isinstance(data, str):
        return reading.fail(path, "the name of a dialect, or a table of names", data)
    if data in reading.names and isinstance(reading.names[data], Dialect):
        return reading.names[data]
    known = ready()
    if data in known:
        return known[data]
    if "(" not in data:
        return reading.not_one_of(sorted({*known, *families()}), path, data)
    return _of_call(data, path, reading)


def _of_call(text: str, path: str, reading: Reading) -> Any:
    made = families()
    try:
        call = read_call(text, "dialect", tuple(sorted(made)), prefixes=_PREFIXES, has_bools=True)
        return made[call.name](*call.arguments, **call.named)
    except ConfigError as error:
        problem = violation_of(error)
        return reading.fail(path, f"{problem['field']} to be {problem['constraint']}", text)
    except (ValueError, TypeError, AttributeError) as error:
        # Python names the argument that is missing or unknown.
        return reading.fail(path, f"a dialect as in code ({error})", text)
