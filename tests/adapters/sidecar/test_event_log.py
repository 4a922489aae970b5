"""What a sidecar says to people and programs, where it cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.internals.adapters import EventLog


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
