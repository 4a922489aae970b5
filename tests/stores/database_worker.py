"""One life of a store in a process of its own, on a disk that fails: what it was told, line by line.

`python -m tests.stores.database_worker PATH DURABILITY END`; END is "crash" (no close), "close", "sends" (six, and no close), or "sizes" (a limit for the size
of files that is lifted again, at every step). Rule: a line is written when the store has answered, and not before.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from contextlib import suppress
from pathlib import Path

from resilient_bridge.errors import StoreError
from resilient_bridge.protocol import EntryState
from resilient_bridge.stores import SQLiteStore
from tests.internals.stores import commits as sqlite_commits
from tests.stores.database_content import SESSION, copy, done, entry, key_of, now, stamp_of, text_of


SENDS = 40
GROUP = range(25, 29)


def say(**reported):
    os.write(1, json.dumps(reported).encode() + b"\n")


async def tried(op, number, work):
    """Have it done, and say whether it was."""
    try:
        await done(work())
    except StoreError as error:
        say(op=op, n=number, code=error.failure.code, text=str(error))
        return False
    except Exception as error:  # noqa: BLE001 -- not typed: a finding
        say(op=op, n=number, code=f"not typed: {type(error).__name__}: {error}")
        return False
    say(op=op, n=number, code="")
    return True


async def send(store, seq):
    """Have it accepted; what is refused is settled, as a client does."""
    sent = entry(seq)
    if not await tried("put", seq, lambda: store.put(sent)):
        sent.settle(EntryState.DROPPED, reason="refused by the store")
        store.settle(sent)


async def life(store, first=1, last=SENDS):
    """Sends, marks, outcomes, positions and records, each asked for once."""
    position = store.session(SESSION)
    position.asked_to_join = position.joined = True
    await tried("keep", position.taken, lambda: store.keep(position))
    for seq in range(first, last + 1):
        if seq - first + 1 in GROUP:
            if seq - first + 1 == GROUP[0]:
                await asyncio.gather(*(send(store, one) for one in range(seq, seq + len(GROUP))))
        else:
            await send(store, seq)
        if seq % 8 == 0:
            await tried("mark", seq - 4, lambda seq=seq: store.mark(seq - 4, time.time()))
            settled = entry(seq - 7)
            settled.settle(EntryState.CONFIRMED, confirmation="applied")
            store.settle(settled)
            await asyncio.sleep(0)
        n = position.accepted + 1
        position.accept(key_of(n), text_of(n), stamp_of(n), time.monotonic())
        with suppress(
            StoreError
        ):  # a client would hand nothing out; what the file says is the same
            await done(store.touch(1))
        position.hand()
        position.take()
        store.touch()
        if seq % 5 == 0:
            await tried("keep", position.taken, lambda: store.keep(position))
            record = json.dumps({"checkpoint": seq})
            await tried("record", seq, lambda record=record: store.keep_record(SESSION, record))


async def one_life(path, durability, end):
    store = SQLiteStore(path, durability=durability)
    if await tried("open", 0, lambda: store.open(now())):
        if end == "sends":
            for seq in range(1, 7):
                await send(store, seq)
        else:
            await life(store)
        if end == "close":
            await tried("close", 0, store.close)
    os._exit(0)


async def sizes(path, durability):
    """At every limit of the files' size: a life, the limit lifted, another life; then the files as a crash would leave them."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    sys.dont_write_bytecode = (
        True  # or a module imported late leaves half of its compiled file to all later runs
    )
    for limit in range(36_000, 300_000, int(os.environ.get("STEP", "9973"))):
        directory = Path(path) / str(limit)
        directory.mkdir(mode=0o700)
        store = SQLiteStore(directory / "alive.db", durability=durability)
        await store.open(now())
        say(op="limit", n=limit, code="")
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            await life(store)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        copy(directory / "alive.db", directory / "full.db")
        say(op="lifted", n=limit, code="")
        await life(store, SENDS + 1, SENDS + 12)
        copy(directory / "alive.db", directory / "left.db")
        await tried("close", 0, store.close)
        say(op="closed", n=limit, code="")


if __name__ == "__main__":
    sqlite_commits._LOOK_EVERY = 8
    where, durable, how = sys.argv[1:]
    asyncio.run(sizes(where, durable) if how == "sizes" else one_life(where, durable, how))
