"""`resilient-bridge mcp`: what its options make, what is wrong with them, and the entries that it prints for clients."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tomllib
from contextlib import asynccontextmanager
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

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
        circuit=rb.Breaker.consecutive(3, open_for=rb.Backoff.exponential(7, cap=60, jitter="none")),
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
    made = _sidecar("https://host/mcp", "--header", "Authorization: Bearer env:TOKEN", "--header", "X-A: b")
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
        (["host:80/mcp", "secret-without-colon"], "expected, got 'host:80/mcp': write http://host:80/mcp"),
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
        (["--http", "127.0.0.1:0", "--print-config", "json", "--", "true"], "there is nothing to start"),
        (
            ["--print-config", "json", "--name", "memory", "true"],
            "--name: json prints the entry without a name: --print-config mcpservers --name memory",
        ),
        (["--http", "127.0.0.1:0", "--no-token", "--token-file", "f", "--", "x"], "got both"),
        (["--http", "127.0.0.1:0", "--quiet", "--", "x"], "--quiet: --token-file or --no-token expected"),
        (["--env", "A=b", "https://host/mcp"], "--env: with a command, or with --print-config, expected"),
    ],
)
def test_wrong_usage_is_one_line_and_starts_nothing(words, wanted, capfd):
    """Exit code 2, the reason on stderr, nothing on stdout; what may be a secret is not shown."""
    try:
        code = cli.main(["mcp", *words])
    except SystemExit as stop:  # a command line that cannot be read, as of any program with argparse
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


# ---- entries for clients -----------------------------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path, monkeypatch) -> Path:
    """A script on the PATH, whose interpreter `env` has to find."""
    script = tmp_path / "bin" / "some-server"
    script.parent.mkdir()
    script.write_text("#!/usr/bin/env sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(script.parent), os.environ["PATH"]]))
    monkeypatch.chdir(tmp_path)
    return script


@pytest.mark.parametrize(
    ("client", "member"),
    [
        ("claude-code", "mcpServers"),
        ("claude-desktop", "mcpServers"),
        ("cursor", "mcpServers"),
        ("vscode", "servers"),
        ("codex", "mcp_servers"),
        ("mcpservers", "mcpServers"),
        ("json", ""),
    ],
)
def test_an_entry_has_what_a_desktop_program_lacks(client, member, program, tmp_path, capsys):
    """Both programs with their full paths, the folder, a PATH with the interpreter; read back by a parser of the client's format."""
    words = [
        "mcp",
        "--print-config",
        client,
        *(["--name", "mine"] if member else []),
        "--events=e.jsonl",
        "--idempotent",
        "a b",
        "--",
        "some-server",
        "-x",
    ]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    entry = tomllib.loads(out) if client == "codex" else json.loads(out)
    if member:
        entry = entry[member]["mine"]
    command = [entry["command"], *entry["args"]]
    assert command[:3] == [sys.executable, "-m", "resilient_bridge"]
    assert command[3:] == [
        *("mcp", "--events", str(tmp_path / "e.jsonl"), "--idempotent", "a b", "--cwd", str(tmp_path)),
        *(str(program), "-x"),
    ]
    assert entry["env"]["PATH"].split(os.pathsep)[0] == str(program.parent)
    assert entry.get("type") == ("stdio" if client == "vscode" else None)
    assert ("put this into" in err) == bool(member)
    again = sidecar_of(cli._parsed(entry["args"][2:]))
    assert again.command == (str(program), "-x")


@pytest.mark.parametrize(
    "words", [["--print-config", "--config"], ["--print", "--conf"]], ids=["whole", "short"]
)
def test_an_entry_with_a_file_says_nothing_that_stands_in_it(words, program, tmp_path, monkeypatch, capsys):
    """The file with its full path and a PATH for its program: the entry starts wherever a desktop program stands."""
    (tmp_path / "bridge.toml").write_text('[mcp]\ncommand = ["some-server", "-x"]\n')
    asking, naming = words
    assert cli.main(["mcp", asking, "json", naming, "bridge.toml", "--events=e.jsonl"]) == 0
    out, err = capsys.readouterr()
    entry = json.loads(out)
    assert entry["args"][2:] == [
        *("mcp", "--config", str(tmp_path / "bridge.toml"), "--events", str(tmp_path / "e.jsonl"))
    ]
    assert entry["env"]["PATH"].split(os.pathsep)[0] == str(program.parent)
    assert f"add cwd to the table mcp of bridge.toml, for example cwd = {json.dumps(str(tmp_path))}: " in err
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert sidecar_of(cli._parsed(entry["args"][2:])).command == ("some-server", "-x")


@pytest.mark.parametrize("is_in_file", [True, False], ids=["file", "option"])
def test_an_entry_looks_for_a_relative_program_in_its_cwd(is_in_file, tmp_path, monkeypatch, capsys):
    """As the child will see it, whether the folder stands in the file or behind --cwd."""
    script = tmp_path / "srv" / "server.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    folder = json.dumps(str(script.parent))
    (tmp_path / "bridge.toml").write_text(f'[mcp]\ncommand = ["./server.sh"]\ncwd = {folder}\n')
    words = ["--config", "bridge.toml"] if is_in_file else ["--cwd", "srv", "--", "./server.sh"]
    assert cli.main(["mcp", "--print-config", "json", *words]) == 0
    out, err = capsys.readouterr()
    wanted = (
        ["--config", str(tmp_path / "bridge.toml")]
        if is_in_file
        else ["--cwd", str(script.parent), str(script)]
    )
    assert json.loads(out)["args"][2:] == ["mcp", *wanted]
    assert "add cwd" not in err


