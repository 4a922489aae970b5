"""`resilient-bridge report`: files in, one page out; a wrong file is one line, whatever a log says is a page."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from resilient_bridge import cli
from tests.cli.terminals import drawn_on
from tests.internals.cli import report, terminal
from tests.peers.zygote import PYTHON
from tests.report.made_logs import BEGIN, line, log
from tests.report.reading_pages import Page


ROOT = Path(__file__).parents[2]


@pytest.fixture
def written(tmp_path) -> Path:
    """A log of one link, with a torn line at its end."""
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"".join(log(1)) + b'{"at": "2026-')
    return path


def on_terminal(monkeypatch, columns=80):
    """Both streams are a terminal."""
    monkeypatch.setattr(terminal, "is_terminal", lambda out: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))


@pytest.mark.requirement("X10")
def test_the_page_stands_beside_the_log_for_its_owner_alone(written, capsys):
    """`report session.jsonl` writes session.html, which nobody else may read, and prints its name, in a pipe nothing else."""
    assert cli.main(["report", str(written)]) == 0
    page = written.with_suffix(".html")
    assert capsys.readouterr().out == f"{page}\n"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    found = Page(page.read_text("utf-8"))
    assert found.errors == []
    assert [
        "session.jsonl, line " + str(len(written.read_bytes().splitlines())),
        "not JSON",
    ] in found.rows


def test_several_files_are_read_in_the_order_of_their_times(tmp_path, capsys):
    """`session.jsonl session.jsonl.1`, as the log was rotated: the older file first, so an outage across both is one."""
    lines = list(log(1, each=0))
    new, old = tmp_path / "session.jsonl", tmp_path / "session.jsonl.1"
    cut = next(n for n, one in enumerate(lines) if b"Disconnected" in one) + 1
    old.write_bytes(b"".join(lines[:cut]))
    new.write_bytes(b"".join(lines[cut:]))
    whole = tmp_path / "whole.jsonl"
    whole.write_bytes(b"".join(lines))
    assert cli.main(["report", str(new), str(old), "--json"]) == 0
    parts = json.loads(capsys.readouterr().out)
    assert cli.main(["report", str(whole), "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert [source["name"] for source in parts.pop("sources")] == [
        "session.jsonl.1",
        "session.jsonl",
    ]
    assert one.pop("sources")
    assert parts == one
    assert not new.with_suffix(".html").exists()


def test_a_line_of_any_length_is_one_line(written, capsys):
    """4 MB without a line break are one damaged line, and the lines after it have their numbers."""
    lines = written.read_bytes().splitlines(keepends=True)
    written.write_bytes(b"x" * 4_500_000 + b"\n" + b"".join(lines))
    assert cli.main(["report", str(written), "--json"]) == 0
    (source,) = json.loads(capsys.readouterr().out)["sources"]
    assert source["lines"] == len(lines) + 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_read_once(written, capsys):
    """`report <(zcat session.jsonl.gz)`: nothing of it is lost to a look at its first lines."""
    content = written.read_bytes()
    pipe = written.with_name("pipe")
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_bytes(content))
    writing.start()
    assert cli.main(["report", str(pipe), "--json"]) == 0
    writing.join()
    (source,) = json.loads(capsys.readouterr().out)["sources"]
    assert source["lines"] == len(content.splitlines())


def test_stdin_and_stdout(written, capsys, monkeypatch):
    """`report - --out -` is a filter; a page of stdin is report.html in the directory one is in."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written.read_bytes())))
    assert cli.main(["report", "-", "--out", "-"]) == 0
    assert Page(capsys.readouterr().out).errors == []
    monkeypatch.chdir(written.parent)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(written.read_bytes())))
    assert cli.main(["report", "-"]) == 0
    assert (written.parent / "report.html").exists()


@pytest.mark.requirement("X10")
@pytest.mark.parametrize("columns", [30, 80])
def test_on_a_terminal_there_is_a_summary_that_fits(written, capsys, monkeypatch, columns):
    """A few lines as wide as the window; colour on a terminal, and none with NO_COLOR."""
    on_terminal(monkeypatch, columns)
    assert cli.main(["report", str(written)]) == 0
    coloured = capsys.readouterr().out
    assert coloured.startswith("\x1b[1;31m")
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.main(["report", str(written)]) == 0
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    summary, _, name = plain.rstrip("\n").rpartition("\n\n")
    assert name == str(written.with_suffix(".html"))
    assert max(len(one) for one in summary.splitlines()) <= columns
    assert "outage" in summary
    assert cli.main(["report", str(written), "--out", str(written.with_name("other.html"))]) == 0
    assert "outage" not in capsys.readouterr().out


@pytest.mark.parametrize("columns", [24, 30, 80])
def test_colour_breaks_no_line(written, capsys, monkeypatch, columns):
    """The coloured summary is the plain one, line for line; the name of the page stays in one piece, whatever its length."""
    on_terminal(monkeypatch, columns)
    page = written.with_name("a page with a name of many words and longer than the terminal.html")
    written = written.rename(page.with_suffix(".jsonl"))
    shown = []
    for no_colour in ("", "1"):
        monkeypatch.setenv("NO_COLOR", no_colour)
        assert cli.main(["report", str(written)]) == 0
        shown.append(capsys.readouterr().out)
    coloured, plain = shown
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert plain.endswith(f"\n\n{page}\n")
    assert cli.main(["report", str(written), "--out", str(page)]) == 0
    assert capsys.readouterr().out == f"{page}\n"


