"""Made tests/stores/data/version_1, once, with the code that first wrote version 1 of each file; kept to show what is in it.

Rule: never run it again. A file that later code has written proves nothing about one that users have on their disks.
`version-1.db` beside it holds every kind of row; `bridge.db` here is what a client in real use leaves.

    python -m tests.stores.data.make_version_1_files
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import resilient_bridge as rb
from tests.internals.cli import Receipts
from tests.redis_server import redis_server
from tests.stores.saved_workflow import saved_workflow


FOLDER = Path(__file__).parent / "version_1"


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
            await sessions.checkpoint(
                made.id, message_count=12, last_message_id="m12", context_snapshot=[1]
            )
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


def calls():
    """A call that is repeated, and one that is given up."""
    for failures in (1, 9):
        errors = [ConnectionResetError(104, "connection reset")] * failures
        rb.capture(
            rb.Policy(rb.Retry(attempts=2, backoff=rb.Backoff.constant(0)))(fetch, idempotent=True),
            errors,
        )


def fetch(errors):
    """Raise the errors that there are, one a call."""
    if errors:
        raise errors.pop()


def budget(path):
    """3.75 of 10 are spent."""
    spending = rb.agent.SpendBudget("10.00", name="chat", path=path)
    spending.spend("3.50")
    spending.spend("0.25")
    spending.close()


def workflows(folder):
    """One that has ended, one that has halted, and two whose process was killed: before a call of a tool, and after one."""
    for end in ("completed", "halted", "killed", "called"):
        (folder / end).mkdir(parents=True)
        (folder / end).chmod(0o700)
        program = [
            sys.executable,
            "-m",
            "tests.stores.data.make_version_1_files",
            str(folder / end),
            end,
        ]
        subprocess.run(program, check=False)


def workflow(root, end):
    """Run the workflow to this end, which may be the end of this process."""
    (root / "notes.md").write_text("collected\n")
    flow, *_ = saved_workflow(root, end)
    asyncio.run(flow.run())


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
        (FOLDER / "redis.json").write_text(
            json.dumps(asyncio.run(dump(server.url)), indent=1) + "\n"
        )
    state = rb.stores.StateFile(FOLDER / "state.json", version=3)
    state.save({"done": ["plan"], "current": "build"})
    state.save({"done": ["plan", "build"], "current": "test", "text": "Grüße 🚀"})
    budget(FOLDER / "budget.json")
    workflows(FOLDER / "workflows")
    for form in ("events", "log"):
        with rb.stores.SessionLog(FOLDER / f"session-{form}.jsonl", form=form) as log:
            log.write({"note": "fetched", "n": 1})
            calls()
            log.write({"note": "stored", "n": 2})
    receipts = Receipts(str(FOLDER / "receipts.jsonl"))
    for number, state in enumerate(("accepted", "refused", "known"), 1):
        receipts.add(state, None if state == "refused" else f"key-{number}")
    receipts.close()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        workflow(Path(sys.argv[1]), sys.argv[2])
        os._exit(0)
    main()
