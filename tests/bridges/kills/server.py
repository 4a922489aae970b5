"""A WebSocket server that notes each message on stdout, and stops reading after some: `server.py websockets|aiohttp MOST`.

Rule: a message is noted with one write before the next is read, so what a killed server has read is known exactly.
"""

from __future__ import annotations

import asyncio
import os
import sys


def note(data: str | bytes) -> None:
    """Write a message as a line, at once."""
    os.write(1, (data if isinstance(data, bytes) else data.encode()) + b"\n")


async def by_websockets(most: int) -> int:
    """Serve with websockets; returns the port."""
    from websockets.asyncio.server import serve

    async def attend(socket):
        remaining = most
        async for message in socket:
            note(message)
            remaining -= 1
            if not remaining:
                await asyncio.Event().wait()

    server = await serve(attend, "127.0.0.1", 0, ping_interval=None)
    return server.sockets[0].getsockname()[1]


async def by_aiohttp(most: int) -> int:
    """Serve with aiohttp; returns the port."""
    from aiohttp import WSMsgType, web

    async def attend(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        remaining = most
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                note(message.data)
                remaining -= 1
                if not remaining:
                    await asyncio.Event().wait()
        return socket

    app = web.Application()
    app.add_routes([web.get("/", attend)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner.addresses[0][1]


async def main(kind: str, most: int) -> None:
    """Say the port, then serve until killed or left by the parent."""
    port = await (by_websockets if kind == "websockets" else by_aiohttp)(most)
    note(f"port {port}")
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 1) or ended.set())
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
