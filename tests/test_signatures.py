"""What an editor shows for a public name reads plainly: every argument stands there, and each type name is explained.

Rule: read from the source alone, because a name that only type checkers see is none when a test runs.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from itertools import pairwise
from pathlib import Path

import resilient_bridge as rb
from tests.rows import each_row


ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "resilient_bridge"


def _named(name: str) -> object:
    value: object = rb
    for part in name.split("."):
        value = getattr(value, part)
    return value


_VALUES = {name: _named(name) for name in (ROOT / "tests/public_names.txt").read_text().split()}
NAMES = [
    name for name, value in _VALUES.items() if inspect.isclass(value) or inspect.isfunction(value)
]


@cache
def _parsed(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text())


def _file(module: str) -> Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _nodes(name: str) -> list[ast.AST]:
    value = _VALUES[name]
    return [
        node
        for node in ast.walk(_parsed(value.__module__))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == value.__name__
    ]


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    """What a hover over a function, a class or a public method shows as types of arguments."""
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            if part.name[0] == "_" and part.name not in {"__init__", "__call__"}:
                continue
            args = part.args
            for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
                if arg is not None and arg.annotation is not None:
                    yield arg.annotation
        elif isinstance(part, ast.AnnAssign) and not (
            isinstance(part.target, ast.Name) and part.target.id[0] == "_"
        ):
            yield part.annotation


def _words(annotation: ast.expr) -> set[str]:
    """The names in an annotation, those in its texts included."""
    found = set()
    for part in ast.walk(annotation):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif (
            isinstance(part, ast.Constant)
            and isinstance(part.value, str)
            and part.value.isidentifier()
        ):
            found.add(part.value)
    return found


def _explained(module: str, word: str) -> bool:
    """Whether a name is no alias, or one with a docstring below it, where it is defined."""
    top = _parsed(module).body
    for body in (top, *(node.body for node in top if isinstance(node, ast.If))):
        for node, following in pairwise([*body, None]):
            if isinstance(node, ast.ImportFrom) and word in {
                one.asname or one.name for one in node.names
            }:
                return not (node.level and node.module) or _explained(_home(module, node), word)
            if isinstance(node, ast.Assign | ast.AnnAssign) and word in _targets(node):
                is_text = isinstance(following, ast.Expr) and isinstance(
                    following.value, ast.Constant
                )
                return is_text or bool(re.search("TypeVar|ParamSpec", ast.unparse(node)))
    return True


def _targets(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _home(module: str, node: ast.ImportFrom) -> str:
    """The module that a relative import is from."""
    package = module if _file(module).name == "__init__.py" else module.rpartition(".")[0]
    return resolve_name("." * node.level + str(node.module), package)


# It says itself what it is.
_PLAIN = {"Seconds"}
# What these get is observed elsewhere: an unknown name is recorded, or refused in words.
_OBSERVED = {"agent.ConnectionStates", "agent.ConnectionTracker"}


@each_row("name", [name for name in NAMES if name not in _OBSERVED])
def test_every_argument_of_a_public_name_stands_in_its_signature(name):
    """No table of arguments hides behind `**options`."""
    shown = [ast.unparse(annotation) for node in _nodes(name) for annotation in _annotations(node)]
    assert [text for text in shown if "Unpack" in text] == []


@each_row("name", NAMES)
def test_every_type_name_in_a_public_signature_is_explained(name):
    """An alias has a docstring, which an editor shows where the name stands."""
    module = _VALUES[name].__module__
    words = {word for node in _nodes(name) for each in _annotations(node) for word in _words(each)}
    assert sorted(word for word in words - _PLAIN if not _explained(module, word)) == []
