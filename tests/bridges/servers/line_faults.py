"""What runs against real servers share: how the line is struck, which faults a run has in which order, and the totals of several runs.

Rule: a seed draws the same numbers in the same order as long as it draws the same faults.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import resilient_bridge as rb
from resilient_bridge.testing import Fault, FaultProxy
from tests.bridges.servers.judging import Seen


AT_ONCE = rb.bridge.Reconnect(
    backoff=rb.Backoff.constant(0.05),
    attempts=None,
    connect_timeout=5,
    connect_burst=1_000,
    connects_per_minute=60_000,
)
_RESTARTS = ("kill", "stop", None)  # one a run, in turn


def steps_of(rng: random.Random, faults: Sequence[str], seed: int) -> list[str]:
    """Three to five faults, and in two of three runs a restart between them."""
    steps: list[str] = rng.choices(faults, k=rng.randint(3, 5))
    restart = _RESTARTS[seed % len(_RESTARTS)]
    if restart is not None:
        steps.insert(rng.randint(0, len(steps)), restart)
    return steps


async def totals(
    run_of: Callable[[int], Any], seeds: Iterable[int], show: Callable[[str], Any] | None
) -> Seen:
    """Make the run of each seed and add them up. `show` is given the history of each run that has problems."""
    total = Seen()
    for seed in seeds:
        run = run_of(seed)
        total.add(seen := await run.make())
        if seen.problems and show is not None:
            show("\n".join([*run.history, *seen.problems, ""]))
    return total


class LineFaults:
    """The faults of a line, for a run that has these."""

    rng: random.Random
    proxy: FaultProxy
    reach = 3_000  # bytes of a connection within which it is cut: about those of a handshake and a replay

    async def _talk(self, numbers: int) -> None:
        """Publish so many numbers."""
        raise NotImplementedError

    async def _cut(self) -> None:
        """Reset the connection."""
        self.proxy.apply(Fault.abort())

    async def _end(self) -> None:
        """End it in order, without the close of its protocol."""
        self.proxy.apply(Fault.fin())

    async def _half(self) -> None:
        """Cut the coming connections after so many bytes: in the handshake, in the replay, or later."""
        for _ in range(self.rng.randint(1, 2)):
            after, way = self.rng.randint(1, self.reach), self.rng.choice(("up", "down", "down"))
            self.proxy.script(
                Fault.abort(after=after if way == "down" else after // 4, direction=way)
            )
        self.proxy.apply(Fault.abort(after=self.rng.choice((0, 1, self.reach // 15))))

    async def _hole(self) -> None:
        """Let nothing through for a moment; then all of it arrives, or the connection is cut."""
        self.proxy.apply(Fault.black_hole(self.rng.choice(("up", "down", "both"))))
        await self._talk(self.rng.randint(1, 2))
        if self.rng.random() < 0.5:
            self.proxy.apply(Fault.abort())
        self.proxy.heal()

    async def _refused(self) -> None:
        """Refuse connections for a moment."""
        self.proxy.refuse()
        self.proxy.apply(Fault.abort())
        await self._talk(self.rng.randint(1, 3))
        self.proxy.heal()
