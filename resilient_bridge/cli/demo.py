"""`resilient-bridge demo`: the real client under faults, on real sockets.

It uses an embedded bridge, and a proxy that breaks the connection.

Rule: the client's lines are its own reports, the ledger compares what the client and the bridge
sent and received, and a broken guarantee is named.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from argparse import Namespace
from asyncio.subprocess import PIPE
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO

from .. import Backoff, BridgeClient, BridgeError, events, listen
from ..presets.bridge_policy import BridgePolicy
from ..protocol.policies import Heartbeat, Outbox, Reconnect, Replay
from ..telemetry.log import muted
from ..testing import BridgeServer, Fault, FaultProxy, Ledger
from ..transports.process_groups import OWN_GROUP
from ..transports.signals import on_signals
from ..world import REAL
from .options import FAULTS, KILLS
from .pipe_events import line_of
from .status_line import StatusLine
from .terminal import CLEAR, can_be_cleared, columns, fitted, is_coloured


COMMAND: Final = (sys.executable, "-m", "resilient_bridge", "pipe", "--drain", "10")
_OF_THE_LINE: Final = {"half-open": Fault.black_hole(), "reset": Fault.abort(after=137), "fin": Fault.fin()}
_PATIENCE: Final = 15.0  # seconds to wait for one loss, one re-join, or the end; each takes far less
_PACE: Final = BridgePolicy(  # the recommended policy, at the pace of a demo
    reconnect=Reconnect(backoff=Backoff.decorrelated(0.2, cap=1), connect_burst=999, connects_per_minute=999),
    heartbeat=Heartbeat(every=1, timeout=1, probe_timeout=1),
    outbox=Outbox(overflow="block"),
    replay=Replay(timeout=2),
)
_COLOURS: Final = {"FAULT": 33, "KILL": 33, "RECOVERED": 32, "GAP": 35, "UNKNOWN": 36, "FAILED": 31}
_LEDGER: Final = """
ledger
  to the bridge    sent {sent}, confirmed {confirmed}, outcome unknown {unknown}, not delivered {not_delivered}, refused {dead}
  from the bridge  pushed {pushed}, received {received}, missing under a gap that was reported {covered}
  re-joins         {reconnects}: RECOVERED {verdicts[RECOVERED]}, GAP {verdicts[GAP]}, UNKNOWN {verdicts[UNKNOWN]}
  lost {lost}   duplicated {duplicated}   reordered {reordered}   unexpected {unexpected}   sent again {resent}   kills {kills}
"""
_EVENTS: Final = {"state": "StateChanged", "joined": "Joined", "verdict": "Resumed"}
_MESSAGE: Final = {"maybe_duplicate": False, "redelivered": False, "replayed": False}


def run(arguments: Namespace) -> int:
    """Run the demo and print the ledger; return 0 if every guarantee held, 1 if one was broken."""
    story = Story(sys.stderr if arguments.json else sys.stdout)
    totals = asyncio.run(_play(arguments, story))
    whole = "kept: nothing was lost, repeated or reordered without saying so"
    broken = "\n  ".join(["\nBROKEN", *totals["broken"]])
    story.show(_LEDGER.format(**totals) + (broken if totals["broken"] else whole))
    if arguments.json:
        print(json.dumps(totals), flush=True)
    return 1 if totals["broken"] else 0


async def _play(arguments: Namespace, story: Story) -> dict[str, Any]:
    async with BridgeServer() as server, FaultProxy(*server.address) as proxy:
        demo = (Demo if arguments.crash is None else Crashes)(arguments, server, proxy, story)
        with on_signals(story.stopped.set), muted(), story.status:
            return await demo.play()


async def _until(fact: Callable[[], bool], seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not fact():  # noqa: ASYNC110 -- the conditions have no common event
                await asyncio.sleep(0.01)
    return fact()


class Story:
    """Write lines with their time to `out`.

    `stopped` is set by a signal, or when the reader of `out` has gone. `progress` returns the end
    of the status line, which is drawn on a terminal only.
    """

    def __init__(self, out: TextIO) -> None:
        self.stopped, self.state = asyncio.Event(), ""
        self.progress: Callable[[], str] = str
        self._out, self._began, self._phases = out, REAL.monotonic(), list[str]()
        self._put = partial(print, end="", file=out, flush=True)
        width = lambda: columns(out) if can_be_cleared(out) else None  # noqa: E731 -- it fits a line
        self.status = StatusLine(self._put, lambda: self._timed(self.state, self.progress()), width)

    def _timed(self, who: str, text: str) -> str:
        return f"{REAL.monotonic() - self._began:6.2f} s  {who:<7} {text}"

    def show(self, text: str) -> None:
        """Print text without a time, on a terminal wrapped, with coloured faults and verdicts."""
        text = fitted(text, columns(self._out), hanging=19)
        for mark, colour in _COLOURS.items() if is_coloured(self._out) else ():
            text = text.replace(f" {mark}", f" \x1b[{colour}m{mark}\x1b[0m", 1)
        self._put(f"{CLEAR if self.status.is_drawn else ''}{text}\n")

    def line(self, who: str, text: str) -> None:
        """Print a line with its time; set `stopped` if the reader of `out` has gone."""
        with suppress(BrokenPipeError):
            self.show(self._timed(who, text))
            return
        self.stopped.set()

    def tell(self, who: str, report: str, outbox: str = "") -> None:
        """Print a client's report in the form of `pipe`; the states of an attempt share a line."""
        kind, _, text = report.partition(": ")
        if kind == "state":
            self.state = text.partition(" ")[0]
            self._phases.append(self.state)
            if self.state not in {"READY", "BACKOFF", "FAILED", "CLOSED"}:
                return
            report, self._phases = " > ".join(self._phases) + outbox, []
        self.line(who, report)


