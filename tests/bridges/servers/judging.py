"""What a run must show: nothing lost, doubled or reordered without a gap in its place, and no message with two effects. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import resilient_bridge as rb


class Heard(NamedTuple):
    """The numbers of one message. `index`: where it stands in the log of its channel, where the server says so."""

    numbers: tuple[int, ...]
    channel: str | None = None
    index: int | None = None
    may_repeat: bool = False


@dataclass
class Seen:
    """What happened in a run, or in several."""

    runs: int = 0
    connections: int = 0
    losses: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    receipts: Counter[str] = field(default_factory=Counter)
    published: int = 0
    delivered: int = 0
    gaps: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, other: Seen) -> None:
        """Count the other as well."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, Counter):
                mine.update(value)
            else:
                setattr(self, name, mine + value)

    def __str__(self) -> str:
        """One line of totals."""
        counted = [
            f"{name}={dict(sorted(value.items()))}"
            for name, value in vars(self).items()
            if isinstance(value, Counter)
        ]
        return (
            f"{self.runs} runs, {self.connections} connections, {self.losses} losses, {' '.join(counted)} published={self.published} "
            f"delivered={self.delivered} gaps={self.gaps} {self.seconds:.0f} s, {len(self.problems)} problems"
        )


def order_problems(
    stream: Sequence[Any],
    channel: str | None,
    published: list[int],
    log_of: Callable[[list[int], int], list[int]],
    *,
    rank: Callable[[int], int] = int,
    since: Callable[[int], int] = int,
) -> list[str]:
    """What is wrong with the numbers of one channel, and with its indexes. The functions are those of a `Kind`."""
    gaps = [
        at
        for at, item in enumerate(stream)
        if isinstance(item, rb.bridge.Gap) and item.channel in {None, channel}
    ]
    mine = [
        (at, item)
        for at, item in enumerate(stream)
        if isinstance(item, Heard) and item.channel == channel
    ]
    numbers = [(at, number, item.may_repeat) for at, item in mine for number in item.numbers]
    indexes = [(at, item.index, item.may_repeat) for at, item in mine if item.index is not None]
    problems = [f"number {each}" for each in _unordered(numbers, rank)]
    problems += [f"index {each}" for each in _unordered(indexes, int)]
    first_seen = {number: at for at, number, _ in reversed(numbers)}
    if first_seen:
        log = log_of(published, min(first_seen))
        begins = min((log.index(number) for number in first_seen if number in log), default=0)
        problems += [
            f"numbers {each}" for each in _lost(log[begins:], first_seen, gaps, rank, since)
        ]
    indexed = {index: at for at, index, _ in reversed(indexes)}
    if indexed and None not in indexed:
        whole = list(range(min(indexed), max(indexed) + 1))
        problems += [f"indexes {each}" for each in _lost(whole, indexed, gaps, int, int)]
    where = "" if channel is None else f" of {channel}"
    return [f"{problem}{where}" for problem in problems]


def _unordered(items: Sequence[tuple[int, int, bool]], rank: Callable[[int], int]) -> list[str]:
    problems, had, highest = [], set(), None
    for _, number, may_repeat in items:
        if number in had:
            if not may_repeat:
                problems.append(f"{number} came twice")
            continue
        had.add(number)
        if highest is not None and rank(number) < rank(highest) and not may_repeat:
            problems.append(f"{number} came after {highest}")
        if highest is None or rank(number) > rank(highest):
            highest = number
    return problems


def _lost(
    log: Sequence[int],
    first_seen: Mapping[int, int],
    gaps: Sequence[int],
    rank: Callable[[int], int],
    since: Callable[[int], int],
) -> list[str]:
    """What is missing without a gap between what came before it and what came after it."""
    problems: list[int] = []
    for number in log:
        if number in first_seen:
            continue
        before = max(
            (at for other, at in first_seen.items() if rank(other) < rank(since(number))),
            default=-1,
        )
        after = [at for other, at in first_seen.items() if rank(other) > rank(number)]
        if not any(before < at and (not after or at < min(after)) for at in gaps):
            problems.append(number)
    return [f"{problems} were lost without a gap in their place"] if problems else []


def send_problems(
    states: Mapping[int, str], effects: Counter[int], *, settles_all: bool
) -> list[str]:
    """What is wrong with the effects of what was sent, held against the receipts."""
    problems = []
    for number, state in states.items():
        count = effects[number]
        if count > 1:
            problems.append(f"send {number} ({state}) had its effect {count} times")
        if state == "confirmed" and not count:
            problems.append(f"send {number} was confirmed, and had no effect")
        if state in {"dropped", "expired", "withdrawn", "queued"} and count:
            problems.append(f"send {number} was {state}, and had an effect")
        if settles_all and state != "confirmed":
            problems.append(f"send {number} is {state}, and this server can tell a repetition")
    return problems
