"""Hundreds of calls over the pipes of a child that is killed, crashes, goes deaf, breaks off and babbles, by a seed: none ran twice
that may not, each caller was told the truth, and what provably did not run was repeated.

Rule: the truth is the child's ledger. What a round does to its eight callers depends on the seed and its number alone; a failure
prints how to replay it.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import attrs
import pytest

import resilient_bridge as rb
from tests.adapters.campaigns import ATTEMPTS, CALLERS, TRUE, outcome_of, worst_first
from tests.adapters.link_peers import quick
from tests.peers.processes import is_running
from tests.peers.running import until
from tests.samples import IS_ALL, some


pytestmark = [pytest.mark.real, pytest.mark.sample, pytest.mark.timeout(180)]

CHILD = (sys.executable, "-I", "-S", str(Path(__file__).with_name("campaign_child.py")))
SEEDS = some([61, 62, 63], 1)
ROUNDS = 90
FATAL = [
    "dies before",
    "dies after",
    "half a line",
]  # of one call, while seven others are under way
ROUND = [
    *FATAL,
    *FATAL,
    "killed at rest",
    "killed at rest",
    "killed unnoticed",
    "crash at start",
    "deaf",
]
FILLER = "x" * 100_000  # more than a pipe takes

_done: dict[int, Campaign] = {}


@attrs.define
class Call:
    """One call: what its round did, what it asked for itself, and what its caller was told."""

    key: str
    round: str
    may_repeat: bool
    fault: str = ""
    times: int = 1
    filler: str = attrs.field(default="", repr=False)
    reported: str = ""

    def fault_of(self, ran: int, saw: int) -> str:
        """What is wrong with how it went; empty if nothing is."""
        if ran > 1 and not self.may_repeat:
            return "ran twice"
        if ran not in TRUE.get(self.reported, ()) and not (
            self.may_repeat and self.reported == "done" and ran
        ):
            return "told something false"
        if saw > 1 and not self.may_repeat:
            return "repeated after what allows no repeat"
        if (
            self.fault == "busy"
            and self.reported == "unknown"
            and saw >= (ATTEMPTS if self.may_repeat else 1)
        ):
            return ""  # the server's own word proves nothing: with permission it was asked as often as the policy says
        # Nothing but noise befell it, or its pipe was closed before it was made: that has to end in success.
        must_end_well = self.may_repeat or self.round in {"", "killed at rest", "killed unnoticed"}
        return (
            "not repeated"
            if self.reported == "not run" or (self.reported == "unknown" and must_end_well)
            else ""
        )


@attrs.define
class Campaign:
    """The calls of one seed, what the child wrote down, and what went wrong with it: kills, and what it met by its own account."""

    seed: int
    ledger: Path
    rng: random.Random
    calls: list[Call] = attrs.Factory(list)
    faults: Counter[str] = attrs.Factory(Counter)
    noted: Counter[str] = attrs.Factory(Counter)
    pids: set[int] = attrs.Factory(set)

    async def run(self, **options) -> None:
        """Make all calls, in rounds."""
        retry = rb.Retry(attempts=ATTEMPTS, backoff=rb.Backoff.constant(0), budget=None)
        policy = quick(calls=rb.Policy(retry), backoff=rb.Backoff.constant(0))
        link = rb.reconnecting(rb.links.stdio(*CHILD, str(self.ledger)), policy, **options)
        async with asyncio.timeout(100), link as peer:
            for number in range(ROUNDS):
                await link.wait_ready(20)
                self.pids.add(link._supervisor.current.pid)
                what = self.rng.choice([*ROUND, *[""] * 4])
                calls = self._planned(number, what)
                self.calls += calls
                if what == "deaf":
                    await self._deaf(link, peer, calls)
                    continue
                if "killed" in what or what == "crash at start":
                    await self._kill(link, what)
                await asyncio.gather(*(self._one(peer, call) for call in calls))
        self.noted = Counter(self.ledger.read_text().splitlines())
        for line, times in self.noted.items():
            if line.startswith("met "):
                self.faults[line[4:]] += times

    def _planned(self, number: int, what: str) -> list[Call]:
        rng = self.rng
        calls = [
            Call(f"s{self.seed}r{number}c{n}", what, may_repeat=rng.random() < 0.2)
            for n in range(CALLERS)
        ]
        for call in calls:
            if what != "deaf" and rng.random() < 0.2:
                call.fault, call.times = rng.choice(
                    [("noise", 1), ("busy", rng.choice([1, 2, 3, 9]))]
                )
        if what in {*FATAL, "deaf"}:
            victim = calls[0 if what == "deaf" else rng.randrange(CALLERS)]
            victim.fault, victim.times = what, 1
        return calls

    async def _kill(self, link: rb.links.Reconnecting, what: str) -> None:
        """Kill the child between two rounds: its pipe is closed before the next call is made, whether the link knows or not."""
        self.faults["killed" if what == "crash at start" else what] += 1
        if what == "crash at start":
            self.ledger.with_name(f"{self.ledger.name}.crash").touch()
        pid = link._supervisor.current.pid
        os.kill(pid, signal.SIGKILL)
        while is_running(pid):  # the loop stands still, so that the link cannot know
            pass
        if what == "killed at rest":
            await until(lambda: link.state != "READY" or link._supervisor.current.pid != pid)

    async def _deaf(
        self, link: rb.links.Reconnecting, peer: rb.links.Peer, calls: list[Call]
    ) -> None:
        """It reads one call and nothing more: the pipe takes a part of the second, and the others never leave."""
        pid = link._supervisor.current.pid
        first, *others = calls
        tasks = [asyncio.create_task(self._one(peer, first))]
        await until(lambda: self.ledger.exists() and f"deaf {pid}\n" in self.ledger.read_text())
        for call in others:
            call.filler = FILLER
            tasks.append(asyncio.create_task(self._one(peer, call)))
        await until(lambda: f"waiting={CALLERS}" in repr(link._supervisor.current))
        os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*tasks)
        assert sum(call.reported == "unknown" for call in others) <= 1, (others, self.replay)

    async def _one(self, peer: rb.links.Peer, call: Call) -> None:
        params = {"key": call.key, "fault": call.fault, "times": call.times, "filler": call.filler}
        try:
            # Not said is no, and leaves the word to the link.
            answer = await peer.request(
                "work", params, timeout=60, idempotent=call.may_repeat or None
            )
            call.reported = "done" if answer == call.key else "wrong"
        except rb.BridgeError as error:
            call.reported = outcome_of(error)

    @property
    def replay(self) -> str:
        """How to see it again."""
        return f"replay: pytest tests/adapters/test_stdio_campaign.py -k {self.seed}"

    def judge(self) -> None:
        """Hold what was told against the ledger; an AssertionError with every contradiction."""
        wrong = []
        for call in self.calls:
            ran, saw = self.noted[f"ran {call.key}"], self.noted[f"saw {call.key}"]
            if why := call.fault_of(ran, saw):
                wrong.append(f"{why}: {call}, which was seen {saw} times and ran {ran} times")
        wrong.sort(key=worst_first)
        assert not wrong, "\n".join(
            [f"{len(wrong)} of {len(self.calls)} calls:", *wrong[:8], self.replay]
        )


async def campaign(seed: int, folder: Path, **options) -> Campaign:
    """The calls of one seed, made once if there are no options."""
    if seed not in _done or options:
        run = Campaign(seed, folder / f"{seed}", random.Random(seed))
        await run.run(**options)
        if options:
            return run
        _done[seed] = run
    return _done[seed]


@pytest.mark.requirement("V8", "V9", "G5")
@pytest.mark.parametrize("seed", SEEDS)
async def test_a_child_that_fails_in_every_way_takes_no_call_twice(seed, tmp_path):
    """Eight callers a round, hundreds of calls: what each was told is true, the provable ones were repeated, every child is gone."""
    run = await campaign(seed, tmp_path)
    run.judge()
    assert {call.reported for call in run.calls} == {"done", "unknown"}
    assert not any(is_running(pid) for pid in run.pids)


async def test_the_judge_notices_what_runs_twice(tmp_path):
    """A link that is told that every call may run twice repeats them, and the campaign finds keys that did."""
    run = await campaign(60, tmp_path, idempotent=True)
    with pytest.raises(AssertionError, match=r"(?s)ran twice.*replay: pytest"):
        run.judge()


async def test_hundreds_of_faults_were_injected(tmp_path):
    """So many really happened to children and their lines, of every kind."""
    faults: Counter[str] = Counter()
    for seed in SEEDS:
        faults += (await campaign(seed, tmp_path)).faults
    assert faults.total() >= (300 if IS_ALL else 100), faults
    assert min(faults.values()) >= (5 if IS_ALL else 1), faults
    assert set(faults) == {*ROUND, "killed", "noise", "busy"}
