"""`resilient-bridge pipe --dialect` as a child process: frames of one's own go out, frames of any form come in, and refusals have names."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from aiohttp import WSMsgType, web

from resilient_bridge import cli
from resilient_bridge.testing import BridgeServer
from tests.bridges.aiohttp_server import serving
from tests.bridges.doubles.clients import until
from tests.bridges.doubles.harness import serving_aiohttp
from tests.bridges.doubles.homemade import Homemade
from tests.bridges.doubles.openhands import SessionSocket
from tests.bridges.doubles.socketio import SocketIO
from tests.cli.running_pipe import message, running


pytestmark = pytest.mark.real
SEQUENCE = "sequence(field='seq', ask='last_seq')"


async def says(child, word):
    """Wait until a line of stderr begins so."""
    await until(lambda: any(line.startswith(word) for line in child.errors))


def refusals(child):
    return [line for line in child.errors if line.startswith("refused: ")]


async def echo(request):
    """Everything comes back as it is."""
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for frame in socket:
        if frame.type is WSMsgType.TEXT:
            await socket.send_str(frame.data)
            if "bytes" in frame.data:
                await socket.send_bytes(b"\xff\x00")
                await socket.send_str("no JSON")
                await socket.send_bytes(b"text")
        elif frame.type is WSMsgType.BINARY:
            await socket.send_bytes(frame.data[::-1])
    return socket


async def test_a_frame_goes_out_as_it_is_and_any_frame_comes_in():
    """With `plain` an object is the frame, with a type and a payload too; `raw` is the frame that came: an object, a text, or base64."""
    async with serving(echo) as url, running(url, "--dialect", "plain", "--keep-open") as child:
        child.say({"op": "subscribe"}, {"type": "a", "payload": {"n": 1}}, {"bytes": True}, [1])
        assert await child.hear() == {
            "type": "", "id": None, "timestamp": None, "payload": {"op": "subscribe"}, "raw": {"op": "subscribe"},
        }  # fmt: skip
        assert (await child.hear())["raw"] == {"type": "a", "payload": {"n": 1}}
        assert (await child.hear())["raw"] == {"bytes": True}
        more = [await child.hear() for _ in range(3)]
        assert [line.get("raw", line.get("raw_base64")) for line in more] == [
            "/wA=",
            "no JSON",
            "dGV4dA==",
        ]
        child.say({"raw_base64": "AP9h"})
        assert (await child.hear())["raw_base64"] == "Yf8A"
        child.process.terminate()
        assert await child.end() == 3  # nothing confirms a send in this dialect
    assert len(refusals(child)) == 1
    assert "line 4: one JSON object expected, got a list" in refusals(child)[0]
    assert [line.split(":")[1] for line in child.errors if line.startswith("not confirmed:")] == [
        " line 1", " line 2", " line 3", " line 5",
    ]  # fmt: skip


async def test_a_type_and_a_payload_are_a_message_where_the_dialect_has_types():
    """Exactly these two fields; anything else is the user's own frame. A cut is told with its verdict, and each event comes once."""
    double = Homemade(random.Random(1), names="id")
    async with (
        serving_aiohttp(double) as url,
        running(url, "--dialect", SEQUENCE, "--keep-open") as child,
    ):
        child.say(
            {"type": "message", "payload": {"n": 1}},
            {"type": "message", "n": 2},
            {"type": "message", "payload": {"n": 3}, "id": "x"},
        )
        await until(lambda: len(double.effects) == 3)
        assert double.effects == [
            {"type": "message", "n": 1},
            {"type": "message", "n": 2},
            {"type": "message", "payload": {"n": 3}, "id": "x"},
        ]
        await double.publish(1)
        first = await child.hear()
        assert first["raw"] == {
            "type": "event",
            "seq": 1,
            "payload": {"number": 1},
            "id": first["id"],
        }
        url.drop()
        await double.publish(2)
        second = await child.hear()
        assert second["raw"]["seq"] == 2
        await says(child, "verdict: RECOVERED")
        child.process.terminate()
        await child.end()


async def test_a_store_does_not_claim_what_it_does_not_hold(tmp_path):
    """What nothing can confirm is done with once it is written: it is not confirmed, and not the next run's."""
    double = Homemade(random.Random(1))
    store = str(tmp_path / "store.db")
    async with serving_aiohttp(double) as url:
        async with running(url, "--dialect", SEQUENCE, "--store", store) as child:
            child.say({"type": "message", "n": 1})
            assert await child.end() == 3
        assert any(line.startswith("not confirmed: line 1") for line in child.errors)
        assert not any(line.startswith("kept:") for line in child.errors)
        async with running(url, "--dialect", SEQUENCE, "--store", store) as child:
            assert await child.end() == 0
    assert double.effects == [{"type": "message", "n": 1}]


