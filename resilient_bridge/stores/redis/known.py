"""What a store knows that Redis has, and the commands that would write all of it again.

It holds what was acknowledged, no more and no less: when Redis comes back empty, or older than it was, this is what it is given before
anything new. Rule: what it says of sends, records and `written` positions changes only when a write was acknowledged.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..rows import answer_rows, mark_rows, position_of
from .keys import TAIL_TTL, Numbered, name_of, row_text


if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...protocol import Now, Watermark
    from ..rows import AnswerRow, EntryRow, MarkRow
    from .keys import Keys, RedisCommands


OUTCOMES: Final = 1_024
OUTCOMES_TTL: Final = (
    24 * 3600.0
)  # seconds; the five minutes of V9 are for keys, a receipt is asked for the next morning
_ANSWERS: Final = 2_048
_SPARE_MARKS: Final = 64


class WrittenPosition(NamedTuple):
    """What Redis has of a position once a write is acknowledged; `state` tells without much ado whether there is anything new."""

    name: str
    body: str
    taken: int
    answers: int
    doubt: int = 0
    state: tuple[Any, ...] = ()


class _Destination(NamedTuple):
    keys: Keys
    commands: RedisCommands


class StoredPosition:
    """A session's position. `written` is what Redis has of it, under the name it has there; `is_used` in this process."""

    def __init__(
        self, watermark: Watermark, written: WrittenPosition | None = None, *, is_used: bool = False
    ) -> None:
        self.watermark = watermark
        self.written = written
        self.is_used = is_used

    def news(
        self, keys: Keys, commands: RedisCommands, now: Now, *, is_exact: bool
    ) -> WrittenPosition | None:
        """Add the commands that bring Redis up to date, and return what it will have then; None if there is nothing new."""
        watermark, before = self.watermark, self.written
        name = watermark.session_id
        state = (
            name, watermark.taken, watermark.handed, watermark.answers_used, watermark.asked_to_join, watermark.joined,
            watermark.replaces, watermark.epoch, watermark.bookmark_changes, is_exact,
        )  # fmt: skip
        if before is not None and before.state == state:
            return None
        start = before or WrittenPosition(name, "", 0, 0)
        if start.name != name:  # the server has named it anew
            forget(keys, commands, start.name)
            start = WrittenPosition(name, "", 0, 0, start.doubt)
        body = position_of(watermark, now, is_exact=is_exact, doubt=start.doubt)
        after = WrittenPosition(name, body, watermark.taken, watermark.answers_used, start.doubt, state)
        rows = mark_rows(watermark, start.taken, now), answer_rows(watermark, start.answers)
        self._add(_Destination(keys, commands), after, start, rows)
        return after

    def all(self, keys: Keys, commands: RedisCommands, now: Now) -> None:
        """Add the commands that write it whole, as Redis had it."""
        written, watermark = self.written, self.watermark
        if written is None:
            return
        marks = [row for row in mark_rows(watermark, 0, now) if row.n <= written.taken]
        answers = [row for row in answer_rows(watermark, 0) if row.n <= written.answers]
        self._add(
            _Destination(keys, commands), written, WrittenPosition(written.name, "", 0, 0), (marks, answers)
        )

    def _add(
        self,
        to: _Destination,
        after: WrittenPosition,
        before: WrittenPosition,
        rows: tuple[list[MarkRow], list[AnswerRow]],
    ) -> None:
        commands = to.commands
        commands.add("HSET", to.keys.sessions, name_of(after.name), after.body)
        tail, used = to.keys.lists(after.name)
        _rewrite(commands, tail, before.taken, self.watermark.first, rows[0])
        _rewrite(commands, used, before.answers, after.answers - _ANSWERS + 1, rows[1])


