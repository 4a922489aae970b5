"""What a run has to know of a server and its dialect: what a number, a message and its effect look like, and what can be recovered."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import resilient_bridge as rb


if TYPE_CHECKING:
    from tests.bridges.servers.judging import Heard
    from tests.bridges.servers.runs import Run

PATIENCE = (
    20.0  # seconds in which the client has to be READY once all is well, and a number has to arrive
)


class Kind:
    """What one server and its dialect are like. `verdict`: of a cut that the server has noticed before the client is back."""

    name: str
    server: str  # the module that starts it
    verdict: rb.bridge.Verdict = rb.bridge.Verdict.RECOVERED
    token: str | None = None
    copies = 1  # how often each number comes, in channels of its own
    settles_all = False  # whether each send has to be confirmed in the end
    starts_twice = False  # whether it refuses clients for good while it answers already

    def __init__(self, server: Any, seed: int) -> None:
        """One for each run. Its numbers begin behind `base`: a server may serve many runs."""
        self.at = server
        self.seed = seed
        self.base = seed * 1_000

    async def prepare(self) -> None:
        """Before the client connects."""

    def dialect(self, rng: random.Random) -> rb.bridge.Dialect:
        """The dialect of this run."""
        raise NotImplementedError

    def url(self) -> str:
        """The server's own address; the run puts the proxy's into it."""
        return self.at.url

    async def publish(self, number: int) -> bool:
        """Have the server say a number; False if there is none that it could say it to."""
        await self.at.publish(number)
        return True

    def heard(self, message: rb.bridge.Message) -> Heard | None:
        """The numbers in a message, and where it stands in the log of its channel; None if it is nothing of ours."""
        raise NotImplementedError

    def log(self, published: list[int], first: int) -> list[int]:
        """Of what was published, what the channel has whose first number that is."""
        del first
        return published

    def rank(self, number: int) -> int:
        """Numbers of one rank have no order among each other."""
        return number

    def since(self, number: int) -> int:
        """The gap that covers this number may stand before that one."""
        return number

    async def send(self, bridge: rb.BridgeClient, number: int) -> Any:
        """Send the message with this number; its receipt."""
        raise NotImplementedError

    async def effects(self) -> list[int]:
        """The number of each message of this run that had its effect, repeats included."""
        raise NotImplementedError

    async def ready(self, run: Run) -> None:
        """The client is READY, and no fault is planned: what the user would do now."""

    def noted(self, event: Any) -> None:
        """The client has reported this."""

    async def noticed(self) -> None:
        """Return when the server knows that the connection is gone."""

    def restarted(self) -> None:
        """The server was killed or stopped."""

    def must_recover(self, event: Any) -> bool:
        """Whether this reconnection had to end RECOVERED, because the server held everything that we had a position in."""
        del event
        return False
