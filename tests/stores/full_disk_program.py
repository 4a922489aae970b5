"""What happens on a file system of 1 MiB that is full: to be run in a mount namespace of its own, as root of it.

`unshare -m python -m tests.stores.full_disk_program SCENARIO PLACE OUT`; PLACE becomes a tmpfs, OUT gets copies of the files, and
standard output the facts, one JSON object a line. Rule: it asserts nothing; the test that starts it does.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from resilient_bridge import events
from resilient_bridge.errors import StoreError
from resilient_bridge.stores import SQLiteStore
from resilient_bridge.testing import BridgeServer, FaultProxy
from tests.internals.stores import commits as sqlite_commits
from tests.internals.stores import database as sqlite_file
from tests.stores.database_content import copy, entry, now
from tests.stores.database_worker import SENDS, life, say, send, tried
from tests.threats.watching import Watch, quick, until


class Disk:
    """A small file system, and what takes all the room on it."""

    def __init__(self, folder):
        self.folder = folder
        self._ballast = folder / "ballast"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", folder], check=True
        )

    def fill(self):
        """Not one more page."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def free(self):
        self._ballast.unlink()

    def mount(self, how):
        subprocess.run(["mount", "-o", f"remount,{how}", self.folder], check=True)


async def store(disk, out, durability):
    """A life on a disk that is full after a while, another when there is room; the files of both moments."""
    path = disk.folder / "alive.db"
    saved = SQLiteStore(path, durability=durability)
    await saved.open(now())
    for seq in range(1, 6):
        await send(saved, seq)
    disk.fill()
    say(op="full", n=0, code="")
    await life(saved, 6, SENDS)
    copy(path, out / "full.db")
    disk.free()
    say(op="lifted", n=0, code="")
    await life(saved, SENDS + 1, SENDS + 24)
    copy(path, out / "left.db")
    await tried("close", 0, saved.close)
    copy(path, out / "closed.db")
    disk.fill()
    await tried("open when full", 0, lambda: SQLiteStore(disk.folder / "another.db").open(now()))


async def read_only(disk, out, durability):
    """A file system that may not be written to, with and without a database on it."""
    path = disk.folder / "alive.db"
    saved = SQLiteStore(path, durability=durability)
    await saved.open(now())
    await tried("put", 1, lambda: saved.put(entry(1)))
    await saved.close()
    disk.mount("ro")
    for name in ("alive.db", "another.db"):
        await tried("open", 0, lambda name=name: SQLiteStore(disk.folder / name).open(now()))
    disk.mount("rw")
    saved = SQLiteStore(path, durability=durability)
    await tried("open again", 0, lambda: saved.open(now()))
    say(op="entries", n=len(list(saved.entries())), code="")
    await saved.close()
    copy(path, out / "left.db")


class Patient(Watch):
    """Asks again for the next message whenever the store refuses."""

    async def _consume(self):
        await super()._consume()
        while isinstance(self.error, StoreError):
            self.error = None
            await asyncio.sleep(0.1)
            await super()._consume()


@asynccontextmanager
async def staged(disk, durability):
    saved = SQLiteStore(disk.folder / "alive.db", durability=durability)
    async with (
        BridgeServer() as bridge,
        FaultProxy(*bridge.address) as proxy,
        Patient(proxy.url("/ws"), store=saved, policy=quick()) as watch,
    ):
        await watch.ready(10)
        yield bridge, proxy, watch


def _events(watch, state):
    return sum(getattr(event, "state", "") == state for event in watch.of(events.StoreChanged))


def _notes(bridge):
    return [message["payload"]["n"] for message in bridge.received if message["type"] == "note"]


async def client(disk, out, durability):
    """A client that is READY when the disk fills: what it can still do, and what it does when there is room."""
    async with staged(disk, durability) as (bridge, proxy, watch):
        await _while_ready(disk, bridge, watch)
        await _while_away(disk, bridge, proxy, watch)
        say(fact="connections", count=proxy.connections)
        copy(disk.folder / "alive.db", out / "left.db")
    say(fact="closed", state=str(watch.client.state), error=repr(watch.error))


async def _while_ready(disk, bridge, watch):
    say(fact="before", is_sent=await (await watch.client.send("note", {"n": 0})).confirmed(10))
    disk.fill()
    refused = []
    for n in range(1, 6):
        try:
            await watch.client.send("note", {"n": n})
        except StoreError as error:
            refused.append(error.failure.code)
    say(fact="refused", codes=refused, pending=len(watch.client.pending()))
    for _ in range(5):
        await bridge.push("tool_call", {"text": "hello"})
    answer = await watch.client.request("git_status_request", {}, timeout=10)
    await asyncio.sleep(1.5)
    say(fact="goes on", answer=answer.type, state=str(watch.client.state))
    say(fact="moved", received=_notes(bridge))
    disk.free()
    await until(lambda: _events(watch, "working"), 10)
    await until(lambda: len(watch.messages) == 5, 10)
    say(fact="after", is_sent=await (await watch.client.send("note", {"n": 6})).confirmed(10))
    say(fact="told", failed=_events(watch, "failed"), recovered=_events(watch, "working"))


async def _while_away(disk, bridge, proxy, watch):
    """Accepted while the link is down, and not marked yet, when the disk fills."""
    proxy.refuse()
    await bridge.cut("abort")
    await until(lambda: watch.client.state != "READY", 10)
    receipts = [await watch.client.send("note", {"n": n}) for n in (7, 8)]
    disk.fill()
    proxy.heal()
    await until(lambda: watch.client.state == "FLUSHING", 10)
    await bridge.push("tool_call", {"text": "hello"})
    answer = await watch.client.request("git_status_request", {}, timeout=10)
    await asyncio.sleep(1.5)
    state = str(watch.client.state)
    say(
        fact="waits",
        states=[receipt.state for receipt in receipts],
        state=state,
        answer=answer.type,
    )
    say(fact="held", received=_notes(bridge))
    disk.free()
    confirmed = [await receipt.confirmed(10) for receipt in receipts]
    await until(lambda: len(watch.messages) == 6, 10)
    say(
        fact="proceeds", confirmed=confirmed, received=_notes(bridge), state=str(watch.client.state)
    )
    say(fact="told", failed=_events(watch, "failed"), recovered=_events(watch, "working"))


if __name__ == "__main__":
    name, where, result, durable = sys.argv[1:]
    sqlite_file.PAGE = (
        4_096  # a block of this file system: when that is full, not one page finds room
    )
    if name == "store":
        sqlite_commits._LOOK_EVERY = 8
    scenario = {"store": store, "read_only": read_only, "client": client}[name]
    asyncio.run(scenario(Disk(Path(where)), Path(result), durable))
    os._exit(0)
