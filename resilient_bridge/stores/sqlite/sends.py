"""The sends of a database and their outcomes, as rows of the next transaction.

Rule: a send is in `outbox` until its outcome is in `outcomes`; both change in one transaction.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ..rows import UNSURE, EntryRow, OutcomeRow, entry_of, entry_row, outcome_of, outcome_row
from .database import insert, summed


if TYPE_CHECKING:
    from collections.abc import Callable

    from ...protocol import Entry, Now
    from .database import Database, Op
    from .versions import Rows


_REMEMBERED: Final = 1_024  # outcomes
_PRUNE_EVERY: Final = 256  # outcomes

_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

# IGNORE: a send that waits for its transaction may be in a file that was written anew meanwhile
_PUT: Final = insert("outbox", or_what="IGNORE")
_MARK: Final = insert("marks", or_what="IGNORE")  # the first time counts
_OUTCOME: Final = insert("outcomes", or_what="REPLACE")


class Sends:
    """The sends of a file. `last_seq`: the highest number; `outcomes`: of earlier processes."""

    def __init__(self, database: Database, now: Now) -> None:
        self._settled: list[Entry] = []
        self._since_prune = 0
        outbox = [EntryRow(*row) for row in database.rows("outbox")]
        marks: list[tuple[int, float | None]] = [
            (seq, wall) for seq, wall in database.rows("marks", "WHERE seq >= 0")
        ]
        parts = [
            OutcomeRow(*row) for _, body in database.rows("outcomes") for row in json.loads(body)
        ]
        parts = sorted(parts)[-_REMEMBERED:]
        self._unsettled: dict[int, tuple[Any, ...]] = {row.seq: summed(row) for row in outbox}
        self._marks = dict(marks)
        self.entries = [entry_of(row, handed, now) for row, handed in _handed(outbox, marks)]
        self.outcomes = [outcome_of(row) for row in parts]
        self.last_seq = max(
            [0, *self._unsettled, *(seq for seq, _ in marks[-1:]), *(row.seq for row in parts)]
        )

    @property
    def has_settled(self) -> bool:
        return bool(self._settled)

    def put(self, entry: Entry, wall: float) -> Op:
        """Return the row of an accepted send. If its commit fails, settle it: it may be on disk."""
        self.last_seq = max(self.last_seq, entry.seq)
        # a plain tuple of plain values: the garbage collector does not look at it again
        self._unsettled[entry.seq] = row = summed(entry_row(entry, wall))
        return _PUT, row

    def mark(self, through: int, wall: float) -> Op:
        """Return the row of a mark."""
        self._marks.setdefault(through, wall)
        return _MARK, summed((through, wall))

    def in_memory(self) -> Rows:
        """Return the rows of all unsettled sends and of their marks."""
        return {
            "outbox": [row[:-1] for row in list(self._unsettled.values())],
            "marks": sorted(self._marks.items()),
        }

    def settle(self, entry: Entry) -> bool:
        """Note the outcome of a send; False for one that is not in this file."""
        if entry.is_request or self._unsettled.pop(entry.seq, None) is None:
            return False
        self._settled.append(entry)
        return True

    def ops(self, wall: float) -> tuple[list[Op], Callable[[], None]]:
        """Return what has to be written, and what to call after that."""
        settled = list(self._settled)
        ops: list[Op] = []
        if settled:
            numbers = sorted(entry.seq for entry in settled)
            encoded = _encode([outcome_row(entry, wall) for entry in settled])
            ops.append((_OUTCOME, summed((numbers[-1], encoded))))
            ops.append(("DELETE FROM outbox WHERE seq BETWEEN ? AND ?", _runs(numbers)))
            self._since_prune += len(settled)
            if self._since_prune >= _PRUNE_EVERY:
                self._since_prune = 0
                oldest = next(iter(self._unsettled), self.last_seq)
                ops.append(("DELETE FROM outcomes WHERE seq < ?", (self.last_seq - _REMEMBERED,)))
                ops.append(("DELETE FROM marks WHERE seq >= 0 AND seq < ?", (oldest,)))
                self._marks = {seq: at for seq, at in self._marks.items() if seq >= oldest}

        def done() -> None:
            del self._settled[: len(settled)]

        return ops, done


def _handed(
    outbox: list[EntryRow], marks: list[tuple[int, float | None]]
) -> list[tuple[EntryRow, float | None]]:
    """Return each send with the time of the lowest mark that covers it: when it was handed out."""
    found: list[tuple[EntryRow, float | None]] = []
    at = 0
    for row in outbox:
        while at < len(marks) and marks[at][0] < row.seq:
            at += 1
        wall = marks[at][1] if at < len(marks) else None
        found.append((row, UNSURE if at < len(marks) and wall is None else wall))
    return found


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return sorted numbers as spans (first, last) without a gap."""
    spans: list[tuple[int, int]] = []
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            spans.append((first, last))
            first = number
        last = number
    return [*spans, (first, last)]
