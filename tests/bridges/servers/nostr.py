"""nostr-relay with a SQLite file, and events signed with two keys: clients' and the one that `publish` uses.

The signature is BIP 340, in whole numbers and without a library: slow, and safe for tests alone.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import websockets

from tests.bridges.servers.install import program
from tests.bridges.servers.process import PATIENCE, ServerProcess, started
from tests.peers.ports import HOST


CLIENT_KEY = 0xC11E47  # whose events the ledger counts
PUBLISHER_KEY = 0x5E12E12
FIELD = 2**256 - 2**32 - 977  # secp256k1
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
BASE = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
CONFIG = """
relay_name: relay of a test
storage:
  sqlalchemy.url: sqlite+aiosqlite:///{file}
  validators:
    - nostr_relay.validators.is_not_too_large
    - nostr_relay.validators.is_signed
    - nostr_relay.validators.is_recent
verification:
  nip05_verification: disabled
gunicorn:
  bind: {host}:{port}
  workers: 1
  loglevel: info
authentication:
  enabled: false
"""

Point = tuple[int, int]


def _add(a: Point | None, b: Point | None) -> Point | None:
    if a is None or b is None:
        return a or b
    if a[0] == b[0] and a[1] != b[1]:
        return None
    if a == b:
        slope = 3 * a[0] * a[0] * pow(2 * a[1], -1, FIELD)
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, FIELD)
    x = (slope * slope - a[0] - b[0]) % FIELD
    return x, (slope * (a[0] - x) - a[1]) % FIELD


def _times(number: int) -> Point:
    """The base point, added to itself so often."""
    total, step = None, BASE
    for bit in range(number.bit_length()):
        if number >> bit & 1:
            total = _add(total, step)
        step = _add(step, step)
    return total


def _even(secret: int) -> tuple[int, bytes]:
    """The secret whose point has an even y, and the x of that point."""
    x, y = _times(secret)
    return (secret if y % 2 == 0 else ORDER - secret), x.to_bytes(32, "big")


def _tagged(tag: str, data: bytes) -> bytes:
    prefix = sha256(tag.encode()).digest()
    return sha256(prefix + prefix + data).digest()


def public_key(secret: int) -> str:
    """The author that events of this secret key have."""
    return _even(secret)[1].hex()


def signed_event(
    content: str,
    *,
    secret: int = CLIENT_KEY,
    kind: int = 1,
    created_at: int | None = None,
    tags: list[list[str]] | None = None,
) -> dict[str, Any]:
    """An event as NIP-01 wants it. The same arguments make the same id; the time is in seconds, now unless it is named."""
    private, author = _even(secret)
    moment = int(time.time()) if created_at is None else created_at
    plain = [0, author.hex(), moment, kind, tags or [], content]
    ident = sha256(json.dumps(plain, separators=(",", ":"), ensure_ascii=False).encode()).digest()
    nonce, point = _even(
        int.from_bytes(
            _tagged("BIP0340/nonce", private.to_bytes(32, "big") + author + ident), "big"
        )
        % ORDER
    )
    challenge = int.from_bytes(_tagged("BIP0340/challenge", point + author + ident), "big")
    proof = (nonce + challenge * private) % ORDER
    return {
        "id": ident.hex(),
        "pubkey": author.hex(),
        "created_at": moment,
        "kind": kind,
        "tags": tags or [],
        "content": content,
        "sig": (point + proof.to_bytes(32, "big")).hex(),
    }


class NostrRelay(ServerProcess):
    """`url` takes every kind of event."""

    name = "nostr"

    def __init__(self, folder: Path) -> None:
        """Write its configuration."""
        super().__init__(folder)
        self._file = folder / "nostr.sqlite3"
        self._config = folder / "config.yaml"
        self._config.write_text(CONFIG.format(file=self._file, host=HOST, port=self.port))

    @property
    def url(self) -> str:
        """The relay."""
        return f"ws://{HOST}:{self.port}/"

    def command(self) -> list[str]:
        """Its own command."""
        return [program(self.name, "nostr-relay"), "--config", str(self._config), "serve"]

    async def publish(
        self, number: int, *, created_at: int | None = None, topic: str = "numbers"
    ) -> None:
        """Store an event of another author, with the number as its content and a tag `t`."""
        event = signed_event(
            str(number), secret=PUBLISHER_KEY, created_at=created_at, tags=[["t", topic]]
        )
        async with asyncio.timeout(PATIENCE), websockets.connect(self.url, proxy=None) as socket:
            await socket.send(json.dumps(["EVENT", event]))
            answer = json.loads(await socket.recv())
        assert answer[:3] == ["OK", event["id"], True], answer

    async def ledger(self) -> list[str]:
        """The content of each event of the client's key that is stored, in the order of their arrival."""
        if not self._file.exists():
            return []
        author = bytes.fromhex(public_key(CLIENT_KEY))
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as database:
            rows = database.execute(
                "SELECT content FROM events WHERE pubkey = ? ORDER BY rowid", (author,)
            )
            return [content for (content,) in rows]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[NostrRelay]:
    """A relay that answers, with nothing stored."""
    async with started(NostrRelay, folder) as server:
        yield server
