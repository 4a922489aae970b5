"""`resilient-bridge demo --crash`: the client is a process that is killed again and again, on one store, and the ledger still balances.

Rule: bridge, proxy and ledger live in the parent, which nobody kills; of the client they know what it said through a pipe, and what the
bridge saw of it. If a promise broke, the demo says which and exits with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO
from urllib.parse import urlsplit

from ..testing.proxy import FaultProxy
from ..testing.server import BridgeServer
from ..transports.signals import on_signals
from .demo_book import Book, book_lines
from .demo_kills import KILL_TABLE, kill_plan
from .demo_lives import Lives
from .demo_pace import KINDS, PATIENCE, pause
from .demo_story import Story
from .demo_traffic import Moments
from .terminal import columns, fitted


_SLOW: Final = (
    0.05  # seconds the bridge takes for an answer, so that there is something unconfirmed to be killed with
)
_PILE: Final = 4  # messages that pile up before the kill, on a line that is cut or swallows


def run_crashes(arguments: argparse.Namespace) -> int:
    """Play it; 0 if every promise was kept, 1 if one broke, with the ledger either way."""
    plan = kill_plan(arguments.crash, arguments.duration, random.Random(arguments.seed))
    out = sys.stderr if arguments.json else sys.stdout
    with TemporaryDirectory(prefix="resilient-bridge-demo-") as directory:
        totals = asyncio.run(_perform(arguments, plan, out, Path(directory) / "bridge.db"))
    print(fitted("\n".join(book_lines(totals)), columns(out)), file=out, flush=True)
    if arguments.json:
        print(json.dumps(totals), flush=True)
    return 1 if totals["broken"] else 0


async def _perform(
    arguments: argparse.Namespace, plan: Sequence[str], out: TextIO, store: Path
) -> dict[str, Any]:
    async with BridgeServer(slow=_SLOW) as server:
        where = urlsplit(server.url)
        async with FaultProxy(str(where.hostname), int(where.port or 0)) as proxy:
            demo = CrashDemo(server, proxy, store, seed=arguments.seed, rate=arguments.rate, out=out)
            await demo.play(plan, arguments.duration)
    return demo.totals()


class CrashDemo:
    """One run: its stage, its traffic towards the client, and its kills."""

    def __init__(
        self, server: BridgeServer, proxy: FaultProxy, store: Path, *, seed: int, rate: float, out: TextIO
    ) -> None:
        self.server = server
        self.proxy = proxy
        self.book = Book()
        self._lives = Lives(proxy.url("/ws"), str(store), seed=seed, rate=rate, hear=self._hear)
        self._seed = seed
        self._rate = rate
        self._stopped = asyncio.Event()  # by the audience
        self._story = Story(out, asyncio.get_running_loop().time, self.book.open, self._stopped.set)
        self._moments = Moments()
        self._quiet = asyncio.Event()  # no more messages from the bridge
        self._is_ready = False
        self._ready_at = 0.0
        self._pushed = 0
        self._applied = 0
        self._resent = 0
        self._crashes: list[str] = []
        self._errors: list[str] = []

    async def play(self, plan: Sequence[str], duration: float) -> None:
        """Let messages flow and the client die; afterwards the last process ends in order, and everything is booked."""
        self._introduce(plan)
        try:
            status = self._story.status(lambda: f"{self._applied} of {self._pushed} pushed are applied")
            with on_signals(self._stopped.set), status:
                await self._live()
                await self._ready()
                await self._perform(plan, duration)
        except TimeoutError as error:
            self._errors.append(f"ended early: {error}")
        finally:
            await self._lives.kill()
        self._book_applied()

    def _introduce(self, plan: Sequence[str]) -> None:
        title = self._story.title
        title(
            "An embedded bridge, a proxy, and a client that is a process of its own, on one store: "
            f"{self._rate:g} messages a second each way, seed {self._seed}."
        )
        title(
            "KILL: the process is killed (kill -9) and the next one started. life N: what process N reports."
        )
        title(f"To come: {', '.join(plan)}.")
        title("")

    async def _perform(self, plan: Sequence[str], duration: float) -> None:
        pushing = asyncio.create_task(self._push())
        try:
            await self._direct(plan, duration)
            self._quiet.set()
            await pushing
            await self._settle()
        finally:
            pushing.cancel()
            await asyncio.wait([pushing])

    # ---- the kills
    async def _direct(self, plan: Sequence[str], duration: float) -> None:
        loop, rng = asyncio.get_running_loop(), random.Random(f"moments {self._seed}")
        began, slot = loop.time(), duration / (len(plan) + 1)
        for number, kind in enumerate(plan, 1):
            moment, grown_up = began + (number - rng.uniform(0, 0.5)) * slot, rng.uniform(0.1, 0.6)
            if kind == "starting":
                await self._wait_until(loop.time() + grown_up)
            else:
                await self._wait_until(moment)
                await self._ready()
                await self._wait_until(self._ready_at + grown_up)  # a slow machine gets something done too
            if self._stopped.is_set():
                return
            await KILL_TABLE[kind].prepare(self)
            await self._crash(kind)
        await self._wait_until(began + duration)

    async def _wait_until(self, instant: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(instant):
                await self._stopped.wait()

    async def _crash(self, kind: str) -> None:
        pid = self._lives.pid
        await self._lives.kill()
        self._crashes.append(kind)
        self._book_applied()
        away, there = self.book.open()
        remaining = f"accepted and not at the bridge: {away}; there and not confirmed: {there}"
        self._story.line("KILL", f"process {pid} {KILL_TABLE[kind].what}; {remaining}", f"{kind}:")
        self.proxy.heal()
        await self._live()

    async def _live(self) -> None:
        self._is_ready = False
        await self._lives.start(self.book.untold)

    async def _ready(self) -> None:
        lives = self._lives
        await self._moments.until(lambda: self._is_ready or lives.has_died, PATIENCE)
        if lives.has_died or not self._is_ready:
            how = "ended by itself" if lives.has_died else f"is not ready after {PATIENCE:g} s"
            msg = f"process {lives.number} {how}"
            raise TimeoutError(msg)

    async def _settle(self) -> None:
        self._story.line("demo", "no more kills and messages; waiting for what is on its way")
        self.proxy.heal()
        for _ in range(5):
            # one more message over a sound line: when it is here, all before it are, or a gap was reported
            await self._ready()
            last = await self._push_one()
            if await self._moments.until(functools.partial(self._has_got, last), 2.0):
                break
        if not await self._lives.end(PATIENCE):
            self._errors.append(f"process {self._lives.number} did not end in order")

    def _has_got(self, n: int) -> bool:
        return self.book.latest >= n

    async def pile(self, seconds: float) -> None:
        """Wait until a few messages more were accepted that the bridge has not got, or the time is up."""
        self._book_applied()
        await self._moments.until(lambda: self.book.open()[0] >= _PILE, seconds)

    # ---- the bridge's side
    async def _push(self) -> None:
        rng = random.Random(f"pushed {self._seed}")
        while not self._quiet.is_set():
            await self._push_one(rng.choice(KINDS), "x" * rng.randrange(40))
            await pause(rng, self._rate, self._quiet)

    async def _push_one(self, kind: str = KINDS[0], text: str = "") -> int:
        self._pushed += 1
        n = self._pushed
        self.book.ledger.pushed(n)
        await self.server.push(kind, {"n": n, "text": text})
        return n

    def _book_applied(self) -> None:
        new = self.server.received[self._applied :]
        self._applied += len(new)
        for message in new:
            self.book.applied(message["payload"]["n"])

    # ---- what a process reports
    def _hear(self, report: list[Any]) -> None:
        book = self.book
        match report:
            case ["accepted", n]:
                book.accepted(n)
            case ["settled", key, state]:
                if book.settled(key, state):
                    again = f" ({self._resent} sent again, each with its key)" if self._resent else ""
                    self._tell(f"all that was left is settled{again}")
            case ["got", n, redelivered, maybe_duplicate]:
                book.got(n, redelivered, maybe_duplicate)
            case ["said", text, mark]:
                self._tell(text, mark)
            case ["ready", is_first, verdict]:
                self._is_ready, self._ready_at = True, asyncio.get_running_loop().time()
                book.ready(is_first, verdict)
            case ["took over", remaining]:
                self._hear_unsettled(remaining)
            case ["gap", reason]:
                book.ledger.marked()
                self._tell(f"the application is told of a gap ({reason}), in its place in the stream")
            case _:
                self._errors.append(f"a report that means nothing: {report}")
        self._moments.tell()

    def _hear_unsettled(self, remaining: list[tuple[str, str]]) -> None:
        unsent, self._resent = self.book.took_over(remaining)
        if self._lives.number > 1:
            found = f"{unsent} never sent, {self._resent} sent and not confirmed"
            self._tell(f"process {self._lives.pid} takes over from the store: {found}")

    def _tell(self, text: str, mark: str = "") -> None:
        self._story.line(f"life {self._lives.number}", text, mark)

    # ---- the end
    def totals(self) -> dict[str, Any]:
        """The ledger's totals; what ended a part of the demo is a broken promise too."""
        frames = [frame["payload"]["n"] for frame in self.server.frames if frame.get("type") == "tool_result"]
        totals = self.book.totals(frames)
        totals["broken"] += self._errors
        return totals | {
            "processes": self._lives.number,
            "kills": len(self._crashes),
            "crashes": self._crashes,
            "seed": self._seed,
        }
