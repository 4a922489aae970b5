"""`reconnecting` over WebSocket servers that nobody here wrote, aiohttp's and npm's `ws`, which end every connection after seven messages.

Rule: what arrived is counted by the server: nothing twice, and nothing that was told as not sent.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import WSCloseCode, web
from websockets.asyncio.client import connect

import resilient_bridge as rb
from tests.adapters.campaigns import outcome_of
from tests.adapters.link_peers import quick
from tests.peers.ports import HOST, Port


NODE = shutil.which("node")
COUNTING = Path(__file__).parents[1] / "node/counting.mjs"

pytestmark = pytest.mark.real


@asynccontextmanager
async def aiohttp_server():
    """aiohttp's: its address, and how often each message arrived."""
    arrived, number = Counter(), iter(range(10_000))

    async def attend(request):
        ws = web.WebSocketResponse(heartbeat=5)
        await ws.prepare(request)
        how = next(number) % 3
        for _ in range(7):
            text = await ws.receive_str()
            arrived[text] += 1
            await ws.send_str(text)
        if how == 0:
            await ws.close(code=WSCloseCode.GOING_AWAY)
        elif how == 1:
            await ws.close(code=WSCloseCode.INTERNAL_ERROR, message=b"trouble")
        else:
            request.transport.abort()
        return ws

    app = web.Application()
    app.router.add_get("/", attend)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    with Port() as port:
        await web.SockSite(runner, port.listen()).start()
        try:
            yield f"ws://{HOST}:{port.number}/", arrived
        finally:
            await runner.cleanup()


@asynccontextmanager
async def npm_server():
    """npm's `ws`: the same."""
    arrived = Counter()
    process = await asyncio.create_subprocess_exec(
        str(NODE), str(COUNTING), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(20):
        port = int(await process.stdout.readline())

    async def read():
        while line := await process.stdout.readline():
            arrived[line.decode().strip()] += 1

    reading = asyncio.create_task(read())
    try:
        yield f"ws://{HOST}:{port}/", arrived
    finally:
        process.stdin.close()
        async with asyncio.timeout(10):
            await process.wait()
            await reading


needs_npm = pytest.mark.skipif(
    NODE is None or not (COUNTING.parent / "node_modules/ws").is_dir(),
    reason="npm's ws is missing: run `npm ci` in tests/node",
)


@pytest.mark.parametrize("served", [aiohttp_server, pytest.param(npm_server, marks=needs_npm)])
async def test_messages_over_connections_that_end_arrive_at_most_once(served):
    """60 messages, one after the other: what arrived is never more than was told, and the link goes on to the end."""
    fields = {}
    async with served() as (url, arrived):
        link = rb.reconnecting(lambda: connect(url, proxy=None), quick(), patience=20)
        async with link as ws:
            for n in range(60):
                await link.wait_ready(20)
                reconnects = link.health().reconnects
                try:
                    await ws.send(f"m{n}")
                    fields[f"m{n}"] = "done"
                except rb.BridgeError as error:
                    fields[f"m{n}"] = outcome_of(error)
                # x05: it has arrived, or the connection has ended; a server that gets no processor would read only seven of them all
                while (
                    not arrived[f"m{n}"]
                    and link.health().reconnects == reconnects
                    and link.health().ready
                ):
                    await asyncio.sleep(0.001)
            async with asyncio.timeout(
                20
            ):  # a message on a connection that is about to end may be lost without a word
                while "last" not in arrived:
                    await link.wait_ready(20)
                    with suppress(rb.BridgeError):
                        await ws.send("last")
                    await asyncio.sleep(0.05)
    del arrived["last"]
    assert max(arrived.values()) == 1
    assert not [key for key, word in fields.items() if word == "not run" and arrived[key]]
    assert arrived.total() > 30
