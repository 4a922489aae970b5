"""Made tests/stores/data/version-1.db and version-1.json, once, with the code of that version; kept to show what is in them.

Rule: never run it again. A database that later code has written proves nothing about one that earlier code has left.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from resilient_bridge.protocol import Entry, EntryState, Now
from resilient_bridge.stores import SQLiteStore
from tests.stores.database_content import done


FOLDER = Path(__file__).parent
NAME = "version-1"
WALL = 1_750_000_000.0


async def write(store):
    """Every kind of row, with every field in use, and empty where it may be."""
    sends = [
        Entry(1, "id-1", "key-1", "note", '{"n":1}'),
        Entry(2, "id-2", "key-2", "note", '{"n":2,"text":"Grüße 🚀 \\u0000"}', coalesce="state"),
        Entry(3, "id-3", "key-3", "approval", '{"n":3}', expires=Now(600.0, WALL + 600)),
        Entry(4, "id-4", "key-4", "note", '{"n":4}'),
        Entry(5, "id-5", "key-5", "note", '{"n":5}'),
        Entry(6, "id-6", "key-6", "note", '{"n":6}'),
    ]
    for one in sends:
        await done(store.put(one))
    await done(store.mark(2, WALL + 1))
    await done(store.mark(5, WALL + 2))
    sends[0].settle(EntryState.CONFIRMED, confirmation="applied")
    sends[3].settle(EntryState.DEAD, reason="poison")
    for one in (sends[0], sends[3]):
        store.settle(one)
    older = store.session("older")
    older.asked_to_join = True
    await done(store.keep(older))
    position = store.session("bridge-1")
    position.asked_to_join = position.joined = position.replaces = True
    position.epoch = "epoch-7"
    for n in range(1, 13):
        key = None if n % 4 == 0 else ("tool_call", f"m-{n}")
        position.accept(key, f'{{"n":{n}}}', f"2026-03-20T14:00:{n:02d}Z", n * 1.0, doubtful=n == 8)
        position.hand()
        if n < 12:
            position.take()
    position.use_up(("result", "a-1"))
    store.touch(12)
    await done(store.keep_record("bridge-1", '{"checkpoint":7}'))
    await done(store.keep_record("older", '{"checkpoint":1}'))
    await done(store.keep(position))


def reported(store):
    """What the store says of it, as plain data."""
    position = store.session("bridge-1")
    return {
        "entries": [
            [one.seq, one.id, one.key, one.type, one.frame, one.state, one.coalesce]
            + [moment and moment.wall for moment in (one.expires, one.written_at)]
            for one in store.entries()
        ],
        "outcomes": [
            [one.seq, one.id, one.key, one.type, one.state, one.confirmation, one.reason]
            for one in store.outcomes()
        ],
        "last_seq": store.last_seq(),
        "last_session": store.last_session(),
        "position": [
            position.taken, position.asked_to_join, position.joined, position.replaces, position.epoch,
            position.answers_used, position.is_used_up(("result", "a-1")),
        ],
        "tail": [[mark.key and list(mark.key), mark.text, mark.stamp, mark.doubtful] for mark in position.tail],
        "in_hand": [mark.text for mark in position.in_hand],
        "older": [store.session("older").asked_to_join, store.session("older").joined],
        "records": dict(store.records()),
    }  # fmt: skip


async def _main():
    path = FOLDER / f"{NAME}.db"
    if path.exists():
        raise SystemExit(f"{path} is there, and must not be made again")
    store = SQLiteStore(path)
    await store.open(Now(asyncio.get_running_loop().time(), WALL))
    await write(store)
    await store.close()
    (FOLDER / f"{NAME}.db.owner").unlink()
    copied = path.with_name("copy.db")
    copied.write_bytes(path.read_bytes())
    store = SQLiteStore(copied)
    await store.open(Now(asyncio.get_running_loop().time(), WALL + 60))
    (FOLDER / f"{NAME}.json").write_text(
        json.dumps(reported(store), indent=1, ensure_ascii=False) + "\n"
    )
    await store.close()
    for remaining in FOLDER.glob("copy.db*"):
        remaining.unlink()


if __name__ == "__main__":
    asyncio.run(_main())
