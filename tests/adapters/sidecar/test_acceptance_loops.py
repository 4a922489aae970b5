"""A server that ends at once, again and again, and a call that kills it."""

from __future__ import annotations

import sys
import time

import pytest

from resilient_bridge.testing import Trap
from tests.adapters.sidecar.standing_in import (
    behind,
    cpu_seconds,
    end_server,
    outcome_of,
    records,
    text_of,
    until,
    zombies_of,
)


pytestmark = [pytest.mark.real, pytest.mark.server]

# It serves as the trap does while the file is there, and else says why not and ends.
BROKEN = """
import pathlib, runpy, sys, time
pathlib.Path(sys.argv[1] + ".starts").open("a").write(f"{time.time()}\\n")
if not pathlib.Path(sys.argv[1]).exists():
    print("no configuration: tea.toml is missing", file=sys.stderr)
    sys.exit(3)
sys.argv = sys.argv[1:]
runpy.run_module("resilient_bridge.testing.mcp_trap", run_name="__main__")
"""


@pytest.mark.requirement("X5")
def test_a_crash_loop_is_bounded_reported_and_recovered_from(tmp_path):
    """It is started a few times, then left alone; calls fail at once with its last words; there is no zombie, no CPU time; mended, it is back."""
    trap = Trap(tmp_path / "effects.jsonl", rate=0)
    config = tmp_path / "tea.toml"
    config.touch()
    command = (sys.executable, "-c", BROKEN, str(config), *trap.command[3:])
    with behind(command, "--circuit", "3/2", "--patience", "20") as client:
        sidecar = client.process.pid
        assert outcome_of(client.call("order", {"marker": "a", "item": ""})) == "answered"
        config.unlink()
        starts = tmp_path / "tea.toml.starts"
        end_server(sidecar)
        first = client.call("order", {"marker": "b", "item": ""})
        assert outcome_of(first) == "not_executed"
        assert "tea.toml is missing" in text_of(first)
        begin = time.monotonic()
        second = client.call("order", {"marker": "c", "item": ""})
        assert time.monotonic() - begin < 1
        assert outcome_of(second) == "not_executed"
        assert "tea.toml is missing" in text_of(second)
        assert zombies_of(sidecar) == []
        before = cpu_seconds(sidecar)
        time.sleep(3)
        assert cpu_seconds(sidecar) - before < 0.5
        assert len(starts.read_text().splitlines()) <= 8
        config.touch()
        until(
            lambda: outcome_of(client.call("order", {"marker": "d", "item": ""})) == "answered", 20
        )
    assert trap.ran("a") == trap.ran("d") == 1
    assert trap.ran("b") == trap.ran("c") == 0


@pytest.mark.requirement("X6")
@pytest.mark.parametrize("strike", ["before", "after", "exit0", "middle"])
def test_a_call_that_kills_the_server_is_sent_once(strike, tmp_path):
    """Whatever it did, it is told as unknown, and the next call finds a server."""
    trap = Trap(tmp_path / "effects.jsonl", plan=strike)
    events = tmp_path / "events.jsonl"
    with behind(trap.command, "--events", str(events)) as client:
        assert outcome_of(client.call("order", {"marker": "poison", "item": ""})) == "unknown"
        assert outcome_of(client.call("order", {"marker": "tea", "item": ""})) == "answered"
    assert trap.ran("poison") == (strike != "before")
    assert trap.ran("tea") == 1
    (call,) = [one for one in records(events, "call_finished") if one.get("outcome") == "unknown"]
    assert call["sends"] == 1


@pytest.mark.requirement("X6")
def test_a_call_that_may_be_repeated_is_sent_three_times_and_no_more(tmp_path):
    """A read that kills the server each time ends as unknown; it is not a busy loop."""
    trap = Trap(tmp_path / "effects.jsonl", plan=["before"] * 10)
    with behind(trap.command, "--circuit", "50/1") as client:
        client.request("tools/list")  # its hints are known then
        assert outcome_of(client.call("list_orders", {})) == "unknown"
    assert sum(trap.strikes().values()) == 3
