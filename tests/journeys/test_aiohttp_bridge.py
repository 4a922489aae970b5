"""Resume with an aiohttp server: another WebSocket library on the far side, and the same verdicts."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import pytest

from tests.journeys.test_foreign_bridges import QUICK, Consumer
from tests.peers.plain_bridge import PlainBridge


web = pytest.importorskip("aiohttp.web")
pytestmark = pytest.mark.real


@asynccontextmanager
async def aiohttp_bridge(bridge):
    """Its address, and the sockets in the order of the connections."""
    sockets = []

    async def attend(request):
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        sockets.append((ws, request))
        async for frame in ws:
            m = json.loads(frame.data)
            held = sorted(bridge.log, key=lambda m: m["payload"].get("prio", 9))
            answers = {
                "auth": ("connection_ack", {"server_id": "one"}),
                "session_join": ("session_joined", {}),
                "heartbeat_ping": ("heartbeat_pong", {}),
                "request_replay": ("replay_buffer", {"messages": held}),
            }
            kind, payload = answers[m["type"]]
            await ws.send_json({"type": kind, "id": m["id"], "payload": payload})
        return ws

    app = web.Application()
    app.router.add_get("/", attend)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/", sockets
    finally:
        await runner.cleanup()


async def test_b02_a_sorted_replay_of_an_aiohttp_server():
    """What was missed comes, 3 from before the anchor: UNKNOWN (order), nothing twice, nothing lost."""
    bridge = PlainBridge()
    async with aiohttp_bridge(bridge) as (url, sockets):
        c = Consumer(url, QUICK)
        async with c.bridge as it:
            reader = aiter(it)
            await it.wait_ready(timeout=5)
            for i in (1, 2):
                bridge.log.append(bridge.message(i))
                await sockets[-1][0].send_json(bridge.log[-1])
            seen = [(await anext(reader)).payload["i"] for _ in range(2)]
            bridge.log += [bridge.message(3, prio=1), bridge.message(4)]
            sockets[-1][1].transport.abort()
            seen += [(await anext(reader)).payload["i"] for _ in range(2)]
    assert (seen, c.seen) == ([1, 2, 3, 4], ["UNKNOWN order"])
