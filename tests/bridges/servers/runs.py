"""One seeded run of the real client in one dialect against the real server of it: real faults, and a judgement of what arrived.

`Run(kind, server, seed)` publishes numbers and sends messages while connections are cut and the server is killed. A `Kind` says what a
number, a message and their effects look like at its server, and when a reconnection has to end RECOVERED. `python -m
tests.bridges.servers.runs KIND SEED...` repeats runs and prints their totals.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import resilient_bridge as rb
from resilient_bridge.testing import Fault, FaultProxy
from tests.bridges.servers.judging import Heard, Seen, order_problems, send_problems
from tests.bridges.servers.kind import PATIENCE, Kind
from tests.bridges.servers.line_faults import AT_ONCE, LineFaults, steps_of, totals
from tests.bridges.servers.process import ServerProcess
from tests.peers.ports import HOST


POLICY = rb.bridge.BridgePolicy(
    reconnect=AT_ONCE,
    heartbeat=rb.bridge.Heartbeat(every=0.5, timeout=1.5, probe_timeout=0.5),
    replay=rb.presets.default.replay.evolve(timeout=5),
)
FAULTS = ("cut", "end", "half", "hole", "silence", "refused", "noticed")


class Run(LineFaults):
    """`seen = await Run(kind, server, seed).make()`: a problem ends with the command that repeats it."""

    def __init__(self, kind: type[Kind], server: Any, seed: int) -> None:
        """Nothing happens yet."""
        self.kind = kind(server, seed)
        self.server: ServerProcess = server
        self.rng = random.Random(f"{kind.name} {seed}")
        self.seen = Seen(runs=1)
        self.stream: list[Any] = []  # gaps, and what was heard
        self.resumed: list[Any] = []
        self.published: list[int] = []
        self.sent: dict[int, Any] = {}
        self.history: list[str] = []
        self._begins = time.monotonic()
        self._step = "first connection"
        self._arrived = Counter[int]()
        self._changed = asyncio.Event()
        self._number = 0

    async def make(self) -> Seen:
        """Make the run and judge it."""
        try:
            async with asyncio.timeout(300):
                await self._make()
        except Exception as error:  # noqa: BLE001 -- a run that ends early is a finding of the campaign
            self.seen.problems.append(f"{type(error).__name__} in {self._step!r}: {error}")
        self.seen.seconds = time.monotonic() - self._begins
        command = f"python -m tests.bridges.servers.runs {self.kind.name} {self.kind.seed}"
        self.seen.problems = [f"{problem}  [{command}]" for problem in self.seen.problems]
        return self.seen

    def note(self, text: str) -> None:
        """Write down what happens, with its time."""
        self.history.append(f"{time.monotonic() - self._begins:.3f} {text}")

    async def _make(self) -> None:
        kind = self.kind
        await kind.prepare()
        async with FaultProxy(HOST, self.server.port) as self.proxy:
            url = kind.url().replace(f"{HOST}:{self.server.port}", f"{HOST}:{self.proxy.port}")
            self.bridge = rb.BridgeClient(
                url,
                dialect=self._noted(kind.dialect(self.rng)),
                token=kind.token,
                policy=POLICY,
                on_gap=self._note_gap,
            )
            tasks = [asyncio.ensure_future(self._note(self.bridge.events()))]
            try:
                async with self.bridge:
                    tasks.append(asyncio.ensure_future(self._read()))
                    await self._schedule()
                    await self.bridge.aclose(drain=5)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
            self.seen.connections = self.proxy.connections
        await self._judge()

    def _noted(self, dialect: rb.bridge.Dialect) -> rb.bridge.Dialect:
        """The same dialect, with every frame in the history."""

        def decode(frame: str | bytes) -> Any:
            facts = tuple(dialect.decode(frame))
            self.note(f"< {frame!r:.600} {facts!r:.300}")
            return facts

        def encode(intent: Any) -> str | bytes | None:
            frame = dialect.encode(intent)
            self.note(f"> {frame!r:.600}")
            return frame

        def resume(record: Any) -> Any:
            asked = dialect.resume(record)
            self.note(f"> {asked}")
            return asked

        return dialect.evolve(
            decode=decode, encode=encode, resume=resume if dialect.resume else None
        )

    # ---- the schedule ------------------------------------------------------------------------------------------

    async def _schedule(self) -> None:
        rng = self.rng
        await self.settle()
        await self.arrive()
        for step in steps_of(rng, FAULTS, self.kind.seed):
            await self._talk(rng.randint(0, 3))
            await self._strike(step)
            await self._talk(rng.randint(0, 2))
            if rng.random() < 0.5:
                await self.settle()
        await self._strike("noticed")
        await self.settle()
        await self.arrive()

    async def _strike(self, step: str) -> None:
        self._step = step
        self.seen.faults[step] += 1
        self.note(f"{step}, and the client is {self.bridge.state}")
        await getattr(self, f"_{step}")()

    async def _talk(self, numbers: int) -> None:
        """Publish, and send now and then, wherever the client stands."""
        for _ in range(numbers):
            await self.publish()
            if self.rng.random() < 0.3:
                await self.send()
            await asyncio.sleep(self.rng.choice((0, 0, 0.02, 0.1)))

    async def publish(self) -> int | None:
        """Publish the next number; None if nothing could hear it."""
        self._number += 1
        number = self.kind.base + self._number
        if not await self.kind.publish(number):
            return None
        self.published.append(number)
        self.note(f"published {number}")
        return number

    async def send(self) -> None:
        """Send the next message."""
        number = len(self.sent) + 1
        self.sent[number] = await self.kind.send(self.bridge, number)
        self.note(f"sent {number}")

    async def settle(self) -> None:
        """End all faults, and wait until the client is READY and has what it needs."""
        self.proxy.heal()
        self.note("healed")
        await self.bridge.wait_ready(PATIENCE)
        await self.kind.ready(self)

    async def arrive(self) -> None:
        """Publish until a number arrives: what is published while a connection is being lost may be lost with it."""
        for _ in range(10):
            number, losses = await self.publish(), self.seen.losses

            def has_arrived(number: int | None = number) -> bool:
                return number is not None and self._arrived[number] >= self.kind.copies

            def knows(losses: int = losses, has_arrived: Callable[[], bool] = has_arrived) -> bool:
                return has_arrived() or self.seen.losses > losses

            with suppress(TimeoutError):
                await self.until(knows, PATIENCE / 4)
            if has_arrived():
                return
            await self.settle()
        raise AssertionError(f"{number} did not arrive, and the client is {self.bridge.state}")

    async def until(self, condition: Any, within: float = PATIENCE) -> None:
        """Wait until something was heard or reported that makes the condition true; TimeoutError if it does not."""
        async with asyncio.timeout(within):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    # ---- faults ------------------------------------------------------------------------------------------------

    async def _silence(self) -> None:
        """Let nothing through until the client gives the connection up; the server learns of it later, or never."""
        await self.settle()
        losses = self.seen.losses
        self.proxy.apply(Fault.black_hole(self.rng.choice(("down", "both"))))
        await self._talk(self.rng.randint(1, 2))
        await self.until(lambda: self.seen.losses > losses)
        if self.rng.random() < 0.5:
            self.proxy.heal()

    async def _noticed(self) -> None:
        """Cut the connection, and come back after the server has noticed and said more: the verdict is certain."""
        await self.settle()
        await self.arrive()
        self.proxy.refuse()
        self.proxy.apply(Fault.abort())
        await self.kind.noticed()
        for _ in range(self.rng.randint(1, 3)):
            await self.publish()
        before = len(self.resumed)
        self.proxy.heal()
        await self.until(lambda: len(self.resumed) > before)
        event = self.resumed[before]
        if event.verdict != self.kind.verdict:
            self.seen.problems.append(
                f"{event.verdict}({event.reason}) {dict(event.channels)} instead of {self.kind.verdict}, after a cut that was noticed"
            )

    async def _kill(self) -> None:
        """SIGKILL, perhaps in the middle of a word, and start it again."""
        await self._restart(self.server.kill)

    async def _stop(self) -> None:
        """SIGTERM, wait, and start it again."""
        await self._restart(self.server.stop)

    async def _restart(self, end: Any) -> None:
        self.kind.restarted()
        ended = end()
        if ended is not None:
            await ended
        if self.kind.starts_twice or self.rng.random() < 0.3:
            self.proxy.refuse()
        if self.rng.random() < 0.5:
            await self.send()
        await self.server.start()
        self.proxy.heal()
        await self.settle()

    # ---- what is heard -----------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            async for message in self.bridge:
                heard = self.kind.heard(message)
                if heard is not None:
                    self.stream.append(heard)
                    self.note(f"heard {heard}")
                    self._arrived.update(heard.numbers)
                self._changed.set()
        except rb.BridgeError as error:
            self.seen.problems.append(f"the reader was ended by {error!r}")

    def _note_gap(self, gap: rb.bridge.Gap) -> None:
        self.seen.gaps += 1
        self.note(f"{gap}")
        self.stream.append(gap)

    async def _note(self, events: Any) -> None:
        async for event in events:
            if not isinstance(event, rb.events.StateChanged):
                self.note(f"{event!r:.240}")
            self.kind.noted(event)
            if isinstance(event, rb.events.Disconnected):
                self.seen.losses += 1
            elif isinstance(event, rb.events.Resumed):
                self.resumed.append(event)
                self.seen.verdicts[f"{event.verdict}({event.reason})"] += 1
                if self.kind.must_recover(event) and event.verdict != rb.bridge.Verdict.RECOVERED:
                    self.seen.problems.append(
                        f"{event.verdict}({event.reason}) {dict(event.channels)}, and the server held everything"
                    )
            self._changed.set()

    # ---- judgement ---------------------------------------------------------------------------------------------

    async def _judge(self) -> None:
        seen, kind = self.seen, self.kind
        heard = [each for each in self.stream if isinstance(each, Heard)]
        first = next((number for each in heard for number in each.numbers), None)
        published = (
            self.published
            if first not in self.published
            else self.published[self.published.index(first) :]
        )
        seen.published, seen.delivered = len(published), sum(len(each.numbers) for each in heard)
        for channel in {each.channel for each in heard}:
            seen.problems += order_problems(
                self.stream, channel, published, kind.log, rank=kind.rank, since=kind.since
            )
        states = {number: receipt.state for number, receipt in self.sent.items()}
        seen.receipts.update(states.values())
        had = Counter(await kind.effects())
        with suppress(
            TimeoutError
        ):  # what the server has confirmed may still be on its way into the ledger
            async with asyncio.timeout(5):
                while any(
                    state == "confirmed" and not had[number] for number, state in states.items()
                ):
                    await asyncio.sleep(0.05)
                    had = Counter(await kind.effects())
        seen.problems += send_problems(states, had, settles_all=kind.settles_all)


async def campaign(
    kind: type[Kind], server: Any, seeds: Any, show: Callable[[str], Any] | None = None
) -> Seen:
    """Several runs on one server, their totals. `show` is given the history of each run that has problems."""
    return await totals(partial(Run, kind, server), seeds, show)


def main() -> None:
    """Repeat runs by their seeds."""
    from tests.bridges.servers.kinds import KINDS, SERVERS

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("seeds", nargs="+", type=int)
    arguments = parser.parse_args()
    kind = KINDS[arguments.kind]

    async def runs(folder: Path) -> Seen:
        async with SERVERS[kind.server](folder) as server:
            return await campaign(kind, server, arguments.seeds, sys.stderr.write)

    with TemporaryDirectory() as folder:
        seen = asyncio.run(runs(Path(folder)))
    sys.stdout.write("\n".join([f"{kind.name}: {seen}", *seen.problems, ""]))


if __name__ == "__main__":
    main()
