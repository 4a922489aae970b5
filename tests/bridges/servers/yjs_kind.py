"""Yjs in the fifty runs: a binary protocol, with the updates counted at the far end."""

from __future__ import annotations

import random
from typing import Any

import resilient_bridge as rb
from tests.bridges.servers.judging import Heard
from tests.bridges.servers.kind import Kind
from tests.bridges.servers.wire import until
from tests.bridges.servers.yjs_dialect import set_key
from tests.bridges.servers.yjs_dialect import yjs as dialect_of


class Yjs(Kind):
    """RECOVERED while the server lives. A restart forgets the document, and the next one has another writer: a gap."""

    name = server = "yjs"

    def __init__(self, server: Any, seed: int) -> None:
        """A document of its own."""
        super().__init__(server, seed)
        self.room = f"run-{seed}"
        self.has_restarted = False

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """The one of this test."""
        del rng
        return dialect_of()

    def url(self) -> str:
        """The document's."""
        return f"{self.at.url}/{self.room}"

    async def publish(self, number: int) -> bool:
        """Set it in the document."""
        await self.at.publish(self.room, number)
        return True

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """A key of the document that is a number."""
        if message.type != "set" or not message.payload["value"]:
            return None
        return Heard((message.payload["value"],), may_repeat=message.maybe_duplicate)

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """An update of bytes."""
        return await bridge.send("update", set_key(number, "sent", str(number), f"é {number}"))

    async def effects(self) -> list[int]:
        """Every update that was applied, by each document that there was."""
        return [int(key) for key in self.at.ledger(self.room).elements()]

    async def noticed(self) -> None:
        """No client is connected."""

        async def connected() -> int:
            return await self.at.connected(self.room)

        await until(connected, 0)

    def restarted(self) -> None:
        """What was in the document is forgotten."""
        self.has_restarted = True

    def must_recover(self, event: Any) -> bool:
        """All but the first reconnection to another life of the server, which is a gap."""
        had_restarted, self.has_restarted = self.has_restarted, False
        return not had_restarted and event.reason != "no_position"
