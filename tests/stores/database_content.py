"""A database of ours with a known content, and what a store says of one: for the tests that damage it.

Rule: it is written and read through the real store. `TRUTH` is what the content is, and what it ever was: whatever a damaged copy
gives back is held against it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from resilient_bridge.protocol import Entry, EntryState, Now
from resilient_bridge.stores import SQLiteStore
from resilient_bridge.telemetry import listen
from tests.internals.telemetry import StateSetAside


SESSION = "s1"
SENDS = 40
SETTLED = frozenset(range(3, 20, 2))
MARKED = 30  # through this number: the others provably never moved
MESSAGES = 100
ANSWERS = 5
RECORD = '{"checkpoint": 7}'
SIDES = ("", "-wal", "-end")


class Content(NamedTuple):
    """What a store says: sends as number -> (id, key, type, frame, state, when), outcomes, the position, the records."""

    entries: dict[int, tuple[Any, ...]]
    outcomes: dict[int, tuple[Any, ...]]
    taken: int
    tail: tuple[tuple[Any, ...], ...]
    answers: frozenset[int]
    last: str | None
    flags: tuple[Any, ...]
    records: dict[str, str]


def now():
    return Now(time.monotonic(), time.time())


def entry(seq, **fields):
    """The send with this number."""
    frame = f'{{"type":"note","n":{seq},"text":"{"abcdefgh" * 12}"}}'
    return Entry(seq, f"id-{seq}", f"key-{seq}", "note", frame, **fields)


def key_of(n):
    """Every third message has no id."""
    return None if n % 3 == 0 else ("tool_call", f"m-{n}")


def text_of(n):
    return f'{{"type":"tool_call","n":{n},"text":"{"xyz" * 10}"}}'


def stamp_of(n):
    return f"2026-03-20T14:{n // 60:02d}:{n % 60:02d}.000Z"


def outcome(seq):
    return (f"id-{seq}", f"key-{seq}", EntryState.CONFIRMED, "applied", "")


async def done(saved):
    """Wait for what a store may do at once or later."""
    if saved is not None:
        await saved


async def write_first(store):
    """The first half of the known content: all sends, marked but for the last ten, and half of the messages."""
    wall = time.time()
    position = store.session(SESSION)
    position.asked_to_join = position.joined = True
    position.epoch = "e1"
    await done(store.keep(position))
    for seq in range(1, SENDS - 9):
        await done(store.put(entry(seq)))
    await done(store.mark(10, wall))
    await take(store, 1, MESSAGES // 2)
    await done(store.keep_record("older", '{"checkpoint": 1}'))
    await done(store.keep_record(SESSION, '{"checkpoint": 3}'))


async def write_second(store):
    """The rest: the last sends, what became of some, and the other messages."""
    await done(store.mark(MARKED, time.time()))
    for seq in range(SENDS - 9, SENDS + 1):
        await done(store.put(entry(seq)))
    for seq in SETTLED:
        settled = entry(seq)
        settled.settle(EntryState.CONFIRMED, confirmation="applied")
        store.settle(settled)
        await asyncio.sleep(0)
    await take(store, MESSAGES // 2 + 1, MESSAGES)
    await done(store.keep_record(SESSION, RECORD))
    await done(store.keep(store.session(SESSION)))


async def take(store, first, last):
    """The consumer takes these messages; the first of all were answers, too."""
    position = store.session(SESSION)
    for n in range(first, last + 1):
        position.accept(key_of(n), text_of(n), stamp_of(n), time.monotonic())
        await done(store.touch(1))
        position.hand()
        position.take()
        store.touch()
        if n <= ANSWERS:
            position.use_up(("result", f"a-{n}"))
        if n % 2:
            await done(store.keep(position))


def read(store):
    """Everything that an open store says."""
    position = store.session(store.last_session() or SESSION)
    entries = {
        one.seq: (
            one.id,
            one.key,
            one.type,
            one.frame,
            one.state,
            one.written_at and one.written_at.wall,
        )
        for one in store.entries()
    }
    outcomes = {
        one.seq: (one.id, one.key, one.state, one.confirmation, one.reason)
        for one in store.outcomes()
    }
    tail = tuple((mark.key, mark.text, mark.stamp) for mark in position.tail)
    answers = frozenset(n for n in range(1, 99) if position.is_used_up(("result", f"a-{n}")))
    flags = (position.asked_to_join, position.joined, position.replaces, position.epoch)
    return Content(
        entries,
        outcomes,
        position.taken,
        tail,
        answers,
        store.last_session(),
        flags,
        dict(store.records()),
    )


def marks_of(content):
    """The messages of a position with their numbers: the last has the number `taken`."""
    return dict(
        zip(
            range(content.taken - len(content.tail) + 1, content.taken + 1),
            content.tail,
            strict=True,
        )
    )


@asynccontextmanager
async def opened(path, **options):
    """An open store, and the events of its opening."""
    found: list[StateSetAside] = []
    store = SQLiteStore(path, **options)
    with listen(lambda event: found.append(event) if isinstance(event, StateSetAside) else None):
        await store.open(now())
    try:
        yield store, found
    finally:
        await store.close()


async def look(path, **options):
    """What a store says of this file, and the events of its opening."""
    async with opened(path, **options) as (store, events):
        return read(store), events


def copy(path, to):
    """The files of a database, as they are at one moment: its writer may be busy, so they are read until they stay the same."""
    while (files := _files(path)) != _files(path):
        pass
    for side, data in files.items():
        Path(f"{to}{side}").write_bytes(data)


def _files(path):
    found = {}
    for side in SIDES:
        with suppress(FileNotFoundError):
            found[side] = Path(f"{path}{side}").read_bytes()
    return found


async def checkpointed(directory):
    """The known content in one file."""
    path = directory / "known.db"
    async with opened(path) as (store, _):
        await write_first(store)
        await write_second(store)
    assert not Path(f"{path}-wal").exists()
    return path


async def crashed(directory):
    """The known content as a process leaves it that dies: half of it in the file, half in a log of many transactions."""
    path, remaining = directory / "alive.db", directory / "known.db"
    async with opened(path) as (store, _):
        await write_first(store)
    async with opened(path) as (store, _):
        await write_second(store)
        copy(path, remaining)
    assert Path(f"{remaining}-wal").stat().st_size > 100_000
    return remaining


async def never_copied(directory):
    """The same, all of it in the log: its process never copied anything into the file."""
    path, remaining = directory / "alive.db", directory / "known.db"
    async with opened(path) as (store, _):
        await write_first(store)
        await write_second(store)
        copy(path, remaining)
    return remaining
