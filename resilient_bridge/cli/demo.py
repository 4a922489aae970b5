"""`resilient-bridge demo`: the real client under faults, on real sockets.

It uses an embedded bridge, and a proxy that breaks the connection.

Rule: the table has what the client itself reports, the ledger compares what the client and the
bridge sent and received, and a broken guarantee is named.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from argparse import Namespace
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs

from .. import Backoff, BridgeClient, BridgeError, events, listen
from ..adapters.processes.groups import OWN_GROUP
from ..adapters.processes.signals import on_signals
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies import Heartbeat, Outbox, Reconnect, Replay
from ..telemetry.hub import muted
from ..testing import BridgeServer, Fault, FaultProxy, Ledger
from ..world import REAL
from .demo_table import NAMES, Outage, Screen, score_of_calls, score_of_messages, until
from .options import FAULTS, KILLS


COMMAND: Final = (sys.executable, "-m", "resilient_bridge", "pipe", "--drain", "10")
_OF_THE_LINE: Final = {
    "half-open": Fault.black_hole(),
    "reset": Fault.abort(after=137),
    "fin": Fault.fin(),
}
_PATIENCE: Final = (
    15.0  # seconds to wait for one loss, one re-join, or the end; each takes far less
)
_PACE: Final = BridgePolicy(  # the recommended policy, at the pace of a demo
    reconnect=Reconnect(
        backoff=Backoff.decorrelated(0.2, cap=1), connect_burst=999, connects_per_minute=999
    ),
    heartbeat=Heartbeat(every=1, timeout=1, probe_timeout=1),
    outbox=Outbox(overflow="block"),
    replay=Replay(timeout=2),
)
_EVENTS: Final = {"state": "StateChanged", "joined": "Joined", "verdict": "Resumed"}
_MESSAGE: Final = {"maybe_duplicate": False, "redelivered": False, "replayed": False}


def run(arguments: Namespace) -> int:
    """Run the demo and print the score; return 0 if every guarantee held, 1 if one was broken."""
    screen = Screen(sys.stderr if arguments.json else sys.stdout)
    totals = asyncio.run(_play(arguments, screen))
    screen.show("", *(score_of_calls if arguments.mcp else score_of_messages)(totals))
    if arguments.json:
        print(json.dumps(totals, default=attrs.asdict), flush=True)
    return 1 if totals["broken"] else 0


async def _play(arguments: Namespace, screen: Screen) -> dict[str, Any]:
    if arguments.mcp:
        from .demo_mcp import play

        with on_signals(screen.stopped.set), muted(), screen.status:
            return await play(random.Random(arguments.seed), arguments.seed, screen)
    async with BridgeServer() as server, FaultProxy(*server.address) as proxy:
        demo = (Demo if arguments.crash is None else Crashes)(arguments, server, proxy, screen)
        with on_signals(screen.stopped.set), muted(), screen.status:
            return await demo.play()


class Watch:
    """What the client reports about its connection; a fault's row counts from `begin` on."""

    def __init__(self) -> None:
        self.state = "starting"
        self.begin("", 0)

    def begin(self, fault: str, missing: int) -> None:
        """Begin the row of a fault; `missing`: messages that were missing before it."""
        self.fault, self.missing, self.began, self.attempt_at = (
            fault,
            missing,
            REAL.monotonic(),
            0.0,
        )
        self.waiting = self.queued = self.replayed = self.gaps = 0
        self.verdict, self.reason = "NONE", "no verdict"

    def counted(self, queued: int) -> None:
        self.waiting = queued
        self.queued = max(self.queued, queued)

    def resumed(self, verdict: str, reason: str, replayed: int) -> None:
        """Record a verdict; of several, one that is not RECOVERED stands in the row."""
        if self.verdict == "NONE" or verdict != "RECOVERED":
            self.verdict, self.reason = verdict, reason
        self.replayed += replayed

    def outage(self, seconds: float, missing: int) -> Outage:
        return Outage(
            fault=self.fault,
            seconds=round(seconds, 3),
            queued=self.queued,
            replayed=self.replayed,
            verdict=self.verdict,
            reason=self.reason,
            missing=missing - self.missing,
            is_reported=self.gaps > 0,
        )

    def live(self, received: str) -> str:
        """Return the phase and what was received; while a fault lasts, the wait, what is queued, and the fault."""
        if not self.fault:
            return f"{self.state}, {received}"
        wait = self.attempt_at - REAL.monotonic()
        attempt = f", next attempt in {wait:.1f} s" if self.state == "BACKOFF" and wait > 0 else ""
        return f"{self.state}{attempt}, {self.waiting} queued: {NAMES[self.fault]}"


