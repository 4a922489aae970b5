"""Opens a store in Redis: own it, read the rows, set damaged ones aside, start the writer.

Rows are read one by one, so a damaged row costs only itself. The worst is assumed of it: without
readable marks every send may have been handed out, an unreadable position is of a session that had
joined, a missing value may have been evicted. Rule: a store that has lost data is never silently
opened as an empty one.
"""

from __future__ import annotations

import asyncio
import json
from math import isnan
from typing import TYPE_CHECKING, Any, Final, cast

from ...failure import Failure, StoreError
from ...protocol import EntryState, Watermark
from ...telemetry import emit
from ...telemetry.events import StateSetAside
from ..rows import UNSURE, AnswerRow, EntryRow, MarkRow, doubt_of, position_of, watermark_of
from .keys import FORMAT, NumberedOutcome, NumberedRecord, name_of, read_row
from .known import OUTCOMES_TTL, Known, StoredPosition, WrittenPosition
from .writer import Writer


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...protocol import Now
    from .keys import Keys
    from .link import RedisLink
    from .writer import Terms


_ANSWERS: Final = 2_048  # the most messages that a server sends again
_SIZED: Final = ("sends", "marks", "positions", "session records")  # as counted in the head


async def open_store(
    link: RedisLink, keys: Keys, terms: Terms, clock: Callable[[], Now], report: Callable[[StoreError | None], object]
) -> Writer:  # fmt: skip
    """Become the owner, load, and start the writer.

    Raises StoreError; then the lease is released and the link closed.
    """
    link.open()
    writer = Writer(link, keys, terms, clock, report)
    try:
        await writer.acquire()
        found = await load(link, keys, clock(), terms.timeout)
        writer.known = found.known
        if found.is_new or found.faults:
            aside = await writer.restore(
                found.aside, asyncio.get_running_loop().time() + terms.timeout
            )
            found.report(aside)
    except BaseException as error:
        if not (isinstance(error, StoreError) and error.failure.code == "SYS_STORE_IN_USE"):
            await writer.release()
        await link.close()
        raise
    writer.start()
    return writer


async def load(link: RedisLink, keys: Keys, now: Now, timeout: float) -> StoredState:  # noqa: ASYNC109 -- of each call
    """Read the store that this process owns. Raises StoreError."""
    loop = asyncio.get_running_loop()
    hashes = [("HGETALL", key) for key in keys.fixed[1:6]]
    answers = await link.read(
        *hashes, ("ZRANGE", keys.outcomes, "0", "-1"), deadline=loop.time() + timeout
    )
    head, outbox, handed, sessions, records, outcomes = answers
    found = StoredState(keys, now)
    found.is_new = not any(answers)
    found.read_head(
        head, [len(cast("Any", each)) if isinstance(each, dict) else -1 for each in answers[1:5]]
    )
    found.read_sends(outbox)
    found.read_marks(handed)
    found.read_records(records)
    found.read_outcomes(outcomes)
    names = found.read_sessions(sessions)
    lists = [("ZRANGE", key, "0", "-1") for name in names for key in keys.lists(name)]
    rows = await link.read(*lists, deadline=loop.time() + timeout)
    for (name, body), tail, used in zip(names.items(), rows[::2], rows[1::2], strict=True):
        found.read_position(name, body, tail, used)
    return found


