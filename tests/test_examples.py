"""Each program in examples/ runs and prints what its docstring says. Those of frameworks/ run in tests/frameworks.py."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest


EXAMPLES = Path(__file__).parents[1] / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))
FRAMEWORKS = sorted((EXAMPLES / "frameworks").glob("*.py"))


def printed(path: Path) -> list[str]:
    """What the docstring says that the program prints."""
    shown = (ast.get_docstring(ast.parse(path.read_text())) or "").partition(
        f"$ python {path.relative_to(EXAMPLES.parent)}\n"
    )[2]
    return [line.strip() for line in shown.splitlines()]


@pytest.mark.requirement("X11")
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_program_prints_what_it_says(path, capsys, tmp_path, monkeypatch):
    """Run as a program, from its file alone; nothing is left in the directory it is run in."""
    expected = printed(path)
    assert expected
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == expected
    assert list(tmp_path.iterdir()) == []


def test_there_are_enough_and_each_is_short():
    """Twelve, five of them under frameworks; none is longer than a page and a half."""
    assert len(PROGRAMS) + len(FRAMEWORKS) >= 12
    assert len(FRAMEWORKS) == 5
    assert [
        path.name
        for path in [*PROGRAMS, *FRAMEWORKS]
        if not 20 <= len(path.read_text().splitlines()) <= 80
    ] == []


def test_the_list_of_examples_names_each():
    """examples/README.md is the table."""
    listed = re.findall(r"\]\(([\w/]+\.py)\)", (EXAMPLES / "README.md").read_text())
    assert sorted(listed) == sorted(
        str(path.relative_to(EXAMPLES)) for path in [*PROGRAMS, *FRAMEWORKS]
    )
