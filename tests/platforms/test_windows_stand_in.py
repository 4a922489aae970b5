"""The branches for Windows: on Linux under a stand-in, which takes away what Windows lacks, and as they are where this runs on Windows.

The stand-in proves the branches, and not Windows.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest


pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        sys.platform not in {"linux", "win32"}, reason="stands in for Windows with what Linux has"
    ),
]

_PROGRAM = Path(__file__).with_name("windows_program.py")
_PARTS = [
    node.name.removeprefix("part_")
    for node in ast.walk(ast.parse(_PROGRAM.read_text()))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("part_")
]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory):
    """What went wrong in each part, by its name: one process for all, because it costs a start."""
    folder = tmp_path_factory.mktemp("windows")
    done = subprocess.run(
        [sys.executable, "-m", "tests.platforms.windows_program", str(folder)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("part", _PARTS)
def test_it_works_without_what_windows_lacks(wrong, part):
    """Nothing is asked of the system that it does not have, and what it has instead is used."""
    assert wrong[part] == ""