def test_a_page_on_a_terminal_is_the_page(written, capsys, monkeypatch):
    """`--out -` prints what the file would have, and breaks no line of it."""
    assert cli.main(["report", str(written)]) == 0
    on_terminal(monkeypatch, 40)
    capsys.readouterr()
    assert cli.main(["report", str(written), "--out", "-"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == written.with_suffix(".html").read_text(
        "utf-8"
    ).rstrip("\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pty")
def test_how_far_it_is_fits_the_terminal_that_it_is_drawn_on(tmp_path, capsys, monkeypatch):
    """stderr has thirty columns and stdout is a pipe; lines are counted over all files."""
    import termios

    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_bytes(b"".join(line(BEGIN + n, "Note") for n in range(3_000)))
    clock = iter(range(0, 10_000, 3))
    monkeypatch.setattr(report, "REAL", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 24))
    with os.fdopen(theirs, "w", encoding="utf-8") as err:
        monkeypatch.setattr(sys, "stderr", err)
        assert (
            cli.main(["report", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--json"])
            == 0
        )
    assert drawn_on(ours).split("\r\x1b[K") == ["", "reading: 68 %, 4,096 li", ""]
    assert json.loads(capsys.readouterr().out)["events"] == {"Note": 6_000}


@pytest.mark.requirement("X10")
def test_what_takes_longer_than_two_seconds_says_how_far_it_is(written, capsys, monkeypatch):
    """A line on stderr that is drawn again and gone at the end; nothing before, and nothing in a pipe."""
    written.write_bytes(b"".join(line(BEGIN + n, "Note") for n in range(9_000)))
    clock = iter(range(1_000))
    monkeypatch.setattr(report, "REAL", SimpleNamespace(monotonic=lambda: next(clock)))
    assert cli.main(["report", str(written)]) == 0
    assert capsys.readouterr().err == ""
    on_terminal(monkeypatch, 40)
    clock = iter(range(0, 10_000, 3))
    assert cli.main(["report", str(written)]) == 0
    drawn = capsys.readouterr().err.split("\r\x1b[K")
    assert drawn[1:] == ["reading: 45 %, 4,096 lines", "reading: 91 %, 8,192 lines", ""]


def test_only_a_part_of_the_time(written, capsys):
    """`--since` and `--until`: what is outside is counted as left out."""
    assert (
        cli.main(
            [
                "report",
                str(written),
                "--json",
                "--since",
                "2026-11-24T11:32:00Z",
                "--until",
                "2026-11-24T11:34:00+00:00",
            ]
        )
        == 0
    )
    facts = json.loads(capsys.readouterr().out)
    assert BEGIN + 120 <= facts["begin"] < facts["end"] <= BEGIN + 240
    assert facts["outside"] > 0


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["gone.jsonl"], "cannot read 'gone.jsonl': no such file or directory"),
        (["."], "cannot read '.': is a directory"),
        (
            ["a.jsonl", "--out", "no/such/page.html"],
            "cannot write 'no/such/page.html': no such directory",
        ),
        (
            ["a.jsonl", "--out", "a.jsonl"],
            "the page would replace the log 'a.jsonl': say where with --out",
        ),
        (["a.html"], "the page would replace the log 'a.html': say where with --out"),
        (["-", "-"], "stdin (-) can be read once"),
        (["empty.jsonl"], "empty.jsonl: no line in it"),
        (["blank.jsonl"], "blank.jsonl: no line in it"),
        (["notes.txt"], "notes.txt: no line of a log in it (one JSON object with a time)"),
        (["spaced.txt"], "spaced.txt: no line of a log in it (one JSON object with a time)"),
    ],
)
def test_wrong_use_is_one_line(tmp_path, capsys, monkeypatch, arguments, wrong):
    """Exit code 2, one line that names the file, nothing on stdout, and the log is as it was."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "a.html"):
        (tmp_path / name).write_bytes(line(BEGIN, "Note"))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "blank.jsonl").write_text("\n \n\r\n")  # T03
    (tmp_path / "notes.txt").write_text("no log\nat all\n")  # T03
    (tmp_path / "spaced.txt").write_text("no log\n\nat all\n")  # T03
    assert cli.main(["report", *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"resilient-bridge report: {wrong}\n")
    assert (
        (tmp_path / "a.jsonl").read_bytes()
        == (tmp_path / "a.html").read_bytes()
        == line(BEGIN, "Note")
    )


def test_a_wrong_time_is_refused_at_once(capsys):
    """By the parser, as for every option."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", "a.jsonl", "--since", "yesterday"])
    assert ended.value.code == 2
    assert (
        "a time such as 2026-02-16T10:30:00Z expected, got 'yesterday'" in capsys.readouterr().err
    )


@pytest.mark.real
@pytest.mark.requirement("X10")
def test_a_reader_that_has_gone_ends_it_quietly(written):
    """`report … --out - | true`: no traceback."""
    command = [*PYTHON, "-m", "resilient_bridge", "report", str(written), "--out", "-"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    captured = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) in (2, 141)
    assert "Traceback" not in captured
    assert len(captured.splitlines()) <= 1
