"""The servers of these runs, in processes that can be killed, and a proxy that answers pings by itself."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp import WSMsgType, web

from tests.bridges.aiohttp_server import serving


HERE = Path(__file__).parent
NODE_FOLDER = HERE.parents[1] / "node"
NODE = shutil.which("node") if (NODE_FOLDER / "node_modules" / "ws").is_dir() else None
SERVERS = ("websockets", "aiohttp", "ws of npm", "a proxy before websockets")


class FarEnd:
    """A server process; `url` is where a client connects."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        """Wrap a process that serves already."""
        self._process = process
        self.url = f"ws://127.0.0.1:{port}/"
        self._out = asyncio.ensure_future(self._read())

    async def _read(self) -> list[str]:
        assert self._process.stdout is not None
        return (await self._process.stdout.read()).decode().splitlines()

    async def kill(self) -> None:
        """SIGKILL."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def read(self) -> list[str]:
        """What the server had read when it was killed, in order."""
        return await self._out


@asynccontextmanager
async def far_end(kind: str, most: int) -> AsyncIterator[FarEnd]:
    """A server that reads so many messages, and leaves later ones unread."""
    if kind == "ws of npm":
        command = [str(NODE), str(NODE_FOLDER / "unread_server.mjs"), str(most)]
    else:
        name = "aiohttp" if kind == "aiohttp" else "websockets"
        command = [sys.executable, str(HERE / "server.py"), name, str(most)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=2**24)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            port = int((await process.stdout.readline()).split()[1])
        end = FarEnd(process, port)
        if kind.startswith("a proxy"):
            async with _proxy(end.url) as end.url:
                yield end
        else:
            yield end
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@asynccontextmanager
async def _proxy(behind: str) -> AsyncIterator[str]:
    """A proxy that ends the client's WebSocket: it answers its pings, and has a connection of its own to the server."""
    async with aiohttp.ClientSession() as session:

        async def handle(request: web.Request) -> web.StreamResponse:
            front = web.WebSocketResponse()
            try:
                async with session.ws_connect(behind) as back:
                    await front.prepare(request)
                    ended = asyncio.ensure_future(
                        back.receive()
                    )  # the server says nothing: it is its end
                    try:
                        await _carry(front, back, ended)
                    finally:
                        ended.cancel()
            except aiohttp.ClientError:
                if not front.prepared:
                    return web.Response(status=502)
            if front._req is not None and front._req.transport is not None:
                front._req.transport.abort()  # as a proxy does whose server is gone
            return front

        async with serving(handle) as url:
            yield url


async def _carry(
    front: web.WebSocketResponse,
    back: aiohttp.ClientWebSocketResponse,
    ended: asyncio.Future[aiohttp.WSMessage],
) -> None:
    while not ended.done():
        next_one = asyncio.ensure_future(front.receive())
        await asyncio.wait([next_one, ended], return_when=asyncio.FIRST_COMPLETED)
        if not next_one.done():
            next_one.cancel()
            return
        message = next_one.result()
        if message.type is not WSMsgType.TEXT:
            return
        await back.send_str(message.data)
