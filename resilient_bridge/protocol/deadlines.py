"""The deadlines of entries: one heap for all of them, whatever timeout each has.

Rule: settled entries do not stay in memory for long.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator

    from .entries import Entry


_SPARE: Final = 64


class Deadlines:
    """Entries ordered by deadline (monotonic), unless they are settled before."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Entry]] = []
        self._most = _SPARE

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due: float, entry: Entry) -> None:
        heappush(self._heap, (due, entry.seq, entry))
        # perhaps most entries are settled: memory use follows the open ones
        if len(self._heap) > self._most:
            self._heap = [item for item in self._heap if not item[2].is_settled]
            heapify(self._heap)
            self._most = 2 * len(self._heap) + _SPARE

    def next(self) -> float | None:
        """Return the first deadline; None if nothing is open."""
        heap = self._heap
        while heap and heap[0][2].is_settled:
            heappop(heap)
        return heap[0][0] if heap else None

    def passed(self, mono: float) -> Iterator[Entry]:
        """Return the entries whose deadline has passed, each once."""
        while self._heap and self._heap[0][0] <= mono:
            entry = heappop(self._heap)[2]
            if not entry.is_settled:
                yield entry
