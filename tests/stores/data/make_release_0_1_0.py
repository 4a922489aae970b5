"""Made tests/stores/data/release_0_1_0, once, with the code of that release; kept to show what is in it.

Rule: never run it again. A file that later code has written proves nothing about one that users have on their disks.
`version-1.db` beside it holds every kind of row; `bridge.db` here is what a client in real use leaves.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import resilient_bridge as rb
from tests.internals.cli import Receipts
from tests.redis_server import redis_server


FOLDER = Path(__file__).parent / "release_0_1_0"


async def client(path):
    """Six messages read of eight; two sends confirmed, one handed out and unconfirmed, two never handed out."""
    async with rb.testing.BridgeServer() as server:
        bridge = rb.BridgeClient(
            server.url,
            store=path,
            session_id="kept",
            policy=rb.BridgePolicy(heartbeat=rb.Heartbeat(every=60)),
        )
        await bridge.__aenter__()
        await bridge.wait_ready(timeout=10)
        for n in range(2):
            receipt = await bridge.send("note", {"n": n}, idempotency_key=f"key-{n}")
            await receipt.confirmed(timeout=10)
        reader = aiter(bridge)
        for n in range(8):
            await server.push("stream_text" if n % 4 == 3 else "tool_call", {"n": n})
        for _ in range(6):
            await anext(reader)
        await asyncio.sleep(0.5)
        server.behave(acks="none", never_pong=True)
        await bridge.send("note", {"n": 2}, idempotency_key="key-2")
        await asyncio.sleep(0.5)
        await server.aclose()
        await bridge.send("note", {"n": 3}, idempotency_key="key-3")
        await bridge.send("note", {"n": 4}, idempotency_key="key-4", ttl=1e9, coalesce="state")
        await bridge.aclose(drain=0)


async def records(path):
    """One session record in each of three states."""
    async with rb.stores.Sessions(path) as sessions:
        for name in ("paused", "closed", "failed"):
            made = await sessions.create("claude", f"/home/me/{name}")
            await sessions.activate(made.id)
            await sessions.checkpoint(made.id, message_count=12, last_message_id="m12", context_snapshot=[1])
            if name == "failed":
                await sessions.fail(made.id, rb.Failure.of("CONN_REFUSED"))
            else:
                await sessions.pause(made.id)
            if name == "closed":
                await sessions.close(made.id)


async def dump(url):
    """All of a Redis as commands that make it again."""
    from redis.asyncio import Redis

    redis, commands = Redis.from_url(url), []
    async for key in redis.scan_iter():
        kind = await redis.type(key)
        if kind == b"hash":
            values = [each for pair in (await redis.hgetall(key)).items() for each in pair]
            commands.append([b"HSET", key, *values])
        elif kind == b"zset":
            pairs = await redis.zrange(key, 0, -1, withscores=True)
            commands.append(
                [b"ZADD", key, *(each for text, score in pairs for each in (b"%d" % score, text))]
            )
        elif not key.endswith(b":owner"):
            commands.append([b"SET", key, await redis.get(key)])
    await redis.aclose()
    return [[each.decode() for each in command] for command in sorted(commands)]


async def budget(path):
    """3.75 of 10 are spent."""
    spending = rb.agent.SpendBudget("10.00", name="chat", path=path)
    spending.spend("3.50")
    spending.spend("0.25")
    spending.close()


async def flow(path):
    """One phase is done, the second has failed: the workflow waits for somebody."""
    work = rb.Workflow(path, name="release")

    @work.phase
    async def plan(phase):
        return {"steps": 3}

    @work.phase(idempotent=False)
    async def build(phase):
        raise ValueError("no compiler")

    @work.phase
    async def announce(phase):
        return None

    await work.run()


def main():
    if (FOLDER / "bridge.db").exists():
        raise SystemExit(f"{FOLDER} is there, and must not be made again")
    FOLDER.mkdir(exist_ok=True)
    FOLDER.chmod(0o700)
    asyncio.run(client(str(FOLDER / "bridge.db")))
    asyncio.run(records(str(FOLDER / "records.db")))
    with redis_server() as server:
        asyncio.run(client(server.url))
        asyncio.run(records(server.url))
        (FOLDER / "redis.json").write_text(json.dumps(asyncio.run(dump(server.url)), indent=1) + "\n")
    state = rb.stores.StateFile(FOLDER / "state.json", version=3)
    state.save({"done": ["plan"], "current": "build"})
    state.save({"done": ["plan", "build"], "current": "test", "text": "Grüße 🚀"})
    asyncio.run(budget(FOLDER / "budget.json"))
    asyncio.run(flow(FOLDER / "flow.json"))
    with rb.stores.SessionLog(FOLDER / "session.jsonl") as log:
        log.write({"note": "fetched", "n": 1})
        log.write({"note": "stored", "n": 2})
    receipts = Receipts(str(FOLDER / "receipts.jsonl"))
    for number, state in enumerate(("accepted", "refused", "known"), 1):
        receipts.add(state, None if state == "refused" else f"key-{number}")
    receipts.close()


if __name__ == "__main__":
    main()
