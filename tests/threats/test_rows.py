"""The rows of the table of threats against the tests that prove them. Rule: read, not run, so it holds for a partial run too."""

from __future__ import annotations

import ast
import re
from pathlib import Path


HERE = Path(__file__).parent
IN_SCOPE = {
    *range(1, 6),
    *range(7, 16),
    *range(18, 25),
    26,
    27,
    *range(29, 32),
    *range(40, 44),
    45,
    46,
}
_NAME = re.compile(r"test_row_(\d\d)_[a-z0-9_]+")


def _tests():
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
                "test_"
            ):
                yield path, node


def test_every_row_in_scope_has_a_test():
    """Bad input and faults 1-5, 7-15, 18-24, 26-27, 29-31, 40-43 and 45-46: each has at least one test of its name."""
    rows = {int(found[1]) for _, node in _tests() if (found := _NAME.fullmatch(node.name))}
    assert sorted(IN_SCOPE - rows) == []
    assert sorted(rows - IN_SCOPE) == []


def test_every_test_here_is_of_a_row():
    """No test in this room is without a row, except those about the rows."""
    strays = [
        f"{path.name}: {node.name}"
        for path, node in _tests()
        if path != Path(__file__) and not _NAME.fullmatch(node.name)
    ]
    assert strays == []


def test_a_row_is_met_through_the_client():
    """Every module here drives a client, except the one that plays a thousand of them without a network."""
    without = [
        path.name
        for path in sorted(HERE.glob("test_*.py"))
        if path != Path(__file__) and not re.search(r"\b(Watch|BridgeClient)\b", path.read_text())
    ]
    assert without == ["test_herd.py"]
