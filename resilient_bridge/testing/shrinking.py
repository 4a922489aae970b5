"""How little of a drawn order a failure needs: which steps run later than in asyncio's own order.

Rule: each decision draws what it drew in the run that failed, and takes it only if its number is
allowed; otherwise it takes asyncio's own order. So that run itself is one set of numbers, and
smaller sets are tried as long as the failure stays (delta debugging).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, NamedTuple

from .orders import Due, SeededOrders
from .timeline import waiting_at


Attempt = Callable[[Callable[[Random], SeededOrders]], BaseException | None]
"""Run the program again with such orders; return what it raises."""

_RUNS: Final = 300  # of the program, at most
_SHOWN: Final = 20  # lines
_NAMED: Final = 6  # names in a line


class Switch(NamedTuple):
    """A decision that differs from asyncio's own order: `ahead` ran instead of what was next.

    `delayed` identifies what was next in the run, and `name` describes it.
    """

    delayed: float
    name: str
    ahead: str


class AllowedOrders(SeededOrders):
    """The draws of `SeededOrders` where `allowed` has their number (None: all); else asyncio's own
    order.

    The decisions about ready callbacks have the numbers 1, 2, 3 ..., those about timers of one
    instant -1, -2, -3 ... `switches` has those that were allowed and differ from asyncio's order.
    """

    _chooses = True

    def __init__(self, rng: Random, allowed: frozenset[int] | None, *, describes: bool) -> None:
        super().__init__(rng)
        self.switches: dict[int, Switch] = {}
        self.tie = self._decide_tie
        self._allowed = allowed
        self._describes = describes
        self._decisions = self._timers = 0
        self._count = 0  # of timers, and of what became ready
        self._ready_at: dict[int, int] = {}
        self._turn = 0  # what became ready, or was set, until then runs before what came later

    def append(self, handle: asyncio.Handle) -> None:
        self._number(handle)
        super().append(handle)

    def append_step(self, run: Callable[[], object], task: Any) -> None:
        self._number(run)
        super().append_step(run, task)

    def _number(self, ready: object) -> None:
        self._count += 1
        self._ready_at[id(ready)] = self._count

    def _allows(self, number: int) -> bool:
        return self._allowed is None or number in self._allowed

    def _decide_tie(self) -> float:
        drawn = self._random()
        self._timers += 1
        self._count += 1
        if not self._allows(-self._timers):
            return 1.0 + self._count  # behind all that were drawn, in the order of the calls
        name = ""
        if self._describes:
            setter = "a callback" if self._running is None else waiting_at(self._running)
            name = f"the timer that {setter} set is due before others of its instant"
        self.switches[-self._timers] = Switch(-self._timers, name, "")
        return drawn

    def _choose(self, due: Due | None) -> int:
        drawn, (usual, delayed) = super()._choose(due), self._usual(due)
        self._decisions += 1
        if drawn == usual or not self._allows(self._decisions):
            return usual
        names = (self._name(usual, due), self._name(drawn, due)) if self._describes else ("", "")
        self.switches[self._decisions] = Switch(delayed, *names)
        return drawn

    def _usual(self, due: Due | None) -> tuple[int, float]:
        """Return what asyncio would run next, and what identifies it.

        That is what was ready when its turn began, the oldest first; then what was due then; then
        the next turn.
        """
        ready = [(self._ready_at[id(run)], index) for index, (run, _, _) in enumerate(self.free)]
        if self.blocked:
            ready.append((self._ready_at[id(self.blocked[0][0])], len(self.free)))
        oldest, index = min(ready, default=(math.inf, 0))
        if oldest <= self._turn:
            return index, oldest
        if due is not None:
            is_packet = not isinstance(due[2], asyncio.TimerHandle)
            if is_packet or not ready or due[1] <= 1.0 + self._turn:
                return len(ready), 0.5 + due[1]
        self._turn = self._count
        return index, oldest

    def _name(self, index: int, due: Due | None) -> str:
        if index < len(self.free):
            return waiting_at(self.free[index][1])
        is_blocked = self.blocked and index == len(self.free)
        handle: Any = self.blocked[0][0] if is_blocked or due is None else due[2]
        for task in asyncio.all_tasks():
            if any(getattr(task, "_fut_waiter", None) is each for each in handle._args or ()):  # noqa: SLF001 - no public way to ask
                return f"the timer of {waiting_at(task)}"
        return getattr(handle._callback, "__qualname__", repr(handle))  # noqa: SLF001


class _Search:
    """Runs of a program with fewer and fewer switches."""

    def __init__(self, attempt: Attempt, kind: type[BaseException]) -> None:
        self.runs = 0
        self._attempt = attempt
        self._kind = kind

    def fails(
        self, allowed: frozenset[int] | None, *, describes: bool = False
    ) -> dict[int, Switch] | None:
        """Return the switches of a run with these decisions; None if it does not fail so."""
        orders: list[AllowedOrders] = []

        def make(rng: Random) -> SeededOrders:
            orders.append(AllowedOrders(rng, allowed, describes=describes))
            return orders[0]

        self.runs += 1
        error = self._attempt(make)
        return orders[0].switches if type(error) is self._kind else None

    def reduced(self, numbers: Sequence[int]) -> Sequence[int]:
        """Return decisions that are enough, and of which none can be left out alone, unless the
        number of runs ended the search.
        """
        size = max(len(numbers) // 2, 1)
        while self.runs < _RUNS:
            before, at = len(numbers), 0
            while at < len(numbers) and self.runs < _RUNS:
                found = self.fails(frozenset((*numbers[:at], *numbers[at + size :])))
                if found is None:
                    at += size
                else:
                    numbers = sorted(found)
            if size == 1 and len(numbers) == before:
                break
            size = max(size // 2, 1)
        return numbers


def shrunk(attempt: Attempt, kind: type[BaseException]) -> str:
    """Return a note that says what has to run later than in asyncio's own order for an error of
    this kind.
    """
    search = _Search(attempt, kind)
    everything = search.fails(None)
    if everything is None:
        return "shrink: it did not fail again: does a run of main change the next one?"
    if search.fails(frozenset()) is not None:
        return "shrink: it fails in asyncio's own order, too: orders='fifo' is enough"
    numbers = search.reduced(sorted(everything))
    switches = search.fails(frozenset(numbers), describes=True) or {}
    delays: dict[float, tuple[str, dict[str, None]]] = {}
    for switch in switches.values():
        delays.setdefault(switch.delayed, (switch.name, {}))[1][switch.ahead] = None
    lines = [_line(name, [*ahead]) for name, ahead in delays.values()]
    text = "".join(f"\n  {number}. {line}" for number, line in enumerate(lines[:_SHOWN], 1))
    more = "\n  ..." if len(lines) > _SHOWN else ""
    bound = ", the most there are" if search.runs >= _RUNS else ""
    return (
        f"shrink: asyncio's own order, but for {len(lines)} delay{'s'[: len(lines) != 1]}, is enough"
        f" ({len(switches)} of {len(everything)} switches, {search.runs} runs{bound}):"
        f"{text}{more}"
    )


def _line(name: str, ahead: list[str]) -> str:
    if ahead == [""]:
        return name
    if len(ahead) == 1:
        return f"{ahead[0]} runs before {name}"
    more = ", ..." if len(ahead) > _NAMED else ""
    return f"{name} runs after {', '.join(ahead[:_NAMED])}{more}"
