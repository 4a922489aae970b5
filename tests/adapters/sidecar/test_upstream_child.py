"""A server that is a child, killed with a call under way: what of it is known not to have run."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.adapters.sidecar.standing_in import behind, outcome_of, tree_of, until


pytestmark = pytest.mark.real

# It answers what it reads, one message at a time, and stops itself where it is told to: what comes then stays in the pipe.
SERVER = """
import json, os, signal, sys
sys.stdin = open(0, buffering=1)
for line in iter(sys.stdin.readline, ""):
    message = json.loads(line)
    if message["method"] == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"pid": os.getpid(), "content": [],
            "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}}), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe can be looked into on Linux only")
@pytest.mark.requirement("X6")
def test_a_call_that_the_killed_server_never_read_is_made_again():
    """It stands in the pipe when the server is killed: it did not run, so the next server gets it, whatever it does."""
    with behind((sys.executable, "-c", SERVER)) as client:
        (server,) = tree_of(client.process.pid)
        client.notify("stop")
        until(lambda: _state(server) == "T", 10)
        call = client.begin("tools/call", {"name": "order", "arguments": {}})
        client.request("ping")  # we answer that, so the call has been written
        os.kill(server, signal.SIGKILL)
        answer = call.result(20)
        assert outcome_of(answer) == "answered"
        assert answer["result"]["pid"] != server


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
