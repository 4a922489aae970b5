"""`resilient-bridge mcp`: what its options make, and what is wrong with them. Its entries for clients: test_mcp_entries.py."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from contextlib import asynccontextmanager
from inspect import signature
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge import cli
from tests.internals.adapters import HttpLimits
from tests.internals.cli import mcp_http, sidecar_of


def _sidecar(*words: str) -> rb.mcp.Sidecar:
    return sidecar_of(cli._parsed(["mcp", *words]))


def test_every_option_has_its_field():
    """The value that the options make is the one that Python would write."""
    made = _sidecar(
        *(
            "--patience",
            "5",
            "--start-timeout",
            "9",
            "--timeout",
            "3",
            "--timeout",
            "slow=600",
            "--deadline",
            "60",
        ),
        *("--concurrency", "8", "--concurrency", "order=3", "--rate", "a=2/10", "--circuit", "3/7"),
        *(
            "--idempotent",
            "look",
            "--trust-hints",
            "--check",
            "order=list_orders",
            "--status-tool",
            "--log-arguments",
        ),
        *("--cwd", "/srv", "--", "npx", "-y", "some-server", "--flag", "--", "x"),
    )
    assert made == rb.mcp.Sidecar(
        command=("npx", "-y", "some-server", "--flag", "--", "x"),
        patience=5,
        start_timeout=9,
        timeout=3,
        timeouts={"slow": 600},
        deadline=60,
        concurrency={"*": 8, "order": 3},
        rates={"a": rb.RateLimit(2, per=10, max_wait=5)},
        circuit=rb.Breaker.consecutive(
            3, open_for=rb.Backoff.exponential(7, cap=60, jitter="none")
        ),
        idempotent=("look",),
        trust_hints=True,
        check={"order": "list_orders"},
        status_tool=True,
        log_arguments=True,
        cwd="/srv",
    )


@pytest.mark.parametrize(
    "words",
    ["--patience 5 npx -y s --patience 9 -- x", "--pat=5 --quiet npx -y s --patience 9 -- x"],
)
def test_a_command_needs_no_dashes_before_it(words):
    """The first word that is neither an option of ours nor its value begins the command, which has all that follows."""
    assert _sidecar(*words.split()) == rb.mcp.Sidecar(
        command=("npx", "-y", "s", "--patience", "9", "--", "x"), patience=5
    )
    assert _sidecar("--", "-odd", "x").command == ("-odd", "x")


def test_a_url_takes_headers_before_and_after_it():
    """As the first page shows it."""
    made = _sidecar(
        "https://host/mcp", "--header", "Authorization: Bearer env:TOKEN", "--header", "X-A: b"
    )
    assert made == rb.mcp.Sidecar(
        url="https://host/mcp", headers={"Authorization": "Bearer env:TOKEN", "X-A": "b"}
    )


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], "the server's URL, or the command that starts it, expected"),
        (["--"], "a command expected after --"),
        (
            ["ftp://host"],
            "a URL that begins with http:// or https://, or a command, expected, got 'ftp://host'",
        ),
        (
            ["host:80/mcp", "secret-without-colon"],
            "expected, got 'host:80/mcp': write http://host:80/mcp",
        ),
        (["--repeat", "x", "npx", "secret-without-colon"], "unrecognized arguments: --repeat"),
        (["--repeat=secret-without-colon", "npx"], "unrecognized arguments: --repeat"),
        (["https://host/mcp", "--", "npx"], "a URL or a command expected, got both"),
        (["https://host/mcp", "--quiet", "--", "npx"], "a URL or a command expected, got both"),
        (["--header", "secret-without-colon", "https://host"], '"NAME: VALUE" expected'),
        (["--header", "A: x", "--header", "a: y", "https://host"], "a is given twice"),
        (["--shared", "--", "x"], "--shared needs --http"),
        (["--token-file", "f", "--", "x"], "--token-file needs --http"),
        (["--connections", "9", "--", "x"], "--connections needs --http"),
        (["--head-timeout", "9", "--", "x"], "--head-timeout needs --http"),
        (
            ["--events", "/nowhere/at/all", "--", "x"],
            "events: wanted a file that can be written (no such file or directory)",
        ),
        (["--print-config", "emacs", "--", "x"], "--print-config: one of claude-code"),
        (
            ["--print-config", "json", "--", "no-such-command-here"],
            "command not found: no-such-command-here, looked for in",
        ),
        (
            ["--http", "127.0.0.1:0", "--print-config", "json", "--", "true"],
            "there is nothing to start",
        ),
        (
            ["--print-config", "json", "--name", "memory", "true"],
            "--name: json prints the entry without a name: --print-config mcpservers --name memory",
        ),
        (["--http", "127.0.0.1:0", "--no-token", "--token-file", "f", "--", "x"], "got both"),
        (
            ["--http", "127.0.0.1:0", "--quiet", "--", "x"],
            "--quiet: --token-file or --no-token expected",
        ),
        (
            ["--env", "A=b", "https://host/mcp"],
            "--env: with a command, or with --print-config, expected",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_starts_nothing(words, wanted, capfd):
    """Exit code 2, the reason on stderr, nothing on stdout; what may be a secret is not shown."""
    try:
        code = cli.main(["mcp", *words])
    except (
        SystemExit
    ) as stop:  # a command line that cannot be read, as of any program with argparse
        code = stop.code
    assert code == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert wanted in err
    assert err.count("\n") == 1 or err.startswith("usage:")
    assert "secret-without-colon" not in err


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        ("./there.py", "not allowed to run ./there.py: it is not executable"),
        ("./other.py", "command not found: ./other.py, seen from"),
    ],
)
def test_a_path_that_cannot_be_started_is_not_looked_for_in_path(
    program, wanted, tmp_path, monkeypatch, capsys
):
    """The reason says what to do with that file; PATH has nothing to do with it."""
    (tmp_path / "there.py").touch(0o644)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["mcp", "--print-config", "json", "--", program]) == 2
    err = capsys.readouterr().err
    assert wanted in err
    assert "looked for" not in err


@pytest.mark.parametrize(
    "words",
    [
        ["--timeout", "x=0"],
        ["--timeout", "=3"],
        ["--concurrency", "0"],
        ["--rate", "5/0"],
        ["--circuit", "a/1"],
        ["--check", "a"],
        ["--http", "127.0.0.1"],
        ["--env", "=x"],
        ["--env", "NO_SUCH_VARIABLE_HERE"],
        ["--connections", "1"],
        ["--servers", "0"],
        ["--sessions", "many"],
        ["--head-timeout", "0"],
        ["--body-timeout", "-1"],
    ],
    ids=" ".join,
)
def test_a_bad_value_names_its_option(words, capsys):
    """Argparse's own exit code 2 and usage."""
    with pytest.raises(SystemExit) as stop:
        cli.main(["mcp", *words, "--", "x"])
    assert stop.value.code == 2
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize("quiet", [True, False])
def test_m07_quiet_prints_nothing(quiet, tmp_path, monkeypatch, capfd):
    """M07: neither the address nor where the token is."""

    @asynccontextmanager
    async def served(_, **__):
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        yield "http://127.0.0.1:1/mcp"

    monkeypatch.setattr(mcp_http, "serve_sidecar", served)
    words = ["--token-file", str(tmp_path / "token"), *(["--quiet"] if quiet else [])]
    assert cli.main(["mcp", "--http", "127.0.0.1:0", *words, "--", sys.executable]) == 0
    assert capfd.readouterr().err.count("\n") == (0 if quiet else 2)


