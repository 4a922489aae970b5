"""What Redis is known to hold, what is to be written next, and the commands for both.

`Known` is exactly what was acknowledged: all of it is written again when Redis comes back empty or
outdated. A `Change` is one write. If its answer is lost, it may have been done: the sends that were
then refused are erased before anything else is accepted. Rule: sends, records and `written`
positions of `Known` change only when a write was acknowledged.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...failure import StoreError
from ..rows import answer_rows, mark_rows, position_of, state_of
from .keys import TAIL_TTL, NumberedOutcome, NumberedRecord, field_of, row_text


if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Mapping

    from ...protocol import Now, Watermark
    from ..rows import AnswerRow, EntryRow, MarkRow
    from .keys import RedisCommands


OUTCOMES: Final = 1_024
# seconds; longer than V9's 5 minutes for keys: a receipt may be asked for the next day
OUTCOMES_TTL: Final = 24 * 3600.0
_ANSWERS: Final = 2_048
_SPARE_MARKS: Final = 64
_MOST_ERASED: Final = 1_024


# ---- positions -----------------------------------------------------------------------------------------------------


class WrittenPosition(NamedTuple):
    """What Redis has of a position after a write; an equal `state` means nothing new to write."""

    name: str
    body: str = ""
    taken: int = 0
    answers: int = 0
    doubt: int = 0
    state: tuple[Any, ...] = ()


class StoredPosition:
    """A session's position. `written` is what Redis has of it; `is_used`: by this process."""

    def __init__(
        self, watermark: Watermark, written: WrittenPosition | None = None, *, is_used: bool = False
    ) -> None:
        self.watermark = watermark
        self.written = written
        self.is_used = is_used

    def add_new(
        self, commands: RedisCommands, now: Now, *, is_exact: bool
    ) -> WrittenPosition | None:
        """Add the commands that update Redis; return what it then has, None if nothing is new."""
        watermark, before = self.watermark, self.written
        name = watermark.session_id
        state = state_of(watermark, is_exact=is_exact)
        if before is None:
            before = WrittenPosition(name)
        elif before.state == state:
            return None
        if before.name != name:  # the server has renamed the session
            forget_session(commands, before.name)
            before = WrittenPosition(name, doubt=before.doubt)
        body = position_of(watermark, now, is_exact=is_exact, doubt=before.doubt)
        after = WrittenPosition(
            name, body, watermark.taken, watermark.answers_used, before.doubt, state
        )
        self._add(commands, before, after, now)
        return after

    def add_all(self, commands: RedisCommands, now: Now) -> None:
        """Add the commands that write the position as Redis had it."""
        if self.written is not None:
            self._add(commands, WrittenPosition(self.written.name), self.written, now)

    def _add(
        self, commands: RedisCommands, before: WrittenPosition, after: WrittenPosition, now: Now
    ) -> None:
        marks = [
            row for row in mark_rows(self.watermark, before.taken, now) if row.n <= after.taken
        ]
        answers = [
            row for row in answer_rows(self.watermark, before.answers) if row.n <= after.answers
        ]
        commands.add("HSET", commands.names.sessions, field_of(after.name), after.body)
        tail, used = commands.names.lists(after.name)
        _rewrite(commands, tail, before.taken, self.watermark.first, marks)
        _rewrite(commands, used, before.answers, after.answers - _ANSWERS + 1, answers)


def _rewrite(
    commands: RedisCommands, key: str, after: int, first: int, rows: Iterable[MarkRow | AnswerRow]
) -> None:
    """Replace rows beyond `after`, maybe of an unanswered write; delete those before `first`."""
    pairs = [part for row in rows for part in (repr(row.n), row_text(row))]
    commands.add("ZREMRANGEBYSCORE", key, f"({after}", "+inf")
    commands.many("ZADD", key, pairs)
    commands.add("ZREMRANGEBYSCORE", key, "-inf", f"({first}")
    commands.add("PEXPIRE", key, TAIL_TTL)


def forget_session(commands: RedisCommands, name: str) -> None:
    commands.add("HDEL", commands.names.sessions, field_of(name))
    for key in commands.names.lists(name):
        commands.add("DEL", key)


