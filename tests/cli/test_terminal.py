"""What a command prints fits the terminal, ends quietly where nobody reads, and moves and has colour only where somebody looks."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge import cli
from tests.internals.cli import columns, fitted, is_coloured


pytestmark = pytest.mark.requirement("X12")

PROGRAM = (sys.executable, "-m", "resilient_bridge")
FLOW = """
from resilient_bridge.agent import Phase, Workflow
async def build(context): return "a long enough text of what came of it, so that a line has to be broken"
flow = Workflow("a-workflow-with-a-name", phases=[Phase("build", build), Phase("publish", build)], path={path!r})
"""


def _paths(parser, path=()):
    """Every command of the program, as words."""
    yield path
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _paths(below, (*path, name))


@pytest.fixture
def terminal(monkeypatch):
    """Somebody looks at what is captured."""
    monkeypatch.setattr("resilient_bridge.cli.terminal.is_terminal", lambda _: True)


def _printed(argv, capsys):
    try:
        code = cli.main(argv)
    except SystemExit as ended:
        code = ended.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def _longest(text):
    return max((len(line) for line in text.splitlines()), default=0)


# ---- the width -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize("path", list(_paths(cli.parser())), ids=" ".join)
def test_help_fits(terminal, path, width, monkeypatch, capsys):
    """`--help` of every command, and the usage of a wrong one."""
    monkeypatch.setenv("COLUMNS", str(width))
    code, out, _ = _printed([*path, "--help"], capsys)
    assert (code, out != "") == (0, True)
    assert _longest(out) <= width, max(out.splitlines(), key=len)
    code, _, err = _printed([*path, "--no-such-option"], capsys)
    assert code == 2
    assert _longest(err) <= width, max(err.splitlines(), key=len)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files that commands read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "right.toml").write_text(
        '[policies.search]\nretry = { attempts = 4 }\ntimeout = "10s"\ndeadline = "60s"\n'
    )
    (tmp_path / "wrong.toml").write_text(
        "[policies.search]\nretry = { attempts = 0, atempts = 5 }\n"
    )
    return tmp_path


@pytest.mark.usefixtures("terminal", "files")
@pytest.mark.parametrize("width", [80, 40])
@pytest.mark.parametrize(
    "command",
    [
        "backoff default -n 12 --plot --samples 2",
        "backoff recursor",
        "backoff nonsense(",
        "classify ECONNREFUSED",
        "classify --status 429 --retry-after 7",
        "classify --mcp -32601",
        "classify SESS_NOT_FOUND",
        "check right.toml --explain",
        "check wrong.toml",
        "check missing.toml",
        "pipe notaurl",
        "pipe ws://127.0.0.1:1 --token-env NO_SUCH_VARIABLE_IS_SET",
        "serve --dialect nonsense",
        "workflow status missing.py",
    ],
)
def test_output_fits(command, width, monkeypatch, capsys):
    """Tables, pictures, explanations and errors, of each command."""
    monkeypatch.setenv("COLUMNS", str(width))
    _, out, err = _printed(command.split(" "), capsys)
    assert out + err
    assert _longest(out) <= width, max(out.splitlines(), key=len)
    assert _longest(err) <= width, max(err.splitlines(), key=len)


@pytest.mark.parametrize(
    "command",
    ["backoff default --json", "classify 429 --json", "check --schema", "completion bash"],
)
def test_what_programs_read_is_not_broken(terminal, files, command, monkeypatch, capsys):
    """JSON and scripts are the same, however narrow the terminal is."""
    outputs = []
    for width in ("20", "200"):
        monkeypatch.setenv("COLUMNS", width)
        outputs.append(_printed(command.split(" "), capsys)[1])
    assert outputs[0] == outputs[1]
    assert _longest(outputs[0]) > 40


def test_in_a_pipe_nothing_is_broken(monkeypatch):
    """Without a terminal a text stays as it is, whatever COLUMNS says, so `grep` finds what it looks for."""
    monkeypatch.setenv("COLUMNS", "40")
    assert columns(io.StringIO()) is None
    assert fitted("x " * 100, None) == "x " * 100


def test_a_table_keeps_its_columns():
    """Blanks go first, in all lines at once, so that what stood below each other still does."""
    table = "wait    total\n   1        3\n   2       12"
    assert fitted(table, 10).split("\n") == ["wait total", "   1     3", "   2    12"]


def test_a_line_goes_on_below_itself():
    """What does not fit is broken between words; what goes on is indented."""
    assert fitted("  - one two three", 10) == "  - one\n    two\n    three"
    assert (
        fitted("1.00 s  who  one two three", 20, hanging=8) == "1.00 s  who  one two\n        three"
    )


# ---- the ends --------------------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.parametrize(
    "command",
    [("--help",), ("check", "--schema"), ("classify", "HTTP 429"), ("backoff", "default")],
)
def test_a_closed_pipe_is_no_traceback(command):
    """`… | head -1`: nothing is said, and the exit code is the one of SIGPIPE; argparse says 0 of a help that it could not write."""
    process = subprocess.Popen([*PROGRAM, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    _, err = process.communicate(timeout=30)
    assert (err, process.returncode) in [
        (b"", 141),
        *([(b"", 0)] if command == ("--help",) else []),
    ]


class Terminal:
    """A command on a terminal of its own, so wide; `text` is all that it wrote there."""

    def __init__(self, *command, width, stdin=subprocess.DEVNULL, stdout=None, **environment):
        import fcntl
        import struct
        import termios

        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        clean = {
            name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}
        }
        self.process = subprocess.Popen(
            [*PROGRAM, *command],
            stdin=stdin,
            stdout=stdout or theirs,
            stderr=theirs,
            env={**clean, "TERM": "xterm", **environment},
        )
        os.close(theirs)
        self._ours = ours

    def read(self, until=None, then=None):
        """All that it writes; once it has written `until`, `then` is called."""
        parts = []
        try:
            while part := os.read(self._ours, 65_536):
                parts.append(part)
                if until is not None and until in b"".join(parts).decode(errors="replace"):
                    until = then()
        except OSError:  # how Linux says that nobody has the other end any more
            pass
        os.close(self._ours)
        self.process.wait(timeout=30)
        return b"".join(parts).decode()


def _seen(text):
    """The lines as they stand at the end: without colour, and without what was cleared."""
    import re

    text = re.sub(r"\x1b\[\d+m", "", text)
    return [line.rpartition("\x1b[K")[2] for line in text.replace("\r\n", "\n").split("\n")]


@pytest.mark.real
def test_the_demo_has_a_live_line_and_colour_on_a_terminal():
    """Below the table a line with the phase, the wait and what is queued, gone at the end; every line fits; colour unless NO_COLOR."""
    text = Terminal("demo", "--duration", "1", "--faults", "cut", width=60).read()
    counts = [int(n) for n in re.findall(r"READY, received (\d+) of \d+", text)]
    assert counts[-1] > counts[0]  # it is drawn anew, not only after an event
    assert re.search(r"BACKOFF, next attempt in \d\.\d s, \d+ queued: ", text)
    assert "\x1b[32mRECOVERED" in text
    seen = _seen(text)
    assert max(map(len, seen)) <= 60, max(seen, key=len)
    assert not any("BACKOFF" in line for line in seen)


@pytest.mark.real
def test_the_demo_is_plain_text_in_a_pipe():
    """There a fault is one line, stderr is empty, and there is no control character but the ends of lines."""
    command = (*PROGRAM, "demo", "--duration", "2", "--faults", "expire,cut")
    piped = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    text = piped.stdout
    assert (piped.stderr, [one for one in text if not (one.isprintable() or one == "\n")]) == (
        "",
        [],
    )
    assert re.search(
        r"^session expired +\d\.\d s +\d+ +0 GAP +\d+ missing: new session$", text, re.MULTILINE
    )
    assert re.search(
        r"^connection cut, 0.8 s .* RECOVERED  0 missing: full replay$", text, re.MULTILINE
    )
    assert text.endswith("\nkept: nothing was lost, repeated or reordered without a report\n")


def test_no_color_and_pipes_have_none(monkeypatch):
    """Colour is for terminals, and not where somebody says so."""

    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert (is_coloured(Screen()), is_coloured(io.StringIO())) == (True, False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not is_coloured(Screen())


@pytest.mark.real
async def test_pipe_has_a_status_line_on_a_terminal():
    """On stderr, where neither stdin nor stdout is that terminal."""
    async with rb.testing.BridgeServer() as server:
        reader, writer = os.pipe()
        os.write(writer, json.dumps({"type": "note", "payload": {"n": 1}}).encode() + b"\n")
        with Path(os.devnull).open("wb") as nowhere:
            child = Terminal("pipe", server.url, width=70, stdin=reader, stdout=nowhere)
        os.close(reader)
        wanted = "READY; sent 1, confirmed 1, received 0"
        text = await asyncio.to_thread(child.read, wanted, lambda: os.close(writer))
    assert wanted in text
    assert max(map(len, _seen(text))) <= 70
    assert child.process.returncode == 0


@pytest.mark.real
@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["--bridge", "ws://127.0.0.1:1"], "looking at the bridge, 0 s"),
        (["--mcp", "--", sys.executable, "-c", ""], "looking at the server, 0 s"),
    ],
)
def test_doctor_has_a_status_line_on_a_terminal(command, wanted, tmp_path):
    """On stderr, and gone at the end."""
    with (tmp_path / "out").open("wb") as out:
        text = Terminal("doctor", *command, width=70, stdout=out).read()
    assert wanted in text
    assert not any("looking at" in line for line in _seen(text))


@pytest.mark.real
def test_mcp_says_on_a_terminal_what_it_waits_for():
    """Somebody who starts it by hand sees nothing else, because nobody speaks."""
    ours, theirs = pty.openpty()
    try:
        command = [*PROGRAM, "mcp", "--", "cat"]
        process = subprocess.Popen(
            command, stdin=theirs, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert process.stderr.readline().startswith(
            b"resilient-bridge mcp: waiting for an MCP client on stdin;"
        )
        process.terminate()
        process.communicate(timeout=30)
    finally:
        os.close(ours)
        os.close(theirs)


# ---- the exit code of pipe -------------------------------------------------------------------------------------------


@pytest.mark.real
async def test_pipe_says_whether_the_bridge_was_reached():
    """With nothing to send: 0 if the bridge was reached, 5 if it was not within `--drain`."""
    async with rb.testing.BridgeServer() as server:
        for url, code, drain in ((server.url, 0, "20"), ("ws://127.0.0.1:1", 5, "1")):
            child = await asyncio.create_subprocess_exec(
                *PROGRAM,
                "pipe",
                url,
                "--drain",
                drain,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            assert await asyncio.wait_for(child.wait(), 30) == code


# ---- completion ------------------------------------------------------------------------------------------------------


COMPLETIONS = [
    ("resilient-bridge ", {"demo", "pipe", "completion", "--version"}, {"run", "--store"}),
    ("resilient-bridge de", {"demo"}, {"pipe"}),
    ("resilient-bridge pipe --", {"--store", "--preset", "--drain"}, {"--plot"}),
    ("resilient-bridge pipe --preset re", {"recursor"}, {"default"}),
    ("resilient-bridge workflow ", {"run", "resume", "skip"}, {"demo"}),
    ("resilient-bridge workflow skip --r", {"--reason"}, {"--json"}),
    ("resilient-bridge completion ", {"bash", "zsh", "fish"}, {"demo"}),
]


@pytest.mark.real
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(tmp_path, capsys):
    """Commands, the commands below them, their options, and the words of an option, as bash itself does it."""
    _, script, _ = _printed(["completion", "bash"], capsys)
    lines = [script]
    for typed, _, _ in COMPLETIONS:
        words = typed.split(" ")
        quoted = " ".join(f"'{word}'" for word in words)
        lines.append(
            f'COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _resilient_bridge; echo "${{COMPREPLY[@]}}"'
        )
    done = subprocess.run(
        [shutil.which("bash"), "--norc", "-c", "\n".join(lines)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stderr == ""
    for (typed, offered, not_offered), line in zip(
        COMPLETIONS, done.stdout.splitlines(), strict=True
    ):
        found = set(line.split())
        assert offered <= found, typed
        assert not not_offered & found, typed


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_option_that_takes_a_file_completes_files(shell, capsys):
    """Those whose value the help calls FILE, whatever command they belong to, and no others."""
    _, out, _ = _printed(["completion", shell], capsys)
    if shell == "fish":
        found = {
            line.partition(" -l ")[2].split()[0] for line in out.splitlines() if " -r -F" in line
        }
        options = {f"--{name}" for name in found}
    else:
        (listed,) = re.findall(r"^ +(--[a-z|-]+)\) COMPREPLY=\(\$\(compgen -f ", out, re.MULTILINE)
        options = set(listed.split("|"))
    assert {"--store", "--receipts", "--events", "--out", "--config", "--token-file"} <= options
    assert options.isdisjoint({"--preset", "--drain", "--cwd", "--token-env"})


@pytest.mark.real
@pytest.mark.parametrize(
    ("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")]
)
def test_the_script_is_one_for_its_shell(shell, check, capsys, tmp_path):
    """The shell itself reads it without complaint."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell}")
    _, out, _ = _printed(["completion", shell], capsys)
    script = tmp_path / "completion"
    script.write_text(out)
    done = subprocess.run(
        [program, check, str(script)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
