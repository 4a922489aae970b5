"""`resilient-bridge demo`: an embedded bridge, a proxy that breaks the line, and the real client, over real sockets.

Rule: the audience sees what the client itself reports, and the ledger is kept by what the bridge did, so that the
demo cannot flatter: if a promise broke, it says which and exits with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import sys
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TextIO
from urllib.parse import urlsplit

from ..client import BridgeClient
from ..errors import BridgeError
from ..protocol import Gap
from ..telemetry import listen
from ..telemetry.events import Disconnected, Event
from ..telemetry.log import muted
from ..testing.ledger import Ledger
from ..testing.proxy import FaultProxy
from ..testing.server import BridgeServer
from ..transports.signals import on_signals
from .demo_faults import FAULT_TABLE
from .demo_pace import PATIENCE, QUICK
from .demo_story import Story, ledger_lines
from .demo_traffic import Traffic
from .options import FAULTS
from .terminal import columns, fitted


_SECONDS_PER_FAULT: Final = 2.0


def run(arguments: argparse.Namespace) -> int:
    """Play the demo; 0 if every promise was kept, 1 if one broke, with the ledger either way."""
    if arguments.crash is not None:
        from .demo_crash import run_crashes

        return run_crashes(arguments)
    plan = _plan(arguments.faults, arguments.duration, random.Random(arguments.seed))
    out = sys.stderr if arguments.json else sys.stdout
    totals = asyncio.run(_perform(arguments, plan, out))
    totals |= {"seed": arguments.seed, "faults": plan}
    print(fitted("\n".join(ledger_lines(totals)), columns(out)), file=out, flush=True)
    if arguments.json:
        print(json.dumps(totals), flush=True)
    return 1 if totals["broken"] else 0


def _plan(faults: int | tuple[str, ...] | None, duration: float, rng: random.Random) -> list[str]:
    if isinstance(faults, tuple):
        return list(faults)
    count = max(1, round(duration / _SECONDS_PER_FAULT) - 1) if faults is None else faults
    plan: list[str] = []
    while len(plan) < count:
        plan += rng.sample(FAULTS, len(FAULTS))
    return plan[:count]


async def _perform(arguments: argparse.Namespace, plan: Sequence[str], out: TextIO) -> dict[str, Any]:
    async with BridgeServer() as server:
        where = urlsplit(server.url)
        async with FaultProxy(str(where.hostname), int(where.port or 0)) as proxy:
            demo = Demo(server, proxy, seed=arguments.seed, rate=arguments.rate, out=out)
            demo.introduce(plan)
            await demo.play(plan, arguments.duration)
    return demo.totals()


class Demo:
    """One run, and the stage of its faults: they break the line or the bridge, and never touch the client."""

    def __init__(
        self, server: BridgeServer, proxy: FaultProxy, *, seed: int, rate: float, out: TextIO
    ) -> None:
        loop = asyncio.get_running_loop()
        self.server = server
        self.proxy = proxy
        self._client = BridgeClient(proxy.url("/ws"), policy=QUICK, on_gap=self._on_gap)
        self._ledger = Ledger(lambda: server.server_id)
        self._traffic = Traffic(server, self._client, self._ledger, seed=seed, rate=rate)
        self._stopped = asyncio.Event()
        self._story = Story(out, loop.time, self._outbox, self._stopped.set)
        self._lives = [(0, server.server_id)]  # which of the applied messages is the first of each life
        self._losses = 0
        self._losses_before = 0
        self._errors: list[str] = []
        self._setting = f"{rate:g} messages a second each way, seed {seed}"

    def introduce(self, plan: Sequence[str]) -> None:
        """Say what will be seen."""
        title = self._story.title
        title(f"An embedded bridge, a proxy that breaks the line, a client: {self._setting}.")
        title("FAULT: what is done to the line or the bridge. client: what the client itself reports.")
        title(f"To come: {', '.join(plan) or 'no fault at all'}.")
        title("")

    async def play(self, plan: Sequence[str], duration: float) -> None:
        """Let messages flow and faults strike; afterwards the client is closed and everything is booked."""
        traffic = self._traffic
        status = self._story.status(lambda: f"received {traffic.delivered} of {traffic.pushed}")
        with on_signals(self._stopped.set), listen(self._on_event), muted(), status:
            async with self._client:
                reader = asyncio.create_task(self._guarded(self._traffic.read()))
                await self._guarded(self._play(plan, duration))
            await reader
        for index, message in enumerate(self.server.received):
            life = next(name for first, name in reversed(self._lives) if first <= index)
            self._ledger.applied(message["payload"]["n"], life)

    def totals(self) -> dict[str, Any]:
        """The ledger's totals; errors that ended a part of the demo are broken promises too."""
        totals = self._ledger.totals()
        totals["broken"] += self._errors
        return totals

    async def _guarded(self, part: Coroutine[Any, Any, None]) -> None:
        try:
            await part
        except BridgeError as error:
            self._errors.append(f"ended early: {error.failure}")

    async def _play(self, plan: Sequence[str], duration: float) -> None:
        await self._client.wait_ready(PATIENCE)
        traffic, direction = self._traffic, asyncio.create_task(self._direct(plan, duration))
        flows = [asyncio.create_task(self._guarded(flow)) for flow in (traffic.push(), traffic.send())]
        stop = asyncio.create_task(self._stopped.wait())
        try:
            await asyncio.wait([direction, stop], return_when=asyncio.FIRST_COMPLETED)
            direction.cancel()
            traffic.stop()
            await self._settle()
        finally:
            for task in (direction, stop, *flows):
                task.cancel()
            await asyncio.wait([direction, stop, *flows])
        for task in (direction, *flows):
            if not task.cancelled():
                task.result()

    async def _direct(self, plan: Sequence[str], duration: float) -> None:
        loop = asyncio.get_running_loop()
        began, slot = loop.time(), duration / (len(plan) + 1)
        for number, name in enumerate(plan, 1):
            await asyncio.sleep(began + number * slot - loop.time())
            await self.rejoined()
            await self._traffic.caught_up(1.0)  # so that each fault is judged by itself
            fault = FAULT_TABLE[name]
            self._story.line("FAULT", fault.what, f"{name}:")
            self._losses_before = self._losses
            await fault.strike(self)
        await asyncio.sleep(began + duration - loop.time())

    async def _settle(self) -> None:
        self._story.line("demo", "no more faults and messages; waiting for what is on its way")
        self.proxy.heal()
        traffic = self._traffic
        for _ in range(5):
            # one more message over a sound line: when it is here, all before it are, or a gap was reported
            await self.rejoined()
            last = await traffic.push_one()
            if await traffic.moments.until(functools.partial(traffic.has_delivered, last), 2.0):
                return

    # ---- what the client reports
    def _on_event(self, event: Event) -> None:
        self._ledger.saw(event)
        self._losses += isinstance(event, Disconnected)
        self._traffic.moments.tell()
        self._story.tell(event)

    def _on_gap(self, gap: Gap) -> None:
        self._ledger.marked()
        self._story.line(
            "app", f"is told of the gap ({gap.reason}), in its place in the stream, and can reload"
        )

    def _outbox(self) -> tuple[int, int]:
        health = self._client.health()
        return health.queued, health.unconfirmed

    # ---- what faults may ask for
    def say(self, text: str) -> None:
        """Behind the scenes."""
        self._story.line("bridge", text)

    def reconnect_now(self) -> None:
        """Cut the client's wait short."""
        self._client.reconnect_now()

    def note_life(self) -> None:
        """What the bridge applies from here on is applied in another life."""
        self._lives.append((len(self.server.received), self.server.server_id))

    async def missed(self, count: int, seconds: float) -> None:
        """Wait until so many more messages were pushed, or the time is up."""
        traffic = self._traffic
        until = traffic.pushed + count
        await traffic.moments.until(lambda: traffic.pushed >= until, seconds)

    async def lost(self) -> None:
        """Wait until the client has noticed the loss that this fault causes."""
        await self._traffic.moments.until(lambda: self._losses > self._losses_before, PATIENCE)

    async def rejoined(self) -> None:
        """Wait until the client is READY again. Raises AttemptTimeoutError if that takes much too long."""
        await self._client.wait_ready(PATIENCE)
