"""The two clients that are compared: a bare websockets connection, and a BridgeClient that keeps its promise.

Rule: both carry the same event of 100 bytes; what the bridge client adds to it (ids, key, timestamp) is part of its price.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

from websockets.asyncio.client import connect

from resilient_bridge import BridgeClient
from resilient_bridge.bridge import BridgePolicy, Dialect, Outbox


PAYLOAD = {"text": "file written session resumed"}
EVENT = {
    "type": "tool_output",
    "id": "m-000001",
    "timestamp": "2026-03-20T14:32:00Z",
    "payload": PAYLOAD,
}
encode = json.JSONEncoder(separators=(",", ":")).encode


def bare(url: str) -> connect:
    """A websockets connection without compression and keepalive: the fastest it can be."""
    return connect(url, compression=None, max_size=None, proxy=None, ping_interval=None)


@asynccontextmanager
async def bridged(url: str, codec: str = "json"):
    """A BridgeClient that is READY. Its queue blocks when it is full, as a program that has more to send would."""
    policy = BridgePolicy(dialect=Dialect(codec=codec), outbox=Outbox(overflow="block"))
    client = BridgeClient(url, policy=policy)
    async with client:
        await client.wait_ready(5)
        yield client
        await client.aclose(drain=0)
