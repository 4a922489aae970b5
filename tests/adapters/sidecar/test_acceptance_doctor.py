"""`resilient-bridge doctor --mcp` on servers that others wrote: what it finds is what they are known to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from resilient_bridge.testing import Trap
from tests.adapters.sidecar import servers


pytestmark = [pytest.mark.real, pytest.mark.server, pytest.mark.requirement("X4")]


def doctor(*target: str) -> dict:
    """What it prints as JSON, and its exit code."""
    program = (
        sys.executable,
        "-m",
        "resilient_bridge",
        "doctor",
        "--seconds",
        "40",
        "--json",
        "--mcp",
    )
    command = (*program, *target)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=servers.ROOT
    )
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    return found


@servers.needs("node", "servers")
def test_hints_are_shown_as_what_a_repeat_would_risk(tmp_path):
    """The filesystem server reads, writes idempotently, and edits; killed between calls it is there again with the same tools."""
    found = doctor("--", *servers.filesystem(tmp_path))
    assert found["exit_code"] == 0
    assert "list_directory" in found["read_only"]
    assert "write_file" in found["idempotent"]
    assert {"edit_file", "move_file"} <= set(found["unsafe"])
    assert found["killed"]
    assert found["same_tools"]
    assert found["trusts_read_only"]


@servers.needs("python")
def test_a_server_without_hints_is_unsafe_throughout(tmp_path):
    """The SQLite server says nothing of its tools, so none of them is repeated."""
    found = doctor("--", *servers.sqlite(tmp_path / "a.db"))
    assert found["read_only"] == found["idempotent"] == []
    assert len(found["unsafe"]) == found["tools"] > 0


@servers.needs("node")
def test_a_cancelled_call_of_the_everything_server_is_not_answered():
    """A tool that takes a second is called twice: the cancelled call gets no answer, the other one its result."""
    probe = (
        "--probe-tool",
        "trigger-long-running-operation",
        "--probe-arguments",
        '{"duration": 1, "steps": 2}',
    )
    found = doctor(*probe, "--", *servers.everything())
    assert (found["exit_code"], found["problems"]) == (0, [])
    assert found["cancelled_is_answered"] is False
    assert found["probe"]


def test_a_server_at_a_url_is_not_trusted_for_its_hints(tmp_path):
    """Nobody started it, so what it says of itself does not count without permission."""
    with Trap(tmp_path / "effects.jsonl", rate=0).http() as url:
        found = doctor(url)
    assert found["starts"]
    assert not found["trusts_read_only"]


def test_a_server_that_does_not_start_is_a_problem():
    """The exit code says so, for CI."""
    assert doctor("--", sys.executable, "-c", "import sys; sys.exit('no tea')")["exit_code"] != 0
