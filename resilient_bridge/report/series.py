"""Bounded collections: values over time, intervals of states, the largest items, counts by name.

Rule: the largest size is fixed at creation. What does not fit is merged or left out, and counted
(`folded`, `seen`, `OTHERS`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final, Generic, TypeVar

import attrs


T = TypeVar("T")
BINS: Final = 256
MIXED: Final = "mixed"
"""The state of a span that was merged from spans of several states."""
OTHERS: Final = "(others)"
_FIRST_WIDTH: Final = 0.001  # seconds


class Bins:
    """Values over time in `BINS` bins, whose width doubles until all of them fit.

    `merge` joins two values of one bin.
    """

    def __init__(self, merge: Callable[[float, float], float]) -> None:
        self._merge = merge
        self._start: float | None = None
        self.width = _FIRST_WIDTH
        self.values = [0.0] * BINS

    def add(self, at: float, value: float) -> None:
        self.values[self._index(at)] = self._merge(self.values[self._index(at)], value)

    def spread(self, start: float, end: float, value: float = 1.0) -> None:
        """Add to each bin the value times the seconds in that bin between `start` and `end`."""
        if end <= start:
            return
        first, last = self._indices(start, end)
        for index in range(first, last + 1):
            edge = (self._start or 0.0) + index * self.width
            self.values[index] += value * max(0.0, min(end, edge + self.width) - max(start, edge))

    def hold(self, start: float, end: float, value: float) -> None:
        """Merge a value that was true from `start` to `end` into each bin of that time."""
        first, last = self._indices(start, end)
        for index in range(first, last + 1):
            self.values[index] = self._merge(self.values[index], value)

    def sums(self, begin: float, end: float, count: int) -> list[float]:
        """Return the sums in `count` equal parts of a time; a bin on a border is divided."""
        parts, width = [0.0] * count, (end - begin) / count
        for edge, value in self._points():
            first = max(0, min(count - 1, int((edge - begin) / width)))
            last = max(0, min(count - 1, int((edge + self.width - begin) / width)))
            inside = [
                min(begin + (i + 1) * width, edge + self.width) - max(begin + i * width, edge)
                for i in range(first, last + 1)
            ]
            whole = sum(max(0.0, one) for one in inside)
            for i, one in enumerate(inside, first):
                parts[i] += value * max(0.0, one) / whole if whole else value / len(inside)
        return parts

    def highest(self, begin: float, end: float, count: int) -> list[float]:
        parts, width = [0.0] * count, (end - begin) / count
        for edge, value in self._points():
            first = max(0, min(count - 1, int((edge - begin) / width)))
            last = max(0, min(count - 1, int((edge + self.width - begin) / width - 1e-9)))
            for i in range(first, last + 1):
                parts[i] = max(parts[i], value)
        return parts

    def _points(self) -> list[tuple[float, float]]:
        start = self._start or 0.0
        return [(start + i * self.width, value) for i, value in enumerate(self.values) if value]

    def _indices(self, start: float, end: float) -> tuple[int, int]:
        self._index(start)
        last = self._index(end)  # from here on both fit, and the bins do not change
        return self._index(start), last

    def _index(self, at: float) -> int:
        if self._start is None:
            self._start = at
        while at >= self._start + BINS * self.width:
            self._fold(upwards=False)
        while at < self._start:
            self._start -= BINS * self.width
            self._fold(upwards=True)
        return min(BINS - 1, int((at - self._start) / self.width))

    def _fold(self, *, upwards: bool) -> None:
        pairs = [self._merge(self.values[i], self.values[i + 1]) for i in range(0, BINS, 2)]
        empty = [0.0] * (BINS // 2)
        self.values = empty + pairs if upwards else pairs + empty
        self.width *= 2


def add(one: float, other: float) -> float:
    """Return the sum of two values of a bin."""
    return one + other


@attrs.frozen
class Span:
    """A state from `start` to `end`; `folded` changes were merged into it."""

    start: float
    end: float
    state: str
    folded: int = 0


class Lane:
    """The states of one thing over time: at most `most` spans, the shortest neighbours merged."""

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._spans: list[Span] = []
        self.state: str = ""
        self.since: float = 0.0

    def enter(self, at: float, state: str) -> Span | None:
        """Enter `state` at `at`; return the span that ended, or None if it had no length.

        A time before the last change counts as that of the last change.
        """
        at = max(at, self.since) if self.state else at
        ended = Span(self.since, at, self.state) if self.state and at > self.since else None
        if ended is not None:
            self._append(ended)
        self.state, self.since = state, at
        return ended

    def spans(self, end: float, most: int | None = None) -> list[Span]:
        """Return at most `most` spans up to `end`, the current state's included."""
        spans = list(self._spans)
        if self.state and end > self.since:
            spans.append(Span(self.since, end, self.state))
        while most is not None and len(spans) > max(most, 1):
            spans = _halved(spans)
        return spans

    def _append(self, span: Span) -> None:
        last = self._spans[-1] if self._spans else None
        if last is not None and last.state == span.state and last.end == span.start:
            self._spans[-1] = attrs.evolve(last, end=span.end)
            return
        self._spans.append(span)
        if len(self._spans) > self._most:
            self._spans = _halved(self._spans)


