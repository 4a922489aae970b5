"""`resilient-bridge serve` as a real child process: its address, lines to the client, and what the client sends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket

import pytest

import resilient_bridge as rb
from tests.cli.running_serve import COMMAND, serving


pytestmark = pytest.mark.real


def type_line(process, line):
    process.stdin.write(line.encode() + b"\n")


async def test_typed_lines_arrive_and_sent_messages_are_shown():
    """Text becomes a `text_message`, JSON the message it describes; what the client sends is a line of JSON."""
    async with serving() as (process, url), rb.BridgeClient(url) as client:
        messages = aiter(client)
        await client.wait_ready(10)
        type_line(process, "hello there")
        type_line(process, '{"type":"tool_call","payload":{"n":1}}')
        text, call = [await asyncio.wait_for(anext(messages), 10) for _ in range(2)]
        assert (text.type, text.payload) == ("text_message", {"text": "hello there"})
        assert (call.type, call.payload) == ("tool_call", {"n": 1})
        receipt = await client.send("tool_result", {"n": 2})
        assert await receipt.confirmed(10) == "applied"
        shown = json.loads(await asyncio.wait_for(process.stdout.readline(), 10))
        assert (shown["type"], shown["payload"]["n"]) == ("tool_result", 2)
        await client.send("tool_result", {"n": 3})
        shown = json.loads(await asyncio.wait_for(process.stdout.readline(), 10))
        assert shown["payload"]["n"] == 3


async def test_a_line_before_anybody_joined_and_a_bad_one_are_refused():
    """Both are told on stderr with their numbers, and the bridge goes on."""
    async with serving() as (process, url):
        type_line(process, "too early")
        first = (await asyncio.wait_for(process.stderr.readline(), 10)).decode()
        assert first == "refused: line 1: nobody has joined yet\n"
        type_line(process, '{"type":')
        assert (
            "refused: line 2: " in (await asyncio.wait_for(process.stderr.readline(), 10)).decode()
        )
        async with rb.BridgeClient(url) as client:
            await client.wait_ready(10)


async def test_the_end_of_stdin_ends_nothing_and_a_signal_does():
    """`serve </dev/null` serves; SIGTERM ends it with 0."""
    async with serving() as (process, url):
        process.stdin.close()
        async with rb.BridgeClient(url) as client:
            await client.wait_ready(10)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0


async def test_it_asks_for_its_token():
    """With `--token-env` a client without the token is refused, one with it joins."""
    async with serving("--token-env", "RB_T", RB_T="s3cret") as (_, url):
        async with rb.BridgeClient(url, token="s3cret") as client:
            await client.wait_ready(10)
        async with rb.BridgeClient(url, token="other") as client:
            with pytest.raises(rb.errors.AuthError):
                await client.wait_ready(10)


async def test_a_port_that_is_taken_is_reported():
    """One line on stderr, exit code 2, and no address on stdout."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        async with serving("--port", port) as (process, url):
            assert url == ""
            assert await asyncio.wait_for(process.wait(), 10) == 2
            text = (await process.stderr.read()).decode()
            assert text.startswith(f"resilient-bridge serve: cannot listen on 127.0.0.1:{port}: ")
            assert "Traceback" not in text


async def test_two_terminals_show_it_all():
    """`serve` in one, `pipe` in the other: lines typed in each appear in the other."""
    async with serving() as (server, url):
        pipe = await asyncio.create_subprocess_exec(
            *COMMAND[:-1],
            "pipe",
            url,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            pipe.stdin.write(b'{"type":"tool_result","payload":{"from":"pipe"}}\n')
            shown = json.loads(await asyncio.wait_for(server.stdout.readline(), 20))
            assert shown["payload"]["from"] == "pipe"
            type_line(server, "from serve")
            assert json.loads(await asyncio.wait_for(pipe.stdout.readline(), 20))["payload"] == {
                "text": "from serve"
            }
            pipe.stdin.close()
            assert await asyncio.wait_for(pipe.wait(), 20) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                pipe.kill()
            await pipe.communicate()
