"""A server that is a child, killed with a call under way: what of it is known not to have run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from bench.mcp_features.raw_client import Pipes
from tests.adapters.sidecar.standing_in import (
    behind,
    outcome_of,
    stands_in_for,
    text_of,
    tree_of,
    until,
)
from tests.internals.adapters import ChildUpstream, message


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


def test_last_words_have_what_was_no_message_on_stdout():
    """A server that says on stdout why it ends: the client is told, beside what stands on stderr."""
    script = "import sys; print('usage: tea POT', flush=True); sys.exit('no pot')"
    program = [*stands_in_for((sys.executable, "-c", script), "--circuit", "1/9")]
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    with Pipes(program) as client:
        text = text_of(client.request("initialize", opening))
    assert "on stdout: usage: tea POT (not a JSON object)" in text
    assert "no pot" in text


def test_a_line_on_stderr_that_is_too_long_is_reported():
    """Not its words, of which a part might be half a secret; the lines around it are passed on."""
    script = "import sys; sys.exit('before\\n' + 9000 * 'x' + '\\nafter')"
    program = [*stands_in_for((sys.executable, "-c", script), "--circuit", "1/9")]
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    with Pipes(program) as client:
        text = text_of(client.request("initialize", opening))
    for line in ("before", "(a line of more than 8192 bytes was dropped)", "after"):
        assert line in text
    assert "xxx" not in text


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


LONG_ANSWERS = """
import json, sys
for line in iter(sys.stdin.readline, ""):
    message = json.loads(line)
    if message.get("id") == 2:
        print(json.dumps({"jsonrpc": "2.0", "id": 2, "result": "x" * 5000}), flush=True)
"""


async def test_an_answer_that_is_too_long_is_known_for_its_call_after_another_was_cancelled():
    """No answer has to come to what was cancelled: it is not waited for, and the only call that is open is told."""
    heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    class Receiver:
        def on_unanswered(self, request, loss):
            assert "5000" not in loss.reason
            heard.set_result(request)

        def on_note(self, text):
            pass

        def on_lost(self, loss):
            pass

    upstream = ChildUpstream((sys.executable, "-c", LONG_ANSWERS), Receiver(), max_line=1000)
    await upstream.open()
    upstream.send(message.request(1, "tools/call", {"name": "a"}))
    upstream.send(message.notification("notifications/cancelled", {"requestId": 1}))
    upstream.send(message.request(2, "tools/call", {"name": "b"}))
    async with asyncio.timeout(20):
        assert await heard == 2
    await upstream.close()


# M04: it answers "bad" with one byte that is not UTF-8, "text" under an id as a text, "digits" under its id as 5.0,
# "bare" without "jsonrpc", "control" with a raw line of a control character, and "noise" with a line that names nobody
DEFECTIVE = r"""
import json, os, sys
opened = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
def say(text, errors="strict"):
    sys.stdout.buffer.write(text.encode("utf-8", errors) + b"\n"); sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    number, name = message["id"], message.get("params", {}).get("name", "")
    answer = {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": name}], **opened}}
    text = json.dumps(answer)
    if name == "bad":
        text = text.replace('"bad"', '"b\udcffd"')
    if name == "text":
        text = json.dumps({**answer, "id": str(number)})
    if name == "digits":
        text = json.dumps({**answer, "id": float(number)})
    if name == "bare":
        text = json.dumps({"id": number, "result": {}})
    if name == "control":
        text = text.replace('"control"', '"con\ttrol"')
    if name == "noise":
        say('{"level": "info", "line": {"id": %d}}' % number)
        say('{"level": "info", "id": "%d-a"}' % number)
    say(text, "surrogateescape")
"""
UNUSABLE = {
    "bad": "not UTF-8",
    "text": "its id is of another type",
    "digits": "its id is of another type",
    "bare": 'no "jsonrpc": "2.0"',
    "control": "not a JSON object",
}


@pytest.mark.requirement("X6")
@pytest.mark.parametrize("name", UNUSABLE)
def test_a_call_whose_answer_cannot_be_used_ends_at_once(name):
    """M04: as unknown, with the reason; the session goes on, and so does a call whose id stands inside of a line of a log."""
    with behind((sys.executable, "-c", DEFECTIVE)) as client:
        answer = client.begin("tools/call", {"name": name, "arguments": {}}).result(5)
        assert outcome_of(answer) == "unknown"
        assert f'the answer to "{name}" came and cannot be used' in text_of(answer)
        assert UNUSABLE[name] in text_of(answer)
        assert (
            text_of(client.begin("tools/call", {"name": "noise", "arguments": {}}).result(5))
            == "noise"
        )


def test_a_server_that_answers_with_ids_as_texts_is_refused_with_these_words():
    """M04: the client is told what is wrong with the answer to its `initialize`, and not that nobody answered."""
    script = DEFECTIVE.replace('"id": number, "result"', '"id": str(number), "result"')
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    with Pipes([*stands_in_for((sys.executable, "-c", script))]) as client:
        text = text_of(client.begin("initialize", opening).result(5))
    assert "the answer to initialize cannot be used: its id is of another type" in text
