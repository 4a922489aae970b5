"""`resilient-bridge mcp --print-config`: the entries for clients, and the remarks beside them."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import resilient_bridge as rb
from resilient_bridge import cli
from tests.internals.cli import sidecar_of


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
        *(
            "mcp",
            "--events",
            str(tmp_path / "e.jsonl"),
            "--idempotent",
            "a b",
            "--cwd",
            str(tmp_path),
        ),
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
def test_an_entry_with_a_file_says_nothing_that_stands_in_it(
    words, program, tmp_path, monkeypatch, capsys
):
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
    assert (
        f"add cwd to the table mcp of bridge.toml, for example cwd = {json.dumps(str(tmp_path))}: "
        in err
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert sidecar_of(cli._parsed(entry["args"][2:])).command == ("some-server", "-x")


@pytest.mark.parametrize("is_in_file", [True, False], ids=["file", "option"])
def test_an_entry_looks_for_a_relative_program_in_its_cwd(
    is_in_file, tmp_path, monkeypatch, capsys
):
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
def test_an_entry_made_under_uvx_starts_uvx_again(
    installed, program, tmp_path, monkeypatch, capsys
):
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
def test_the_path_of_an_entry_has_each_folder_once(own, shown, program, monkeypatch, capsys):
    """First that in which the program was found; neither the one that a link leads to nor a second name of a folder."""
    tmp_path = Path.cwd()
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
    names = "SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS HTTPS_PROXY HTTP_PROXY NO_PROXY"
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


def test_certificates_that_are_not_there_are_a_reason_in_words(monkeypatch, capsys):
    """A URL's client reads them when it is made: one line, exit code 2."""
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    assert cli.main(["mcp", "--print-config", "json", "https://host/mcp"]) == 2
    err = capsys.readouterr().err
    assert (
        "SSL_CERT_FILE or SSL_CERT_DIR: certificates that can be read expected (no such file" in err
    )
    assert err.count("\n") == 1


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
    words = [
        "mcp",
        "--print=mcpservers",
        "--na",
        "mine",
        "--ev",
        "e.jsonl",
        "--cw",
        ".",
        "--",
        "some-server",
    ]
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
    assert entry["env"] | {"PATH": ""} == {
        "PATH": "",
        "MODE": "fast",
        "MY_TOKEN": "opensesame-0123456789",
    }
    assert "--env" not in entry["args"]
    assert "secrets in clear: variable MY_TOKEN;" in err
    assert "opensesame" not in err
    header = ["--header", "Authorization: Bearer env:MY_TOKEN", "https://host/mcp"]
    assert cli.main([*words, *header]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["env"] == {"MODE": "fast", "MY_TOKEN": "opensesame-0123456789"}
    assert "add MY_TOKEN" not in err
    made = sidecar_of(cli._parsed(["mcp", "--env", "MODE=fast", "some-server"]))
    assert made.env == {"MODE": "fast"}


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (
            ["--header", "Authorization: Bearer hunter2hunter2", "https://host/mcp"],
            "header Authorization",
        ),
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


def test_the_file_of_effects_is_named_from_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["mcp", "--print-config", "json", "--effects", "e.db", "https://example.org/mcp"]
    assert cli.main(words) == 0
    arguments = json.loads(capsys.readouterr().out)["args"]
    assert arguments[arguments.index("--effects") + 1] == str(tmp_path / "e.db")
