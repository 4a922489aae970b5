"""P15: the cost of a message on disk before it is sent, and the lag of the event loop.

    python bench/durable_outbox.py [rounds]

Claims, each against SQLite used by hand in the same run, 255 bytes a message, a fresh file a round: a put with the promise "process"
runs at 0.70 of one transaction each (WAL, NORMAL); a whole life (put, marked as handed out per 64, settled per 64) at 0.60 of that;
with the promise "machine" 100 senders together reach 15 times one transaction each with FULL. The loop is never held up
for more than 1 ms (p99) and 5 ms (at most), though the log is copied into the database meanwhile.

`send` is a client's whole `send()`, for comparison: encoding, bounds, receipt and the put.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

from _measure import holds, interleave, rounds_asked, table

import resilient_bridge as rb
from resilient_bridge.protocol import Entry, EntryState, Now
from resilient_bridge.stores import SQLiteStore


COUNT = 6_400
FEW = 640  # with a flush of the disk each
FRAME = "x" * 255
lags: dict[str, list[float]] = {}


def now() -> Now:
    """Both clocks."""
    return Now(asyncio.get_running_loop().time(), time.time())


def entry(number: int) -> Entry:
    """Return a message as a client passes it to its store."""
    return Entry(number, f"id-{number}", f"key-{number}", "tool_result", FRAME)


async def raw(directory: Path, level: str, count: int) -> float:
    """One transaction each, by hand: seconds a message."""
    connection = sqlite3.connect(directory / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={level}")
    connection.execute(
        "CREATE TABLE outbox (seq INTEGER PRIMARY KEY, id TEXT, key TEXT, type TEXT, frame TEXT)"
    )
    began = time.perf_counter()
    for number in range(1, count + 1):
        row = (number, f"id-{number}", f"key-{number}", "tool_result", FRAME)
        connection.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", row)
    spent = time.perf_counter() - began
    connection.close()
    return spent / count


async def put(store: SQLiteStore, first: int, last: int) -> list[Entry]:
    """Accept a range of messages, one after the other."""
    entries = []
    for number in range(first, last + 1):
        each = entry(number)
        pending = store.put(each)
        if pending is not None:
            await pending
        entries.append(each)
    return entries


async def puts(directory: Path) -> float:
    """Seconds a message, accepted by the process promise."""
    store = SQLiteStore(directory / "ours.db")
    await store.open(now())
    began = time.perf_counter()
    for first in range(1, COUNT, 64):
        await put(store, first, first + 63)
        await asyncio.sleep(0)
    spent = time.perf_counter() - began
    await store.close()
    return spent / COUNT


async def lives(directory: Path) -> float:
    """Seconds a message, accepted, marked and settled, 64 at a time."""
    store = SQLiteStore(directory / "ours.db")
    await store.open(now())
    began = time.perf_counter()
    for first in range(1, COUNT, 64):
        entries = await put(store, first, first + 63)
        marked = store.mark(first + 63, time.time())
        if marked is not None:
            await marked
        for each in entries:
            each.settle(EntryState.CONFIRMED, confirmation="read")
            store.settle(each)
        await asyncio.sleep(0)
    spent = time.perf_counter() - began
    await store.close()
    return spent / COUNT


async def crowd(directory: Path) -> float:
    """Seconds a message, 100 senders, each waiting for the disk."""
    store = SQLiteStore(directory / "ours.db", durability="machine")
    await store.open(now())

    async def sender(mine: range) -> None:
        for number in mine:
            pending = store.put(entry(number))
            if pending is not None:
                await pending

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for nth in range(100):
            tasks.create_task(sender(range(nth + 1, COUNT + 1, 100)))
    spent = time.perf_counter() - began
    await store.close()
    return spent / COUNT


async def sends(directory: Path) -> float:
    """Seconds a message through a client that is not connected, so that nothing else runs."""
    policy = rb.presets.default.evolve(
        outbox=rb.bridge.Outbox(max_messages=COUNT + 1, max_bytes=2**30)
    )
    client = rb.BridgeClient("ws://127.0.0.1:1/", store=directory / "ours.db", policy=policy)
    async with client:
        began = time.perf_counter()
        for _ in range(COUNT):
            await client.send("tool_result", {"text": FRAME})
        spent = time.perf_counter() - began
        await client.aclose(drain=0)
    return spent / COUNT


async def lag(directory: Path, durability: str) -> float:
    """Measure how late a callback runs while messages are put at full speed, 16 per iteration; return the 99th percentile."""
    store = SQLiteStore(directory / "ours.db", durability=durability)
    await store.open(now())
    late: list[float] = []
    loop = asyncio.get_running_loop()

    def due(at: float) -> None:
        nonlocal next_one
        late.append(loop.time() - at)
        next_one = loop.call_later(0.001, due, loop.time() + 0.001)

    next_one = loop.call_later(0.001, due, loop.time() + 0.001)
    number, until = 0, time.perf_counter() + 1.5
    while time.perf_counter() < until:
        waiting = []
        for _ in range(16):
            number += 1
            pending = store.put(entry(number))
            if pending is not None:
                waiting.append(pending)
        await asyncio.gather(*waiting)
        store.mark(number, time.time())
        await asyncio.sleep(0)
    next_one.cancel()
    await store.close()
    lags.setdefault(durability, []).append(max(late))
    return statistics.quantiles(late, n=100)[98]


async def apart(case) -> float:
    """Run a case in a directory of its own."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as directory:
        return await case(Path(directory))


async def main() -> None:
    """Measure, then print."""
    cases = {
        "SQLite by hand, NORMAL": partial(raw, level="NORMAL", count=COUNT),
        "SQLite by hand, FULL": partial(raw, level="FULL", count=FEW),
        "put, process": puts,
        "whole life, process": lives,
        "send(), process": sends,
        "put, machine, 100 senders": crowd,
        "lag p99, process": partial(lag, durability="process"),
        "lag p99, machine": partial(lag, durability="machine"),
    }
    samples = await interleave(
        {name: partial(apart, case) for name, case in cases.items()}, rounds_asked(7)
    )
    normal, full = "SQLite by hand, NORMAL", "SQLite by hand, FULL"
    goals = {
        "put, process": (normal, 0.70),
        "whole life, process": (normal, 0.60),
        "put, machine, 100 senders": (full, 15.0),
    }
    rows = []
    for name in cases:
        if name.startswith("lag"):
            continue
        base, goal = goals.get(name, (full if name == full else normal, None))
        times = 1 / samples.ratio(name, base)
        verdict = (
            ["", ""] if goal is None else [f">= {goal:g}", "holds" if times >= goal else "MISSED"]
        )
        rows.append(
            [name, samples.low(name) * 1e6, times, 1 / samples.paired(name, base), *verdict]
        )
    table(
        "A message on disk before it moves (P15)",
        ["case", "us a message", "x base", "paired", "goal", ""],
        rows,
    )
    rows = []
    for durability in ("process", "machine"):
        p99 = min(samples[f"lag p99, {durability}"]) * 1e3
        most = min(lags[durability]) * 1e3
        rows.append([durability, p99, "1 ms", holds(p99, 1.0), most, "5 ms", holds(most, 5.0)])
    table(
        "What the loop notices (P15)",
        ["promise", "lag p99 (ms)", "goal", "", "lag at most (ms)", "goal", ""],
        rows,
    )


if __name__ == "__main__":
    asyncio.run(main())
