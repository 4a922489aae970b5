"""`serve --dialect`: the embedded bridge of a family, and a client of that dialect."""

from __future__ import annotations

import asyncio
import sys

import pytest

import resilient_bridge as rb


async def test_a_family_is_served_and_spoken():
    """What is typed comes as an event with its number, and again after a cut; what the client sends is shown."""
    spelled = "sequence(field='seq', ask='last_seq')"
    command = (sys.executable, "-m", "resilient_bridge", "serve", "--dialect", spelled)
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipes, stdout=pipes, stderr=pipes)
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
    "spelled", ["plain", "sequence()", "openhands", "nothing", "sequence(field='seq', ask=7)"]
)
async def test_what_cannot_be_served_is_refused(spelled):
    """With 2, and the families that there are."""
    command = (sys.executable, "-m", "resilient_bridge", "serve", "--dialect", spelled)
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipes, stdout=pipes, stderr=pipes)
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    assert (process.returncode, out) == (2, b"")
    assert b"expected" in err or b"wanted" in err


async def test_a_line_that_cannot_be_sent_is_refused_and_the_next_is_not():
    """Nested too deeply, no JSON, a name twice, a number that JSON does not have: each is told with its number, and typing goes on."""
    spelled = "sequence(field='seq', ask='last_seq')"
    command = (sys.executable, "-m", "resilient_bridge", "serve", "--dialect", spelled)
    pipes = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipes, stdout=pipes, stderr=pipes)
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
