"""aiohttp's WebSocket server on loopback, for bridges that are not ours."""

from __future__ import annotations

from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving(handle):
    """Serve `handle(request)` at a free port; the URL of it."""
    app = web.Application()
    app.add_routes([web.get("/", handle)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
