"""The demo's two streams of messages: the bridge pushes, the client sends, and the ledger books both.

Rule: what is pushed is booked before it can arrive, what is sent when the client has accepted it, what arrives when
the application gets it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from ..client import BridgeClient, Receipt
from ..errors import BridgeError
from ..testing.ledger import Ledger
from ..testing.server import BridgeServer
from .demo_pace import KINDS, pause


class Moments:
    """A place to wait for a fact: whoever may have changed it says so."""

    def __init__(self) -> None:
        self._came = asyncio.Event()

    def tell(self) -> None:
        """Something changed."""
        self._came.set()

    async def until(self, fact: Callable[[], bool], seconds: float) -> bool:
        """Wait until it is so, or the time is up; returns whether it is so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not fact():
                    self._came.clear()
                    await self._came.wait()
        return fact()


class Traffic:
    """`rate` messages a second each way, with the spacing, kinds and sizes of the seed; it ends after `stop()`."""

    def __init__(
        self, server: BridgeServer, client: BridgeClient, ledger: Ledger, *, seed: int, rate: float
    ) -> None:
        self.pushed = 0
        self.delivered = 0  # the highest serial that arrived
        self.moments = Moments()
        self._anchors = 0  # how many with an id arrived: only they can be found again for certain
        self._receipt: Receipt | None = None  # of the last message sent
        self._server = server
        self._client = client
        self._ledger = ledger
        self._rate = rate
        self._down = random.Random(f"pushed {seed}")
        self._up = random.Random(f"sent {seed}")
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """No more messages from here on, but those on their way still arrive."""
        self._stopped.set()

    async def push(self) -> None:
        """The bridge's stream."""
        while not self._stopped.is_set():
            await self.push_one()
            await pause(self._down, self._rate, self._stopped)

    async def push_one(self) -> int:
        """Push the next message and return its serial."""
        self.pushed += 1
        n = self.pushed
        self._ledger.pushed(n)
        self.moments.tell()
        text = "x" * self._down.randrange(40)
        await self._server.push(self._down.choice(KINDS), {"n": n, "text": text})
        return n

    async def send(self) -> None:
        """The client's stream; while its outbox is full it waits."""
        n = 0
        while not self._stopped.is_set():
            n += 1
            self._receipt = await self._client.send("tool_result", {"n": n})
            self._ledger.sent(n, self._receipt)
            await pause(self._up, self._rate, self._stopped)

    async def read(self) -> None:
        """What the application gets, until the client is closed."""
        async for message in self._client:
            self._ledger.delivered(message)
            self.delivered = max(self.delivered, message.payload["n"])
            self._anchors += message.id is not None
            self.moments.tell()

    def has_delivered(self, n: int) -> bool:
        """Has that message arrived, or a later one?"""
        return self.delivered >= n

    async def caught_up(self, seconds: float) -> None:
        """Wait, each time no longer than that, for one more message with an id, and for all that was sent so far."""
        anchors = self._anchors
        await self.moments.until(lambda: self._anchors > anchors, seconds)
        if self._receipt is not None:
            with suppress(BridgeError):
                await self._receipt.confirmed(seconds)