# ---- what Redis has ------------------------------------------------------------------------------------------------


class Known:
    """What Redis has of one store.

    `has_lost`: positions are missing, so a session without one may have had one.
    """

    def __init__(self) -> None:
        self.rows: dict[int, EntryRow] = {}
        self.handed: dict[int, float] = {}
        self.outcomes: deque[NumberedOutcome] = deque(maxlen=OUTCOMES)
        self.records: dict[str, NumberedRecord] = {}
        self.positions: list[StoredPosition] = []
        self.last: str | None = None  # the session that an earlier process used last
        self.current: StoredPosition | None = None  # the one that this process used last
        self.last_seq = 0
        self.has_lost = False

    def handed_at(self, seq: int, marks: list[int]) -> float | None:
        """Return when a send was handed out: the time of the first sorted mark that covers it."""
        slot = bisect_left(marks, seq)
        return self.handed[marks[slot]] if slot < len(marks) else None

    def idle_marks(self) -> list[int]:
        """The marks that cover no send any more, once there are many."""
        if len(self.handed) <= len(self.rows) + _SPARE_MARKS:
            return []
        marks = sorted(self.handed)
        slots = {bisect_left(marks, seq) for seq in self.rows}
        # The newest mark is not idle: it may cover sends to come.
        return [mark for index, mark in enumerate(marks[:-1]) if index not in slots]

    @property
    def last_name(self) -> str | None:
        return self.last if self.current is None else self.current.watermark.session_id

    def position(self, session_id: str) -> StoredPosition | None:
        return next(
            (each for each in self.positions if each.watermark.session_id == session_id), None
        )

    def numbered(self, records: Mapping[str, str | None]) -> dict[str, NumberedRecord | None]:
        """Number the records: one that replaces another gets its number, a new one the next."""
        found: dict[str, NumberedRecord | None] = {}
        last = max((each.n for each in self.records.values()), default=0) if records else 0
        for name, record in records.items():
            earlier = self.records.get(name)
            last += earlier is None
            found[name] = (
                None if record is None else NumberedRecord(earlier.n if earlier else last, record)
            )
        return found

    def add_head(self, commands: RedisCommands) -> None:
        commands.add(
            "HSET", commands.names.head, "seq", self.last_seq, "last", json.dumps(self.last_name)
        )

    def add_all(self, commands: RedisCommands, now: Now) -> None:
        """Add the commands that write everything into an empty store."""
        names = commands.names
        commands.many(
            "HSET",
            names.outbox,
            [part for seq, row in self.rows.items() for part in (seq, row_text(row))],
        )
        commands.many("HSET", names.handed, [part for mark in self.handed.items() for part in mark])
        records = [
            part for name, row in self.records.items() for part in (field_of(name), row_text(row))
        ]
        commands.many("HSET", names.records, records)
        _add_outcomes(commands, self.outcomes)
        for position in self.positions:
            position.add_all(commands, now)
        self.add_head(commands)


def _add_outcomes(commands: RedisCommands, outcomes: Iterable[NumberedOutcome]) -> None:
    pairs = [part for each in outcomes for part in (each.n, row_text(each))]
    if pairs:
        commands.many("ZADD", commands.names.outcomes, pairs)
        commands.add("ZREMRANGEBYRANK", commands.names.outcomes, 0, -OUTCOMES - 1)
        commands.add("PEXPIRE", commands.names.outcomes, int(OUTCOMES_TTL * 1000))


# ---- what is to be written -----------------------------------------------------------------------------------------


