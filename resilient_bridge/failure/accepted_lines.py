"""Whether a line that is advised would be accepted; where a value in it would not, an example instead.

Rule: an error never advises what is refused in turn. The line is read as Python, and the policy
values in it are made: they are pure and cheap. Nothing else is called (no client, store, transport
or server, and nothing of the user's), and a text of the user's is never run. What only the reader
can know, such as `fetch` or `AsyncOpenAI()`, is taken for right.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from inspect import Parameter, signature
from typing import Any, Final

from ..lazy_names import home_of, public
from .foreign_words import DURATIONS, example


_ROOMS: Final = tuple(
    f"{__name__.partition('.')[0]}.{room}." for room in ("values", "calls", "protocol", "presets")
)  # those of policy values
_HOMES: Final = frozenset({"values", "calls", "failure", "=bridge", "=presets", "=dialects"})
"""Of the names that are looked up: those that load no client and no server."""
_NO_NAMES: Final = frozenset({"nan", "inf"})  # how a float shows itself; no name of Python's
_MOST: Final = 8  # lines that are tried
_INDEX: Final = re.compile(r"\[.*", re.DOTALL)
_trying: ContextVar[bool] = ContextVar("trying", default=False)


def accepted_line(line: str, known: Mapping[str, object]) -> str:
    """Return a line with each refused value replaced by what its error advises, or an example.

    Empty if that does not help, if the line is no Python, or if it cannot be judged. `known` maps texts in the line to
    their values, as far as they cannot be read from the text: those that were received.
    """
    if _trying.get():
        return line  # of the error that the trial of another line has met, which nobody sees
    mark = _trying.set(True)
    try:
        refused: set[str] = set()
        while line and len(refused) < _MOST:
            refusal = _refusal(line, known)
            if refusal is None:
                return line
            refused.add(line)
            line = _mended(line, refusal, refused)
    except Exception:  # noqa: BLE001 -- the values are anything; advice takes the place of no error
        return ""
    else:
        return ""
    finally:
        _trying.reset(mark)


class _Refusal(Exception):  # noqa: N818 -- it is no error of the program
    """A call that is refused: which, by its name in errors, and the arguments that are meant."""

    def __init__(
        self, owner: str = "", field: str = "", nodes: tuple[ast.expr, ...] = (), instead: str = ""
    ) -> None:
        super().__init__(owner, field)
        self.owner, self.field, self.nodes = owner, field, nodes
        self.instead = instead  # what the error itself advises


def _refusal(line: str, known: Mapping[str, object]) -> _Refusal | None:
    try:
        tree = ast.parse(line.removeprefix("@"))
    except (SyntaxError, ValueError):
        return _Refusal()
    try:
        _Trial(known).value(tree)
    except _Refusal as refusal:
        return refusal
    names = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return None if _NO_NAMES.isdisjoint(names) else _Refusal()


def _mended(line: str, refusal: _Refusal, refused: set[str]) -> str:
    """Return the line with what its error advises, or an example, for what is refused in it."""
    if not refusal.nodes:
        return ""
    shift = len(line) - len(line.removeprefix("@"))
    text = line.encode()  # a node's columns are bytes
    start = refusal.nodes[0].col_offset + shift
    end = (refusal.nodes[-1].end_col_offset or 0) + shift
    for instead in (refusal.instead, example(refusal.owner, refusal.field)):
        mended = (text[:start] + instead.encode() + text[end:]).decode()
        if instead not in {"", "..."} and mended not in refused:
            return mended
    return ""


def _readers_own(*_: object, **__: object) -> None:
    """Stand for what only the reader knows."""


class _Trial:
    """The values of one line; the nodes that only the reader can evaluate are noted."""

    def __init__(self, known: Mapping[str, object]) -> None:
        self._known = known
        self._unknown: set[ast.AST] = set()

    def value(self, node: ast.AST) -> Any:
        """Return the value of a node. Raises _Refusal for a policy value that is refused."""
        if isinstance(node, ast.Constant) and node.value is not ...:
            return node.value
        if isinstance(node, ast.expr) and (text := ast.unparse(node)) in self._known:
            return self._known[text]
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.Lambda):
            return _readers_own
        if isinstance(node, ast.Attribute) and node.attr == "evolve":
            changed = self.value(node.value)
            return changed.evolve if _is_policy_value(changed.__class__) else _readers_own
        if isinstance(node, ast.Name | ast.Attribute) and (named := _named(node)) is not None:
            return named
        if isinstance(node, ast.UnaryOp | ast.Tuple | ast.List | ast.Set | ast.Dict):
            return self._literal(node)
        for each in ast.iter_child_nodes(node):
            self.value(each)
        self._unknown.add(node)
        return _readers_own

    def _literal(self, node: ast.UnaryOp | ast.Tuple | ast.List | ast.Set | ast.Dict) -> Any:
        if isinstance(node, ast.UnaryOp):
            number = self.value(node.operand)
            return -number if isinstance(node.op, ast.USub) else number
        nodes = [*node.keys, *node.values] if isinstance(node, ast.Dict) else node.elts
        values = [self.value(each) for each in nodes if each is not None]
        if self._unknown.intersection(nodes):
            self._unknown.add(node)
        if isinstance(node, ast.Tuple):
            return tuple(values)
        if isinstance(node, ast.List):
            return values
        try:
            if isinstance(node, ast.Set):
                return set(values)
            half = len(node.keys)
            return dict(zip(values[:half], values[half:], strict=True))
        except TypeError:  # a key that is not hashable
            raise _Refusal from None

    def _called(self, node: ast.Call) -> Any:
        positional = [self.value(each) for each in node.args]
        named = {each.arg: self.value(each.value) for each in node.keywords if each.arg}
        function = self.value(node.func)
        if isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id):
            raise _Refusal  # `int("bridge.db")`: it is not the reader's, and not called here
        owner = _owner(function)
        if not owner:
            self._try_durations(node, named)
            self._unknown.add(node)
            return _readers_own
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of two layers that do not go together
                return function(*positional, **named)
        except Exception as error:  # noqa: BLE001 -- there may be an object of the user's among the values
            refusal = _refusal_of(error, owner, function, node)
        doubtful = refusal.nodes or (*node.args, *(each.value for each in node.keywords))
        if self._unknown.intersection(doubtful):
            self._unknown.add(node)
            return _readers_own
        raise refusal

    def _try_durations(self, node: ast.Call, named: Mapping[str, object]) -> None:
        """Raise _Refusal for a duration that nothing of ours takes: they are taken alike everywhere."""
        where = ast.unparse(node.func)
        for keyword in node.keywords if where.startswith("rb.") else ():
            is_known = keyword.arg in DURATIONS and keyword.value not in self._unknown
            if keyword.arg is None or not is_known or named[keyword.arg] is None:
                continue
            try:
                public("Backoff").constant(named[keyword.arg])
            except Exception:  # noqa: BLE001 -- an object of the user's may be the value
                owner = where.rpartition(".")[2]
                raise _Refusal(owner, keyword.arg, (keyword.value,)) from None


def _named(node: ast.Name | ast.Attribute) -> Any:
    """Return what a name of Python's, or a public name, names; None for others."""
    first, *rest = ast.unparse(node).split(".")
    if not rest:
        return float(first) if first in _NO_NAMES else getattr(builtins, first, None)
    if first != "rb" or home_of(rest[0]) not in _HOMES:
        return None
    value = public(rest[0])
    for part in rest[1:]:
        value = getattr(value, part, None)
    return value


