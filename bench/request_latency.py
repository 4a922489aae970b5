"""P14: how long a correlated request takes, against the bare echo that users know: websockets on both ends.

    python bench/request_latency.py [rounds]

Claim: p50 <= 1.40 x a bare websockets round trip of the same event. Between them stands the least a correlator does: a map
from id to future, a task that reads, JSON both ways. One request at a time; the time that passes, not the CPU.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from functools import partial

from _clients import EVENT, PAYLOAD, bare, bridged, encode
from _measure import holds, interleave, peer, rounds_asked, table


COUNT = 100
slowest: dict[str, list[float]] = {}


async def round_trips(name: str, once) -> float:
    """The median of many, in microseconds; the 99th percentile is put aside."""
    times = []
    for _ in range(COUNT):
        start = time.perf_counter()
        await once()
        times.append((time.perf_counter() - start) * 1e6)
    slowest.setdefault(name, []).append(statistics.quantiles(times, n=100)[98])
    return statistics.median(times)


async def echo(url: str, name: str) -> float:
    """Text out, text back."""
    frame = encode(EVENT)
    async with bare(url) as websocket:

        async def once() -> None:
            await websocket.send(frame)
            await websocket.recv()

        return await round_trips(name, once)


async def least(url: str, name: str) -> float:
    """The least that correlates."""
    waiting: dict[int, asyncio.Future[dict]] = {}
    ids = itertools.count()
    async with bare(url) as websocket:

        async def read() -> None:
            async for frame in websocket:
                message = json.loads(frame)
                waiting.pop(message["id"]).set_result(message)

        async def once() -> None:
            number = next(ids)
            waiting[number] = asyncio.get_running_loop().create_future()
            await websocket.send(encode({**EVENT, "id": number}))
            await waiting[number]

        reader = asyncio.create_task(read())
        try:
            return await round_trips(name, once)
        finally:
            reader.cancel()


async def request(url: str, name: str, codec: str) -> float:
    """`BridgeClient.request`: checked, with a timeout, safe against loss."""
    async with bridged(url, codec) as client:
        return await round_trips(name, partial(client.request, "tool_request", PAYLOAD))


async def main() -> None:
    """Measure, then print."""
    base = "bare echo, websockets both ends"
    rounds = rounds_asked(61)
    with peer() as urls:
        url = urls["websockets"]
        cases = {
            base: partial(echo, url, base),
            "hand-written lower bound": partial(least, url, "hand-written lower bound"),
            "BridgeClient.request": partial(request, url, "BridgeClient.request", "json"),
            "BridgeClient.request, orjson": partial(
                request, url, "BridgeClient.request, orjson", "orjson"
            ),
        }
        samples = await interleave(cases, rounds)
    rows = []
    for name in cases:
        ratio = samples.ratio(name, base)
        verdict = [1.4, holds(ratio, 1.4)] if name.startswith("BridgeClient") else ["", ""]
        rows.append(
            [
                name,
                samples.low(name),
                min(slowest[name]),
                ratio,
                samples.paired(name, base),
                *verdict,
            ]
        )
    head = [
        "100 B",
        "p50 us, best round",
        "p99 us, best round",
        "x bare, min/min",
        "x bare, paired median",
    ]
    table(f"P14: {rounds} rounds of {COUNT} round trips", [*head, "goal <=", "P14"], rows)


if __name__ == "__main__":
    asyncio.run(main())
