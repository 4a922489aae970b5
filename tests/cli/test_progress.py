"""The progress line of `resilient-bridge workflow run`: what it says, that it fits, and where it is drawn."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime
from pathlib import Path

import pytest

from resilient_bridge import events
from resilient_bridge.telemetry import emit, has_listeners
from tests.cli.terminals import drawn_on
from tests.internals.cli import Progress
from tests.peers.zygote import PYTHON
from tests.rows import each_row


ROOT = Path(__file__).parents[2]
CLEAR = "\r\x1b[K"


@pytest.fixture(autouse=True)
def _redraws(monkeypatch):
    """The terminals of these tests can redraw a line, wherever the tests run."""
    monkeypatch.setenv("TERM", "xterm")


class Terminal(io.StringIO):
    """A terminal that remembers what was drawn; with `gone` every write fails, as after a hang-up."""

    def __init__(self, *, gone=False):
        super().__init__()
        self._gone = gone

    def isatty(self):
        return True

    def write(self, text):
        if self._gone:
            raise OSError(5, "Input/output error")
        return super().write(text)


def _tell(kind, **reported):
    emit(kind(at=datetime.now(UTC), workflow="w", **reported))


def _started(phase, number, total=5):
    _tell(events.PhaseChanged, phase=phase, status="started", number=number, total=total, run=1)


def _seen(*steps, seconds=2.4, columns=80):
    """The line after these steps."""

    async def watched():
        with Progress(Terminal()) as progress:
            for step in steps:
                step()
            return progress.line(seconds, columns)

    return asyncio.run(watched())


# ---- the line -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([], "[------------------------] 0/0  2 s"),
        (
            [lambda: _tell(events.WorkflowChanged, status="running", completed=2, total=4)],
            "[############------------] 2/4  2 s",
        ),
        ([lambda: _started("build", 1)], "[------------------------] 0/5 build 2 s"),
        ([lambda: _started("ship", 4)], "[##############----------] 3/5 ship 2 s"),
        (
            [
                lambda: _tell(
                    events.PhaseChanged,
                    phase="ship",
                    status="completed",
                    number=5,
                    total=5,
                    seconds=1.0,
                )
            ],
            "[########################] 5/5  2 s",
        ),
        (
            [
                lambda: _tell(
                    events.PhaseChanged,
                    phase="a",
                    status="skipped",
                    number=1,
                    total=5,
                    reason="optional",
                )
            ],
            "[####--------------------] 1/5  2 s",
        ),
    ],
)
def test_the_line_has_bar_count_phase_and_seconds(steps, line):
    """The phase under way is not counted as finished; one that ended or was skipped is."""
    assert _seen(*steps) == line


@each_row("columns", range(60))
def test_it_fits_on_one_line(columns):
    """However narrow the terminal: a line that wraps could not be cleared. The last column stays free."""
    line = _seen(lambda: _started("a-phase-with-a-long-name", 3), columns=columns)
    assert len(line) == min(max(columns - 1, 0), 59, len(line))
    assert "\n" not in line


@each_row("columns", [0, 1, 30, 38, 39, 40, 41, 80])
def test_wide_characters_count_for_two(columns):
    """A name in Chinese takes twice the columns, and the line still fits."""
    line = _seen(lambda: _started("构建构建构建构建", 3), columns=columns)
    width = sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in line)
    assert width <= max(columns - 1, 0)
    assert "2 s" in line or columns < 80


def test_a_name_cannot_write_to_the_terminal():
    """Line breaks and escape sequences in a name are shown, not obeyed."""
    line = _seen(lambda: _started("a\n\x1b[2Jb", 1))
    assert line.isprintable()


# ---- where it is drawn ----------------------------------------------------------------------------------------------


async def test_nothing_is_drawn_where_no_one_looks():
    """A file or a pipe gets no byte, and no listener waits."""
    out, before = io.StringIO(), has_listeners()
    with Progress(out):
        assert has_listeners() is before
        _started("a", 1)
    assert out.getvalue() == ""


async def test_it_is_drawn_at_once_and_gone_at_the_end():
    """The last that a terminal gets is the clearing of the line, also when the block is left by an error; no listener and no timer stay."""
    out, before = Terminal(), has_listeners()

    async def fails():
        with Progress(out) as progress:
            seen.append(progress)
            raise ValueError

    seen = []
    with pytest.raises(ValueError, match=r"^$"):
        await fails()
    assert out.getvalue() == f"{CLEAR}[------------------------] 0/0  0 s{CLEAR}"
    assert has_listeners() is before
    assert seen[0]._timer.cancelled()


async def test_a_terminal_that_has_gone_leaves_nothing_behind():
    """Every write fails: the work goes on, and the listener and the timer end with the block."""
    before = has_listeners()
    with Progress(Terminal(gone=True)) as progress:
        _started("a", 1)
    assert has_listeners() is before
    assert progress._timer is None or progress._timer.cancelled()


async def test_nothing_is_drawn_on_a_terminal_that_cannot_redraw_a_line(monkeypatch):
    """TERM=dumb: escape codes would be text there, so the log's lines are what is seen."""
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    with Progress(terminal):
        _started("a", 1)
    assert terminal.getvalue() == ""


# ---- a real terminal ------------------------------------------------------------------------------------------------


FLOW = """
import asyncio
from pathlib import Path
from resilient_bridge.agent import Workflow

root = Path(__file__).parent
flow = Workflow(root / "state.json", root=root)

@flow.phase(name="a-phase-whose-name-is-longer-than-the-terminal")
async def first():
    await asyncio.sleep(0.5)
"""


@pytest.mark.real
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pty")
def test_on_a_real_terminal_it_fits_and_is_cleared(tmp_path):
    """Forty columns, and stdout is a pipe: each line fits into the terminal that it is drawn on, the phase is seen, and the report is whole."""
    import termios

    path = tmp_path / "flow.py"
    path.write_text(FLOW)
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 40))
    environment = {
        name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}
    }
    command = [*PYTHON, "-m", "resilient_bridge", "workflow", "run", str(path), "--json"]
    child = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    os.close(theirs)
    text = drawn_on(ours)
    out, _ = child.communicate(timeout=30)
    assert (child.returncode, json.loads(out)["status"]) == (0, "completed")
    lines = re.split(re.escape(CLEAR), text)
    assert lines[0] == lines[-1] == ""
    assert any("0/1 a-phase" in line for line in lines)
    assert max(map(len, lines)) == 39
