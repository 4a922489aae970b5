"""Dialects as typed on the command line: `plain`, `sequence(field='seq', ask='last_seq')`.

Also the forms of message that a user can send in a dialect. Rule: the text is parsed and never run.
It is a name in `rb.dialects`, or a call of one with literals as arguments; or `MODULE:NAME`, the
user's own dialect in the user's own module, which is imported.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from .. import dialects
from ..failure import ConfigError
from ..protocol.facts import Send
from ..protocol.policies import Dialect
from ..settings.spellings import families, makes_dialects, ready
from .modules import CannotLoadError, load, split
from .printing import for_a_shell


_LONGEST: Final = 4_000  # characters
_SHOWN: Final = 80
_WHERE: Final = "rb.dialects."
FAMILIES: Final = {"sequence": "number", "last_event_id": "id", "since": "time"}
"""The dialects of home-made bridges that the embedded bridge serves; what a position is in each."""
LIVE: Final = ("plain", "jsonrpc")
"""Dialects without greeting, position and replay: the embedded bridge passes frames unchanged."""


class Spelled(NamedTuple):
    """A dialect, and the Python expression that a program uses for it."""

    dialect: Dialect
    code: str


def read_dialect(text: str) -> Spelled:
    """Return the dialect that a text names.

    Raises ValueError that says what was expected and which dialects exist.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST:
        got = f"{len(text)} characters" if text else "nothing"
        raise ValueError(
            f"the name of a dialect, or a call of one, expected, got {got}; {_listed()}"
        )
    if _is_own(text):
        return _imported(text)
    try:
        with warnings.catch_warnings(action="ignore"):
            node = ast.parse(text, mode="eval").body
        return _spelled(node)
    except SyntaxError as error:
        raise ValueError(
            f"a dialect as in code expected, got {_short(text)}: {error.msg}; {_listed()}"
        ) from None
    except (RecursionError, MemoryError):
        raise ValueError("a dialect as in code expected, got too deep a nesting") from None


def _is_own(text: str) -> bool:
    return bool(split(text)[1]) and not any(sign in text for sign in "()'\"")


def _imported(text: str) -> Spelled:
    where, name = split(text)
    try:
        found: object = getattr(load(where), name, None)
    except CannotLoadError as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, Dialect):
        raise ValueError(  # noqa: TRY004 -- as for every text that names no dialect
            f"a Dialect expected, got {_short(text)}, which is {_kind(found)}"
        )
    module = Path(where).stem if where.endswith(".py") else where
    return Spelled(found, f"{module}.{name}")


def _kind(found: object) -> str:
    return "not in it" if found is None else f"of type {type(found).__name__}"


def _spelled(node: ast.expr) -> Spelled:
    call = node if isinstance(node, ast.Call) else None
    named = node if call is None else call.func
    if not isinstance(named, ast.Name):
        raise _no_name(named)
    name = named.id  # only this one is loaded: loading all takes longer
    found: object = getattr(dialects, name, None) if name in dir(dialects) else None
    if isinstance(found, Dialect):
        if call is not None:
            raise ValueError(
                f"{name} expected, which takes no arguments, got {_short(ast.unparse(node))}"
            )
        return Spelled(found, f"{_WHERE}{name}")
    if not makes_dialects(found):
        raise _no_name(named)
    if call is None:
        raise ValueError(f"{_signature(name, found)} expected, got {name!r} without its arguments")
    return Spelled(_made(name, found, call), f"{_WHERE}{ast.unparse(node)}")


def read_served(text: str) -> tuple[str, dict[str, Any]]:
    """Return the name of a text's dialect and its keyword arguments, for the embedded bridge.

    Raises ValueError for an invalid text, and for a dialect that it does not serve.
    """
    if _is_own(text.strip()):
        raise ValueError(
            f"{_served()} expected, got {_short(text)}, whose server has to be a real one"
        )
    read_dialect(text)
    node = ast.parse(text.strip(), mode="eval").body
    call = node if isinstance(node, ast.Call) else None
    name = ast.unparse(node if call is None else call.func)
    if name not in (*LIVE, *FAMILIES, "recursor"):
        raise ValueError(
            f"{_served()} expected, got {_short(text)}, whose server has to be a real one"
        )
    return name, {} if call is None else {
        str(each.arg): _literal(each.value) for each in call.keywords
    }


