"""`resilient-bridge backoff`: the table, the picture, runs and data, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge import Backoff, cli
from tests.cli.terminals import drawn_on
from tests.peers.zygote import PYTHON


ROOT = Path(__file__).parents[2]


def _run(capsys, *argv):
    """The exit code, stdout and stderr of one call."""
    try:
        code = cli.main(["backoff", *argv])
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_it_prints_the_table_of_explain(capsys):
    """The same text as `Backoff.explain()`, ten waits or as many as asked for."""
    assert _run(capsys, "decorrelated(1)") == (0, Backoff.decorrelated(1).explain() + "\n", "")
    code, out, _ = _run(capsys, "steps(1, 2)", "-n", "3")
    assert (code, out) == (0, Backoff.steps(1, 2).explain(3) + "\n")


def test_runs_follow_their_seed(capsys):
    """`--samples K` prints K possible runs from `--seed` on; `--seed` alone prints one."""
    schedule = Backoff.decorrelated(1)
    _, out, _ = _run(capsys, "decorrelated(1)", "-n", "4", "--seed", "7", "--samples", "2")
    runs = [line.partition(": ") for line in out.splitlines()[-2:]]
    assert [head for head, _, _ in runs] == ["seed 7", "seed 8"]
    for seed, (_, _, waits) in zip((7, 8), runs, strict=True):
        assert list(map(float, waits.split())) == pytest.approx(
            schedule.sample(4, seed=seed), abs=0.001
        )
    assert "\nseed 3: " in _run(capsys, "decorrelated(1)", "--seed", "3")[1]
    assert "seed" not in _run(capsys, "decorrelated(1)")[1]
    assert "seed" not in _run(capsys, "decorrelated(1)", "--seed", "3", "--samples", "0")[1]


def test_a_preset_tells_what_else_it_does(capsys):
    """R6 is a schedule of its own within `recursor`, and is named behind the table."""
    code, out, _ = _run(capsys, "recursor")
    assert code == 0
    assert out.startswith("Backoff.steps(1, 2, 5, 10, 30)\n")
    assert out.endswith("after CONN_TIMEOUT: Backoff.steps(1, 2, 5, then=Backoff.exponential(10, cap=60, jitter='none'))\n")  # fmt: skip


def test_the_data_are_one_object_on_one_line(capsys):
    """`--json` says everything the table says, unrounded."""
    code, out, err = _run(capsys, "exponential(1, cap=3)", "-n", "3", "--json", "--seed", "1")
    assert (code, err, out.count("\n")) == (0, "", 1)
    data = json.loads(out)
    assert data["schedule"] == "Backoff.exponential(1, cap=3)"
    assert [row["longest"] for row in data["waits"]] == [1, 2, 3]
    assert [row["total"] for row in data["waits"]] == [1, 3, 6]
    assert all(row["shortest"] <= row["mean"] <= row["longest"] for row in data["waits"])
    assert data["samples"] == [
        {"seed": 1, "waits": Backoff.exponential(1, cap=3).sample(3, seed=1)}
    ]


def test_the_picture_is_80_columns_wide_in_a_pipe(capsys):
    """`--plot` adds bars below the table."""
    code, out, _ = _run(capsys, "default", "--plot")
    assert code == 0
    table, _, picture = out.partition("\n\n")
    assert table == rb.bridge.Reconnect().backoff.explain()
    assert max(map(len, picture.splitlines())) == 80
    assert picture.startswith("wait  0 s")


@pytest.mark.parametrize(
    ("variable", "width"), [("40", 40), ("120", 120), ("5", 20), ("wide", 80), (None, 80)]
)
def test_a_picture_in_a_pipe_is_as_wide_as_columns_says(variable, width):
    """What nobody looks at is 80 wide, or as the variable asks; 20 at least."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    environment |= {} if variable is None else {"COLUMNS": variable}
    command = [*PYTHON, "-m", "resilient_bridge", "backoff", "default", "--plot"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    axis = done.stdout.partition("\n\n")[2].splitlines()[0]
    assert (axis.split()[0], len(axis)) == ("wait", width)


@pytest.mark.real
def test_the_picture_is_as_wide_as_the_terminal():
    """On a terminal its width counts, and not 80."""
    ours, theirs = os.openpty()
    command = [*PYTHON, "-m", "resilient_bridge", "backoff", "default", "--plot"]
    child = subprocess.Popen(command, stdout=theirs, env=os.environ | {"COLUMNS": "61"}, cwd=ROOT)
    os.close(theirs)
    out = drawn_on(ours)
    assert child.wait(30) == 0
    assert max(map(len, out.replace("\r", "").split("\n\n")[1].splitlines())) == 61


def test_a_picture_can_be_written(capsys, tmp_path):
    """`--out FILE.svg` is a picture, `FILE.txt` table and bars; stdout says the same as without."""
    plain = _run(capsys, "openviber")
    svg, text = tmp_path / "a.SVG", tmp_path / "a.txt"
    assert _run(capsys, "openviber", "--out", str(svg)) == plain
    assert ET.fromstring(svg.read_text()).tag.endswith("svg")
    assert _run(capsys, "openviber", "--out", str(text)) == plain
    assert text.read_text().startswith(plain[1].rstrip("\n"))
    assert "= at least" in text.read_text()


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["steps(1,"], "SCHEDULE: a Backoff as in code expected"),
        (["fast"], "SCHEDULE: a Backoff, or one of ccsetup"),
        (["constant(-1)"], "SCHEDULE: Backoff.seconds: wanted seconds from 0"),
        (["default", "--out", "/no/such/directory/a.svg"], "no such file or directory"),
        (["default", "--out", "/dev/null/a.txt"], "not a directory"),
        (["default", "--out", "/\0.svg"], "null"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_two(capsys, argv, word):
    """A schedule that is none, a directory that is not there: one line on stderr, nothing on stdout, exit code 2."""
    code, out, err = _run(capsys, *argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("resilient-bridge backoff: ")
    assert word in err


@pytest.mark.parametrize(
    "argv",
    [
        [], ["-n", "0"], ["-n", "-1"], ["-n", "1001"], ["-n", "x"], ["-n", "1.5"], ["-n", "9" * 5_000], ["-n", ""],
        ["--samples", "101"], ["--seed", "-1"], ["--seed", "x"], ["--out", "a.png"], ["--plot", "--json"],
    ],
)  # fmt: skip
def test_wrong_options_end_with_two(capsys, argv):
    """What the options cannot mean is told with the usage, and nothing is printed or written."""
    code, out, err = _run(capsys, *(["default"] if argv else []), *argv)
    assert (code, out) == (2, "")
    assert "usage: resilient-bridge backoff" in err
    assert "Traceback" not in err


@pytest.mark.real
@pytest.mark.parametrize("target", ["pipe", "full"])
def test_an_output_that_breaks_is_no_traceback(target):
    """A full disk is one line and exit code 2; a reader that has gone is no word, and that of SIGPIPE. Nothing comes at exit either."""
    if target == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, out = os.pipe()
        os.close(reader)
    try:
        command = [*PYTHON, "-m", "resilient_bridge", "backoff", "default"]
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT
        )
    finally:
        os.close(out)
    words = "resilient-bridge backoff: cannot write the output: no space left on device\n"
    assert (done.returncode, done.stderr) == ((2, words) if target == "full" else (141, ""))


@pytest.mark.real
def test_no_output_at_all_is_no_trouble():
    """With stdout closed there is nobody to tell, and nothing to complain about."""
    code = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'resilient_bridge', 'backoff', 'default'])"
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, "")
