"""The programs of examples/frameworks print what their docstrings say: `nox -s frameworks` installs what they import, and runs this file."""

from __future__ import annotations

import runpy

import pytest

from tests.test_examples import FRAMEWORKS, printed


@pytest.mark.parametrize("path", FRAMEWORKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # what frameworks warn of while they are imported is theirs
def test_the_program_under_a_framework_prints_what_it_says(path, capfd):
    """Run as a program, from its file alone, with the real framework; its servers need a stderr with a descriptor."""
    expected = printed(path)
    assert expected
    runpy.run_path(str(path), run_name="__main__")
    assert capfd.readouterr().out.splitlines() == expected
