"""What a killed process may have handed out, as its database says it: as little doubt as can be, and never too little."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import time
from contextlib import closing

import pytest

from resilient_bridge.protocol import Entry, Now
from resilient_bridge.stores import SQLiteStore


pytestmark = pytest.mark.real


def now() -> Now:
    """Both clocks."""
    return Now(asyncio.get_running_loop().time(), time.time())


def take(store, watermark, n: int) -> None:
    """The consumer gets message n, which ends the one before."""
    watermark.accept(
        ("tool_call", f"m{n}"), f'{{"n":{n}}}', f"2026-01-01T00:00:{n % 60:02d}Z", now().mono
    )
    store.touch(1)
    watermark.take()
    watermark.hand()
    store.touch()


def stated(path) -> tuple[int, list[str], int]:
    """What a crash would leave: messages taken, those in hand, and how many more may have been handed out."""
    copy = path.with_name("copy.db")
    for side in ("", "-wal"):
        shutil.copyfile(f"{path}{side}", f"{copy}{side}")
    with closing(sqlite3.connect(copy)) as connection:
        body = json.loads(connection.execute("SELECT body FROM positions").fetchone()[0])
    return body["taken"], [row[2] for row in body["in_hand"]], body["unsure"]


async def test_a_quiet_consumer_leaves_no_doubt(tmp_path):
    """100 ms after the last message the file knows what he took and what he has, so that only that one comes again, flagged."""
    path = tmp_path / "bridge.db"
    store = SQLiteStore(path)
    await store.open(now())
    watermark = store.session("s")
    for n in range(1, 4):
        take(store, watermark, n)
    assert (
        stated(path)[2] == 64
    )  # before the first of them was handed out the doubt was written down
    async with asyncio.timeout(5):
        while stated(path) != (2, ["m3"], 0):
            await asyncio.sleep(0.02)
    take(store, watermark, 4)
    assert stated(path) == (2, ["m3"], 64)  # written before m4 was handed out
    await store.close()


async def test_the_doubt_is_there_before_the_log_is_emptied(tmp_path, monkeypatch):
    """While nothing can be written, messages are handed out all the same: the file says so before."""
    path = tmp_path / "bridge.db"
    store = SQLiteStore(path)
    await store.open(now())
    take(store, store.session("s"), 1)
    async with asyncio.timeout(5):
        while stated(path)[2]:
            await asyncio.sleep(0.02)
    parts = []
    begin_anew = store._database.begin_log_anew
    monkeypatch.setattr(
        store._database, "begin_log_anew", lambda: (parts.append(stated(path)), begin_anew())
    )
    monkeypatch.setattr("resilient_bridge.stores.sqlite.commits._LOOK_EVERY", 1)
    monkeypatch.setattr("resilient_bridge.stores.sqlite.commits._LOG_LIMIT", 0)
    assert store.put(Entry(1, "id", "key", "tool_result", "{}")) is None
    async with asyncio.timeout(5):
        while not parts:
            await asyncio.sleep(0.01)
    assert parts[0] == (0, ["m1"], 64)
    await store.close()


async def test_a_closed_store_is_exact(tmp_path):
    """A client that ended leaves its position, and what was in the consumer's hands."""
    path = tmp_path / "bridge.db"
    store = SQLiteStore(path)
    await store.open(now())
    take(store, store.session("s"), 1)
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        body = json.loads(connection.execute("SELECT body FROM positions").fetchone()[0])
    assert (body["taken"], [row[2] for row in body["in_hand"]], body["unsure"]) == (0, ["m1"], 0)