def _halved(spans: list[Span]) -> list[Span]:
    """Merge neighbours, the shortest pairs first, so that about half remain.

    Long spans stay as they are.
    """
    lengths = sorted(two.end - one.start for one, two in pairwise(spans))
    limit = lengths[len(lengths) // 2]
    merged: list[Span] = []
    for span in spans:
        last = merged[-1] if merged else None
        if last is not None and span.end - last.start <= limit:
            merged[-1] = _joined(last, span)
        else:
            merged.append(span)
    if len(merged) == len(spans):  # all of one length: pair them
        merged = [*map(_joined, spans[::2], spans[1::2]), *spans[len(spans) // 2 * 2 :]]
    return merged


def _joined(one: Span, two: Span) -> Span:
    state = one.state if one.state == two.state else MIXED
    return Span(one.start, two.end, state, one.folded + two.folded + 1)


class Largest(Generic[T]):
    """The `most` items with the largest sizes; `seen` counts all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[float, int, T]] = []
        self.seen = 0

    def add(self, size: float, item: T) -> None:
        """Add an item; of items of the same size, the earlier one is kept."""
        self.seen += 1
        entry = (size, -self.seen, item)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def __iter__(self) -> Iterator[T]:
        return (
            item for _, _, item in sorted(self._heap, key=lambda entry: entry[:2], reverse=True)
        )


class First(list[T]):
    """The first `most` items; `seen` counts all."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.seen = 0

    def add(self, item: T) -> None:
        """Count an item, and keep it if there is room."""
        self.seen += 1
        if len(self) < self._most:
            self.append(item)


class Tally(dict[str, int]):
    """Counts by name; names beyond `most` are counted under `(others)`."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self.folded = 0

    def count(self, name: str) -> None:
        if name not in self and len(self) >= self._most:
            self.folded += 1
            name = OTHERS
        self[name] = self.get(name, 0) + 1

    @property
    def total(self) -> int:
        return sum(self.values())

    def ranked(self) -> list[tuple[str, int]]:
        """Return the names and their numbers, the most frequent first."""
        return sorted(self.items(), key=lambda item: -item[1])


class Named(dict[str, T]):
    """Values by name, created on first use; names beyond `most` share that of `(others)`."""

    def __init__(self, make: Callable[[], T], most: int = 300) -> None:
        super().__init__()
        self._make, self._most = make, most
        self.folded = 0

    def of(self, name: str) -> T:
        if name not in self and len(self) >= self._most:
            self.folded += 1
            name = OTHERS
        if name not in self:
            self[name] = self._make()
        return self[name]
