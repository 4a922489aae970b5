"""What a sidecar says to people and programs, where it cannot be written."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from bench.mcp_features.raw_client import Pipes
from tests.adapters.sidecar.standing_in import stands_in_for
from tests.internals.adapters import EventLog
from tests.internals.telemetry import LineRate
from tests.peers.running import until


async def test_a_secret_that_spans_lines_is_masked():
    """A private key in what is said of a failure reaches no terminal, whatever its lines are."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END PRIVATE KEY-----"
    reading, writing = os.pipe()
    log = EventLog(None, stderr=writing)
    log({"event": "closed"}, f"the server said:\n{key}\nand ended")
    await log.close()
    os.close(writing)
    with os.fdopen(reading) as lines:
        shown = lines.read().splitlines()
    assert all(line.startswith("resilient-bridge mcp: ") for line in shown)
    assert (shown[0], shown[-1]) == (
        "resilient-bridge mcp: the server said:",
        "resilient-bridge mcp: and ended",
    )
    assert "MIIEvQ" not in "".join(shown)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_records_that_a_full_disk_costs_are_counted():
    """The relay goes on; at the end a line says how many were lost, once."""
    reading, writing = os.pipe()
    log = EventLog("/dev/full", stderr=writing)
    log({"event": "opened"}, "the server runs")
    log({"event": "closed"})
    await log.close()
    await log.close()
    os.close(writing)
    with os.fdopen(reading) as lines:
        assert lines.read().splitlines() == [
            "resilient-bridge mcp: the server runs",
            "resilient-bridge mcp: 2 lines or records could not be written",
        ]


async def test_d01_the_file_of_records_follows_its_path(tmp_path):
    """Removed or moved, as by a rotation: the next record is in a new file; a link to a file stays a link."""
    path = tmp_path / "events.jsonl"
    (tmp_path / "link").symlink_to(path)
    log = EventLog(str(tmp_path / "link"), stderr=None)
    log({"event": "first"})
    path.rename(tmp_path / "rotated.jsonl")
    log({"event": "second"})
    path.unlink()
    log({"event": "third"})
    assert log.dropped == 0
    await log.close()
    assert "first" in (tmp_path / "rotated.jsonl").read_text()
    assert "third" in path.read_text()
    assert "second" not in path.read_text()


async def test_sec3_lines_of_one_kind_have_a_rate(tmp_path):
    """SEC3: the rest is counted and told when the interval is over, though nothing else is said; ended calls are all recorded."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    log = EventLog(str(tmp_path / "events"), stderr=writing, rate=LineRate(2, per=0.1))
    shown = bytearray()

    def printed(text):
        try:
            shown.extend(os.read(reading, 1 << 16))
        except BlockingIOError:
            return False
        return text in shown

    for n in range(5):
        log({"event": "line"}, f"server: {n}")
        log({"event": "stray_answer"})
        log({"event": "call_finished", "n": n}, f"call {n}")
    await until(lambda: printed(b"3 more lines of call_finished"), "the interval is over")
    log({"event": "refused", "reason": "token"}, "refused: a request")
    log({"event": "refused", "reason": "token"}, "refused: a request")
    log({"event": "refused", "reason": "heads"}, "refused: a head")
    await log.close()
    os.close(writing)
    with os.fdopen(reading, "rb") as rest:
        shown += rest.read()
    assert [
        line.removeprefix("resilient-bridge mcp: ") for line in shown.decode().splitlines()
    ] == [
        "server: 0",
        "call 0",
        "server: 1",
        "call 1",
        "3 more lines of the server's output were omitted within 60 s",
        "3 more lines of stray_answer were omitted within 60 s",
        "3 more lines of call_finished were omitted within 60 s",
        "refused: a request",
        "refused: a head",
        "refused 1 times more within 60 s: token",
    ]
    records = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    events = [record["event"] for record in records]
    assert events.count("call_finished") == 5
    assert events.count("stray_answer") == 2
    assert [
        (record["of"], record["count"]) for record in records if record["event"] == "omitted"
    ] == [
        ("line", 3),
        ("stray_answer", 3),
        ("call_finished", 3),
        ("refused: token", 1),
    ]


@pytest.mark.real
def test_sec3_a_server_that_prints_junk_fills_no_disk():
    """SEC3: 6,000 lines on its stdout and stderr: its calls are answered, and our stderr has the first of them and a number."""
    script = """
import json, sys
for n in range(3_000):
    print("junk", n, "x" * 400)
    print("junk", n, "x" * 400, file=sys.stderr)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
    with Pipes([*stands_in_for((sys.executable, "-c", script))]) as client:
        assert client.initialize()["result"]["serverInfo"]["name"] == "s"
    assert client.errors.count(b"junk") <= 200
    assert b"more lines of the server's output were omitted within 60 s" in client.errors
