"""What strangers can cause over HTTP is bounded: connections, heads, servers, and lines of log."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
import textwrap
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.adapters.sidecar.scripted_relay import TOKEN, call, modern, request, running
from tests.internals.adapters import HttpLimits, message
from tests.peers.running import until


pytestmark = pytest.mark.real
HALF = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthoriz"
NO_FILES = sys.platform == "win32"

# A server whose author is not ours; it says which call it answered.
SERVER = textwrap.dedent("""
    from mcp.server.mcpserver import MCPServer
    server = MCPServer("echo")
    @server.tool()
    def echo(mark: str) -> str:
        return mark
    server.run()
""")


@asynccontextmanager
async def half(url, data=HALF):
    """A connection with half a request, or with this."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(data)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def what_comes(reader):
    """What comes until the connection is closed; "cut" if it was reset."""
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    except ConnectionError:
        return b"cut"


def is_open(reader):
    return not reader.at_eof() and reader.exception() is None


@asynccontextmanager
async def program(*options, files=256, command=(sys.executable, "-c", SERVER)):
    """The sidecar as a program that may open so many files, its URL, and a function for its stderr so far."""
    words = ["-m", "resilient_bridge", "mcp", "--http", "127.0.0.1:0", *options, "--", *command]
    limited = 'ulimit -n "$0" && exec "$@"'
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", limited, str(files), sys.executable, *words, stderr=asyncio.subprocess.PIPE
    )
    printed = bytearray()

    async def read():
        while part := await process.stderr.read(1 << 16):
            printed.extend(part)

    reading = asyncio.create_task(read())
    try:
        await until(lambda: b"serving at " in printed, "it serves", seconds=30)
        yield bytes(printed).split(b"serving at ")[1].split()[0].decode(), lambda: bytes(printed)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 30)
        await reading


