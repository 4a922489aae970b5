"""P11: what a message costs the client's process on top of a bare websockets connection, sending and receiving 100 bytes.

    python bench/websocket_throughput.py [rounds]

Claim: reliable send <= 1.35 x bare (<= 0.95 x with the orjson codec), receive <= 1.8 x. A bare send encodes the event and
forgets it; a reliable one checks it, gives it an id and a key, keeps it, and learns from ping barriers that it was read. A
bare receive decodes; a bridge's also checks the envelope and the phase, drops what it has seen, moves the watermark, and
hands it over in order. CPU of this process only: the server has another.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from functools import partial

import orjson
from _clients import EVENT, PAYLOAD, bare, bridged, encode
from _measure import Clock, holds, interleave, peer, rounds_asked, table

import resilient_bridge as rb


COUNT = 64 * 96  # whole barriers: the last one confirms everything


async def bare_send(url: str) -> float:
    """Microseconds of CPU per message."""
    async with bare(url) as websocket:
        with Clock() as clock:
            for _ in range(COUNT - 1):
                await websocket.send(encode(EVENT))
            await websocket.send(encode({**EVENT, "type": "last"}))
            await websocket.recv()
    return clock.cpu / COUNT * 1e6


async def least_send(url: str, dumps) -> float:
    """The least that deserves the name: number it, keep it, ask every 64 how far the other side has read."""
    unread: deque[tuple[int, str]] = deque()
    async with bare(url) as websocket:

        async def confirm() -> None:
            read = 0
            while read < COUNT:
                assert json.loads(await websocket.recv())["type"] == "heartbeat_pong"
                read += 64
                while unread and unread[0][0] <= read:
                    unread.popleft()

        reader = asyncio.create_task(confirm())
        with Clock() as clock:
            for number in range(1, COUNT + 1):
                frame = dumps({**EVENT, "id": number})
                unread.append((number, frame))
                await websocket.send(frame)
                if number % 64 == 0:
                    await websocket.send('{"type":"heartbeat_ping"}')
            await reader
    return clock.cpu / COUNT * 1e6


async def reliable_send(url: str, codec: str) -> float:
    """The same until the last one is confirmed."""
    async with bridged(url, codec) as client:
        with Clock() as clock:
            for _ in range(COUNT):
                receipt = await client.send("tool_output", PAYLOAD)
            await receipt.confirmed(5)
    return clock.cpu / COUNT * 1e6


async def bare_receive(url: str) -> float:
    """Receive and decode."""
    async with bare(url) as websocket:
        with Clock() as clock:
            await websocket.send(encode({"type": "start", "payload": {"count": COUNT}}))
            for _ in range(COUNT):
                message = json.loads(await websocket.recv())
                assert message["type"]
    return clock.cpu / COUNT * 1e6


async def least_receive(url: str) -> float:
    """The least: drop what was seen, remember the newest timestamp."""
    seen: dict[str, None] = {}
    newest = ""
    async with bare(url) as websocket:
        with Clock() as clock:
            await websocket.send(encode({"type": "start", "payload": {"count": COUNT}}))
            for _ in range(COUNT):
                message = json.loads(await websocket.recv())
                if message["id"] in seen:
                    continue
                seen[message["id"]] = None
                if len(seen) > 2_048:
                    del seen[next(iter(seen))]
                newest = max(newest, message["timestamp"])
    return clock.cpu / COUNT * 1e6


async def reliable_receive(url: str, codec: str) -> float:
    """Iterate."""
    async with bridged(url, codec) as client:
        return await _received(client, "start", {"count": COUNT})


async def table_receive(url: str, dialect: rb.bridge.Dialect) -> float:
    """The same through a table of names."""
    async with rb.BridgeClient(url, dialect=dialect) as client:
        await client.wait_ready(timeout=5)
        return await _received(client, {"type": "start", "payload": {"count": COUNT}})


async def _received(client, *start) -> float:
    missing = COUNT
    with Clock() as clock:
        await client.send(*start)
        async for message in client:
            assert message.type
            missing -= 1
            if not missing:
                break
    return clock.cpu / COUNT * 1e6


async def main() -> None:
    """Measure, then print."""
    with peer(apart=True) as urls:
        sink, source = f"{urls['picows']}/sink", f"{urls['picows']}/source"
        cases = {
            "send, bare websockets": partial(bare_send, sink),
            "send, hand-written lower bound": partial(least_send, sink, encode),
            "send, hand-written lower bound, orjson": partial(
                least_send, sink, lambda x: orjson.dumps(x).decode()
            ),
            "send, BridgeClient": partial(reliable_send, sink, "json"),
            "send, BridgeClient, orjson": partial(reliable_send, sink, "orjson"),
            "receive, bare websockets": partial(bare_receive, source),
            "receive, hand-written lower bound": partial(least_receive, source),
            "receive, BridgeClient": partial(reliable_receive, source, "json"),
            "receive, BridgeClient, orjson": partial(reliable_receive, source, "orjson"),
            "receive, plain": partial(table_receive, source, rb.dialects.plain),
            "receive, a table with positions": partial(
                table_receive, source, rb.dialects.last_event_id()
            ),
        }
        goals = {
            "send, BridgeClient": 1.35,
            "send, BridgeClient, orjson": 0.95,
            "receive, BridgeClient": 1.8,
        }
        rounds = rounds_asked(21)
        samples = await interleave(cases, rounds)
    rows = []
    for name in cases:
        base = name.split(",")[0] + ", bare websockets"
        ratio, goal = samples.ratio(name, base), goals.get(name)
        verdict = [goal, holds(ratio, goal)] if goal else ["", ""]
        rows.append([name, samples.low(name), ratio, samples.paired(name, base), *verdict])
    head = [
        "100 B",
        "CPU us a message, min",
        "x bare, min/min",
        "x bare, paired median",
        "goal <=",
        "P11",
    ]
    by_names = "receive, BridgeClient"
    for name in ("receive, plain", "receive, a table with positions"):
        ratio = samples.ratio(name, by_names)
        rows.append(
            [
                f"{name} / {by_names}",
                "",
                ratio,
                samples.paired(name, by_names),
                1.2,
                holds(ratio, 1.2),
            ]
        )
    table(f"P11: websocket throughput, {rounds} rounds of {COUNT:,} messages", head, rows)


if __name__ == "__main__":
    asyncio.run(main())