async def test_what_comes_back_confirms_a_send():
    """OpenHands sends a message back as an event: with its token in the first frame, each line is confirmed, and the code is 0."""
    double = SessionSocket(random.Random(1), key="k-123456")
    frame = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
    arguments = ["--dialect", "openhands", "--token-env", "RB_KEY"]
    async with (
        serving_aiohttp(double) as url,
        running(f"{url}/sockets/session/main", *arguments, RB_KEY="k-123456") as child,
    ):
        child.say(frame)
        assert await child.end() == 0
    assert [effect["content"] for effect in double.effects] == [frame["content"]]
    assert "k-123456" not in "".join(child.errors)


async def test_a_dialect_without_frames_of_the_user_refuses_them_by_line():
    """socket.io emits by name: a type and a payload go out, an object of another form is refused with its number, and the code is 4 or 3."""
    double = SocketIO(random.Random(1))
    path = "/socket.io/?EIO=4&transport=websocket"
    async with (
        serving_aiohttp(double) as url,
        running(url + path, "--dialect", "socketio(acks=True)") as child,
    ):
        child.say({"type": "hello", "payload": {"args": [1, 2]}}, {"op": "x"})
        assert await child.end() == 4
    assert double.effects == [["hello", 1, 2]]
    assert [
        line for line in refusals(child) if "line 2: type: a name expected, got nothing" in line
    ]


async def test_envelopes_are_printed_as_they_always_were():
    """With `recursor`, the default by name: the four fields and no `raw`."""
    async with BridgeServer() as server, running(server.url, "--dialect", "recursor") as child:
        child.say(message(1))
        await says(child, "state: READY")
        pushed = await server.push("tool_call", {"text": "x"})
        assert await child.hear() == pushed
        assert await child.end() == 0
        assert server.received[0]["payload"]["n"] == 1


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("plian", "did you mean plain?"),
        ("sequence", "sequence(field=…, ask=…) expected, got 'sequence' without its arguments"),
        ("sequence(field='seq')", "missing 1 required keyword-only argument: 'ask'"),
        ("sequence(field='seq', ask=print)", "a literal (a text in quotes"),
        ("plain()", "plain expected, which takes no arguments"),
        ("rb.dialects.plain", "did you mean plain?"),
        ("__import__('os').system('true')", "the name of a dialect expected"),
        ("sequence(*['a'])", "a literal (a text in quotes"),
        ("sequence(**{'field': 'a'})", "arguments by name expected"),
        ("sequence(field='a', field='b', ask='c')", "field= once expected, got it repeated"),
        ("sequence(field='a', ask='')", "rb.dialects.sequence.ask: wanted"),
        ("table()", "the name of a dialect expected"),
        ("plain; plain", "a dialect as in code expected"),
        ("", "got nothing"),
        ("x" * 5_000, "got 5000 characters"),
    ],
)
def test_a_dialect_that_is_none_is_named(capsys, dialect, words):
    """One line on stderr says what was got, what is near and what there is; the code is 2, and nothing is connected."""
    for command in (["pipe", "ws://127.0.0.1:1/"], ["doctor", "--bridge", "ws://127.0.0.1:1/"]):
        assert cli.main([*command, "--dialect", dialect]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"resilient-bridge {command[0]}: --dialect: ")
        assert words in err
        assert err.count("\n") == 1


def test_what_there_is_is_listed(capsys):
    """Every dialect with the arguments that it needs, and nothing else of the namespace."""
    cli.main(["pipe", "ws://127.0.0.1:1/", "--dialect", "none such"])
    cli.main(["pipe", "ws://127.0.0.1:1/", "--dialect", "nonesuch"])
    err = capsys.readouterr().err
    for name in (
        "agno(workflow_id=…)",
        "centrifugo(…)",
        "last_event_id()",
        "mattermost",
        "sequence(field=…, ask=…)",
        "socketio()",
    ):
        assert name in err
    assert "Event" not in err
    assert "table" not in err


async def test_a_token_that_the_dialect_has_no_use_for_is_refused():
    """Before anything is connected, with the code of other bad arguments."""
    arguments = ["ws://127.0.0.1:1/", "--dialect", "slack_socket_mode", "--token-env", "RB_KEY"]
    async with asyncio.timeout(30), running(*arguments, RB_KEY="k-1234567") as child:
        assert await child.end() == 2
    assert child.errors[-1].startswith(
        "resilient-bridge pipe: BridgeClient.token: wanted a dialect"
    )
    assert "k-1234567" not in json.dumps(child.errors)
