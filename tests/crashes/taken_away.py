"""A client whose store is taken away while it lives: what it accepted is counted at the far end, a `websockets` server.

A run has two lives over one store. The first accepts messages while the server is away or there, and meanwhile the store is taken
away; it is closed. The second sends what is left. Rule: each message that `send()` accepted reaches the server exactly once, or the
sender was informed: by an error, by a receipt that came back and that no later life has, or by an event that names a loss.
`python -m tests.crashes.taken_away [RUNS]` prints a row for each way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from websockets.asyncio.server import serve

import resilient_bridge as rb
from resilient_bridge import events
from resilient_bridge.stores import RedisStore, SQLiteStore
from resilient_bridge.telemetry import listen
from tests.internals.files import _held as owners_of_this_process


if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGES: Final = 12
PATIENCE: Final = 10.0


@attrs.define
class Account:
    """What was accepted, and what came of it."""

    accepted: list[int] = attrs.field(factory=list)
    received: Counter[int] = attrs.field(factory=Counter)
    informed: set[int] = attrs.field(factory=set)
    losses: list[str] = attrs.field(factory=list)

    def wrong(self) -> list[str]:
        """Losses that nobody was informed of, and doubles."""
        lost = [
            n
            for n in self.accepted
            if not self.received[n] and n not in self.informed and not self.losses
        ]
        doubles = [n for n, times in self.received.items() if times > 1]
        return [f"lost, unsaid: {lost}"] * bool(lost) + [f"doubled: {doubles}"] * bool(doubles)


class FarEnd:
    """The server: it counts each frame, and is away or there."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.url = ""
        self._server: Any = None
        self._port = 0

    async def _hear(self, connection: Any) -> None:
        with suppress(Exception):
            async for frame in connection:
                self.account.received[json.loads(frame)["n"]] += 1

    async def there(self) -> None:
        """Listen; on the same port as before."""
        self._server = await serve(self._hear, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        self.url = f"ws://127.0.0.1:{self._port}/"

    async def away(self) -> None:
        """Close each connection, and listen no more."""
        self._server.close()
        await self._server.wait_closed()


# ---- the ways ----------------------------------------------------------------------------------------------------------


def _all(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}*"))


def unlinked(path: Path) -> None:
    path.unlink()


def moved(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def all_removed(path: Path) -> None:
    for one in _all(path):
        one.unlink()


def sides_removed(path: Path) -> None:
    for one in _all(path):
        if one != path:
            one.unlink()


def log_removed(path: Path) -> None:
    path.with_name(path.name + "-wal").unlink()


def folder_removed(path: Path) -> None:
    shutil.rmtree(path.parent)


def folder_moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def replaced_by_a_copy(path: Path) -> None:
    shutil.copy2(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def copied_over(path: Path) -> None:
    shutil.copyfile(path, path.with_name("copy.db"))
    shutil.copyfile(path.with_name("copy.db"), path)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def _foreign(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (n)")
        connection.commit()
    path.chmod(0o600)
    return path


def replaced_by_another(path: Path) -> None:
    _foreign(path.with_name("other.db")).replace(path)


def overwritten_by_another(path: Path) -> None:
    shutil.copyfile(_foreign(path.with_name("other.db")), path)


def lock_removed(path: Path) -> None:
    path.with_name(path.name + ".owner").unlink()


CASES: Final[dict[str, Callable[[Path], None]]] = {
    way.__name__: way
    for way in (
        unlinked, moved, all_removed, sides_removed, log_removed, folder_removed, folder_moved, replaced_by_a_copy, copied_over,
        emptied, replaced_by_another, overwritten_by_another, lock_removed,
    )
}  # fmt: skip


def _redis_cases(server: Any) -> dict[str, Callable[[str], None]]:
    def flushed(_: str) -> None:
        with server.client() as client:
            client.flushall()

    def deleted(part: str) -> Callable[[str], None]:
        def way(tag: str) -> None:
            with server.client() as client:
                client.delete(f"{tag}:{part}")

        return way

    def restarted(_: str) -> None:
        server.restart()

    def of_another_kind(tag: str) -> None:
        with server.client() as client:
            client.delete(f"{tag}:outbox")
            client.set(f"{tag}:outbox", "theirs")

    parts = {f"{part}_removed": deleted(part) for part in ("outbox", "head", "owner", "handed")}
    return {"flushed": flushed, "restarted": restarted, "outbox_replaced": of_another_kind, **parts}


REDIS_CASES: Final = (
    "flushed",
    "restarted",
    "outbox_replaced",
    "outbox_removed",
    "head_removed",
    "owner_removed",
    "handed_removed",
)


# ---- a run -------------------------------------------------------------------------------------------------------------


def _policy() -> rb.bridge.BridgePolicy:
    return rb.presets.default.evolve(
        reconnect=rb.bridge.Reconnect(
            backoff=rb.Backoff.constant(0.01),
            connect_burst=100,
            connects_per_minute=6000,
            attempts=None,
        )
    )


def _client(url: str, store: Any) -> rb.BridgeClient:
    return rb.BridgeClient(
        url, store=store, dialect=rb.dialects.plain, policy=_policy(), receive=False
    )


async def _send(client: rb.BridgeClient, account: Account, n: int) -> None:
    try:
        await client.send({"n": n}, idempotency_key=f"k{n}")
    except rb.BridgeError:
        account.informed.add(n)
    else:
        account.accepted.append(n)


@asynccontextmanager
async def _heard(account: Account):
    def hear(event: events.Event) -> None:
        if isinstance(event, events.StateSetAside) and event.lost != "nothing":
            account.losses.append(event.lost)

    with listen(hear):
        yield


async def run(
    new_store: Callable[[], Any], take_away: Callable[[], None], rng: random.Random
) -> Account:
    """One run, as the module says."""
    account = Account()
    far = FarEnd(account)
    await far.there()
    if rng.random() < 0.6:
        await far.away()
        is_there = False
    else:
        is_there = True
    moment = rng.randrange(1, MESSAGES)
    async with _heard(account):
        client = _client(far.url, new_store())
        async with client:
            for n in range(MESSAGES):
                if n == moment:
                    take_away()
                await _send(client, account, n)
                if rng.random() < 0.3:
                    await asyncio.sleep(rng.choice([0, 0.001, 0.01]))
            back = await client.aclose(drain=0)
            has_failed = client.health().store_failed or client.health().failure is not None
        if is_there:
            await far.away()
        if has_failed:  # informed: by StoreChanged, and by the receipts that come back
            account.informed |= {int(receipt.idempotency_key[1:]) for receipt in back}
        await _next_life(new_store, far, account)
    return account


async def _next_life(new_store: Callable[[], Any], far: FarEnd, account: Account) -> None:
    """Send what the store has."""
    await far.there()
    try:
        async with _client(far.url, new_store()) as client, asyncio.timeout(PATIENCE):
            for receipt in client.pending():
                if receipt.state == "written":  # perhaps it arrived: its sender is informed so
                    account.informed.add(int(receipt.idempotency_key[1:]))
            while client.health().queued:
                await asyncio.sleep(0.002)
            await asyncio.sleep(0.01)
    except rb.BridgeError as error:
        account.losses.append(str(error))  # informed: the path has something else
    finally:
        await far.away()


async def sqlite_run(way: str, seed: int) -> Account:
    """A run with a file in a folder of its own."""
    rng = random.Random(f"{way}/{seed}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "here").mkdir(mode=0o700)
        path = Path(folder) / "here" / "bridge.db"
        durability = rng.choice(["process", "machine"])
        return await run(
            lambda: SQLiteStore(path, durability=durability), lambda: CASES[way](path), rng
        )


async def two_owners_run(seed: int) -> Account:
    """The lock file is removed, and a second client opens the store; both have the server."""
    rng, account = random.Random(f"two/{seed}"), Account()
    far = FarEnd(account)
    await far.there()
    await far.away()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bridge.db"
        async with _heard(account):
            first = _client(far.url, SQLiteStore(path))
            async with first:
                for n in range(MESSAGES):
                    await _send(first, account, n)
                lock_removed(path)
                owners_of_this_process.clear()  # as if the second were another process
                async with _client(far.url, SQLiteStore(path)) as second:
                    await far.there()
                    await asyncio.sleep(rng.choice([0, 0.005, 0.02]))
                    await _send(first, account, MESSAGES)
                    async with asyncio.timeout(PATIENCE):
                        while second.health().queued or first.health().failure is None:
                            await asyncio.sleep(0.002)
                    await asyncio.sleep(0.01)
                    assert first.health().failure.code == "SESS_SUPERSEDED"
            await far.away()
    return account


async def redis_run(server: Any, way: str, seed: int) -> Account:
    """A run with a Redis, and keys of its own."""
    rng, name = random.Random(f"{way}/{seed}"), f"{way}-{seed}"
    take = _redis_cases(server)[way]
    tag = f"{{resilient_bridge:{name}}}"
    return await run(
        lambda: RedisStore(server.url, name=name, lease=1.0, wait=5.0), lambda: take(tag), rng
    )


def main(runs: int) -> int:
    """Print a row for each way."""
    logging.disable(logging.CRITICAL)
    has_failed = False
    for way in (*CASES, "two owners"):
        wrong, accepted, received = [], 0, 0
        for seed in range(runs):
            account = asyncio.run(
                two_owners_run(seed) if way == "two owners" else sqlite_run(way, seed)
            )
            accepted += len(account.accepted)
            received += len(account.received)
            wrong += [f"{way} {seed}: {text}" for text in account.wrong()]
        print(  # noqa: T201 -- the row
            f"| SQLite | {way} | {runs} | {accepted} | {received} | {len(wrong)} |",
            *wrong[:5],
            sep="\n",
            flush=True,
        )
        has_failed |= bool(wrong)
    return has_failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 50))
