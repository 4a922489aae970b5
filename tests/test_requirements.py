"""The promises against the tests that prove them. Rule: tests are read, not run, so that it holds for a partial run too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .requirements import REQUIREMENTS, SOURCES, page


ROOT = Path(__file__).parents[1]
ROWS = {row.id: row for row in REQUIREMENTS}


ELSEWHERE = re.compile(r"mark\.(simulation|sample|crash|campaign|server)\b")


def _claims(path: Path) -> Iterator[str]:
    """Of the tests that the README's command runs, the ids in every `pytest.mark.requirement("R3")` of a file: decorator, parameter or `pytestmark`."""
    text = path.read_text()
    if "mark.requirement" not in text:
        return
    for node in _walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(attr="requirement")) if _is_the_mark(node.func):
                for argument in node.args:
                    assert isinstance(argument, ast.Constant), (
                        f"{path}:{node.lineno}: the id must be spelled out"
                    )
                    yield argument.value


def _walk(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but those of tests behind a marker: of the module, of the class or of their own."""
    bodies = [tree.body]
    for body in bodies:
        if any(
            "pytestmark" in ast.unparse(node) and ELSEWHERE.search(ast.unparse(node))
            for node in body
            if isinstance(node, ast.Assign)
        ):
            continue
        for node in body:
            if any(ELSEWHERE.search(ast.unparse(mark)) for mark in getattr(node, "decorator_list", ())):
                continue
            if isinstance(node, ast.ClassDef):
                bodies.append(node.body)
                for mark in node.decorator_list:
                    yield from ast.walk(mark)
            else:
                yield from ast.walk(node)


def _is_the_mark(called: ast.expr) -> bool:
    return ast.unparse(called) == "pytest.mark.requirement"


@pytest.fixture(scope="module")
def claimed() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for row in _claims(path):
            found.setdefault(row, []).append(str(path.relative_to(ROOT)))
    return found


def test_every_row_of_the_five_specifications_is_listed():
    """R1 to R19, C1 to C10, S1 to S11, G1 to G10, V1 to V16, and X1 to X13 beyond them, are there, once, in order."""
    sizes = {"R": 19, "C": 10, "S": 11, "G": 10, "V": 16, "X": 13}
    assert list(ROWS) == [f"{letter}{n}" for letter, size in sizes.items() for n in range(1, size + 1)]
    assert len(REQUIREMENTS) == len(ROWS)
    assert sizes.keys() == SOURCES.keys()


def test_no_proven_promise_is_without_a_test(claimed):
    """A row that says "proven" has at least one test that carries its mark, and that the README's command runs."""
    assert not [row.id for row in REQUIREMENTS if row.status == "proven" and row.id not in claimed]


def test_no_test_names_an_unknown_promise(claimed):
    """A mark's id is a row."""
    assert not {row: where for row, where in claimed.items() if row not in ROWS}


def test_the_page_of_promises_is_what_the_rows_print():
    """docs/reference/promises.md is generated; `python -m tests.requirements > docs/reference/promises.md` renews it."""
    assert (ROOT / "docs/reference/promises.md").read_text() == page()