class Demo:
    """One run. Faults affect the connection or the bridge, and never the client."""

    def __init__(
        self, arguments: Namespace, server: BridgeServer, proxy: FaultProxy, screen: Screen
    ) -> None:
        self.server, self.proxy, self.screen, self.arguments = server, proxy, screen, arguments
        self.ledger, self.rng, self.crashes = Ledger(), random.Random(arguments.seed), list[str]()
        self.watch, self.outages, self.got = Watch(), list[Outage](), set[int]()
        self.n = self.seen = self.losses = 0
        names, seconds = (FAULTS, 2) if arguments.crash is None else (KILLS, 1.5)
        plan: Any = arguments.crash or arguments.faults
        plan = max(1, round(arguments.duration / seconds) - 1) if plan is None else plan
        if isinstance(plan, int):
            plan = [name for _ in range(plan) for name in self.rng.sample(list(names), len(names))][
                :plan
            ]
        self.plan: list[str] = list(plan)

    async def play(self) -> dict[str, Any]:
        """Exchange messages, apply the faults, and return the totals of the ledger."""
        broken, seed = list[str](), self.arguments.seed
        faults = "Faults" if self.arguments.crash is None else "Kills of the client's process"
        self.screen.show(
            "A bridge, a client, and a proxy between them that cuts the line. Messages flow both ways. "
            f"{faults}: {len(self.plan)} in {self.arguments.duration:g} s, seed {seed}.",
            "",
        )
        self.screen.live = lambda: self.watch.live(f"received {self.seen} of {self.n}")
        try:
            with listen(self._on_event):
                await self._live()
        except (BridgeError, TimeoutError) as error:
            broken.append(f"ended early: {error}")
        for message in self.server.received:
            self.ledger.applied(message["payload"]["n"])
        resent = sum(one["type"] == "tool_result" for one in self.server.frames) - len(
            self.server.received
        )
        totals: dict[str, Any] = self.ledger.totals()
        totals |= {
            "seed": seed,
            "faults": self.plan,
            "crashes": self.crashes,
            "kills": len(self.crashes),
        }
        totals |= {
            "outages": self.outages,
            "missing": totals["pushed"] - len(self.got),
            "resent": resent,
        }
        return totals | {"broken": [*totals["broken"], *broken]}

    async def _live(self) -> None:
        self.client = BridgeClient(
            self.proxy.url("/ws"), policy=_PACE, on_gap=lambda _: self._marked()
        )
        async with self.client:
            reader = asyncio.create_task(self._read())
            await self._direct()
        await reader

    async def _direct(self) -> None:
        await self._ready()
        self.screen.row(Outage.FORM, tuple(Outage.FORM))
        began, quiet, stopped = REAL.monotonic(), asyncio.Event(), self.screen.stopped
        flow = asyncio.create_task(self._flow(quiet))
        try:
            for number, name in enumerate([*self.plan, ""], 1):
                instant = began + self.arguments.duration * number / (len(self.plan) + 1)
                if await until(stopped.is_set, instant - REAL.monotonic()) or not name:
                    break
                await self._ready()
                await self._survive(name)
        finally:
            self.proxy.heal()
            quiet.set()
            await asyncio.wait_for(flow, _PATIENCE)
        await self._ready()
        # when this one has arrived, all before it have, or a gap was reported
        await self._exchange()
        await until(lambda: self.seen >= self.n, _PATIENCE)

    async def _survive(self, name: str) -> None:
        # of two messages in a row at least one has an id, by which a replay can find it
        n = self.n
        await until(lambda: self.seen > n + 1, 1.0)
        self.watch.begin(name, self.seen - len(self.got))
        await self._strike(name)
        await self._ready()
        seconds, n = REAL.monotonic() - self.watch.began, self.n
        # what is missing is known when a later message has arrived
        await until(lambda: self.seen > n, _PATIENCE)
        self.outages.append(self.watch.outage(seconds, self.seen - len(self.got)))
        self.watch.fault = ""
        self.screen.row(Outage.FORM, self.outages[-1].cells)

    async def _flow(self, quiet: asyncio.Event) -> None:
        while not quiet.is_set():
            await self._exchange()
            await until(quiet.is_set, self.rng.uniform(0.5, 1.5) / self.arguments.rate)

    async def _exchange(self) -> None:
        self.n += 1
        self.ledger.pushed(self.n)
        await self._send(self.n)
        await self.server.push("stream_chunk" if self.n % 4 == 0 else "tool_call", {"n": self.n})

    async def _ready(self) -> None:
        await self.client.wait_ready(_PATIENCE)

    async def _send(self, n: int) -> None:
        self.ledger.sent(n, await self.client.send("tool_result", {"n": n}))
        health = self.client.health()
        self.watch.counted(health.queued + health.unconfirmed)

    async def _read(self) -> None:
        async for message in self.client:
            self._delivered(message)

    def _delivered(self, message: Any) -> None:
        self.ledger.delivered(message)
        self.got.add(message.payload["n"])
        self.seen = max(self.seen, message.payload["n"])

    def _marked(self) -> None:
        self.ledger.marked()
        self.watch.gaps += 1

    def _on_event(self, event: events.Event) -> None:
        self.ledger.saw(event)
        self.losses += isinstance(event, events.Disconnected)
        if isinstance(event, events.StateChanged):
            self.watch.state = event.state.value
        elif isinstance(event, events.ReconnectScheduled):
            self.watch.attempt_at = REAL.monotonic() + event.wait
        elif isinstance(event, events.Resumed):
            self.watch.resumed(event.verdict.value, event.reason, event.replayed)

    async def _strike(self, name: str) -> None:
        losses, server = self.losses, self.server
        if name == "broken-buffer":
            server.behave(replay="verbatim_seed", replay_bytes=64)
        if name.startswith("restart"):
            await server.restart(lose_sessions=name == "restart-lost", down=0.5)
            self.client.reconnect_now()  # the bridge is back: this ends the wait for the next attempt
        else:
            if name not in _OF_THE_LINE:
                self.proxy.refuse(0.8)
            self.proxy.apply(_OF_THE_LINE.get(name, Fault.abort()))
        await until(lambda: self.losses > losses, _PATIENCE)
        if name in {"expire", "truncate"}:
            await until(self.screen.stopped.is_set, 0.4)  # the client misses messages in this time
            server.expire_sessions() if name == "expire" else await server.truncate_replay(2)
        await self._ready()
        await server.truncate_replay(None)
        server.behave(replay="correct", replay_bytes=100 * 1024)


