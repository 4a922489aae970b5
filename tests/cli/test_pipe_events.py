"""`pipe --events FILE`: every event of the run as a line of JSON, for whoever looks at it afterwards."""

from __future__ import annotations

import asyncio
import json

import pytest

from resilient_bridge.testing import BridgeServer
from tests.cli.running_pipe import message, running


pytestmark = pytest.mark.real


async def line_of(child, word):
    """Wait until a line of stderr begins so."""
    async with asyncio.timeout(20):
        while not any(line.startswith(word) for line in child.errors):
            await asyncio.sleep(0.01)


async def test_every_event_of_a_run_is_a_line(tmp_path):
    """The outage, its wait and its verdict are there, each state says how long the queues were, and no payload is."""
    path = tmp_path / "events.jsonl"
    async with BridgeServer() as server, running(server.url, "--events", str(path)) as child:
        await line_of(child, "state: READY")
        await server.push("tool_call", {})
        await child.hear()
        await server.cut("abort", seconds=0.5)
        child.say(message(1), {"type": "tool_result", "payload": {"n": 2, "text": "s3cret"}})
        await line_of(child, "verdict: ")
        assert await child.end() == 0
    text = path.read_text()
    first, *lines = [json.loads(line) for line in text.splitlines()]
    assert (first["event"], first["command"]) == ("Started", "pipe")
    seen = {line["event"] for line in lines}
    assert {"Connected", "Joined", "Disconnected", "ReconnectScheduled", "Resumed", "Closed"} <= seen
    states = [line for line in lines if line["event"] == "StateChanged"]
    assert all(line["session_id"] and line["unread"] == 0 for line in states)
    assert any(line["queued"] == 2 for line in states)
    assert "s3cret" not in text