def _owner(function: Any) -> str:
    """Return the name, in errors, of what makes a policy value; empty for anything else."""
    bound: Any = getattr(function, "__self__", function)
    method = "" if bound is function else str(getattr(function, "__name__", ""))
    if method == "evolve" and not isinstance(bound, type):
        bound, method = bound.__class__, ""
    if not _is_policy_value(bound):
        return ""
    return f"{bound.__name__}.{method}" if method else bound.__name__


def _is_policy_value(kind: object) -> bool:
    is_ours = isinstance(kind, type) and kind.__module__.startswith(_ROOMS)
    return is_ours and hasattr(kind, "__attrs_attrs__") and hasattr(kind, "evolve")


def _refusal_of(
    error: Exception, owner: str, function: Callable[..., Any], node: ast.Call
) -> _Refusal:
    """Return which arguments an error of a policy value is about: none, if it does not say."""
    failure: Any = getattr(error, "failure", None)
    violations = failure.details.get("violations", ()) if failure is not None else ()
    if not violations:
        return _Refusal()
    field = _INDEX.sub("", violations[0]["field"]).rpartition(".")[2]
    instead = _argument(violations[0].get("write", ""), field)
    for keyword in node.keywords:
        if keyword.arg == field:
            return _Refusal(owner, field, (keyword.value,), instead)
    parameters = [*signature(function).parameters.values()]
    if parameters and parameters[0].kind is Parameter.VAR_POSITIONAL:
        return _Refusal(owner, parameters[0].name, tuple(node.args))
    names = [each.name for each in parameters]
    if field in names and names.index(field) < len(node.args):
        return _Refusal(owner, field, (node.args[names.index(field)],), instead)
    return _Refusal()


def _argument(line: str, field: str) -> str:
    """Return the text of an argument by name in a line that is a call; empty if it has none."""
    body = ast.parse(line).body
    call = body[0].value if body and isinstance(body[0], ast.Expr) else None
    named = call.keywords if isinstance(call, ast.Call) else ()
    return next((ast.unparse(each.value) for each in named if each.arg == field), "")
