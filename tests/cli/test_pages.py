"""The pages about the commands that only print show what these commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from resilient_bridge import cli


HOW_TO = Path(__file__).parents[2] / "docs/how-to"
_SHOWN = re.compile(
    r"^```bash\nresilient-bridge (.*?)\n```\n\n```text\n(.*?)\n```$", re.MULTILINE | re.DOTALL
)
SHOWN = [
    (name, call, text)
    for name in ("look-at-a-schedule", "explain-an-error")
    for call, text in _SHOWN.findall((HOW_TO / f"{name}.md").read_text())
]


@pytest.mark.parametrize(("page", "call", "text"), SHOWN)
def test_a_page_shows_what_is_printed(capsys, page, call, text):
    """Word by word, in a pipe's width."""
    assert cli.main(shlex.split(call)) == 0
    assert capsys.readouterr().out.rstrip("\n") == text, page


def test_the_pages_show_something():
    """The pattern above finds the examples of both pages."""
    assert len(SHOWN) == 5
