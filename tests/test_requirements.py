"""The promises against the tests that prove them. Rule: tests are read, not run, so that it holds for a partial run too."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .requirements import QUOTATIONS, REQUIREMENTS, SOURCES


ROOT = Path(__file__).parents[1]
ROWS = {row.id: row for row in REQUIREMENTS}

ADDED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"][
    "addopts"
]
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
        is_run = was_run and not any(
            BEHIND_A_MARKER.search(ast.unparse(mark)) for mark in _marks(node)
        )
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
    """R1 to R19, C1 to C10, S1 to S11, G1 to G10, V1 to V16, and X1 to X20 beyond them, are there, once, in order."""
    sizes = {"R": 19, "C": 10, "S": 11, "G": 10, "V": 16, "X": 20}
    assert list(ROWS) == [
        f"{letter}{n}" for letter, size in sizes.items() for n in range(1, size + 1)
    ]
    assert len(REQUIREMENTS) == len(ROWS)
    assert sizes.keys() == SOURCES.keys()


def test_no_proven_promise_is_without_a_test(claimed):
    """A row that says "proven" has at least one test that carries its mark, and that the README's command runs."""
    run = {row for row, where in claimed.items() if any(is_run for _, is_run in where)}
    assert not [row.id for row in REQUIREMENTS if row.status == "proven" and row.id not in run]


def test_no_test_names_an_unknown_promise(claimed):
    """A mark's id is a row."""
    assert not {row: where for row, where in claimed.items() if row not in ROWS}


# ---- the specifications' own words -----------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """A text without its layout: spaces, cells of tables, marks of code."""
    return " ".join(re.sub(r"[\s_`*|#]+", " ", text).lower().split())


def _definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """What a module defines at its top, by name."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                found[name] = node
            case ast.Assign():
                names = [one for target in node.targets for one in ast.walk(target)]
                found |= {one.id: node for one in names if isinstance(one, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
            case _:
                pass
    return found


def _source_of(path: Path, name: str) -> tuple[str, str]:
    """The marks of a test, and its source with all that it uses of its own file, without docstrings."""
    text = path.read_text()
    tree = ast.parse(text)
    defined = _definitions(tree)
    nodes = [defined[name]]
    for node in nodes:
        used = [
            one.id if isinstance(one, ast.Name) else getattr(one, "arg", None)
            for one in ast.walk(node)
        ]
        nodes += [defined[one] for one in used if one in defined and defined[one] not in nodes]
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ) and ast.get_docstring(node):
            for number in range(node.body[0].lineno - 1, node.body[0].end_lineno or 0):
                lines[number] = ""
    starts = [
        min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        for node in nodes
    ]
    source = "\n".join(
        "\n".join(lines[start - 1 : node.end_lineno])
        for start, node in zip(starts, nodes, strict=True)
    )
    return "\n".join(ast.unparse(mark) for mark in [*_marks(defined[name]), *_marks(tree)]), source


def test_each_promise_of_a_specification_has_words_of_it():
    """66 of them, in the order of the rows."""
    assert list(QUOTATIONS) == [row.id for row in REQUIREMENTS if not row.id.startswith("X")]


@pytest.mark.parametrize("row", QUOTATIONS)
def test_the_words_of_a_specification_are_the_input_of_their_test(row):
    """The test exists, carries the row's mark, and has the words, or their essential parts, in its source."""
    words, test, inputs = QUOTATIONS[row]
    path, _, name = test.partition("::")
    marks, source = _source_of(ROOT / path, name)
    ids = re.findall(r"'([A-Z]\d+)'", " ".join(re.findall(r"requirement\((.*?)\)", marks)))
    assert row in ids
    assert [part for part in inputs if _plain(part) not in _plain(words)] == []
    assert [part for part in inputs if _plain(part) not in _plain(source)] == []
