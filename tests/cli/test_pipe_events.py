"""`pipe --events FILE`: every event of the run as a line of JSON, for whoever looks at it afterwards."""

from __future__ import annotations

import asyncio
import json

import pytest
from websockets.asyncio.server import serve

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.testing import BridgeServer
from tests.cli.running_pipe import message, running
from tests.internals.cli import pipe_events


pytestmark = pytest.mark.real


def test_rare_events_are_lines_that_can_be_read():
    """The name in words, its fields, its failure in one line: no repr of records in records, and no second line."""
    failure = rb.Failure.of("CONN_REFUSED", "nobody\nlistens", details={"n": 1})
    suspended = events.Suspended(reason="attempts", failure=failure, attempts=6, session_id="s1")
    assert pipe_events.line_of(suspended) == (
        "event: suspended reason=attempts attempts=6 session_id=s1: nobody\\nlistens (TRANSPORT)"
    )
    for event, line in [
        (events.ClockJumped(seconds=12.5), "event: clock jumped seconds=12.5"),
        (
            events.MessageUndelivered(type="a", key=None, outcome="dropped", reason="full"),
            "event: message dropped type=a reason=full",
        ),
        (
            events.MessageRejected(failure=failure),
            "event: message rejected: nobody\\nlistens (TRANSPORT)",
        ),
        (
            events.DuplicateConflict(type="a", id="x\ny"),
            "event: duplicate conflict type=a id=x\\ny",
        ),
    ]:
        assert pipe_events.line_of(event) == line


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
    assert {
        "Connected",
        "Joined",
        "Disconnected",
        "ReconnectScheduled",
        "Resumed",
        "Closed",
    } <= seen
    states = [line for line in lines if line["event"] == "StateChanged"]
    assert all(line["session_id"] and line["unread"] == 0 for line in states)
    assert any(line["queued"] == 2 for line in states)
    assert "s3cret" not in text


async def test_sec3_frames_that_a_server_repeats_fill_no_terminal():
    """SEC3: a server of another author sends 2,000 frames that are no JSON: 200 lines, and the number of the others."""

    async def handle(ws):
        for _ in range(2_000):
            await ws.send("junk")
        await ws.send('{"jsonrpc": "2.0", "method": "last"}')
        await ws.wait_closed()

    async with serve(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with running(f"ws://127.0.0.1:{port}/", "--dialect", "jsonrpc") as child:
            await child.hear()
            await child.end()
    assert (
        len([line for line in child.errors if "message rejected" in line and "omitted" not in line])
        == 200
    )
    assert "omitted: 1800 more lines of message rejected within 60 s" in child.errors
