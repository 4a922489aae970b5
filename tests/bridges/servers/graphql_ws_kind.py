"""graphql-ws in the fifty runs: two subscriptions, each with a cursor in its query."""

from __future__ import annotations

import random
from typing import Any

import resilient_bridge as rb
from tests.bridges.servers.graphql_ws_dialect import graphql_ws as dialect_of
from tests.bridges.servers.judging import Heard
from tests.bridges.servers.kind import Kind
from tests.bridges.servers.wire import until


SUBSCRIPTIONS = ("first", "second")


class GraphqlWs(Kind):
    """RECOVERED while the server lives: it has all that it published. A restart forgets it, and only the event that does not come tells."""

    name = server = "graphql_ws"
    copies = len(SUBSCRIPTIONS)

    def __init__(self, server: Any, seed: int) -> None:
        """Nothing was heard of this life of the server."""
        super().__init__(server, seed)
        self.last = self.base  # the number that was published last
        self.restarted_at = self.base  # the same when the server was ended
        self.is_back = True  # whether a reconnection has ended since
        self.reached = dict.fromkeys(SUBSCRIPTIONS, self.base)

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """The one of this test, from the first number of the run on."""
        del rng
        return dialect_of(SUBSCRIPTIONS, start=self.base)

    async def publish(self, number: int) -> bool:
        """To both subscriptions."""
        await self.at.publish(number)
        self.last = number
        return True

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """The number of one subscription."""
        if message.type != "ticks":
            return None
        number, channel = message.payload["ticks"], message.raw["id"]
        if not 0 < number - self.base < 1_000:
            return None
        self.reached[channel] = max(self.reached[channel], number)
        return Heard((number,), channel=channel, may_repeat=message.maybe_duplicate)

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """A mutation that writes to the ledger."""
        return await bridge.send("do", {"value": self.base + number})

    async def effects(self) -> list[int]:
        """Every mutation that was executed."""
        done = [value - self.base for value in await self.at.ledger()]
        return [number for number in done if 0 < number < 1_000]

    async def noticed(self) -> None:
        """No client is connected."""
        await until(self.at.connected, 0)

    def restarted(self) -> None:
        """What was published is forgotten."""
        self.restarted_at, self.is_back = self.last, False

    def must_recover(self, event: Any) -> bool:
        """Whatever both subscriptions have heard of in this life of the server; not the first reconnection to it."""
        was_back, self.is_back = self.is_back, True
        return (
            was_back
            and event.reason != "no_position"
            and min(self.reached.values()) > self.restarted_at
        )
