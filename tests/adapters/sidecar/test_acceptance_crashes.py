"""A server that is gone before a call, reads that are repeated, and a server that is deployed anew."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from resilient_bridge.testing import Trap
from tests.adapters.sidecar import servers
from tests.adapters.sidecar.standing_in import (
    PREFIX,
    behind,
    end_server,
    is_refused,
    outcome_of,
    stands_in_for,
    text_of,
    until,
)


pytestmark = [pytest.mark.real, pytest.mark.server]


# ---- 1: a crash before a call ------------------------------------------------------------------------------------------
@pytest.mark.requirement("X5")
@servers.needs("node", "servers")
def test_a_call_right_after_a_kill_is_made_and_made_once(tmp_path):
    """The memory server is killed five times, each time a call follows at once: the client sees no error, in one session."""
    file = tmp_path / "memory.jsonl"
    with behind(servers.memory(file)) as client:
        for number in range(5):
            entity = {"name": f"m-{number}", "entityType": "t", "observations": ["o"]}
            answer = client.call("create_entities", {"entities": [entity]})
            assert outcome_of(answer) == "answered", text_of(answer)
            assert (f"{PREFIX}/restarted" in answer["result"].get("_meta", {})) is (number > 0)
            end_server(client.process.pid)
    names = [json.loads(line)["name"] for line in file.read_text().splitlines()]
    assert names == [f"m-{number}" for number in range(5)]


@pytest.mark.requirement("X5")
def test_a_call_while_the_port_is_closed_waits_and_is_made_once(tmp_path):
    """A server at a URL answers, and its port is closed for 5 s: the next call is made when it is back."""
    trap = Trap(tmp_path / "effects.jsonl", plan=["answered"])
    with trap.http(away=5) as url, behind(url) as client:
        assert outcome_of(client.call("order", {"marker": "a", "item": ""})) == "answered"
        until(lambda: is_refused(url))
        assert outcome_of(client.call("order", {"marker": "b", "item": ""})) == "answered"
    assert (trap.ran("a"), trap.ran("b")) == (1, 1)


# ---- 3: reads are repeated ---------------------------------------------------------------------------------------------
@pytest.mark.requirement("X6")
def test_a_read_at_a_url_is_repeated_with_trust_only(tmp_path):
    """Its hint is believed if the user says so; else it is told as unknown, as a write is."""
    for options, wanted in (
        ((), "unknown"),
        (("--trust-hints",), "answered"),
        (("--idempotent", "list_orders"), "answered"),
    ):
        trap = Trap(tmp_path / f"{len(options)}{wanted}.jsonl", plan=["cut", "reset"])
        with trap.http(away=0.05) as url, behind(url, *options) as client:
            client.request("tools/list", {})
            assert outcome_of(client.call("list_orders")) == wanted


@pytest.mark.requirement("X6")
def test_an_idempotent_write_is_not_repeated_after_a_later_call(tmp_path):
    """Alone it is repeated, with trust; once another call was sent, a late repeat would undo that one's write."""
    trap = Trap(tmp_path / "effects.jsonl", plan=["after", "answer", "hang", "after"])
    with behind(trap.command, "--trust-hints") as client:
        client.request("tools/list", {})
        assert (
            outcome_of(client.call("put", {"marker": "a", "key": "k", "value": "1"})) == "answered"
        )
        first = client.begin(
            "tools/call", {"name": "put", "arguments": {"marker": "b", "key": "k", "value": "2"}}
        )
        second = client.begin(
            "tools/call", {"name": "put", "arguments": {"marker": "c", "key": "k", "value": "3"}}
        )
        assert outcome_of(first.result(20)) == "unknown"
        assert outcome_of(second.result(20)) == "answered"
    trap.assert_no_repeats()
    assert [trap.ran(marker) for marker in "abc"] == [2, 1, 2]


# ---- other clients -----------------------------------------------------------------------------------------------------
@pytest.mark.requirement("X7")
@servers.needs("python", "servers", "inspector")
def test_the_inspector_uses_the_time_server_through_the_sidecar():
    """Its command line is a client of its own, and lists and calls as without the sidecar."""

    # it swallows a "--" in the command that it is given, so that stands in a script
    script = ("sh", "-c", shlex.join(stands_in_for(servers.clock(), "--quiet")))

    def inspect(*arguments: str) -> dict:
        command = (*servers.inspector(*script), *arguments)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=True, cwd=servers.ROOT
        )
        return json.loads(done.stdout)

    tools = inspect("--method", "tools/list")["tools"]
    assert [tool["name"] for tool in tools] == ["get_current_time", "convert_time"]
    call = (
        "--method",
        "tools/call",
        "--tool-name",
        "get_current_time",
        "--tool-arg",
        "timezone=UTC",
    )
    assert "UTC" in inspect(*call)["content"][0]["text"]
