"""`serve --dialect`: the embedded bridge of a family, and a client of that dialect."""

from __future__ import annotations

import asyncio
import json

import pytest
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.cli.running_serve import COMMAND, serving


async def test_plain_is_served_live_and_nothing_comes_again():
    """Each line is a frame, as it was typed; who was away has missed it, and what a client sends is shown, bytes too."""
    async with serving("--dialect", "plain") as (process, url):
        async with rb.BridgeClient(url, dialect=rb.dialects.plain) as bridge:
            await bridge.wait_ready(timeout=10)
            process.stdin.write('{"n": 1}\n\n[1, "two"]\n7\n{"a":\ngrüße\n'.encode())
            messages = aiter(bridge)
            came = [(await anext(messages)).raw for _ in range(5)]
            assert came == [{"n": 1}, [1, "two"], 7, '{"a":', "grüße"]
            await bridge.send({"hello": 1})
            assert (await process.stdout.readline()).strip() == b'{"hello":1}'
        async with connect(url) as socket:
            await socket.send(b"\x00\xff")
            await socket.send("text")
            shown = [json.loads(await process.stdout.readline()) for _ in range(2)]
            assert shown == [{"raw_base64": "AP8="}, "text"]
            process.stdin.write(
                b'after\n{"raw_base64": "AP9h"}\n{"raw_base64": "AP9h", "more": 1}\n'
            )
            heard = [await socket.recv() for _ in range(3)]
            assert heard == ["after", b"\x00\xffa", '{"raw_base64": "AP9h", "more": 1}']
            process.stdin.write(b'{"raw_base64": "A"}\n')
            while not (line := await process.stderr.readline()).startswith(b"refused: "):
                assert line.startswith(b"connections: ")
            assert b"line 10: raw_base64: bytes in base64 expected" in line


async def test_json_rpc_is_served_by_hand():
    """A request is shown with its id, and the line that is typed answers it."""
    async with (
        serving("--dialect", "jsonrpc") as (process, url),
        rb.BridgeClient(url, dialect=rb.dialects.jsonrpc) as bridge,
    ):
        await bridge.wait_ready(timeout=10)
        asking = asyncio.create_task(bridge.request("add", {"a": 1}, timeout=10))
        asked = json.loads(await process.stdout.readline())
        assert (asked["method"], asked["params"]) == ("add", {"a": 1})
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": 2}).encode() + b"\n"
        )
        assert (await asking).payload == {"result": 2}


async def test_the_default_has_a_name():
    """`recursor` is what is served without --dialect: a client of the default dialect joins."""
    async with serving("--dialect", "recursor") as (process, url), rb.BridgeClient(url) as bridge:
        await bridge.wait_ready(timeout=10)
        process.stdin.write(b"hello\n")
        assert (await anext(aiter(bridge))).payload == {"text": "hello"}


async def test_a_family_is_served_and_spoken():
    """What is typed comes as an event with its number, and again after a cut; what the client sends is shown."""
    spelled = "sequence(field='seq', ask='last_seq')"
    command = (*COMMAND, "--dialect", spelled)
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipes, stdout=pipes, stderr=pipes
    )
    try:
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
            dialect = rb.dialects.sequence(field="seq", ask="last_seq")
            async with rb.BridgeClient(url, dialect=dialect) as bridge:
                await bridge.wait_ready(timeout=10)
                process.stdin.write(b'{"text": "one"}\ntwo\n')
                messages = aiter(bridge)
                came = [await anext(messages), await anext(messages)]
                assert [(message.raw["seq"], message.raw["text"]) for message in came] == [
                    (1, "one"),
                    (2, "two"),
                ]
                await bridge.send({"hello": 1})
                assert (await process.stdout.readline()).strip() == b'{"hello":1}'
    finally:
        process.terminate()
        await process.communicate()


@pytest.mark.parametrize(
    ("spelled", "words"),
    [
        ("openhands", "plain, jsonrpc, recursor, sequence(…), last_event_id(…), since(…) expected"),
        ("socketio()", "got 'socketio()', whose server has to be a real one"),
        ("recursor_live", "got 'recursor_live', whose server has to be a real one"),
        ("sequence()", "sequence(field=…, ask=…) expected"),
        ("plain()", "plain expected"),
        ("nothing", "the name of a dialect expected"),
        ("sequence(field='seq', ask=7)", "ask"),
    ],
)
async def test_what_cannot_be_served_is_refused(spelled, words):
    """With 2, and what is served."""
    command = (*COMMAND, "--dialect", spelled)
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipes, stdout=pipes, stderr=pipes
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert words in err.decode()
    assert b"Traceback" not in err


async def test_a_line_that_cannot_be_sent_is_refused_and_the_next_is_not():
    """Nested too deeply, no JSON, a name twice, a number that JSON does not have: each is told with its number, and typing goes on."""
    spelled = "sequence(field='seq', ask='last_seq')"
    command = (*COMMAND, "--dialect", spelled)
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipes, stdout=pipes, stderr=pipes
    )
    wrong = ['{"a":' + "[" * 50_000 + "]" * 50_000 + "}", '{"a":', '{"a":1,"a":2}', '{"a":1e999}']
    try:
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().strip()
            for number, line in enumerate(wrong, 1):
                process.stdin.write(line.encode() + b"\n")
                assert (await process.stderr.readline()).startswith(b"refused: line %d: " % number)
            process.stdin.write(b'{"text": "good"}\n')
            dialect = rb.dialects.sequence(field="seq", ask="last_seq", start=0)
            async with rb.BridgeClient(url, dialect=dialect) as bridge:
                assert (await anext(aiter(bridge))).raw["text"] == "good"
    finally:
        process.terminate()
        await process.communicate()
