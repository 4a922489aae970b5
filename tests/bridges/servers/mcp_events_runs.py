"""Seeded runs of `resilient-bridge mcp URL` before a server that keeps its events: calls, while streams are cut and the server is restarted.

    python -m tests.bridges.servers.mcp_events_runs SEED...      repeats runs and prints their totals

Rule: what a call was told is held against the server's ledger. A stream that is cut while the server lives is taken up again with
`Last-Event-ID`, so its call is answered; a call of a server that died is told as unknown, and ran once at most.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.mcp_features.raw_client import Pipes
from resilient_bridge.testing import Fault, FaultProxy
from tests.adapters.sidecar.standing_in import outcome_of, stands_in_for, text_of
from tests.bridges.servers import mcp_events
from tests.bridges.servers.line_faults import steps_of
from tests.peers.ports import HOST


PATIENCE = 60.0  # seconds for a call to end
FAULTS = ("cut", "end", "half", "hole", "refused", "resumed")
ALLOWED = {
    "answered": (1,),
    "unknown": (0, 1),
    "not_executed": (0,),
}  # how often what was told so may have run


@dataclass
class Tally:
    """What calls met, what they were told, and what is wrong with that."""

    runs: int = 0
    calls: int = 0
    connections: int = 0
    replays: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count the other as well."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            mine.update(value) if isinstance(mine, Counter) else setattr(self, name, mine + value)

    def __str__(self) -> str:
        """One line of totals."""
        return (
            f"{self.runs} runs, {self.connections} connections, {self.calls} calls, faults={dict(sorted(self.faults.items()))} "
            f"outcomes={dict(sorted(self.outcomes.items()))} replays={self.replays} {self.seconds:.0f} s, {len(self.problems)} problems"
        )


class CallRun:
    """`tally = await CallRun(server, seed).make()`: a problem ends with the command that repeats it."""

    def __init__(self, server: mcp_events.McpEventsServer, seed: int) -> None:
        """Nothing happens yet."""
        self.server, self.seed = server, seed
        self.rng = random.Random(f"mcp {seed}")
        self.tally = Tally(runs=1)
        self.ended: dict[str, tuple[str, str]] = {}  # how each call ended, and in which words
        self._step = "start"
        self._number = 0

    async def make(self) -> Tally:
        """Make the run and judge it."""
        begins = time.monotonic()
        try:
            async with asyncio.timeout(600), FaultProxy(HOST, self.server.port) as self.proxy:
                command = stands_in_for(
                    self.proxy.url("/mcp", "http"), "--circuit", "100/1", *self.options()
                )
                self.client = await asyncio.to_thread(Pipes, command)
                try:
                    await asyncio.to_thread(self.client.initialize)
                    await self._schedule()
                finally:
                    self.proxy.heal()
                    await asyncio.to_thread(self.client.close)
            self.tally.connections = self.proxy.connections
        except Exception as error:  # noqa: BLE001 -- a run that ends early is a finding of the campaign
            self._wrong(f"{type(error).__name__}: {error}")
        await self._judge()
        self.tally.seconds = time.monotonic() - begins
        return self.tally

    def options(self) -> tuple[str, ...]:
        """What the sidecar is told beside the URL."""
        return ("--timeout", str(PATIENCE / 2))

    def _wrong(self, what: str) -> None:
        command = f"python -m tests.bridges.servers.mcp_events_runs {self.seed}"
        self.tally.problems.append(f"{what}, in {self._step!r}  [{command}]")

    # ---- the schedule ------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        for step in [*steps_of(self.rng, FAULTS, self.seed), "resumed"]:
            self._step = step
            self.tally.faults[step] += 1
            await getattr(self, f"_{step}")()

    def _begin(self) -> dict[str, Future[Any]]:
        calls = {}
        for _ in range(self.rng.randint(1, 3)):
            self._number += 1
            marker = f"{self.seed}-{self._number}"
            params = {
                "name": "order",
                "arguments": {"marker": marker},
                "_meta": {"progressToken": marker},
            }
            calls[marker] = self.client.begin("tools/call", params)
        return calls

    async def _under_way(self) -> dict[str, Future[Any]]:
        """Calls that have run and whose streams have brought something, so that there is a place to go on from."""
        calls = self._begin()
        async with asyncio.timeout(PATIENCE / 2):
            while not {*calls} <= {
                each["progressToken"] for each in self.client.notified("notifications/progress")
            }:
                await asyncio.sleep(0.005)
        return calls

    async def _somewhere(self) -> tuple[dict[str, Future[Any]], str | None]:
        """Calls that stand anywhere (not sent, sent, running), or such as are under way: these have to be answered."""
        if self.rng.random() < 0.4:
            return await self._under_way(), "answered"
        calls = self._begin()
        await asyncio.sleep(self.rng.choice((0, 0.002, 0.005, 0.01)))
        return calls, None

    async def _end_of(self, calls: dict[str, Future[Any]], wanted: str | None = None) -> None:
        """Have the server answer until all calls have ended."""
        waits = [asyncio.ensure_future(asyncio.wrap_future(call)) for call in calls.values()]
        async with asyncio.timeout(PATIENCE):
            while not all(each.done() for each in waits):
                await self.server.publish(self._number)
                await asyncio.wait(waits, timeout=0.05)
        for marker, wait in zip(calls, waits, strict=True):
            answer = wait.result()
            outcome, text = outcome_of(answer), text_of(answer)
            self.ended[marker] = outcome, text
            self.tally.outcomes[outcome] += 1
            self.tally.calls += 1
            if wanted is not None and outcome != wanted:
                self._wrong(f"{marker} was told {outcome} instead of {wanted}: {text[:200]}")

    # ---- faults ------------------------------------------------------------------------------------------------

    async def _cut(self) -> None:
        """Reset all connections."""
        calls, wanted = await self._somewhere()
        self.proxy.apply(Fault.abort())
        await self._end_of(calls, wanted)

    async def _end(self) -> None:
        """End all connections in order."""
        calls, wanted = await self._somewhere()
        self.proxy.apply(Fault.fin())
        await self._end_of(calls, wanted)

    async def _half(self) -> None:
        """Cut the coming connections after so many bytes, of a request, of a stream or of its replay."""
        if self.rng.random() < 0.5:
            calls, wanted = await self._under_way(), "answered"
            self._plan_cuts()
        else:
            self._plan_cuts()
            calls, wanted = self._begin(), None
        self.proxy.apply(Fault.abort(after=self.rng.choice((0, 1, 200))))
        await self._end_of(calls, wanted)
        self.proxy.heal()

    def _plan_cuts(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            after, way = self.rng.randint(1, 1_500), self.rng.choice(("up", "down", "down"))
            self.proxy.script(
                Fault.abort(after=after if way == "down" else after // 2, direction=way)
            )

    async def _hole(self) -> None:
        """Let nothing through for a moment; then all of it arrives, or the connections are cut."""
        calls, wanted = await self._somewhere()
        self.proxy.apply(Fault.black_hole(self.rng.choice(("up", "down", "both"))))
        await self.server.publish(self._number)
        await asyncio.sleep(self.rng.choice((0, 0.05, 0.2)))
        if self.rng.random() < 0.5:
            self.proxy.apply(Fault.abort())
        self.proxy.heal()
        await self._end_of(calls, wanted)

    async def _refused(self) -> None:
        """Refuse connections for a moment."""
        calls, wanted = await self._somewhere()
        self.proxy.refuse()
        self.proxy.apply(Fault.abort())
        await self.server.publish(self._number)
        await asyncio.sleep(self.rng.choice((0, 0.1, 0.4)))
        self.proxy.heal()
        await self._end_of(calls, wanted)

    async def _resumed(self) -> None:
        """Cut the streams of calls that run, and let them finish while nobody listens: each is answered, out of the event store."""
        calls, before = await self._under_way(), await self.server.replays()
        self.proxy.refuse()
        self.proxy.apply(self.rng.choice((Fault.abort(), Fault.fin())))
        if await self.server.offer(self._number) < len(calls):
            self._wrong("a call had ended before its stream was cut")
        self.proxy.heal()
        await self._end_of(calls, "answered")
        replays = await self.server.replays() - before
        self.tally.replays += replays
        if replays < len(calls):
            self._wrong(f"{len(calls)} streams were cut, and {replays} taken up again")

    async def _kill(self) -> None:
        """SIGKILL while calls run, and start it again: nobody knows what became of them."""
        await self._restart(self.server.kill)

    async def _stop(self) -> None:
        """SIGTERM, wait, and start it again."""
        await self._restart(self.server.stop)

    async def _restart(self, end: Callable[[], Any]) -> None:
        calls = await self._under_way()
        ended = end()
        if ended is not None:
            await ended
        later = self._begin() if self.rng.random() < 0.5 else {}
        await self.server.start()
        await self._end_of(calls, "unknown")
        await self._end_of(later)

    # ---- judgement ---------------------------------------------------------------------------------------------

    async def _judge(self) -> None:
        self._step = "the ledger"
        ran = Counter(await self.server.ledger())
        for marker, (outcome, text) in self.ended.items():
            if ran[marker] not in ALLOWED.get(outcome, ()):
                self._wrong(
                    f"{marker} was told {outcome}, and ran {ran[marker]} times: {text[:200]}"
                )
        for marker in ran:
            if marker.startswith(f"{self.seed}-") and ran[marker] > 1:
                self._wrong(f"{marker} ran {ran[marker]} times")


async def campaign(
    server: mcp_events.McpEventsServer, seeds: Iterable[int], kind: type[CallRun] = CallRun
) -> Tally:
    """Several runs on one server, their totals."""
    total = Tally()
    for seed in seeds:
        total.add(await kind(server, seed).make())
    return total


def main() -> None:
    """Repeat runs by their seeds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("seeds", nargs="+", type=int)
    seeds = parser.parse_args().seeds

    async def runs(folder: Path) -> Tally:
        async with mcp_events.running(folder) as server:
            return await campaign(server, seeds)

    with TemporaryDirectory() as folder:
        tally = asyncio.run(runs(Path(folder)))
    sys.stdout.write("\n".join([f"mcp_events: {tally}", *tally.problems, ""]))


if __name__ == "__main__":
    main()