class Demo:
    """One run. Faults affect the connection or the bridge, and never the client."""

    def __init__(self, arguments: Namespace, server: BridgeServer, proxy: FaultProxy, story: Story) -> None:
        self.server, self.proxy, self.story, self.arguments = server, proxy, story, arguments
        self.ledger, self.rng, self.crashes = Ledger(), random.Random(arguments.seed), list[str]()
        self.n = self.seen = self.losses = 0
        story.progress = lambda: f"received {self.seen} of {self.n}"
        names, seconds = (FAULTS, 2) if arguments.crash is None else (KILLS, 1.5)
        plan: Any = arguments.crash or arguments.faults
        plan = max(1, round(arguments.duration / seconds) - 1) if plan is None else plan
        if isinstance(plan, int):
            plan = [name for _ in range(plan) for name in self.rng.sample(list(names), len(names))][:plan]
        self.plan: list[str] = list(plan)

    async def play(self) -> dict[str, Any]:
        """Exchange messages, apply the faults, and return the totals of the ledger."""
        broken, seed = list[str](), self.arguments.seed
        self.story.show(f"A bridge, a proxy and a client, seed {seed}. To come: {', '.join(self.plan)}.\n")
        try:
            with listen(self._on_event):
                await self._live()
        except (BridgeError, TimeoutError) as error:
            broken.append(f"ended early: {error}")
        for message in self.server.received:
            self.ledger.applied(message["payload"]["n"])
        resent = sum(one["type"] == "tool_result" for one in self.server.frames) - len(self.server.received)
        totals: dict[str, Any] = self.ledger.totals()
        totals |= {"seed": seed, "faults": self.plan, "crashes": self.crashes, "kills": len(self.crashes)}
        return totals | {"broken": [*totals["broken"], *broken], "resent": resent}

    async def _live(self) -> None:
        self.client = BridgeClient(self.proxy.url("/ws"), policy=_PACE, on_gap=lambda _: self.ledger.marked())
        async with self.client:
            reader = asyncio.create_task(self._read())
            await self._direct()
        await reader

    async def _direct(self) -> None:
        await self._ready()
        began, quiet, stopped = REAL.monotonic(), asyncio.Event(), self.story.stopped
        flow = asyncio.create_task(self._flow(quiet))
        try:
            for number, name in enumerate([*self.plan, ""], 1):
                instant = began + self.arguments.duration * number / (len(self.plan) + 1)
                if await _until(stopped.is_set, instant - REAL.monotonic()) or not name:
                    break
                await self._ready()
                await self._strike(name)
            self.story.line("demo", "no more faults and messages; waiting for what is on its way")
        finally:
            self.proxy.heal()
            quiet.set()
            await asyncio.wait_for(flow, _PATIENCE)
        await self._ready()
        # when this one has arrived, all before it have, or a gap was reported
        await self._exchange()
        await _until(lambda: self.seen >= self.n, _PATIENCE)

    async def _flow(self, quiet: asyncio.Event) -> None:
        while not quiet.is_set():
            await self._exchange()
            await _until(quiet.is_set, self.rng.uniform(0.5, 1.5) / self.arguments.rate)

    async def _exchange(self) -> None:
        self.n += 1
        self.ledger.pushed(self.n)
        await self._send(self.n)
        await self.server.push("stream_chunk" if self.n % 4 == 0 else "tool_call", {"n": self.n})

    async def _ready(self) -> None:
        await self.client.wait_ready(_PATIENCE)

    async def _send(self, n: int) -> None:
        self.ledger.sent(n, await self.client.send("tool_result", {"n": n}))

    async def _read(self) -> None:
        async for message in self.client:
            self.ledger.delivered(message)
            self.seen = message.payload["n"]

    def _on_event(self, event: events.Event) -> None:
        self.ledger.saw(event)
        self.losses += isinstance(event, events.Disconnected)
        health = self.client.health()
        outbox = f"; outbox: {health.queued} to send, {health.unconfirmed} sent and not confirmed"
        if report := line_of(event):
            self.story.tell("client", report, outbox)

    async def _strike(self, name: str) -> None:
        losses, n, server = self.losses, self.n, self.server
        # of two messages in a row at least one has an id, by which a replay can find it
        await _until(lambda: self.seen > n + 1, 1.0)
        self.story.line("FAULT", f"{name}: {FAULTS[name]}")
        if name == "broken-buffer":
            server.behave(replay="verbatim_seed", replay_bytes=64)
        if name.startswith("restart"):
            await server.restart(lose_sessions=name == "restart-lost", down=0.5)
            self.story.line("demo", "the bridge is back: reconnect_now() ends the wait for the next attempt")
            self.client.reconnect_now()
        else:
            if name not in _OF_THE_LINE:
                self.proxy.refuse(0.8)
            self.proxy.apply(_OF_THE_LINE.get(name, Fault.abort()))
        await _until(lambda: self.losses > losses, _PATIENCE)
        if name in {"expire", "truncate"}:
            await _until(self.story.stopped.is_set, 0.4)  # the client misses messages in this time
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
            self.files = ("--store", Path(directory, "bridge.db"), "--receipts", Path(directory, "receipts"))
            await self._start()
            try:
                await self._direct()
                self.process.stdin.close()
                await _until(lambda: self.process.returncode is not None, _PATIENCE)
            finally:
                await self._kill()
        self.receipt.state = "queued" if self.process.returncode else "confirmed"

    async def _start(self) -> None:
        self.is_ready, self.story.state = False, "starting"
        # in its own process group: Ctrl-C in the terminal does not reach it
        options: dict[str, Any] = {"stdin": PIPE, "stdout": PIPE, "stderr": PIPE} | OWN_GROUP
        command = (*COMMAND, self.proxy.url("/ws"), *self.files)
        self.process: Any = await asyncio.create_subprocess_exec(*command, **options)
        self.outputs = asyncio.gather(self._hear(self.process.stdout), self._hear(self.process.stderr))
        receipts = self.files[-1].read_bytes().count(b"\n") if self.files[-1].exists() else 0
        for n in range(receipts + 1, self.n + 1):  # lines without a receipt: possibly not accepted
            await self._send(n)

    async def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()
        await asyncio.gather(self.process.wait(), self.outputs)

    async def _ready(self) -> None:
        await _until(lambda: self.is_ready or self.process.returncode is not None, _PATIENCE)
        if not self.is_ready or self.process.returncode is not None:
            raise TimeoutError(f"a process that is READY expected, got exit code {self.process.returncode}")

    async def _strike(self, name: str) -> None:
        await _until(self.story.stopped.is_set, self.rng.uniform(0.1, 0.5))
        if name != "busy":
            self.proxy.apply(Fault.abort() if name == "offline" else Fault.black_hole())
            self.proxy.refuse()
            await _until(self.story.stopped.is_set, 0.5)  # messages are queued in this time
        await self._kill()
        self.crashes.append(name)
        self.story.line("KILL", f"{name}: process {self.process.pid} is killed {KILLS[name]}")
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
                    message: Any = Namespace(**(_MESSAGE | json.loads(data)))
                    self.ledger.delivered(message)
                    self.seen = message.payload["n"]
                continue
            self.ledger.saw(type(_EVENTS.get(str(kind), ""), (), {"state": word, "verdict": word})())
            self.is_ready |= word == "READY"
            if kind == "gap":
                self.ledger.marked()
            if kind not in {"earlier", "drain"}:
                self.story.tell(f"life {len(self.crashes) + 1}", f"{kind}: {text}")