# ---- the token of --http -----------------------------------------------------------------------------------------------


def test_a_token_file_is_made_once_for_this_user_alone(tmp_path):
    """The next run has the same token; a short one is refused."""
    path = tmp_path / "token"
    token = mcp_http._token(str(path))
    assert mcp_http._token(str(path)) == token
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("short")
    with pytest.raises(ValueError, match="at least 16 visible characters"):
        mcp_http._token(str(path))
    path.write_bytes(b"\xff" * 32)
    with pytest.raises(ValueError, match="not ASCII"):
        mcp_http._token(str(path))


def test_a_token_file_in_no_folder_is_wrong_usage(tmp_path, capsys):
    """One line and exit code 2, as for one that cannot be read."""
    path = tmp_path / "nowhere" / "token"
    words = ["mcp", "--http", "127.0.0.1:0", "--token-file", str(path), "--", sys.executable]
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert "no such file or directory" in err.lower()
    assert err.count("\n") == 1


def test_sec2_the_numbers_of_http_reach_the_front(monkeypatch, capfd):
    """SEC2: those that are given; of the others, the help and the page state the defaults that the front has."""
    got = {}

    @asynccontextmanager
    async def served(_, **options):
        got.update(options)
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        yield "http://127.0.0.1:1/mcp"

    monkeypatch.setattr(mcp_http, "serve_sidecar", served)
    words = ["--connections", "8", "--servers", "3", "--head-timeout", "2.5"]
    assert (
        cli.main(["mcp", "--http", "127.0.0.1:0", "--no-token", *words, "--", sys.executable]) == 0
    )
    names = ("connections", "sessions", "servers", "head_timeout", "body_timeout")
    assert {name: got[name] for name in names if name in got} == {
        "connections": 8,
        "servers": 3,
        "head_timeout": 2.5,
    }
    with pytest.raises(SystemExit):
        cli.main(["mcp", "--help"])
    help_text = " ".join(capfd.readouterr().out.split())
    page = Path("docs/how-to/keep-an-mcp-server-alive.md").read_text()
    parameters = signature(rb.mcp.serve_sidecar).parameters
    limits = HttpLimits()
    for name in names:
        default = parameters[name].default
        option = f"--{name.replace('_', '-')}"
        assert re.search(rf"{option} \S+ [^-]*\(default: {default}\b", help_text), option
        assert re.search(rf"`{option} \w+` \({default:,}\)", page), option
        assert default == getattr(limits, name.replace("_timeout", "_seconds"))