@pytest.mark.parametrize(
    "installed",
    [
        ({"url": "file:///a%20clone"}, "resilient-bridge[mcp,yaml] @ file:///a%20clone"),
        (
            {"url": "https://host/a.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "resilient-bridge[mcp,yaml] @ git+https://host/a.git@c0ffee",
        ),
        ({}, "resilient-bridge[mcp,yaml]"),
    ],
    ids=["folder", "git", "index"],
)
def test_an_entry_made_under_uvx_starts_uvx_again(installed, program, tmp_path, monkeypatch, capsys):
    """The program itself is in uv's cache, which may be emptied: the entry has uv's path, and what it installed, with extras."""
    (tmp_path / "cache" / "archive" / "bin").mkdir(parents=True)
    (tmp_path / "cache" / "CACHEDIR.TAG").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "cache" / "archive"))
    monkeypatch.setenv("UV", "/opt/uv/uv")
    facts, source = installed
    of_package = SimpleNamespace(read_text=lambda name: json.dumps(facts) if facts else None)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: of_package)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name in ("mcp", "yaml"))
    assert cli.main(["mcp", "--print-config", "json", "--", "some-server"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert [entry["command"], *entry["args"]] == [
        *("/opt/uv/uv", "tool", "run", "--python", str(Path(sys.executable).resolve())),
        *("--from", source, "resilient-bridge"),
        *("mcp", "--cwd", str(tmp_path), str(program)),
    ]
    assert "/opt/uv" in entry["env"]["PATH"].split(os.pathsep)
    assert cli.main(["mcp", "--print-config", "json", "https://host/mcp"]) == 0
    paths = json.loads(capsys.readouterr().out)["env"]["PATH"].split(os.pathsep)
    assert paths == ["/opt/uv", "/usr/local/bin", "/usr/bin", "/bin"]


@pytest.mark.parametrize(("own", "shown"), [("again", "links"), ("own", "links own")])
def test_the_path_of_an_entry_has_each_folder_once(own, shown, program, tmp_path, monkeypatch, capsys):
    """First that in which the program was found; neither the one that a link leads to nor a second name of a folder."""
    (tmp_path / "links").mkdir()
    (tmp_path / "links/linked").symlink_to(program)
    (tmp_path / "links/sh").symlink_to("/bin/sh")  # its interpreter
    (tmp_path / "again").symlink_to(tmp_path / "links")
    (tmp_path / "own").mkdir()
    ours = tmp_path / own / "resilient-bridge"
    ours.write_text("#!/bin/sh\n")
    ours.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(ours)])
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    assert cli.main(["mcp", "--print-config", "json", "linked"]) == 0
    assert json.loads(capsys.readouterr().out)["env"]["PATH"].split(os.pathsep) == [
        *(str(tmp_path / name) for name in shown.split()),
        *("/usr/local/bin", "/usr/bin", "/bin"),
    ]


def test_what_a_desktop_program_may_need_of_the_shell_is_named(monkeypatch, capsys):
    """Certificates and proxies that are set here: the names alone, as a proxy's value may hold a password; not once they are in the entry."""
    names = (
        "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS HTTPS_PROXY HTTP_PROXY NO_PROXY"
    )
    for name in [*names.split(), *names.lower().split()]:
        monkeypatch.delenv(name, raising=False)
    words = ["mcp", "--print-config", "json"]
    assert cli.main([*words, "true"]) == 0
    assert "what is set here" not in capsys.readouterr().err
    monkeypatch.setenv("https_proxy", "http://me:hunter2hunter2@proxy:3128")
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/ca.pem")
    assert cli.main([*words, "true"]) == 0
    err = capsys.readouterr().err
    assert (
        "a desktop program does not have what is set here: SSL_CERT_FILE, https_proxy; if the server, npx or uvx needs it"
        in err
    )
    assert "--env SSL_CERT_FILE --env https_proxy" in err
    assert cli.main([*words, "--env", "SSL_CERT_FILE", "--env", "https_proxy", "true"]) == 0
    out, copied = capsys.readouterr()
    assert json.loads(out)["env"]["SSL_CERT_FILE"] == "/etc/ca.pem"
    assert "what is set here" not in copied
    assert "secrets in clear: variable https_proxy;" in copied
    assert "hunter2" not in err + copied