class StoredState:
    """What was read. `aside`: keys to set aside; `faults`: damage; `is_new`: nothing was stored."""

    def __init__(self, keys: Keys, now: Now) -> None:
        self.known = Known()
        self.aside: dict[str, None] = {}
        self.faults: list[str] = []
        self.is_new = False
        self._lost: list[str] = []
        self._keys = keys
        self._now = now
        self._is_foreign = False
        self._is_sure_of_marks = True

    def report(self, aside: Sequence[str]) -> None:
        """Emit one event for all damage, with the new names of the keys that were set aside."""
        if self.faults:
            tag = self._keys.tag
            code = "SYS_STATE_FOREIGN" if self._is_foreign else "SYS_STATE_DAMAGED"
            emit(
                StateSetAside(
                    path=", ".join(self.aside) or tag,
                    set_aside=", ".join(aside),
                    source="the rows that can be read",
                    lost=", ".join(self._lost),
                    failure=Failure.of(
                        code, f"the store {tag} was damaged: {'; '.join(self.faults)}"
                    ),
                )
            )

    def _bad(self, key: str, fault: str, lost: str) -> None:
        self.aside[key] = None
        self._missing(fault, lost)

    def _missing(self, fault: str, lost: str) -> None:
        self.faults.append(fault)
        self._lost.append(lost)

    def _read_each(
        self, key: str, answer: Any, what: str, read: Callable[[bytes, bytes], object]
    ) -> bool:
        """Call `read` with the field and the text of each row; return whether all could be read.

        `read` raises ValueError for a damaged row. The rows of a sorted set have no field.
        """
        if isinstance(answer, Exception):
            self._bad(key, f"{key} holds a value of another kind", f"all of {key}")
            return False
        rows: Any = answer.items() if hasattr(answer, "items") else ((b"", text) for text in answer)
        bad = 0
        for field, text in rows:
            try:
                read(field, text)
            except ValueError:
                bad += 1
        if bad:
            self._bad(key, f"{bad} rows of {key} cannot be read", f"{bad} {what}")
        return not bad

    # ---- the head ---------------------------------------------------------------------------------------------

    def read_head(self, head: Any, sizes: list[int]) -> None:
        """Read format and last session; compare the head's row counts with `sizes`, those found."""
        key, known = self._keys.head, self.known
        if isinstance(head, Exception):
            self._bad(key, f"{key} holds a value of another kind", f"all of {key}")
            return
        if not head:
            if not self.is_new:
                self._missing(f"{key} is not there", "whatever else was stored")
                known.has_lost = True
            return
        form = head.get(b"format", b"").decode("ascii", "replace")
        if form != FORMAT:
            self._is_foreign = True
            self.aside = dict.fromkeys(self._keys.fixed[1:])
            fault = f"{key} says format {form[:20]!r}, this is {FORMAT}"
            self._missing(fault, "what only that format stores")
            return
        try:
            known.last_seq = int(head[b"seq"])
            known.last = json.loads(head[b"last"])
            wanted = [int(each) for each in head[b"sizes"].split(b",")]
        except (ValueError, KeyError):
            self._bad(key, f"{key} cannot be read", "the session used last")
            return
        if -1 in sizes:  # a key of another kind, reported when it is read
            return
        for want, got, what in zip(wanted, sizes, _SIZED, strict=False):
            if got < want:
                self._missing(f"{want - got} {what} are not there", f"{want - got} {what}")
                self._is_sure_of_marks &= what != "marks"
                known.has_lost |= what == "positions"

    # ---- sends ------------------------------------------------------------------------------------------------

    def _has_number(self, seq: int) -> None:
        self.known.last_seq = max(self.known.last_seq, seq)

    def read_sends(self, answer: Any) -> None:
        rows = self.known.rows

        def read(field: bytes, text: bytes) -> None:
            self._has_number(int(field))
            row = read_row(EntryRow, text)
            if field != b"%d" % row.seq:
                raise ValueError("the number of another send")
            rows[row.seq] = row

        self._read_each(self._keys.outbox, answer, "sends", read)
        self.known.rows = dict(sorted(rows.items()))

    def read_marks(self, answer: Any) -> None:
        """Read when sends were handed out. With an unreadable mark, all count as handed out."""
        handed = self.known.handed

        def read(field: bytes, text: bytes) -> None:
            number, wall = int(field), float(text)
            if isnan(wall):
                raise ValueError("not a time")
            handed[number] = wall
            self._has_number(number)

        self._is_sure_of_marks &= self._read_each(self._keys.handed, answer, "marks", read)
        if not self._is_sure_of_marks and self.known.rows:
            self.known.handed = {max(self.known.rows): UNSURE}

    def read_outcomes(self, answer: Any) -> None:
        """Read the outcomes of the last day."""

        def read(_: bytes, text: bytes) -> None:
            each = read_row(NumberedOutcome, text)
            EntryState(each.row.state)  # raises ValueError
            if each.row.at > self._now.wall - OUTCOMES_TTL:
                self.known.outcomes.append(each)
            self._has_number(each.row.seq)

        self._read_each(self._keys.outcomes, answer, "outcomes", read)

    def read_records(self, answer: Any) -> None:
        found: list[tuple[NumberedRecord, str]] = []

        def read(field: bytes, text: bytes) -> None:
            found.append((read_row(NumberedRecord, text), name_of(field)))

        self._read_each(self._keys.records, answer, "session records", read)
        self.known.records = {
            name: record for record, name in sorted(found, key=lambda each: (each[0].n, each[1]))
        }

    # ---- positions --------------------------------------------------------------------------------------------

    def read_sessions(self, answer: Any) -> dict[str, str | None]:
        """Read the positions without their messages, by session; None for an unreadable one."""
        names: dict[str, str | None] = {}
        self.known.has_lost |= isinstance(answer, Exception)

        def read(field: bytes, text: bytes) -> None:
            try:
                name = name_of(field)
            except ValueError:
                self.known.has_lost = True
                raise
            names[name] = None
            try:
                watermark_of(name, text.decode(), (), (), self._now)
            except (KeyError, TypeError) as error:
                raise ValueError("not a position") from error
            names[name] = text.decode()

        self._read_each(self._keys.sessions, answer, "positions", read)
        return names

    def read_position(self, name: str, body: str | None, tail: Any, used: Any) -> None:
        """Read a position's messages. Without them it has no anchor: its next join ends UNKNOWN."""
        tail_key, used_key = self._keys.lists(name)
        if self._is_foreign:
            self.aside.update({tail_key: None, used_key: None})
        if body is None:  # assume a join, and that every message that is sent again was handed out
            unknown = Watermark(name)
            unknown.asked_to_join = unknown.joined = True
            body, tail, used = (
                position_of(unknown, self._now, is_exact=False, doubt=_ANSWERS),
                [],
                [],
            )
        stored = cast("dict[str, Any]", json.loads(body))
        marks = self._rows(MarkRow, tail_key, tail, int(stored["taken"]), f"messages of {name}")
        answers = self._rows(
            AnswerRow, used_key, used, int(stored["answers_used"]), f"answers of {name}"
        )
        watermark = watermark_of(name, body, marks, answers, self._now)
        written = WrittenPosition(
            name, body, watermark.taken, watermark.answers_used, doubt_of(body)
        )
        self.known.positions.append(StoredPosition(watermark, written))

    def _rows(self, kind: Any, key: str, answer: Any, last: int, what: str) -> list[Any]:
        """Return the longest run of rows up to the number `last` with none missing or damaged."""
        found: list[Any] = []

        def read(_: bytes, text: bytes) -> None:
            row = read_row(kind, text)
            if row[0] != last - len(found):
                raise ValueError("a row before it is missing")
            found.append(row)

        texts = answer if isinstance(answer, Exception) else answer[::-1]
        self._read_each(key, texts, what, read)
        return found[::-1]
