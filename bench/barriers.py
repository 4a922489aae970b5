"""P12: how a sender learns that its messages were read, and what that costs: a ping behind every 64 of them.

    python bench/barriers.py [rounds]

Claim: at most one barrier ping per 64 entries under load, one within a second when idle. The bridge counts the pings (the one
that confirms the join is not a barrier and is taken off). The alternative, an acknowledgement for each message, is measured
in the same run, with the same bridge answering each of them: once the first one came, the client sends no barriers.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from _clients import PAYLOAD, bridged
from _measure import Clock, holds, interleave, peer, rounds_asked, table


COUNT = 64 * 96
counted: dict[str, list[dict]] = {}


async def send(url: str, name: str) -> float:
    """Microseconds of CPU per message until the last one is confirmed."""
    async with bridged(url) as client:
        with Clock() as clock:
            for _ in range(COUNT):
                receipt = await client.send("tool_output", PAYLOAD)
            await receipt.confirmed(5)
        counted.setdefault(name, []).append((await client.request("count_request", {})).payload)
    return clock.cpu / COUNT * 1e6


async def idle(url: str) -> float:
    """Seconds until one lonely message is confirmed."""
    async with bridged(url) as client:
        start = time.perf_counter()
        receipt = await client.send("tool_output", PAYLOAD)
        assert await receipt.confirmed(5) == "read"
        return time.perf_counter() - start


async def main() -> None:
    """Measure, then print."""
    barriers, acks = "a barrier per 64", "an ack per message"
    rounds = rounds_asked(11)
    with peer(apart=True) as urls:
        cases = {
            barriers: partial(send, f"{urls['picows']}/sink", barriers),
            acks: partial(send, f"{urls['picows']}/sink-acks", acks),
        }
        samples = await interleave(cases, rounds)
        lonely = [await idle(f"{urls['picows']}/sink") for _ in range(3)]
    rows = []
    for name in cases:
        pings = max(found["pings"] for found in counted[name]) - 1
        per = pings / (COUNT / 64)
        verdict = [1.0, holds(per, 1.0)] if name == barriers else ["", ""]
        cost = [samples.low(name), samples.ratio(name, barriers), samples.paired(name, barriers)]
        rows.append([name, *cost, per, *verdict])
    head = [
        "send, 100 B",
        "CPU us a message, min",
        "x barriers, min/min",
        "x barriers, paired median",
    ]
    table(
        f"P12: {rounds} rounds of {COUNT:,} messages",
        [*head, "pings per 64 entries, worst round", "goal <=", "P12"],
        rows,
    )
    waited = ["one message, then silence", max(lonely), 1.0, holds(max(lonely), 1.0)]
    table("P12: when idle", ["case", "s until confirmed, worst of 3", "goal <=", "P12"], [waited])


if __name__ == "__main__":
    asyncio.run(main())