def test_an_entry_made_under_uv_run_names_the_program(program, tmp_path, monkeypatch, capsys):
    """Its environment is the project's own, which no cache holds; it has the tag of a cache itself."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "CACHEDIR.TAG").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("UV", "/opt/uv/uv")
    assert cli.main(["mcp", "--print-config", "json", "--", "some-server"]) == 0
    assert json.loads(capsys.readouterr().out)["command"] == sys.executable


def test_an_entry_leaves_out_shortened_options_of_ours_too(program, tmp_path, capsys):
    """What asked for the entry, however it was typed: an entry that prints an entry starts no server."""
    words = ["mcp", "--print=mcpservers", "--na", "mine", "--ev", "e.jsonl", "--cw", ".", "--", "some-server"]
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["mcpServers"]["mine"]["args"][2:] == [
        *("mcp", "--events", str(tmp_path / "e.jsonl"), "--cwd", str(tmp_path), str(program))
    ]


def test_an_entry_for_a_url_names_the_secrets_that_it_needs(capsys):
    """The variable's name is said, its value nowhere."""
    words = [
        "mcp",
        "--print-config",
        "json",
        "--header",
        "Authorization: Bearer env:MY_TOKEN",
        "https://host/mcp",
    ]
    assert cli.main(words) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["args"][2:] == words[:1] + words[3:]
    assert "add MY_TOKEN to its env" in err


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @modelcontextprotocol/server-memory", "server-memory"),
        ("uvx mcp-server-git --repository .", "mcp-server-git"),
        ("sh my.server.sh", "sh"),
    ],
)
def test_a_server_is_named_for_its_program(command, name, capsys):
    """Not for the wrapper that starts it."""
    from tests.internals.cli import _name_of

    assert _name_of(rb.mcp.Sidecar(command=tuple(command.split()))) == name
    capsys.readouterr()


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:7001/mcp", "127-0-0-1-7001"),
        ("http://127.0.0.1:7002/mcp", "127-0-0-1-7002"),
        ("http://[::1]:7002/mcp", "1-7002"),
        ("https://mcp.example.com/mcp", "mcp-example-com"),
        ("https://mcp.example.org/mcp", "mcp-example-org"),
        ("https://user:hunter2@mcp.example.org:8443/a.b?token=x", "mcp-example-org-8443"),
    ],
)
def test_m08_a_server_at_a_url_is_named_for_its_whole_host(url, name):
    """M08: and its port: a host name has no suffix to cut off, and two servers have two names."""
    from tests.internals.cli import _name_of

    assert _name_of(rb.mcp.Sidecar(url=url)) == name


def test_m07_an_entry_can_have_variables(program, monkeypatch, capsys):
    """M07: `--env`: with their value, or with the value that they have here; the sidecar that it starts needs no option for them."""
    monkeypatch.setenv("MY_TOKEN", "opensesame-0123456789")
    words = ["mcp", "--print-config", "json", "--env", "MODE=fast", "--env=MY_TOKEN"]
    assert cli.main([*words, "--", "some-server"]) == 0
    out, err = capsys.readouterr()
    entry = json.loads(out)
    assert entry["env"] | {"PATH": ""} == {"PATH": "", "MODE": "fast", "MY_TOKEN": "opensesame-0123456789"}
    assert "--env" not in entry["args"]
    assert "secrets in clear: variable MY_TOKEN;" in err
    assert "opensesame" not in err
    header = ["--header", "Authorization: Bearer env:MY_TOKEN", "https://host/mcp"]
    assert cli.main([*words, *header]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["env"] == {"MODE": "fast", "MY_TOKEN": "opensesame-0123456789"}
    assert "add MY_TOKEN" not in err
    made = _sidecar("--env", "MODE=fast", "--", "some-server")
    assert made.env == {"MODE": "fast"}


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["--header", "Authorization: Bearer hunter2hunter2", "https://host/mcp"], "header Authorization"),
        (["https://host/mcp?api_key=hunter2hunter2"], "the URL"),
        (["https://me:hunter2hunter2@host/mcp"], "the URL"),
        (["--", "some-server", "--api-key", "hunter2hunter2"], "the command"),
        (["--header", "Authorization: Bearer file:/run/secret", "https://host/mcp"], ""),
        (["--header", "X-Mode: fast", "https://host/mcp"], ""),
        (["--", "some-server", "--verbose"], ""),
    ],
)
def test_m07_an_entry_with_secrets_in_clear_says_so(words, places, program, capsys):
    """M07: on stderr, with their places and not with their values."""
    assert cli.main(["mcp", "--print-config", "json", *words]) == 0
    err = capsys.readouterr().err
    assert ("holds secrets in clear" in err) == bool(places)
    assert places in err
    assert "hunter2" not in err


def test_m07_an_entry_that_can_never_start_is_not_printed(capsys):
    """M07: credentials over http:// to another machine: the same words as the sidecar's, exit code 2; allowed, it is printed."""
    words = ["mcp", "--print-config", "json", "--header", "Authorization: Bearer env:MY_TOKEN"]
    assert cli.main([*words, "http://host.example/mcp"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "https" in err
    assert err.count("\n") == 1
    assert cli.main([*words, "--allow-plaintext-credentials", "http://host.example/mcp"]) == 0
    assert cli.main([*words, "http://127.0.0.1:9/mcp"]) == 0


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
    assert cli.main(["mcp", "--http", "127.0.0.1:0", "--no-token", *words, "--", sys.executable]) == 0
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
