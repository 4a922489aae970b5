"""The pages about the commands that only print show what these commands print."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest

import resilient_bridge as rb
from resilient_bridge import cli
from tests.internals.cli import (
    CLIENTS,
    EXAMPLES,
    FOUND_OUT,
    NOT_STARTED,
    RISKS,
    SUCCESS,
    SUCCESS_OF_CALLS,
    USAGE,
    parser,
)


HOW_TO = Path(__file__).parents[2] / "docs/how-to"


def test_the_pages_about_doctor_name_each_of_its_options_and_of_its_exit_codes():
    """Those of its help: what a program decides by is on a page."""
    doctor = next(iter(parser()._subparsers._group_actions)).choices["doctor"]
    pages = "".join(
        (HOW_TO / f"look-at-{what}.md").read_text() for what in ("a-bridge", "an-mcp-server")
    )
    options = {
        name
        for action in doctor._actions
        for name in action.option_strings
        if name.startswith("--")
    }
    assert [name for name in sorted(options - {"--help"}) if f"`{name}" not in pages] == []
    of_servers = re.findall(
        r"^\| (\d) \|", (HOW_TO / "look-at-an-mcp-server.md").read_text(), re.MULTILINE
    )
    assert of_servers == [str(code) for code in (FOUND_OUT, NOT_STARTED, USAGE, RISKS)]


ALIVE = (HOW_TO / "keep-an-mcp-server-alive.md").read_text()
_ENTRY = re.compile(r"^\*\*(.+?)\*\*.*?^```(?:json|toml)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
ENTRIES = dict(_ENTRY.findall(ALIVE.partition("## In your client")[2].partition("\n## ")[0]))
NAMES = {
    "claude-code": "Claude Code, Claude Desktop and Cursor",
    "claude-desktop": "Claude Code, Claude Desktop and Cursor",
    "cursor": "Claude Code, Claude Desktop and Cursor",
    "vscode": "VS Code",
    "codex": "Codex",
    "mcpservers": "Claude Code, Claude Desktop and Cursor",
    "json": "Your own client",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_page_shows_the_entry_of_each_client(client, capsys, tmp_path, monkeypatch):
    """Word by word, for somebody whose home is /home/you: what is found there is found below a folder of this test."""
    home = tmp_path / "home/you"
    programs = [
        home / ".nvm/versions/node/v22.12.0/bin/npx",
        home / "resilient_bridge/.venv/bin/resilient-bridge",
    ]
    for program in programs:
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (home / "project").mkdir()
    monkeypatch.chdir(home / "project")
    monkeypatch.setenv("PATH", str(programs[0].parent))
    monkeypatch.setattr("sys.argv", [str(programs[1])])
    words = ["npx", "-y", "@modelcontextprotocol/server-memory"]
    name = [] if client == "json" else ["--name", "memory"]
    assert cli.main(["mcp", "--print-config", client, *name, *words]) == 0
    assert capsys.readouterr().out.rstrip("\n").replace(str(tmp_path), "") == ENTRIES[NAMES[client]]
    assert f"| `{client}` | " in ALIVE


def test_the_file_of_settings_on_the_page_is_one():
    """It has a command and what is said about its tools; the command line that reads it stands beside it."""
    text = ALIVE.partition("### From a file")[2].partition("```toml\n")[2].partition("```")[0]
    sidecar = rb.mcp.Sidecar.from_config(tomllib.loads(text))
    assert sidecar.command[:2] == ("npx", "-y")
    assert sidecar.named_tools()
    assert "resilient-bridge mcp --config " in ALIVE


def test_the_page_of_the_demo_shows_its_last_lines():
    """What each kind of run ends in, when all went well."""
    page = " ".join((HOW_TO / "demo.md").read_text().split())
    for line in (
        SUCCESS,
        SUCCESS_OF_CALLS,
        "ran twice without permission 0, said not executed but ran 0,",
    ):
        assert line in page


def test_the_page_shows_no_entry_more():
    """Each stands under its client's name, and none for nobody."""
    assert set(ENTRIES) == set(NAMES.values())


def test_the_entry_for_uvx_is_a_command_line_of_ours():
    """What the page writes by hand for uvx, and what the help says, are the same words."""
    entry = json.loads(
        ALIVE.partition("### With uvx")[2].partition("```json")[2].partition("```")[0]
    )
    words = entry["args"][entry["args"].index("resilient-bridge") :]
    assert (entry["command"], entry["args"][0]) == ("uvx", "--from")
    assert cli._parsed(words[1:]).command == ["npx", "-y", "@modelcontextprotocol/server-memory"]
    assert f"uvx --from PATH-TO-A-CLONE {shlex.join(words)}" in ALIVE.replace(" \\\n   ", "")
    assert f"uvx --from PATH-TO-A-CLONE {shlex.join(words)}" in EXAMPLES
