"""One campaign: a client that is killed again and again over one store, with a bridge, traffic both ways and, if asked for, a bad line.

What is drawn comes from the seed; when a signal strikes does not, so a run can be repeated only in kind:
`python -m tests.crashes NAME SEED KILLS [VARIANT]`.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import attrs

from resilient_bridge.testing import BridgeServer, Fault, FaultProxy

from .accounts import Accounts, BrokenError
from .lives import PATIENCE, Life, Nursery


if TYPE_CHECKING:
    from pathlib import Path

HELD: Final = 36 * 1024  # bytes of the bridge's replay buffer: about 260 messages
QUIET: Final = 4.0  # seconds in which the last life says something new, or has no more to say
OUTSTANDING: Final = 130  # pushed and not consumed: the bridge holds everything from the anchor on
MOMENTS: Final = {
    "accepted": 30, "consumed": 25, "joined": 12, "started": 15, "at_once": 5, "closing": 8, "after_close": 5, "outage": 12,
}  # fmt: skip


@attrs.frozen(kw_only=True)
class Setup:
    """A kind of campaign."""

    durability: str = "process"
    has_faults: bool = False
    forgets: bool = False
    width: int = 1
    dawdles: float = 0.1  # how often the consumer takes his time


SETUPS: Final = {
    "steady": Setup(),
    "slow_reader": Setup(dawdles=0.7),
    "faults": Setup(has_faults=True),
    "machine": Setup(durability="machine", width=4),
    "machine_faults": Setup(durability="machine", width=4, has_faults=True),
    "forgetful": Setup(forgets=True),
}


class Campaign:
    """Run it once; raises BrokenError with everything that does not hold, and the command."""

    def __init__(
        self, name: str, seed: int, kills: int, directory: Path, *, variant: str | None = None
    ) -> None:
        self.name, self.seed, self.kills, self.variant = name, seed, kills, variant
        self.setup = SETUPS[name]
        self.rng = random.Random(f"{name}/{seed}")
        self.accounts = Accounts(
            forgets=self.setup.forgets, is_quick=self.setup.durability == "process"
        )
        self.store = directory / "bridge.db"
        self.seconds = 0.0
        self._pushed = 0

    async def run(self) -> Accounts:
        """Kill, and drain in the end."""
        started = time.perf_counter()
        try:
            await self._run()
        except AssertionError as error:
            command = (
                f"python -m tests.crashes {self.name} {self.seed} {self.kills} {self.variant or ''}"
            )
            raise BrokenError(
                f"{error}\n  {self.accounts.totals()}\n  repeat: {command}"
            ) from error
        self.seconds = time.perf_counter() - started
        return self.accounts

    async def _run(self) -> None:
        async with AsyncExitStack() as stack:
            self.server = await stack.enter_async_context(BridgeServer(replay_bytes=HELD))
            self.proxy = await stack.enter_async_context(FaultProxy(*self.server.address))
            self.nursery = await stack.enter_async_context(Nursery())
            self.accounts.lives = self.nursery.lives
            works = [] if self.setup.forgets else [self._push()]
            works += [self._trouble()] if self.setup.has_faults else []
            tasks = [asyncio.create_task(work) for work in works]
            try:
                while self.accounts.kills < self.kills:
                    await self._one_life()
            finally:
                for task in tasks:
                    task.cancel()
                if tasks:
                    await asyncio.wait(tasks)
            for task in tasks:
                assert task.cancelled(), task.exception()
            self.proxy.heal()
            await self._drain()
            self.accounts.judge(self.server)

    # ---- lives ------------------------------------------------------------------------------------------------

    def _start(self, **order: Any) -> Life:
        url = self.proxy.url("/ws") if self.setup.has_faults else self.server.url
        return self.nursery.start(
            url=url, store=str(self.store), durability=self.setup.durability, seed=self.rng.randrange(1 << 30),
            first=self.accounts.proven() + 1, width=self.setup.width, variant=self.variant,
            dawdles=self.setup.dawdles, **order,
        )  # fmt: skip

    async def _one_life(self) -> None:
        moment = self.rng.choices(list(MOMENTS), list(MOMENTS.values()))[0]
        if moment == "outage":
            self.proxy.refuse()
            await self.server.cut("abort", seconds=0.15)
        life = self._start(drain=self.rng.choice([0.0, 0.05, 0.3]))
        has_come = await self._await(moment, life)
        if not has_come and not self.setup.has_faults:
            self.accounts.problems.append(f"{moment} never came in life {life.number}")
        if moment != "after_close":
            life.kill()
        await life.end()
        self.proxy.heal() if moment == "outage" else None
        if self.setup.forgets and self.rng.random() < 0.5:
            await self.server.restart(lose_sessions=True)
        elif self.setup.has_faults and self.rng.random() < 0.1:
            await self.server.restart(down=self.rng.choice([0.0, 0.05]))

    async def _await(self, moment: str, life: Life) -> bool:
        rng, within = self.rng, 1.0 if self.setup.has_faults else PATIENCE
        if moment in {"accepted", "outage", "closing", "after_close"}:
            count = rng.choice([1, 2, 5, 20, 60])
            has_come = await life.until(lambda: len(life.accepted) >= count, within)
            if moment in {"closing", "after_close"}:
                life.ask_to_close()
                has_come &= await life.until(lambda: life.is_closing, within)
                if moment == "closing":
                    await asyncio.sleep(rng.choice([0.0, 0.001, 0.003, 0.01, 0.05]))
            return has_come
        if moment == "consumed" and not self.setup.forgets:
            count = rng.choice([1, 2, 5, 20, 70, 100])
            return await life.until(lambda: len(life.consumed) >= count, within)
        if moment == "joined":
            names = rng.choice([{"Connected"}, {"Joined", "Resumed"}])
            return await life.until(lambda: any(event[0] in names for event in life.events), within)
        if moment == "started":
            has_come = await life.until(lambda: life.pending is not None, within)
            await asyncio.sleep(rng.choice([0.0, 0.002, 0.005, 0.02]))
            return has_come
        await life.until(lambda: life.pid is not None, within)
        await asyncio.sleep(rng.uniform(0, 0.03))
        return True

    async def _drain(self) -> None:
        """The last life sends nothing new: it settles everything and reads everything."""
        first = self.accounts.proven() + 1
        life = self._start(last=first - 1, drain=5, receipts=True)
        pushed = set(range(1, self._pushed + 1))
        consumed = self.accounts.consumed()
        rest = pushed - consumed

        def is_done() -> bool:
            return life.is_idle and rest <= {n for n, _ in life.consumed}

        def heard() -> int:
            return len(life.consumed) + len(life.confirmed) + life.is_idle

        while not is_done():
            before = heard()
            if not await life.until(lambda: heard() > before, QUIET) or life.over is not None:  # noqa: B023
                self.accounts.problems.append(
                    f"not at rest: {life.is_idle=}, {life.failures}, {life.events[-3:]}"
                )
                break
        life.ask_to_close()
        await life.end()
        if life.undelivered:
            self.accounts.problems.append(f"undelivered in the end: {life.undelivered}")

    # ---- the world --------------------------------------------------------------------------------------------

    async def _push(self) -> None:
        rng = random.Random(f"{self.name}/{self.seed}/push")
        seen, read = 0, set[int]()
        while True:
            await asyncio.sleep(rng.choice([0.001, 0.005, 0.02, 0.04]))
            for life in self.nursery.lives[seen:]:
                read.update(n for n, _ in life.consumed)
            seen = max(0, len(self.nursery.lives) - 1)
            if self.server.session is None:
                continue
            room = OUTSTANDING - (self._pushed - len(read))
            for _ in range(min(room, rng.choice([1, 2, 3, 8, 8, 100]))):
                self._pushed += 1
                await self.server.push("news", {"n": self._pushed})

    async def _trouble(self) -> None:
        rng, proxy = random.Random(f"{self.name}/{self.seed}/trouble"), self.proxy
        while True:
            await asyncio.sleep(rng.uniform(0.02, 0.25))
            way = rng.choice(["up", "down"])
            what = rng.randrange(6)
            if what == 0:
                proxy.apply(Fault.abort(after=rng.randrange(3_000), direction=way))
            elif what == 1:
                proxy.apply(Fault.fin(after=rng.randrange(3_000), direction=way))
            elif what == 2:
                proxy.apply(
                    Fault.black_hole(rng.choice([way, "both"]), seconds=rng.uniform(0.02, 0.3))
                )
            elif what == 3:
                proxy.apply(Fault.delay(rng.uniform(0.001, 0.02)))
            elif what == 4:
                await self.server.cut("abort")
            else:
                proxy.refuse(0.1)
                proxy.apply(Fault.abort())