def _served() -> str:
    return f"one of {', '.join([*LIVE, 'recursor', *(f'{family}(…)' for family in FAMILIES)])}"


def _made(name: str, make: Callable[..., Any], call: ast.Call) -> Dialect:
    arguments = [_literal(argument) for argument in call.args]
    keywords: dict[str, Any] = {}
    for keyword in call.keywords:
        if keyword.arg is None:
            raise ValueError(
                f"arguments by name expected, got {_short('**' + ast.unparse(keyword.value))}"
            )
        if keyword.arg in keywords:
            raise ValueError(f"{keyword.arg}= once expected, got it repeated")
        keywords[keyword.arg] = _literal(keyword.value)
    try:
        return cast("Dialect", inspect.unwrap(make)(*arguments, **keywords))
    except ConfigError as error:
        raise ValueError(for_a_shell(error)) from None
    # Python's message names the argument that is missing or unknown
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{_signature(name, make)} expected: {error}") from None


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        wanted = (
            "a literal (a text in quotes, a number, True, False, None, a list or a dict of these)"
        )
        raise ValueError(f"{wanted} expected, got {_short(ast.unparse(node))}") from None


def laid_out(code: str, width: int) -> str:
    """Return the code of a dialect, with one argument per line if it is wider than `width`."""
    node = ast.parse(code, mode="eval").body
    if len(code) <= width or not isinstance(node, ast.Call):
        return code
    arguments = [ast.unparse(each) for each in node.args]
    arguments += [f"{each.arg}={ast.unparse(each.value)}" for each in node.keywords]
    return "\n".join(
        [f"{ast.unparse(node.func)}(", *(f"    {argument}," for argument in arguments), ")"]
    )


# ---- the dialects that exist ----------------------------------------------------------------------------------------


def _signature(name: str, make: Callable[..., Any]) -> str:
    """Return the call with its required arguments, such as `sequence(field=…, ask=…)`."""
    needed: list[str] = []
    for parameter in inspect.signature(make).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            needed.append("…")
        elif parameter.default is parameter.empty:
            needed.append(f"{parameter.name}=…")
    return f"{name}({', '.join(needed)})"


def _known() -> Mapping[str, str]:
    """Return how each dialect is written, by its name."""
    found = {name: name for name in ready()}
    found |= {name: _signature(name, make) for name, make in families().items()}
    return dict(sorted(found.items()))


def _listed() -> str:
    return f"there are {', '.join(_known().values())}"


def _no_name(node: ast.expr) -> ValueError:
    text = ast.unparse(node)
    near = difflib.get_close_matches(text.rpartition(".")[2].lower(), _known(), n=1)
    meant = f"; did you mean {_known()[near[0]]}?" if near else ""
    return ValueError(f"the name of a dialect expected, got {_short(text)}{meant}; {_listed()}")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


# ---- what can be sent ------------------------------------------------------------------------------------------------


class Forms(NamedTuple):
    """The forms that a user's message may have.

    `types`: a type and a payload; `frames`: any JSON object, which is sent as it is.
    """

    types: bool = True
    frames: bool = False


def forms_of(dialect: Dialect) -> Forms:
    """Return the forms that this dialect can send, found by calling its `encode`."""
    if dialect.encode is None:
        return Forms()
    own = {"x": 1}
    return Forms(
        types=_frame(dialect, "a", {}) != _frame(dialect, "b", {}),
        frames=_read(_frame(dialect, "", own)) == own,
    )


def _frame(dialect: Dialect, type_: str, payload: Mapping[str, Any]) -> str | bytes | None:
    sent = Send(
        type=type_, payload=payload, id="i", key="k", timestamp="2026-01-01T00:00:00Z", number=1
    )
    try:
        return None if dialect.encode is None else dialect.encode(sent)
    except (TypeError, ValueError, LookupError):  # this dialect cannot encode such a message
        return None


def _read(frame: str | bytes | None) -> Any:
    try:
        return None if frame is None else json.loads(frame)
    except ValueError:
        return None


def can_confirm(dialect: Dialect) -> bool:
    """Return whether this dialect can ever confirm that a send has arrived."""
    if dialect.encode is None:
        return (dialect.ping, dialect.ack) != (None, None)
    return dialect.confirms or dialect.pings == "in_order"
