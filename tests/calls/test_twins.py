"""What is made by replacement is what stands in the package: nobody mends one of two twins by hand."""

from __future__ import annotations

import ast

from tests.twins import CALLS, twin


def test_the_engine_for_threads_is_the_one_for_tasks_without_its_awaits():
    """`python -m tests.twins` makes it anew; the formatter may have broken its lines."""
    written = (CALLS / "engine_sync.py").read_text()
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(twin()))
