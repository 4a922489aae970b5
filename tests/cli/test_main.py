"""The command line as a whole: help, exit codes, and what it costs to ask."""

from __future__ import annotations

import errno
import io
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

import resilient_bridge
from resilient_bridge import cli
from tests.internals import cli as internals
from tests.internals.cli import printing


def _exit(*argv):
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    return ended.value.code


def test_each_command_has_help_that_names_its_options(capsys):
    """`--help` of the program names every command, that of a command its options; both end with 0."""
    assert _exit("--help") == 0
    assert {"demo", "pipe", "doctor", "serve", "backoff", "classify"} <= set(
        capsys.readouterr().out.split()
    )
    wanted = {
        "demo": [
            "--seed",
            "--duration",
            "--quick",
            "--rate",
            "--faults",
            "--crash",
            "--mcp",
            "--json",
            "broken-buffer",
        ],
        "pipe": [
            "URL",
            "--token-env",
            "--session",
            "--preset",
            "--pin",
            "--store",
            "--receipts",
            "--drain",
            "--keep-open",
            "--dialect",
            "exit codes",
        ],
        "doctor": [
            "--bridge",
            "--dialect",
            "--token-env",
            "--session",
            "--seconds",
            "--probe-type",
            "--probe-runs-twice",
            "--json",
        ],
        "serve": ["--host", "--port", "--token-env"],
        "backoff": [
            "SCHEDULE",
            "-n",
            "--seed",
            "--samples",
            "--plot",
            "--out",
            "--json",
            "gasoline,",
            "ccsetup.",
        ],
        "classify": [
            "WHAT",
            "--status",
            "--close-code",
            "--exit-code",
            "--errno",
            "--mcp",
            "--retry-after",
            "--json",
        ],
    }
    for command, words in wanted.items():
        assert _exit(command, "--help") == 0
        printed = capsys.readouterr().out
        assert [word for word in words if word not in printed] == []


JOBS = [["mcp"], ["demo"], ["classify", "doctor"]]


def _pasted(text):
    """The lines of a help that can be pasted, as words; a backslash joins two."""
    lines = re.findall(
        r"^  (?:resilient-bridge|uvx|pipx) .*$", text.replace("\\\n", " "), re.MULTILINE
    )
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("width", [60, 80])
def test_help_opens_with_the_commonest_jobs(width, monkeypatch, capsys):
    """Each a line that can be pasted, before any option; then every command once, in its group."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert _exit("--help") == 0
    text = capsys.readouterr().out
    before, options, rest = text.partition("\noptions:")
    assert [words[1] for words in _pasted(before)] == [name for job in JOBS for name in job]
    for words in _pasted(before):
        assert cli._parsed(words[1:]).run.startswith(words[1])
    listed = re.findall(r"^  ([a-z]+)(?:  |$)", options + rest, re.MULTILINE)
    assert sorted(listed) == sorted(
        next(iter(internals.parser()._subparsers._group_actions)).choices
    )
    assert len(re.findall(r"^[a-z ,]+:$", rest, re.MULTILINE)) == 4
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_the_help_of_mcp_begins_with_examples(width, monkeypatch, capsys):
    """They can be pasted: a command, a URL, an entry, and without an installation, from a clone."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert _exit("mcp", "--help") == 0
    text = capsys.readouterr().out
    before, _, _ = text.partition("\npositional arguments:")
    ours = [words[words.index("resilient-bridge") :] for words in _pasted(before) if "mcp" in words]
    assert {words[0] for words in _pasted(before)} == {"resilient-bridge", "uvx", "pipx"}
    assert len(ours) >= 4
    for words in ours:
        assert cli._parsed(words[1:]).run == "mcp:run"
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["dmo"],
        ["demo", "--faults", "flood"],
        ["demo", "--rate", "0"],
        ["demo", "--crash", "0"],
        ["demo", "--crash", "--mcp"],
        ["pipe"],
        ["pipe", "ws://x", "--preset", "y"],
        ["doctor"],
        ["doctor", "--bridge", "ws://x", "--seconds", "0"],
    ],
)
def test_wrong_usage_ends_with_two(argv, capsys):
    """A command line that means nothing is told so on stderr, with exit code 2."""
    assert _exit(*argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: resilient-bridge" in captured.err


def test_the_version_is_the_package_s(capsys):
    """`--version` prints the version that the package states."""
    assert _exit("--version") == 0
    assert capsys.readouterr().out == f"resilient-bridge {resilient_bridge.__version__}\n"


def test_help_loads_nothing_heavy():
    """Asking for help, or mistyping, imports no event loop, no WebSocket library and no attrs."""
    code = (
        "import sys\n"
        "from resilient_bridge.cli import main\n"
        "try: main(['demo', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('asyncio', 'attrs', 'attr', 'websockets', 'httpx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_an_interrupt_before_the_loop_runs_ends_with_130(monkeypatch):
    """Ctrl-C where nobody handles it is no traceback."""

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("resilient_bridge.cli.serve.run", interrupted)
    assert cli.main(["serve"]) == 130


@pytest.mark.real
def test_the_package_runs_as_a_module():
    """`python -m resilient_bridge` is the same command."""
    command = [sys.executable, "-m", "resilient_bridge", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("resilient-bridge ")


class _Unread(io.StringIO):
    def flush(self):
        raise OSError(errno.EINVAL, "Invalid argument")


@pytest.mark.real
def test_windows_has_other_words_for_a_reader_that_has_gone(monkeypatch):
    """There a write to a pipe without a reader is an invalid argument; elsewhere such an error is not expected."""
    monkeypatch.setattr(sys, "stdout", _Unread())
    monkeypatch.setattr(printing, "sys", SimpleNamespace(platform="win32", stdout=sys.stdout))
    assert cli.main(["demo", "--duration", "60"]) == 141
    monkeypatch.setattr(printing, "sys", SimpleNamespace(platform="linux", stdout=sys.stdout))
    with pytest.raises(OSError, match="Invalid argument"):
        cli.main(["demo", "--duration", "60"])