@pytest.mark.parametrize("way", ["loop", "by hand"])
def test_ctrl_c_ends_the_serving_in_order(way, monkeypatch, capfd):
    """Exit code 0, also with a loop that takes no handlers, as those of Windows; afterwards the old handler is there again."""
    closed = []

    @asynccontextmanager
    async def served(_, **__):
        asyncio.get_running_loop().call_later(0.05, signal.raise_signal, signal.SIGINT)
        yield "http://127.0.0.1:1/mcp"
        closed.append("in order")

    def refuse(*_):
        raise NotImplementedError

    monkeypatch.setattr(mcp_http, "serve_sidecar", served)
    if way == "by hand":
        monkeypatch.setattr(asyncio.SelectorEventLoop, "add_signal_handler", refuse)
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert cli.main(["mcp", "--http", "127.0.0.1:0", "--no-token", "--", sys.executable]) == 0
    assert closed == ["in order"]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert "serving at" in capfd.readouterr().err


def test_every_problem_of_a_file_of_settings_is_printed(tmp_path, capsys):
    """A line for each problem, with its path, and nothing is started."""
    path = tmp_path / "bridge.toml"
    path.write_text(
        '[mcp]\ncommand = ["x"]\npatience = "never"\ntimeout = -1\nidempotent = 7\ntmeouts = {}\nconcurrency = {a = "x"}\n'
    )
    assert cli.main(["mcp", "--config", str(path)]) == 2
    first, *lines = capsys.readouterr().err.splitlines()
    assert first == "resilient-bridge mcp: Configuration errors:"
    assert [line.split(":")[0].strip(" -") for line in lines] == [
        "mcp.patience",
        "mcp.timeout",
        "mcp.idempotent",
        "mcp.tmeouts",
        "mcp.concurrency['a']",
    ]
