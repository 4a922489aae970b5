"""The servers and clients that others wrote, with nothing of ours in between: what the acceptance scenarios stand on."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path

import pytest

from bench.mcp_features.raw_client import Pipes
from resilient_bridge.testing import Trap
from tests.adapters.sidecar import servers


pytestmark = [pytest.mark.real, pytest.mark.server]
node = servers.needs("node")
of_npm = servers.needs("node", "servers")
of_python = servers.needs("python")

ORDERS = json.dumps(
    {
        "calls": [
            {"name": "order", "arguments": {"marker": "m-{n}", "item": "tea"}, "times": 3},
            {"name": "list_orders"},
        ]
    }
)


def run(command: servers.Command) -> list[dict]:
    """The lines of JSON that a client printed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, cwd=servers.ROOT
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


# ---- servers -----------------------------------------------------------------------------------------------------------
def text(client: Pipes, name: str, **arguments: object) -> str:
    """The text of a tool's result."""
    result = client.call(name, arguments)["result"]
    assert not result.get("isError"), result
    return result["content"][0]["text"]


def names_of(client: Pipes) -> set[str]:
    """The server's tools, after the session was opened."""
    client.initialize()
    return {tool["name"] for tool in client.request("tools/list", {})["result"]["tools"]}


@of_npm
def test_the_filesystem_server_writes_files(tmp_path):
    """14 tools; `write_file` is on disk."""
    with Pipes(servers.filesystem(tmp_path)) as client:
        assert len(names_of(client)) == 14
        text(client, "write_file", path=str(tmp_path / "a.txt"), content="tea")
    assert (tmp_path / "a.txt").read_text() == "tea"


@of_npm
def test_the_memory_server_keeps_a_file(tmp_path):
    """9 tools; `create_entities` is on disk."""
    with Pipes(servers.memory(tmp_path / "memory.jsonl")) as client:
        assert len(names_of(client)) == 9
        text(
            client,
            "create_entities",
            entities=[{"name": "a", "entityType": "t", "observations": ["o"]}],
        )
    assert json.loads((tmp_path / "memory.jsonl").read_text())["name"] == "a"


@node
def test_the_everything_server_answers():
    """It has 13 tools or more."""
    with Pipes(servers.everything()) as client:
        assert len(names_of(client)) >= 13
        assert text(client, "echo", message="tea") == "Echo: tea"


@of_python
def test_the_git_server_commits(tmp_path):
    """12 tools; `git_add` and `git_commit` are in the repository."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for key in ("user.name", "user.email"):
        subprocess.run(["git", "-C", tmp_path, "config", key, "a@example.com"], check=True)
    (tmp_path / "a.txt").write_text("tea")
    with Pipes(servers.git(tmp_path)) as client:
        assert len(names_of(client)) == 12
        text(client, "git_add", repo_path=str(tmp_path), files=["a.txt"])
        text(client, "git_commit", repo_path=str(tmp_path), message="one")
    log = subprocess.run(
        ["git", "-C", tmp_path, "log", "--format=%s"], capture_output=True, text=True, check=True
    )
    assert log.stdout == "one\n"


@of_python
def test_the_time_server_tells_the_time():
    """2 tools."""
    with Pipes(servers.clock()) as client:
        assert len(names_of(client)) == 2
        assert "UTC" in text(client, "get_current_time", timezone="UTC")


@of_python
def test_the_sqlite_server_has_effects_that_can_be_counted(tmp_path):
    """`write_query` commits; no tool has a hint."""
    with Pipes(servers.sqlite(tmp_path / "a.db")) as client:
        assert "write_query" in names_of(client)
        text(client, "create_table", query="CREATE TABLE orders (marker TEXT)")
        text(client, "write_query", query="INSERT INTO orders VALUES ('a')")
        assert "'a'" in text(client, "read_query", query="SELECT * FROM orders")
    assert sqlite3.connect(tmp_path / "a.db").execute("SELECT * FROM orders").fetchall() == [("a",)]


# ---- clients -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("client", "version"),
    [
        pytest.param(servers.typescript_client, None, marks=node, id="typescript"),
        pytest.param(
            lambda *rest: servers.python_client("legacy", *rest), "2025-11-25", id="python-legacy"
        ),
        pytest.param(
            lambda *rest: servers.python_client("auto", *rest), "2026-07-28", id="python-modern"
        ),
    ],
)
def test_a_client_runs_tools(client, version, tmp_path):
    """One line for the session and one for each call, over stdio and HTTP; an error is a line too."""
    trap = Trap(tmp_path / "effects.jsonl", rate=0)
    over_stdio = run(client(ORDERS, *trap.command))
    with trap.http() as url:
        over_http = run(client(ORDERS.replace("m-", "h-"), url))
    for opened, *calls in (over_stdio, over_http):
        assert opened["server"] == "mcp-trap"
        assert opened["tools"] == ["order", "put", "list_orders"]
        assert opened.get("version") == version
        assert [call["n"] for call in calls] == [0, 1, 2, 3]
        assert not any(call["isError"] for call in calls)
    assert over_stdio[-1]["text"] == "m-0\nm-1\nm-2"
    assert [effect.marker for effect in trap.effects()] == [
        "m-0",
        "m-1",
        "m-2",
        "h-0",
        "h-1",
        "h-2",
    ]
    hung = Trap(tmp_path / "hung.jsonl", plan="hang")
    plan = json.dumps(
        {"calls": [{"name": "order", "arguments": {"marker": "a", "item": ""}}], "timeout": 0.3}
    )
    assert "error" in run(client(plan, *hung.command))[1]


@servers.needs("servers", "inspector")
def test_the_inspector_lists_and_calls(tmp_path):
    """Its command line, on a server over stdio."""
    trap = Trap(tmp_path / "effects.jsonl", rate=0)

    def inspect(*arguments: str) -> dict:
        command = [*servers.inspector(*trap.command), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, cwd=servers.ROOT
        )
        return json.loads(done.stdout)

    assert [tool["name"] for tool in inspect("--method", "tools/list")["tools"]] == [
        "order",
        "put",
        "list_orders",
    ]
    call = ("--method", "tools/call", "--tool-name", "order", "--tool-arg", "marker=a", "item=tea")
    assert inspect(*call)["content"] == [{"type": "text", "text": "order a: done"}]
    assert trap.ran("a") == 1


# ---- conformance -------------------------------------------------------------------------------------------------------
@of_npm
def test_the_conformance_suite_passes_without_us(tmp_path):
    """40 checks of 40: what is behind us must give the same."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        servers.conformance_server(0), stdin=pipe, stdout=pipe, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        passed, failed, printed = servers.conformance(url, Path(tmp_path))
        process.communicate("")
    assert (passed, failed) == (40, 0), printed
    assert process.returncode == 0


@of_npm
def test_the_conformance_suite_finds_what_is_wrong(tmp_path):
    """A server without its fixtures passes a few checks, and the count says so."""
    with Trap(tmp_path / "effects.jsonl").http() as url:
        passed, failed, _ = servers.conformance(
            url, Path(tmp_path), "--scenario", "tools-call-image"
        )
    assert (passed, failed) == (0, 1)
