"""The read positions of sessions: what is new since the last transaction, as rows of the next.

Rule: a position is written completely or not at all, together with the messages it depends on; what
is written is what the consumer took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...protocol import Now, Watermark
from ..rows import (
    AnswerRow,
    MarkRow,
    answer_rows,
    doubt_of,
    mark_rows,
    position_of,
    state_of,
    watermark_of,
)
from .database import insert, summed


if TYPE_CHECKING:
    from .database import Database, Op


_TAILS: Final = 16  # sessions whose messages are kept; of others only the position is
_ANSWERS: Final = 2_048

_POSITION: Final = insert("positions", or_what="REPLACE")
_TAIL: Final = insert("tail", or_what="REPLACE")
_ANSWER: Final = insert("answers", or_what="REPLACE")
_FORGET: Final = tuple(
    f"DELETE FROM {table} WHERE session = ?"  # noqa: S608 -- names of ours
    for table in ("positions", "tail", "answers")
)


class _KnownPosition(NamedTuple):
    """What the file has of a position."""

    session: str = ""
    taken: int = 0
    answers: int = 0
    state: tuple[Any, ...] = ()
    doubt: int = 0


class Positions:
    """The positions in use.

    `is_exact`: no message is handed out before this is withdrawn, here and in the file.
    `says_exact`: the file may say so. `has_lost`: positions are missing, so a session without one
    may have had one.
    """

    def __init__(self, database: Database, now: Now, current: Callable[[], Now]) -> None:
        self._database = database
        self._now = now
        self._current = current
        self._known = {session: (used, body) for session, used, body in database.rows("positions")}
        self._used = max((used for used, _ in self._known.values()), default=0)
        self._in_use: list[tuple[Watermark, int]] = []
        self._written: dict[int, _KnownPosition] = {}  # by the watermark's id()
        self._late: list[Op] = self._old_tails()
        self.is_exact = False
        self.says_exact = True  # the process before this one may have left it so
        self.has_lost = False

    def _old_tails(self) -> list[Op]:
        newest = sorted(self._known, key=lambda session: self._known[session][0], reverse=True)
        return [(sql, (session,)) for session in newest[_TAILS:] for sql in _FORGET[1:]]

    def write_all(self) -> None:
        """Write the positions in use completely with the next transaction."""
        for identity, known in self._written.items():
            self._written[identity] = _KnownPosition(known.session, doubt=known.doubt)

    def last(self) -> str | None:
        """The session used last."""
        if self._in_use:
            return self._in_use[-1][0].session_id
        return max(self._known, key=lambda session: self._known[session][0], default=None)

    def session(self, session_id: str) -> Watermark:
        """The position of a session, from the file if it is there."""
        for watermark, _ in self._in_use:
            if watermark.session_id == session_id:
                return watermark
        watermark = self._read(session_id)
        self._used += 1
        self._in_use.append((watermark, self._used))
        return watermark

    def _read(self, session_id: str) -> Watermark:
        _, body = self._known.get(session_id, (0, None))
        if body is None:
            watermark = Watermark(session_id)
            # Its position may be one of those that were lost: the join has to end in a verdict.
            watermark.asked_to_join = self.has_lost
            self._written[id(watermark)] = _KnownPosition()
            return watermark
        where = "WHERE session = ?"
        marks = [MarkRow(*row[1:]) for row in self._database.rows("tail", where, session_id)]
        answers = [AnswerRow(*row[1:]) for row in self._database.rows("answers", where, session_id)]
        watermark = watermark_of(session_id, body, marks, answers, self._now)
        self._written[id(watermark)] = _KnownPosition(
            session_id, watermark.taken, watermark.answers_used, doubt=doubt_of(body)
        )
        return watermark

    def drop(self, session_id: str) -> None:
        """Delete a session that the server has forgotten, with the next transaction."""
        for watermark, used in self._in_use:
            if watermark.session_id == session_id:
                self._in_use.remove((watermark, used))
                stored = self._written.pop(id(watermark)).session
                self._late += [(sql, (stored,)) for sql in _FORGET]
                break
        self._known.pop(session_id, None)
        self._late += [(sql, (session_id,)) for sql in _FORGET]

    def ops(self) -> tuple[list[Op], Callable[[], None]]:
        """Return what has to be written, and what to call after that."""
        late = list(self._late)
        ops = list(late)
        written: dict[int, _KnownPosition] = {}
        for watermark, used in self._in_use:
            state = state_of(watermark, is_exact=self.is_exact)
            before = self._written[id(watermark)]
            if state != before.state:
                ops += self._one(watermark, used, before)
                written[id(watermark)] = _KnownPosition(
                    watermark.session_id,
                    watermark.taken,
                    watermark.answers_used,
                    state,
                    before.doubt,
                )

        is_exact = self.is_exact
        if is_exact:
            self.says_exact = True  # set before the write: from then on it may be in the file

        def done() -> None:
            self.says_exact = is_exact or (self.says_exact and not written)
            del self._late[: len(late)]
            for identity, now_written in written.items():
                if identity in self._written:
                    self._written[identity] = now_written

        return ops, done

    def _one(self, watermark: Watermark, used: int, before: _KnownPosition) -> list[Op]:
        now, session = self._current(), watermark.session_id
        ops: list[Op] = []
        if before.session not in ("", session):  # the server has renamed the session
            ops += [(sql, (before.session,)) for sql in _FORGET]
            before = _KnownPosition(doubt=before.doubt)
        marks = mark_rows(watermark, before.taken, now)
        if marks:
            ops.append((_TAIL, [summed((session, *row)) for row in marks]))
            ops.append(("DELETE FROM tail WHERE session = ? AND n < ?", (session, watermark.first)))
        answers = answer_rows(watermark, before.answers)
        if answers:
            ops.append((_ANSWER, [summed((session, *row)) for row in answers]))
            oldest = watermark.answers_used - _ANSWERS
            ops.append(("DELETE FROM answers WHERE session = ? AND n <= ?", (session, oldest)))
        body = position_of(watermark, now, is_exact=self.is_exact, doubt=before.doubt)
        ops.append((_POSITION, summed((session, used, body))))
        return ops
