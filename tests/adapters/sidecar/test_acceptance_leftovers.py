"""Nothing is left over, whoever ends first and however; and whatever a server writes, the client's pipe stays clean."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time

import pytest

from resilient_bridge.testing import Trap
from tests.adapters.sidecar import servers
from tests.adapters.sidecar.standing_in import (
    behind,
    stands_in_for,
    text_of,
    tree_of,
    until,
)
from tests.peers.processes import is_running


pytestmark = [pytest.mark.real, pytest.mark.server, pytest.mark.requirement("X5")]

# A server that ignores the end of its input and SIGTERM, and has a child of its own that does the same.
STUBBORN = """
import json, os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"])
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = {"content": [], "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
time.sleep(60)
"""
HEEDS = "heeds the end of its input"
IGNORES = "ignores the end of its input and SIGTERM"


def _commands(tmp_path):
    everything, filesystem = servers.everything(), servers.filesystem(tmp_path)
    trap = Trap(tmp_path / "effects.jsonl", rate=0).command
    shell = " ".join(f"'{word}'" for word in trap)
    return {
        "plain": (trap, HEEDS),
        "sh": (
            ("sh", "-c", f"{shell}; true"),
            HEEDS,
        ),  # the shell stays: it has something to do afterwards
        "npx": (("npx", "--no-install", "-c", shell), HEEDS),
        "stubborn": ((sys.executable, "-c", STUBBORN), IGNORES),
        "everything-sh": (("sh", "-c", f"{shlex.join(everything)}; true"), HEEDS),
        "everything-npx": (
            (
                "npx",
                "--prefix",
                str(servers.NODE_PEERS),
                "--no-install",
                "mcp-server-everything",
                "stdio",
            ),
            HEEDS,
        ),
        "filesystem-sh": (("sh", "-c", f"{shlex.join(filesystem)}; true"), HEEDS),
        "filesystem-npx": (("npx", "--no-install", "-c", shlex.join(filesystem)), HEEDS),
    }


ENDS = {
    "the client closes our input": lambda process: process.stdin.close(),
    "SIGTERM": lambda process: process.terminate(),
    "SIGINT": lambda process: process.send_signal(signal.SIGINT),
    "SIGHUP": lambda process: process.send_signal(signal.SIGHUP),
    "SIGKILL": lambda process: process.kill(),
}
CASES = [
    *(("plain", end) for end in ENDS),
    *(("sh", end) for end in ("the client closes our input", "SIGTERM", "SIGKILL")),
    ("npx", "the client closes our input"),
    ("npx", "SIGTERM"),
    ("stubborn", "the client closes our input"),
    ("stubborn", "SIGINT"),
]
OF_OTHERS = [
    ("everything-npx", "the client closes our input"),
    ("filesystem-npx", "SIGTERM"),
    ("everything-sh", "SIGKILL"),
]
MORE_OF_OTHERS = [
    *(("everything-sh", end) for end in ("the client closes our input", "SIGTERM", "SIGINT")),
    *(("everything-npx", end) for end in ("SIGTERM", "SIGHUP", "SIGKILL")),
    *(("filesystem-sh", end) for end in ENDS),
    *(("filesystem-npx", end) for end in ("the client closes our input", "SIGINT", "SIGKILL")),
]


def _cases():
    needs = servers.needs("node", "servers")
    for cases, marks in (
        (CASES, ()),
        (OF_OTHERS, (needs,)),
        (MORE_OF_OTHERS, (needs, pytest.mark.campaign)),
    ):
        for kind, end in cases:
            yield pytest.param(kind, end, id=f"{kind}-{end}".replace(" ", "-"), marks=marks)


@pytest.mark.parametrize(("kind", "end"), list(_cases()))
def test_no_process_of_the_tree_remains(kind, end, tmp_path):
    """After 5 s (and with -9, of a server that heeds the end of its input) none is there; the exit code is 0 unless we were killed."""
    command, _ = _commands(tmp_path)[kind]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        stands_in_for(command, "--quiet"), stdin=pipe, stdout=pipe, text=True
    ) as process:
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "c", "version": "1"},
        }
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening})
            + "\n"
        )
        process.stdin.flush()
        assert "result" in json.loads(process.stdout.readline())
        tree = tree_of(process.pid)
        assert tree
        begin = time.monotonic()
        ENDS[end](process)
        until(lambda: not any(map(is_running, tree)), 5, f"the end of {tree}")
        assert process.wait(5) == (-signal.SIGKILL if end == "SIGKILL" else 0)
        assert time.monotonic() - begin < 5


def test_a_client_that_was_killed_takes_all_with_it(tmp_path):
    """Nobody closes anything in order: the sidecar sees the end of its input, and the server of its own."""
    trap = Trap(tmp_path / "effects.jsonl", rate=0)
    plan = json.dumps({"calls": [{"name": "list_orders"}], "paced": True})
    with subprocess.Popen(
        servers.python_client("legacy", plan, *stands_in_for(trap.command, "--quiet")),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=servers.ROOT,
    ) as client:  # fmt: skip
        assert "mcp-trap" in client.stdout.readline()
        tree = tree_of(client.pid)
        assert len(tree) >= 2
        client.kill()
        until(lambda: not any(map(is_running, tree)), 5, f"the end of {tree}")


# ---- what a server writes ----------------------------------------------------------------------------------------------
# Before each answer: a banner, a blank line, half an object, bytes that are no UTF-8, other JSON; and a BOM before the first message.
NOISY = r"""
import json, os, sys, threading
out = sys.stdout.buffer
def pour():
    while True:
        sys.stderr.write("all is well, " * 80 + "\n")
if "pour" in sys.argv:
    threading.Thread(target=pour, daemon=True).start()
def say(data):
    out.write(data)
    out.flush()
first = True
for line in sys.stdin:
    message = json.loads(line)
    say(b'Listening ...\r\n\n{"half": \n\xff\xfe\x00\n[1, 2]\n"text"\n42\n{"jsonrpc": "2.0"}\n')
    if "id" not in message:
        continue
    arguments = message.get("params", {}).get("arguments", {})
    text = "x" * arguments.get("size", 0) + arguments.get("marker", "")
    result = {"content": [{"type": "text", "text": text}], "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"}, "tools": []}
    data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
    say((b"\xef\xbb\xbf" if first else b"") + data + b"\r\n")
    first = False
"""


@pytest.mark.parametrize("how", ["quiet", "pour"])
def test_noise_stays_out_of_the_clients_pipe(how):
    """Banners, half lines, a BOM, bad UTF-8, a line of 10 MB and a stderr that never stops: the client gets its answers and nothing else."""
    with behind((sys.executable, "-c", NOISY, how)) as client:
        for number, size in enumerate((0, 10, 10_000_000, 5)):
            answer = client.call("echo", {"marker": f"m-{number}", "size": size})
            assert text_of(answer) == "x" * size + f"m-{number}"
        assert client.noise == []
        assert not client.strays
        assert client.notifications == []
    if how == "quiet":
        assert b"Listening" in client.errors


def test_the_client_may_send_what_is_no_message():
    """It is told so, and everything else goes on."""
    with behind((sys.executable, "-c", NOISY)) as client:
        for line in (b"\n", b"not json\n", b"\xff\xfe\n", b"[]\n", b'{"half": \n'):
            client.write_bytes(line)
        assert text_of(client.call("echo", {"marker": "m"})) == "m"
        errors = [one["error"]["code"] for one in client.strays]
        assert set(errors) <= {-32700, -32600}
        assert len(errors) >= 3
