"""The feature server and its rows, with nothing in between: what a proxy in between is measured by."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.mcp_features.feature_rows import COMMAND, problems, rows
from bench.mcp_features.row_table import ROWS


pytestmark = pytest.mark.real
SOUND = dict.fromkeys(ROWS, "")

# A proxy through models: it keeps the fields that it knows, and reads the next line when it has written the last.
LOSSY = """
import json, subprocess, sys, threading
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def known(value):
    if isinstance(value, dict):
        return {key: known(item) for key, item in value.items() if not key.startswith("x-")}
    return [known(item) for item in value] if isinstance(value, list) else value
def pass_on(source, sink):
    for line in source:
        message = known(json.loads(line))
        if message.get("method") != "notifications/progress":
            sink.write(json.dumps(message).encode() + b"\\n")
            sink.flush()
    sink.close()
threading.Thread(target=pass_on, args=(sys.stdin.buffer, child.stdin)).start()
pass_on(child.stdout, sys.stdout.buffer)
"""

# A proxy that passes nothing on.
DEAF = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        other = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {}, "instructions": "", "_meta": 0, "x-unknown": 0}
        end = {"result": other} if message["method"] == "initialize" else {"error": {"code": -32000, "message": ""}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **end}), flush=True)
"""


def test_every_row_is_as_sent_over_pipes():
    """The rows hold for the server itself."""
    assert problems(COMMAND) == SOUND


def test_every_row_is_as_sent_over_http():
    """The same server, over streamable HTTP."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*COMMAND, "--http", "0"], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        found = problems(url)
        process.communicate("")  # its input ends, and so does it
    assert found == SOUND
    assert process.returncode == 0


def test_a_proxy_that_loses_something_is_found_out():
    """What goes through models loses fields, notifications and digits, and keeps the rest; the rows tell which."""
    found = rows([sys.executable, "-c", LOSSY, *COMMAND])
    assert {name for name, is_sound in found.items() if not is_sound} == {
        *(
            "server_info",
            "capabilities",
            "unknown_fields_of_initialize",
            "client_info_and_capabilities",
        ),
        *(
            "pagination",
            "tools_with_unknown_fields_and_annotations",
            "prompts",
            "resources",
            "completion",
        ),
        *(
            "unknown_params",
            "unknown_contents",
            "digits_of_numbers",
            "list_changed_and_resources_updated",
        ),
        *(
            "progress_with_the_callers_token",
            "notifications_before_the_answer",
            "log_messages",
            "roots",
        ),
        "tasks",
    }


def test_every_row_can_fail():
    """None of them holds at something that passes nothing on."""
    found = rows([sys.executable, "-c", DEAF])
    assert [name for name, is_sound in found.items() if is_sound] == []
