"""Seeded runs of `rb.links.EventSource` against servers of server-sent events, with cuts, kills and restarts: what LangGraph and A2A runs share.

    python -m tests.bridges.servers.sse_runs langgraph SEED...      repeats runs and prints their totals

Rule: a reader's stream is judged as that of a bridge is: what is missing has a gap in its place. A number that the server itself calls
missing (it says that it began anew, or holds no such run) counts as such.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

import resilient_bridge as rb
from resilient_bridge.testing import Fault, FaultProxy
from tests.bridges.servers.judging import Seen
from tests.bridges.servers.line_faults import LineFaults, steps_of, totals
from tests.bridges.servers.process import ServerProcess
from tests.peers.ports import HOST


PATIENCE = 20.0  # seconds in which a number has to arrive once all is well
READ_TIMEOUT = 1.5  # seconds of silence that end a connection
FAULTS = ("cut", "end", "half", "hole", "silence", "refused", "away")
KINDS = ("langgraph", "a2a")


class StreamRun(LineFaults):
    """One run: what the server publishes goes into a stream, and a reader reads it through a proxy. A kind says what an event means."""

    name: str
    reach = 1_500

    def __init__(self, server: Any, seed: int) -> None:
        """Nothing happens yet."""
        self.server: ServerProcess = server
        self.seed, self.rng = seed, random.Random(f"{self.name} {seed}")
        self.seen = Seen(runs=1)
        self.history: list[str] = []
        self.published: list[int] = []
        self.number = 0
        self.changed = asyncio.Event()
        self.has_restarted = False  # since the stream began
        self._begins = time.monotonic()
        self._step = "start"
        self._reading: asyncio.Task[None] | None = None

    # ---- what a kind says ------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Have the server begin another stream, of which nothing was published."""
        raise NotImplementedError

    def source(self, client: httpx.AsyncClient) -> rb.links.EventSource:
        """The reader's side of it."""
        raise NotImplementedError

    def take(self, event: Any) -> bool:
        """An event was read; False if it is the last one."""
        raise NotImplementedError

    def take_gap(self, gap: rb.bridge.Gap) -> None:
        """A gap was reported."""
        raise NotImplementedError

    def ended(self, error: rb.BridgeError) -> bool:
        """The reader was ended by this error; whether that says what became of the stream."""
        del error
        return False

    def has(self, number: int) -> bool:
        """Whether the reader has a number."""
        raise NotImplementedError

    async def finish(self) -> None:
        """Have the server end the stream, wait for what tells so, and judge what was read."""
        raise NotImplementedError

    async def recover(self) -> None:
        """The server was restarted: wait until the reader knows what became of its stream, and begin another one if it is gone."""
        raise NotImplementedError

    # ---- the run ---------------------------------------------------------------------------------------------------

    async def make(self) -> Seen:
        """Make the run and judge it."""
        try:
            async with (
                asyncio.timeout(300),
                FaultProxy(HOST, self.server.port) as self.proxy,
                httpx.AsyncClient(trust_env=False, verify=False) as client,
            ):
                self._client = client
                try:
                    await self.open()
                    await self._schedule()
                    await self.finish()
                finally:
                    await self.shut()
            self.seen.connections = self.proxy.connections
        except Exception as error:  # noqa: BLE001 -- a run that ends early is a finding of the campaign
            self.wrong(f"{type(error).__name__}: {error}")
        self.seen.seconds = time.monotonic() - self._begins
        return self.seen

    def note(self, text: str) -> None:
        """Write down what happens, with its time."""
        self.history.append(f"{time.monotonic() - self._begins:.3f} {text}")

    def wrong(self, what: str) -> None:
        """Something is not as it has to be."""
        command = f"python -m tests.bridges.servers.sse_runs {self.name} {self.seed}"
        self.seen.problems.append(f"{what}, in {self._step!r}  [{command}]")

    def through_proxy(self, url: str) -> str:
        """The same address, by way of the proxy."""
        return url.replace(f"{HOST}:{self.server.port}", f"{HOST}:{self.proxy.port}")

    async def open(self) -> None:
        """Begin a stream and read it."""
        self.has_restarted = False
        self.published = []
        await self.begin()
        self._reading = asyncio.create_task(self._read(self.source(self._client)))

    async def shut(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])
            if not self._reading.cancelled() and (error := self._reading.exception()) is not None:
                self.wrong(f"the reader was ended by {error!r}")

    async def _read(self, source: rb.links.EventSource) -> None:
        try:
            async with source:
                async for event in source:
                    self.note(f"{event.type} {event.id} {event.data:.300}")
                    goes_on = self.take(event)
                    self.changed.set()
                    if not goes_on:
                        return
        except rb.BridgeError as error:
            self.note(f"{error!r}")
            if not self.ended(error):
                raise
        finally:
            self.changed.set()

    def report(self, gap: rb.bridge.Gap) -> None:
        """What `on_gap` is."""
        self.note(f"{gap}")
        self.seen.gaps += 1
        self.seen.verdicts[f"{gap.verdict}({gap.reason})"] += 1
        self.take_gap(gap)
        self.changed.set()

    async def until(self, condition: Callable[[], Any], within: float = PATIENCE) -> None:
        """Wait until something was read that makes the condition true; TimeoutError if it does not."""
        async with asyncio.timeout(within):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    # ---- the schedule ----------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        await self._arrive()
        for step in steps_of(self.rng, FAULTS, self.seed):
            await self._talk(self.rng.randint(0, 3))
            self._step = step
            self.seen.faults[step] += 1
            self.note(step)
            await getattr(self, f"_{step}")()
            await self._talk(self.rng.randint(0, 2))
            if self.rng.random() < 0.5:
                await self._arrive()
        await self._arrive()

    async def _talk(self, numbers: int) -> None:
        for _ in range(numbers):
            await self._publish()
            await asyncio.sleep(self.rng.choice((0, 0, 0.02, 0.1)))

    async def _publish(self) -> int:
        self.number += 1
        await self.server.publish(self.number)
        self.published.append(self.number)
        self.seen.published += 1
        self.note(f"published {self.number}")
        return self.number

    async def _arrive(self) -> None:
        """End all faults, publish, and wait for it: the reader is where the server is."""
        self.proxy.heal()
        number = await self._publish()
        await self.until(lambda: self.has(number))

    async def _silence(self) -> None:
        """Let nothing through until the reader gives the connection up; the server learns of it later, or never."""
        before = self.proxy.connections
        self.proxy.apply(Fault.black_hole(self.rng.choice(("down", "both"))))
        await self._talk(self.rng.randint(1, 2))
        async with asyncio.timeout(PATIENCE):
            while self.proxy.connections == before:
                await asyncio.sleep(0.01)

    async def _away(self) -> None:
        """Cut the connection of a reader that has everything, and publish before it can come back."""
        await self._arrive()
        await self._refused()
        await self._arrive()

    async def _kill(self) -> None:
        """SIGKILL, and start it again."""
        await self._restart(self.server.kill)

    async def _stop(self) -> None:
        """SIGTERM, wait, and start it again."""
        await self._restart(self.server.stop)

    async def _restart(self, end: Callable[[], Any]) -> None:
        self.has_restarted = True
        ended = end()
        if ended is not None:
            await ended
        await self.server.start()
        self.proxy.heal()
        await self.recover()


async def campaign(
    kind: type[StreamRun],
    server: Any,
    seeds: Iterable[int],
    show: Callable[[str], Any] | None = None,
) -> Seen:
    """Several runs on one server, their totals. `show` is given the history of each run that has problems."""
    return await totals(partial(kind, server), seeds, show)


def main() -> None:
    """Repeat runs by their seeds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seeds", nargs="+", type=int)
    arguments = parser.parse_args()
    package = "tests.bridges.servers"
    kind = import_module(f"{package}.{arguments.kind}_runs").KIND
    running = import_module(f"{package}.{arguments.kind}").running

    async def runs(folder: Path) -> Seen:
        async with running(folder) as server:
            return await campaign(kind, server, arguments.seeds, sys.stderr.write)

    with TemporaryDirectory() as folder:
        seen = asyncio.run(runs(Path(folder)))
    sys.stdout.write("\n".join([f"{kind.name}: {seen}", *seen.problems, ""]))


if __name__ == "__main__":
    main()