class Change:
    """One write, waiting or under way. `since` is when the first caller began to wait for it."""

    def __init__(self) -> None:
        self.puts: dict[int, tuple[EntryRow, asyncio.Future[None]]] = {}
        self.marks: dict[int, float] = {}
        self.settled: dict[int, NumberedOutcome] = {}
        self.records: dict[str, str | None] = {}
        self.dropped: dict[str, None] = {}  # sessions
        self.erased_sends: dict[int, None] = {}
        self.erased_marks: dict[int, None] = {}
        self.keepers: list[asyncio.Future[None]] = []  # callers that wait for a session record
        self.others: list[asyncio.Future[None]] = []  # callers that wait for a mark or a position
        self.since: float | None = None

    @property
    def accepts(self) -> bool:
        """Return whether it has something that Redis refuses when its memory is full."""
        return bool(self.puts or self.keepers)

    @property
    def is_awaited(self) -> bool:
        return self.accepts or bool(self.others)

    def _accepting(self) -> list[asyncio.Future[None]]:
        return [*(future for _, future in self.puts.values()), *self.keepers]

    def add(self, commands: RedisCommands, known: Known) -> None:
        """Add its commands, the deletions first."""
        names = commands.names
        commands.many("HDEL", names.outbox, [*self.erased_sends, *self.settled])
        commands.many("HDEL", names.handed, [*self.erased_marks, *known.idle_marks()])
        rows = [
            part
            for seq, (row, future) in self.puts.items()
            if not future.cancelled() and seq not in self.settled
            for part in (seq, row_text(row))
        ]
        commands.many("HSET", names.outbox, rows)
        for seq, wall in self.marks.items():
            commands.add("HSETNX", names.handed, seq, wall)
        _add_outcomes(commands, self.settled.values())
        for name, record in known.numbered(self.records).items():
            if record is None:
                commands.add("HDEL", names.records, field_of(name))
            else:
                commands.add("HSET", names.records, field_of(name), row_text(record))
        for name in self.dropped:
            forget_session(commands, name)

    def done(self, known: Known, following: Change) -> None:
        """Update `known` and answer the callers; `following` erases sends cancelled meanwhile."""
        for seq in (*self.erased_marks, *known.idle_marks()):  # the same ones as in `add`
            known.handed.pop(seq, None)
        for seq in self.settled:
            known.rows.pop(seq, None)
        for seq, (row, future) in self.puts.items():
            if future.cancelled():
                following.erased_sends[seq] = None
            elif seq not in self.settled:
                known.rows[seq] = row
        for seq, wall in self.marks.items():
            known.handed.setdefault(seq, wall)
        known.outcomes.extend(self.settled.values())
        for name, record in known.numbered(self.records).items():
            if record is None:
                known.records.pop(name, None)
            else:
                known.records[name] = record
        for future in filter(_is_waited_for, self._accepting() + self.others):
            future.set_result(None)

    def refuse(
        self, error: StoreError, known: Known, *, was_sent: bool, only_new: bool = False
    ) -> None:
        """Answer the callers with `error`, and let this change undo what was sent for them.

        Outcomes, dropped sessions and earlier erasures stay. `only_new`: so do marks and positions,
        whose callers go on waiting.
        """
        futures = self._accepting()
        if was_sent:
            self.erased_sends.update(dict.fromkeys(self.puts))
        for name in self.records:
            self.records[name] = known.records[name].record if name in known.records else None
        self.puts, self.keepers = {}, []
        if not only_new:
            futures += self.others
            if was_sent:
                self.erased_marks.update(
                    dict.fromkeys(seq for seq in self.marks if seq not in known.handed)
                )
            self.marks, self.others, self.since = {}, [], None
        for future in filter(_is_waited_for, futures):
            own = StoreError(error.failure)  # each caller gets a traceback of its own
            own.__cause__ = error.__cause__
            future.set_exception(own)

    def prepend(self, earlier: Change) -> None:
        """Add what an earlier change, refused like this one, still has to write."""
        for name in ("settled", "records", "dropped", "erased_sends", "erased_marks"):
            setattr(self, name, {**getattr(earlier, name), **getattr(self, name)})

    def forget_erasures(self) -> bool:
        """Forget the erasures if they are too many; return whether all must be written again."""
        if len(self.erased_sends) + len(self.erased_marks) <= _MOST_ERASED:
            return False
        self.erased_sends, self.erased_marks = {}, {}
        return True


def _is_waited_for(future: asyncio.Future[None]) -> bool:
    return not future.done()