class Crashes(Demo):
    """A run whose client is `pipe` with a store: several processes in turn.

    All but the last are killed. The receipts file says which lines they accepted.
    """

    async def _live(self) -> None:
        self.receipt: Any = Namespace(state="queued")  # of all sends: the last exit code decides it
        self.server.behave(replay_bytes=1 << 24)  # large enough to replay every missed message
        with TemporaryDirectory(prefix="resilient-bridge-demo-") as directory:
            self.files = (
                "--store",
                Path(directory, "bridge.db"),
                "--receipts",
                Path(directory, "receipts"),
            )
            await self._start()
            try:
                await self._direct()
                self.process.stdin.close()
                await until(lambda: self.process.returncode is not None, _PATIENCE)
            finally:
                await self._kill()
        self.receipt.state = "queued" if self.process.returncode else "confirmed"

    async def _start(self) -> None:
        self.is_ready, self.watch.state = False, "starting"
        # in its own process group: Ctrl-C in the terminal does not reach it
        options: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE} | OWN_GROUP
        command = (*COMMAND, self.proxy.url("/ws"), *self.files)
        self.process: Any = await asyncio.create_subprocess_exec(*command, **options)
        self.outputs = asyncio.gather(
            self._hear(self.process.stdout), self._hear(self.process.stderr)
        )
        receipts = self.files[-1].read_bytes().count(b"\n") if self.files[-1].exists() else 0
        for n in range(receipts + 1, self.n + 1):  # lines without a receipt: possibly not accepted
            await self._send(n)

    async def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await asyncio.gather(self.process.wait(), self.outputs)

    async def _ready(self) -> None:
        await until(lambda: self.is_ready or self.process.returncode is not None, _PATIENCE)
        if not self.is_ready or self.process.returncode is not None:
            raise TimeoutError(
                f"a process that is READY expected, got exit code {self.process.returncode}"
            )

    async def _strike(self, name: str) -> None:
        await until(self.screen.stopped.is_set, self.rng.uniform(0.1, 0.5))
        if name != "busy":
            self.proxy.apply(Fault.abort() if name == "offline" else Fault.black_hole())
            self.proxy.refuse()
            await until(self.screen.stopped.is_set, 0.5)  # messages are queued in this time
        await self._kill()
        self.crashes.append(name)
        self.proxy.heal()
        await self._start()

    async def _send(self, n: int) -> None:
        self.ledger.sent(n, self.receipt)
        line = {"type": "tool_result", "payload": {"n": n}, "idempotency_key": str(n)}
        if self.process.returncode is None:
            self.process.stdin.write(json.dumps(line).encode() + b"\n")

    async def _hear(self, output: Any) -> None:
        async for data in output:
            kind, _, text = data.decode().rstrip("\n").partition(": ")
            word = text.partition(" ")[0]
            if data.startswith(b"{"):
                if data.endswith(b"\n"):  # a line that the kill cut off counts as not printed
                    self._delivered(Namespace(**(_MESSAGE | json.loads(data))))
                continue
            self.ledger.saw(
                type(_EVENTS.get(str(kind), ""), (), {"state": word, "verdict": word})()
            )
            self._watched(str(kind), text, word)

    def _watched(self, kind: str, text: str, word: str) -> None:
        """Read a line of `pipe` about its connection."""
        numbers = re.findall(r"\d+(?:\.\d+)?", text)
        if kind == "state":
            self.watch.state = word
            self.is_ready |= word == "READY"
        elif kind == "retry":
            self.watch.attempt_at = REAL.monotonic() + float(numbers[1])
        elif kind == "store" and text.startswith("going on with"):
            self.watch.counted(int(numbers[0]))
        elif kind == "verdict":
            self.watch.resumed(word, text.partition("(")[2].partition(")")[0], int(numbers[-1]))
        elif kind == "gap":
            self._marked()