@pytest.mark.skipif(NO_FILES, reason="needs a limit of open files")
async def test_m03_half_requests_do_not_keep_the_holder_of_the_token_out(tmp_path):
    """M03: 320 of them against a limit of 256 files: the official client initialises and calls; stderr has a few lines."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    async with (
        program("--token-file", str(token)) as (url, printed),
        contextlib.AsyncExitStack() as stack,
    ):
        halves = []
        for _ in range(320):
            reader, _ = await stack.enter_async_context(half(url))
            halves.append(reader)
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=20, trust_env=False) as http,
            Client(streamable_http_client(url, http_client=http), mode="legacy") as client,
        ):
            for n in range(3):
                assert (await client.call_tool("echo", {"mark": str(n)})).content[0].text == str(n)
        await until(lambda: sum(map(is_open, halves)) <= 32, "the oldest of them were cut")
    lines = printed().decode().splitlines()
    assert len(printed()) < 5_000
    assert len([line for line in lines if "refused" in line]) == 2
    assert any(re.search(r"refused \d+ times more within 60 s: strangers", line) for line in lines)
    assert any("at most 128 connections: half of the files" in line for line in lines)


@pytest.mark.skipif(NO_FILES, reason="needs a limit of open files")
async def test_m03_too_many_open_files_are_waited_for(tmp_path):
    """M03: others of the process hold them: no connection is accepted, one line says so, and then it goes on."""
    script = textwrap.dedent("""
        import asyncio, os, sys
        from tests.internals.adapters import HttpLimits, listening

        async def app(scope, receive, send):
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

        async def main():
            tries = []
            async with listening(app, "127.0.0.1", 0, HttpLimits(), lambda *refused: tries.append(refused)) as port:
                held = []
                try:
                    while True:
                        held.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    pass
                print(port, flush=True)
                while len(tries) < 3:
                    await asyncio.sleep(0.01)
                for file in held:
                    os.close(file)
                print({reason for reason, _ in tries}, flush=True)
                await asyncio.to_thread(sys.stdin.readline)

        asyncio.run(main())
    """)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", 'ulimit -n 64 && exec "$@"', "sh", sys.executable, "-c", script,
        stdin=pipe, stdout=pipe, stderr=pipe,
    )  # fmt: skip
    port = int(await process.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        assert await process.stdout.readline() == b"{'files'}\n"
        connection.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        assert (await asyncio.to_thread(connection.recv, 12)) == b"HTTP/1.1 204"
    _, errors = await process.communicate(b"\n")
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize("sent", [HALF, b"", HALF + b"x" * 10_000])
async def test_sec2_half_a_head_is_waited_for_in_bounded_time(token, sent):
    """SEC2: with a token and without one; the answer is 408, and nothing at all gets no answer."""
    async with running(token=token, limits=HttpLimits(head_seconds=0.1)) as front:
        async with half(front.url, sent) as (reader, _):
            assert (await what_comes(reader)).startswith(b"HTTP/1.1 408") == bool(sent)
        await front.open()


async def test_sec2_a_head_that_comes_byte_by_byte_is_no_longer_waited_for():
    """SEC2: what comes does not begin the time again."""
    async with (
        running(limits=HttpLimits(head_seconds=0.2)) as front,
        half(front.url) as (reader, writer),
    ):
        reading = asyncio.create_task(what_comes(reader))
        while not reading.done():
            writer.write(b"x")
            await asyncio.sleep(0.01)
        assert reading.result().startswith((b"HTTP/1.1 408", b"cut"))


async def test_sec2_a_stranger_does_not_stay_after_its_answer():
    """SEC2: neither silent nor with a body that never ends; a client with the token stays."""
    refused = (
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    )
    async with running(limits=HttpLimits(head_seconds=0.2)) as front:
        async with half(front.url, refused) as (reader, writer):
            reading = asyncio.create_task(what_comes(reader))
            while not reading.done():
                writer.write(b"1\r\nx\r\n")
                await asyncio.sleep(0.01)
            assert reading.result().startswith((b"HTTP/1.1 401", b"cut"))
        session = await front.open()
        async with front.stream("GET", session=session) as stream:
            async with half(front.url) as (reader, _):
                await what_comes(reader)
            front.relays[0].clients[0].deliver(message.notification("stays"), None)
            async for line in stream.aiter_lines():
                if "stays" in line:
                    break


async def test_sec2_a_second_head_on_a_connection_has_a_time_as_well():
    """SEC2: of a client that has shown the token; its idle connection is not closed for that."""
    head = (
        f"GET /health HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    limits = HttpLimits(head_seconds=0.1)
    async with running(limits=limits) as front, half(front.url, head) as (reader, writer):
        assert b"200 OK" in await reader.readuntil(b"]}")
        async with half(front.url) as (other, _):
            await what_comes(other)
        writer.write(head)
        assert b"200 OK" in await reader.readuntil(b"]}")
        writer.write(HALF)
        assert (await what_comes(reader)).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("token", [TOKEN, None])
async def test_sec2_servers_have_a_number(token):
    """SEC2: 60 times `initialize`; one that is being ended counts until it has ended, and requests without a session count."""
    notes = []
    limits = HttpLimits(servers=3)
    async with running(
        token=token, limits=limits, on_note=lambda *note: notes.append(note)
    ) as front:
        ended = asyncio.Event()
        opening = request(0, "initialize", protocolVersion="2025-11-25", capabilities={})
        answers = [await front.post(opening) for _ in range(60)]
        assert [answer.status_code for answer in answers] == [200] * 3 + [503] * 57
        assert len(front.relays) == 3
        body, headers = modern(call(1, "echo"))
        assert (await front.post(body, **headers)).status_code == 503
        assert len(front.relays) == 3
        front.relays[0].close = ended.wait
        async with front.stream("DELETE", session=answers[0].headers["mcp-session-id"]):
            assert (await front.post(opening)).status_code == 503
        ended.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (await front.post(body, **headers)).status_code == 200
        assert (await front.post(opening)).status_code == 503
        assert {record["reason"] for record, _ in notes} == {"servers"}
        assert notes[0][1] == "refused: a session: 3 servers run (--servers)"


async def test_sec2_sessions_that_share_a_server_have_a_number():
    """SEC2: the same for `shared`, where the number of servers does not matter."""
    async with running(shared=True, limits=HttpLimits(servers=1, sessions=2)) as front:
        opening = request(0, "initialize", protocolVersion="2025-11-25", capabilities={})
        assert [(await front.post(opening)).status_code for _ in range(4)] == [200, 200, 503, 503]


async def test_m03_clients_beyond_the_number_get_503():
    """M03: their connection gets 503 and is closed."""
    async with (
        running(limits=HttpLimits(connections=3)) as front,
        contextlib.AsyncExitStack() as stack,
    ):
        session = await front.open()
        await stack.enter_async_context(front.stream("GET", session=session))
        body, headers = modern(call(1, "hold"))
        holding = asyncio.create_task(front.post(body, **headers))
        await until(lambda: len(front.relays) == 2 and front.relays[1].got, "the second is in use")
        refused = await front.post(call(2, "echo"), session)
        assert (refused.status_code, refused.headers["connection"]) == (503, "close")
        front.relays[1].answer(*front.relays[1].held())
        assert (await holding).status_code == 200
        assert (await front.post(call(3, "echo"), session)).status_code == 200


async def test_sec3_what_is_refused_reaches_no_log_of_the_program(caplog, capfd):
    """SEC3: neither uvicorn's loggers nor asyncio's, whatever is sent; each is a refusal with a reason."""
    notes = []
    chunked = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    upgrade = (
        b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    async with running(on_note=lambda *note: notes.append(note)) as front:
        for sent in (b"no HTTP\r\n\r\n", upgrade, chunked + b"zz\r\n", HALF + b"\0\r\n\r\n"):
            async with half(front.url, sent) as (reader, writer):
                await asyncio.wait([asyncio.create_task(reader.read(5))])
                writer.write_eof()
                await what_comes(reader)
        async with half(front.url, chunked) as (reader, writer):
            await reader.readuntil(b"}}")  # its answer is here, and then its body becomes invalid
            writer.write(b"zz\r\n")
            await what_comes(reader)
    assert {record["reason"] for record, _ in notes} == {"requests", "token"}
    assert (caplog.records, capfd.readouterr().err) == ([], "")


async def test_sec6_a_body_with_two_lengths_ends_the_connection():
    """SEC6: Content-Length and Transfer-Encoding: a proxy may see another request where we see a body."""
    for token in ("", f"Authorization: Bearer {TOKEN}\r\n"):
        both = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        async with running() as front, half(front.url, both.encode()) as (reader, _):
            answer = await what_comes(reader)
            assert answer.startswith(b"HTTP/1.1 400")
            assert b"connection: close" in answer.lower()
