"""The ledger of `demo --crash`: what the processes said they accepted and got, against what the bridge pushed and applied.

Rule: a kill may come between a deed and its report. What was accepted and not said is recovered, and no error; what was said counts,
whoever said it, and has to be kept by those who come after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from ..testing.ledger import Ledger
from .demo_story import judgement


_OPEN: Final = frozenset({"queued", "written", "gone"})
_SHOWN: Final = 10


@attrs.define
class Told:
    """A send as it was told: its state, as on its receipt."""

    state: str = "queued"


@attrs.frozen
class Got:
    """A message as a process got it."""

    payload: Mapping[str, int]
    redelivered: bool
    maybe_duplicate: bool
    replayed: bool = True  # it is not reported; under a gap it may be


class Book:
    """Books both directions over any number of processes; the verdict on order, repetition and loss is the ledger's."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._got: set[int] = set()
        self.latest = 0  # the highest serial a process got
        self._flagged = 0
        self._sends: dict[int, Told] = {}
        self._reported: set[int] = set()
        self._applied: set[int] = set()
        self._verdicts = Counter[str]()
        self._unjudged = 0
        self._left = set[int]()  # what the process before left, and is not settled

    # ---- what a process says
    def accepted(self, n: int) -> None:
        """It accepted `n`."""
        self._reported.add(n)
        self._known(n)

    def took_over(self, left: Iterable[tuple[str, str]]) -> tuple[int, int]:
        """It found these in the store. How many of them were never sent, and how many sent and not confirmed."""
        states = {int(key): state for key, state in left}
        for n, state in states.items():
            self._known(n).state = state
        self._left = set(states)
        written = sum(state == "written" for state in states.values())
        return len(states) - written, written

    def settled(self, key: str, state: str) -> bool:
        """It learned what became of this one. Was that the last that the process before had left?"""
        told = self._known(int(key))
        if told.state != "confirmed":
            told.state = state
        was_left = int(key) in self._left
        self._left.discard(int(key))
        return was_left and not self._left

    def got(self, n: int, redelivered: bool, maybe_duplicate: bool) -> None:
        """Its application got `n`."""
        self._got.add(n)
        self.latest = max(self.latest, n)
        self._flagged += redelivered
        self.ledger.delivered(Got({"n": n}, redelivered, maybe_duplicate))

    def ready(self, is_first: bool, verdict: str | None) -> None:
        """It joined: the first time of all, or with a verdict."""
        if verdict is not None:
            self._verdicts[verdict] += 1
        elif not is_first:
            self._unjudged += 1

    def _known(self, n: int) -> Told:
        told = self._sends.get(n)
        if told is None:
            told = self._sends[n] = Told()
            self.ledger.sent(n, told)
        return told

    # ---- what the bridge says
    def applied(self, n: int) -> None:
        """It applied `n`, after all that was booked before."""
        self._applied.add(n)
        self.ledger.applied(n)

    # ---- sums
    @property
    def untold(self) -> list[int]:
        """What was accepted, and nobody has said what became of it."""
        return [n for n, told in self._sends.items() if told.state in {"queued", "written"}]

    def open(self) -> tuple[int, int]:
        """How much of that is not at the bridge, and how much is."""
        untold = self.untold
        there = sum(n in self._applied for n in untold)
        return len(untold) - there, there

    def totals(self, frames: Sequence[int]) -> dict[str, Any]:
        """The sums, ready for JSON; `frames` are the serials of all that came to the bridge, repetitions included."""
        recovered = len((self._sends.keys() | self._applied) - self._reported)
        for n in self._applied - self._sends.keys():
            self._known(n).state = "recovered"
        forgotten = [n for n, told in self._sends.items() if told.state in _OPEN and n not in self._applied]
        for n in forgotten:
            self._sends[n].state = "forgotten"
        totals = self.ledger.totals()
        totals["unknown"] += sum(told.state == "gone" for told in self._sends.values())
        totals["lost"] += len(forgotten)
        if forgotten:
            shown = ", ".join(map(str, forgotten[:_SHOWN])) + (" and more" if len(forgotten) > _SHOWN else "")
            totals["broken"].append(f"forgotten: accepted, and neither applied nor told of: {shown}")
        if self._unjudged:
            totals["broken"].append(f"unjudged: re-joins that ended without a verdict: {self._unjudged}")
        return totals | {
            "recovered": recovered,
            "applied": len(self._applied),
            "resent": len(frames) - len(set(frames)),
            "repeated": totals["received"] - len(self._got),
            "flagged": self._flagged,
            "reconnects": sum(self._verdicts.values()),
            "verdicts": {name: self._verdicts[name] for name in ("RECOVERED", "GAP", "UNKNOWN")},
        }


def book_lines(totals: Mapping[str, Any]) -> list[str]:
    """The ledger at the end, as a table of both directions."""
    text = ", ".join(f"{name} {count}" for name, count in totals["verdicts"].items())
    kinds = ", ".join(f"{name} {count}" for name, count in Counter[str](totals["crashes"]).items())
    up = "accepted {sent} ({recovered} of them recovered: killed before it could say so), applied {applied}"
    how = "confirmed {confirmed}, sent again with its key {resent}, outcome unknown {unknown}"
    down = "pushed {pushed}, received {received}, {repeated} of them again after a crash, flagged redelivered"
    broke = "lost {lost}   applied or delivered twice {duplicated}   inversions {reordered}   unexpected {unexpected}"
    lines = [
        "",
        "ledger",
        f"  processes        {totals['processes']} on one store, {totals['kills']} killed: {kinds or 'none'}",
        f"  to the bridge    {up.format(**totals)}",
        f"                   {how.format(**totals)}",
        f"  from the bridge  {down.format(**totals)}",
        f"  re-joins         {totals['reconnects']}: {text}",
        f"  {broke.format(**totals)}",
    ]
    kept = "nothing was lost, applied twice, reordered, or repeated without saying so"
    return [*lines, *judgement(totals["broken"], kept)]
