"""The promises against the tests that prove them. Rule: tests are read, not run, so that it holds for a partial run too."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .requirements import REQUIREMENTS, SOURCES, page


ROOT = Path(__file__).parents[1]
ROWS = {row.id: row for row in REQUIREMENTS}

ADDED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
BEHIND_A_MARKER = re.compile(
    rf"mark\.({'|'.join(ADDED[-1].split()[1::3])})\b"
)  # "not crash and not campaign ..."


def _claims(path: Path) -> Iterator[tuple[str, bool]]:
    """The ids in every `pytest.mark.requirement("R3")` of a file: decorator, parameter or `pytestmark`; and whether the README's command runs it."""
    text = path.read_text()
    if "mark.requirement" not in text:
        return
    for node, is_run in _nodes(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(attr="requirement")) if _is_the_mark(node.func):
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), (
                        f"{path}:{node.lineno}: the id must be spelled out"
                    )
                    yield argument.value, is_run


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes outside the bodies of functions, each with whether it is in no test behind a marker."""
    nodes: list[tuple[ast.AST, bool]] = [(tree, True)]
    for node, was_run in nodes:
        is_run = was_run and not any(BEHIND_A_MARKER.search(ast.unparse(mark)) for mark in _marks(node))
        yield node, is_run
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        children = node.decorator_list if is_function else ast.iter_child_nodes(node)
        nodes += [(child, is_run) for child in children]


def _marks(node: ast.AST) -> list[ast.expr]:
    """The decorators of a test or a class, and the `pytestmark` of a module or a class."""
    marks: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        marks += node.decorator_list
    if isinstance(node, ast.Module | ast.ClassDef):
        assigned = [line for line in node.body if isinstance(line, ast.Assign)]
        marks += [line.value for line in assigned if ast.unparse(line.targets[0]) == "pytestmark"]
    return marks


def _is_the_mark(called: ast.expr) -> bool:
    return ast.unparse(called) == "pytest.mark.requirement"


@pytest.fixture(scope="module")
def claimed() -> dict[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row, is_run in _claims(path):
            found.setdefault(row, []).append((str(path.relative_to(ROOT)), is_run))
    return found


def test_every_row_of_the_five_specifications_is_listed():
    """R1 to R19, C1 to C10, S1 to S11, G1 to G10, V1 to V16, and X1 to X13 beyond them, are there, once, in order."""
    sizes = {"R": 19, "C": 10, "S": 11, "G": 10, "V": 16, "X": 13}
    assert list(ROWS) == [f"{letter}{n}" for letter, size in sizes.items() for n in range(1, size + 1)]
    assert len(REQUIREMENTS) == len(ROWS)
    assert sizes.keys() == SOURCES.keys()


def test_no_proven_promise_is_without_a_test(claimed):
    """A row that says "proven" has at least one test that carries its mark, and that the README's command runs."""
    run = {row for row, where in claimed.items() if any(is_run for _, is_run in where)}
    assert not [row.id for row in REQUIREMENTS if row.status == "proven" and row.id not in run]


def test_no_test_names_an_unknown_promise(claimed):
    """A mark's id is a row."""
    assert not {row: where for row, where in claimed.items() if row not in ROWS}


def test_the_page_of_promises_is_what_the_rows_print():
    """docs/reference/promises.md is generated; `python -m tests.requirements > docs/reference/promises.md` renews it."""
    assert (ROOT / "docs/reference/promises.md").read_text() == page()