def _rewrite(
    commands: RedisCommands, key: str, after: int, first: int, rows: Iterable[MarkRow | AnswerRow]
) -> None:
    """The rows beyond `after`, in the place of whatever a lost answer may have left there, and none before `first`."""
    pairs = [part for row in rows for part in (repr(row.n), row_text(row))]
    commands.add("ZREMRANGEBYSCORE", key, f"({after}", "+inf")
    commands.many("ZADD", key, pairs)
    commands.add("ZREMRANGEBYSCORE", key, "-inf", f"({first}")
    commands.add("PEXPIRE", key, repr(TAIL_TTL))


def forget(keys: Keys, commands: RedisCommands, name: str) -> None:
    """A session that Redis is to know no more."""
    commands.add("HDEL", keys.sessions, name_of(name))
    for key in keys.lists(name):
        commands.add("DEL", key)


class Known:
    """Everything of one store. `has_lost`: of a session that is not among these something may have been known."""

    def __init__(self) -> None:
        self.rows: dict[int, EntryRow] = {}
        self.handed: dict[int, float] = {}
        self.outcomes: deque[Numbered] = deque(maxlen=OUTCOMES)
        self.records: dict[str, tuple[int, str]] = {}
        self.positions: list[StoredPosition] = []
        self.last: str | None = None  # the session used last by an earlier process
        self.current: StoredPosition | None = None  # and by this one
        self.last_seq = 0
        self.has_lost = False

    # ---- sends ------------------------------------------------------------------------------------------------

    def handed_at(self, seq: int, marks: list[int]) -> float | None:
        """When this one was handed out: what the smallest of the (sorted) marks says that covers it; None if none does."""
        slot = bisect_left(marks, seq)
        return self.handed[marks[slot]] if slot < len(marks) else None

    def idle_marks(self) -> list[int]:
        """Marks that cover nothing any more, once there are many of them. The newest covers what is still to come."""
        if len(self.handed) <= len(self.rows) + _SPARE_MARKS:
            return []
        marks = sorted(self.handed)
        slots = {bisect_left(marks, seq) for seq in self.rows}
        return [mark for index, mark in enumerate(marks[:-1]) if index not in slots]

    # ---- positions --------------------------------------------------------------------------------------------

    @property
    def last_name(self) -> str | None:
        """The session used last, by the name that the server has for it."""
        return self.last if self.current is None else self.current.watermark.session_id

    def position(self, session_id: str) -> StoredPosition | None:
        """The position of a session by the name that the server has for it."""
        return next((each for each in self.positions if each.watermark.session_id == session_id), None)

    # ---- all of it --------------------------------------------------------------------------------------------

    def head(self, keys: Keys, commands: RedisCommands) -> None:
        """The command for what stands at the head."""
        commands.add("HSET", keys.head, "seq", repr(self.last_seq), "last", json.dumps(self.last_name))

    def all(self, keys: Keys, commands: RedisCommands, now: Now) -> None:
        """The commands that write everything, into an empty store."""
        sends = [part for seq, row in self.rows.items() for part in (repr(seq), row_text(row))]
        commands.many("HSET", keys.outbox, sends)
        marks = [part for seq, wall in self.handed.items() for part in (repr(seq), repr(wall))]
        commands.many("HSET", keys.handed, marks)
        records = [part for name, row in self.records.items() for part in (name_of(name), row_text(row))]
        commands.many("HSET", keys.records, records)
        add_outcomes(keys, commands, self.outcomes)
        for position in self.positions:
            position.all(keys, commands, now)
        self.head(keys, commands)


def add_outcomes(keys: Keys, commands: RedisCommands, outcomes: Iterable[Numbered]) -> None:
    """The commands that add outcomes, and forget the oldest."""
    pairs = [part for each in outcomes for part in (repr(each.n), row_text(each))]
    if pairs:
        commands.many("ZADD", keys.outcomes, pairs)
        commands.add("ZREMRANGEBYRANK", keys.outcomes, "0", repr(-OUTCOMES - 1))
        commands.add("PEXPIRE", keys.outcomes, repr(int(OUTCOMES_TTL * 1000)))
