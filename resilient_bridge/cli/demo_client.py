"""The client of `demo --crash`, a process of its own, made to be killed: `python -m resilient_bridge.cli.demo_client` (internal).

Rule: what it has done it reports at once, a line of JSON straight into a pipe, so that a kill loses no report that was made. It ends
when its parent says so, and when its parent is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from ..client import BridgeClient, Receipt
from ..errors import BridgeError, SessionError
from ..protocol import Gap
from ..telemetry import events, listen
from ..telemetry.log import muted
from ..transports.standard_streams import lines_of
from .demo_pace import PATIENCE, QUICK, pause
from .demo_story import Story


_STDOUT: Final = 1


def main(argv: list[str]) -> None:
    """Live: address and store, the first serial to send, seed and rate, and the keys whose outcome nobody was told."""
    url, store, first, seed, rate, *untold = argv
    life = Life(url, store, first=int(first), seed=int(seed), rate=float(rate))
    try:
        asyncio.run(life.run(untold))
    except BridgeError as error:
        report("said", str(error.failure), "FAILED:")
        sys.exit(1)


def report(kind: str, *values: object) -> None:
    """Tell the parent; short enough for a pipe to take it whole or not at all."""
    data = json.dumps([kind, *values], separators=(",", ":")).encode() + b"\n"
    while data:
        data = data[os.write(_STDOUT, data) :]


class Life:
    """One process: it sends, says what it accepted, reads, and says what it got."""

    def __init__(self, url: str, store: str, *, first: int, seed: int, rate: float) -> None:
        self._client = BridgeClient(url, policy=QUICK, store=store, on_gap=_on_gap)
        self._first = first
        self._rate = rate
        self._rng = random.Random(f"sent {seed} {first}")
        self._stopped = asyncio.Event()
        self._receipts: asyncio.Queue[Receipt | None] = asyncio.Queue()

    async def run(self, untold: Sequence[str]) -> None:
        """Until the parent says that it is over: then all that was sent is settled first."""
        loop = asyncio.get_running_loop()
        with listen(ReportedStory(self._client).tell), muted():
            async with self._client as client:
                earlier = client.pending()
                report("took over", [[receipt.idempotency_key, receipt.state] for receipt in earlier])
                for receipt in earlier:
                    self._receipts.put_nowait(receipt)
                self._look_up(set(untold) - {receipt.idempotency_key for receipt in earlier})
                work = [loop.create_task(part) for part in (self._read(), self._send(), self._settle())]
                stop = loop.create_task(_asked_to_stop())
                await asyncio.wait([stop, *work], return_when=asyncio.FIRST_COMPLETED)
                if not stop.done():  # one of them ended, with an error
                    await asyncio.gather(*work)
                if not stop.result():
                    os._exit(1)  # nobody is there any more to whom anything could be told
                self._stopped.set()
                await work[1]
                self._receipts.put_nowait(None)
                await asyncio.wait([work[2]], timeout=PATIENCE)
                await client.aclose(drain=0)
                await asyncio.gather(*work)

    def _look_up(self, keys: Iterable[str]) -> None:
        """What became of them just before the process before this one was killed: the store remembers."""
        for key in keys:
            try:
                report("settled", key, self._client.receipt(key).state)
            except SessionError:
                report("settled", key, "gone")

    async def _send(self) -> None:
        n = self._first
        while not self._stopped.is_set():
            receipt = await self._client.send("tool_result", {"n": n}, idempotency_key=str(n))
            report("accepted", n)
            self._receipts.put_nowait(receipt)
            n += 1
            await pause(self._rng, self._rate, self._stopped)

    async def _settle(self) -> None:
        while (receipt := await self._receipts.get()) is not None:
            with suppress(BridgeError):
                await receipt.confirmed()
            report("settled", receipt.idempotency_key, receipt.state)

    async def _read(self) -> None:
        async for message in self._client:
            report("got", message.payload["n"], message.redelivered, message.maybe_duplicate)


class ReportedStory(Story):
    """The story of the demo, told by the parent."""

    def __init__(self, client: BridgeClient) -> None:
        self._client = client
        self._verdict: str | None = None
        self._is_first = False
        super().__init__(sys.stderr, asyncio.get_running_loop().time, self._counts_of_outbox)

    def line(self, who: str, text: str, mark: str = "") -> None:
        """A line for the parent to tell, who knows whose it is."""
        del who
        report("said", text, mark)

    def tell(self, event: events.Event) -> None:
        """One event: for the audience, and for the ledger."""
        if isinstance(event, events.Resumed):
            self._verdict = event.verdict.value
        elif isinstance(event, events.Joined):
            self._is_first = True
        elif isinstance(event, events.StateChanged) and event.state is events.BridgeState.READY:
            report("ready", self._is_first, self._verdict)
            self._is_first, self._verdict = False, None
        super().tell(event)

    def _counts_of_outbox(self) -> tuple[int, int]:
        health = self._client.health()
        return health.queued, health.unconfirmed


def _on_gap(gap: Gap) -> None:
    report("gap", gap.reason)


async def _asked_to_stop() -> bool:
    """Wait for the parent's word; False: there is no parent any more."""
    async for _ in lines_of(0):
        return True
    return False


if __name__ == "__main__":
    main(sys.argv[1:])
