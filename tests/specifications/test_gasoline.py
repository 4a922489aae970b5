"""Gasoline's own words as input, where no other test has them: a client that goes, and what a command's status means."""

from __future__ import annotations

import re
import sys

import pytest

import resilient_bridge as rb
from tests.agent.command_peer import Peer
from tests.peers.processes import is_reaped
from tests.rows import each_row


HINTS = """\
| Command timeout | `status: "timeout"` after 30s | Increase timeout_ms param or break into smaller operations |
| Command expired | `status: "expired"` after 30s | Result was lost; rerun command |
| Command queued | `status: "pending"` | Still processing; wait and poll again |
"""
OURS = {
    "timeout": ["timeout_ms", "ask for less"],
    "expired": ["lost", "run the command again"],
    "pending": ["wait", "look again"],
}
DAEMON = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": "here"}), flush=True)
    if "--persist" not in sys.argv and asked["method"] == "quit":
        break
print("MCP disconnected, shutting down in 100ms", file=sys.stderr, flush=True)
"""


@pytest.mark.requirement("G6")
@each_row("line", HINTS.splitlines())
async def test_each_status_has_its_hint(line):
    """The symptom as the peer's answer; the recovery in our words."""
    _, symptom, _ = (cell.strip() for cell in line.strip("|").split("|"))
    (status,) = re.findall(r'status: "(\w+)"', symptom)
    command = await Peer({"correlation_id": "c-1", "status": status}).commands().start("execute_js")
    assert await command.poll() == status
    assert all(word in command.hint for word in OURS[status])


@pytest.mark.real
@pytest.mark.requirement("G5")
@pytest.mark.parametrize("how", ["our end", "its end"])
@pytest.mark.parametrize("options", [[], ["--persist"]])
async def test_a_disconnect_is_noticed_and_the_process_reaped(how, options):
    """The server "detects EOF on stdin", says "MCP disconnected, shutting down in 100ms" and exits; or it goes first. No zombie stays."""
    peer_of = rb.links.stdio(sys.executable, "-c", DAEMON, *options)
    async with peer_of() as peer:
        assert await peer.request("ping") == "here"
        if how == "its end" and not options:
            assert await peer.request("quit") == "here"
            await peer.wait_closed()
            assert peer.returncode == 0
            with pytest.raises(rb.errors.NotConnectedError):
                await peer.request("ping")
    assert (peer.returncode, is_reaped(peer.pid)) == (0, True)
    assert peer.stderr.strip() == "MCP disconnected, shutting down in 100ms"
