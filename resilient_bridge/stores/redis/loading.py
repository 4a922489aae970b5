"""What an earlier process left in Redis, read row by row; what is damaged is set aside, and what follows from that is assumed against us.

A mark that cannot be read covered everything, a position that cannot be read was one of a session that had joined, a value that is gone
may have been evicted. Rule: never a silent empty start.
"""

from __future__ import annotations

import asyncio
import json
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard, cast

from ..rows import UNSURE, AnswerRow, EntryRow, MarkRow, doubt_of, watermark_of
from .keys import FORMAT, Numbered, read_record, read_row, text_name
from .known import OUTCOMES_TTL, Known, StoredPosition, WrittenPosition


if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol import Now
    from .keys import Keys
    from .redis_link import RedisLink


#: Of a session that had joined: where it was, and what the consumer has had since, nobody knows.
_NOTHING_KNOWN: Final = json.dumps(
    {
        "asked_to_join": True,
        "joined": True,
        "replaces": False,
        "epoch": None,
        "taken": 0,
        "answers_used": 0,
        "in_hand": [],
        "unsure": 2_048,
    }
)


class LoadedState(NamedTuple):
    """What was found: `aside` are the keys that have to be set aside, `faults` what is wrong, `lost` what is gone."""

    known: Known
    aside: list[str]
    faults: list[str]
    lost: list[str]
    is_foreign: bool
    is_new: bool


async def load(link: RedisLink, keys: Keys, now: Now, timeout: float) -> LoadedState:  # noqa: ASYNC109 -- of each call
    """Read the store whose owner we are. Raises StoreError."""
    loop = asyncio.get_running_loop()
    head, outbox, handed, sessions, records = (("HGETALL", key) for key in keys.fixed[1:6])
    found = await link.read(
        head,
        outbox,
        handed,
        sessions,
        records,
        ("ZRANGE", keys.outcomes, "0", "-1"),
        deadline=loop.time() + timeout,
    )
    reading = _Survey(keys, now)
    reading.head(found[0], [len(each) if _is_hash(each) else -1 for each in found[1:5]])
    reading.sends(found[1])
    reading.marks(found[2])
    reading.records(found[4])
    reading.outcomes(found[5])
    names = reading.session_names(found[3])
    lists = [("ZRANGE", key, "0", "-1") for name in names for key in keys.lists(name)]
    texts = await link.read(*lists, deadline=loop.time() + timeout)
    for index, (name, body) in enumerate(names.items()):
        reading.position(name, body, texts[2 * index], texts[2 * index + 1])
    return reading.loaded(found)


def _is_hash(answer: Any) -> TypeGuard[dict[bytes, bytes]]:
    return isinstance(answer, dict)


class _Survey:
    """One look at everything. What cannot be read is noted, and the rest goes on."""

    def __init__(self, keys: Keys, now: Now) -> None:
        self._keys = keys
        self._now = now
        self._aside: dict[str, None] = {}
        self._faults: list[str] = []
        self._lost: list[str] = []
        self._is_foreign = False
        self._has_head = False
        self._lists: list[str] = []
        self._is_sure_of_marks = True
        self.known = Known()

    def _bad(self, key: str, fault: str, lost: str) -> None:
        self._aside[key] = None
        self._faults.append(fault)
        self._lost.append(lost)

    def _fields(self, key: str, answer: Any) -> dict[bytes, bytes] | None:
        """The fields of a hash; None if the key holds something else."""
        if _is_hash(answer):
            return answer
        self._bad(key, f"{key} is no hash", f"all of {key}")
        return None

    # ---- the head ---------------------------------------------------------------------------------------------

    def head(self, answer: Any, sizes: list[int]) -> None:
        """What the store says about itself: its format, and how much there should be."""
        key = self._keys.head
        head = self._fields(key, answer)
        if not head:
            return
        self._has_head = True
        form = head.get(b"format", b"").decode("ascii", "replace")
        if form != FORMAT:
            self._is_foreign = True
            self._bad(
                key, f"{key} says format {form[:20]!r}, this is {FORMAT}", "what this format does not know"
            )
            return
        try:
            self.known.last_seq = int(head[b"seq"])
            self.known.last = json.loads(head[b"last"])
            parts = [int(each) for each in head[b"sizes"].split(b",")]
        except (ValueError, KeyError):
            self._bad(key, f"{key} cannot be read", "the session used last")
            return
        missing = [max(should - there, 0) for should, there in zip(parts, sizes, strict=False) if there >= 0]
        names = "sends", "marks", "positions", "session records"
        if len(missing) == len(sizes):
            for count, name in zip(missing, names, strict=True):
                if count:
                    self._faults.append(f"{count} {name} are not there")
                    self._lost.append(f"{count} {name}")
            self._is_sure_of_marks = not missing[1]
            self.known.has_lost = bool(missing[2])

    # ---- sends ------------------------------------------------------------------------------------------------

    def sends(self, answer: Any) -> None:
        """What was accepted and not settled."""
        key, bad = self._keys.outbox, 0
        for field, text in (self._fields(key, answer) or {}).items():
            try:
                row = read_row(EntryRow, text)
            except ValueError:
                row = None
            if row is not None and field == b"%d" % row.seq:
                self.known.rows[row.seq] = row
                continue
            bad += 1
            if field.isdigit():
                self.known.last_seq = max(self.known.last_seq, int(field))
        if bad:
            self._bad(key, f"{bad} rows of {key} cannot be read", f"{bad} sends")
        self.known.rows = dict(sorted(self.known.rows.items()))
        self.known.last_seq = max([self.known.last_seq, *self.known.rows])

    def marks(self, answer: Any) -> None:
        """When what was handed out was. Unless all of it can be read, everything may have been."""
        key = self._keys.handed
        fields = self._fields(key, answer)
        self._is_sure_of_marks &= fields is not None
        for field, text in (fields or {}).items():
            try:
                number, wall = int(field), float(text)
            except ValueError:
                number, wall = 0, nan
            if not isnan(wall):
                self.known.handed[number] = wall
                continue
            if self._is_sure_of_marks:
                self._bad(key, f"rows of {key} cannot be read", "when sends were handed out")
            self._is_sure_of_marks = False
        if not self._is_sure_of_marks and self.known.rows:
            self.known.handed = {max(self.known.rows): UNSURE}
        self.known.last_seq = max([self.known.last_seq, *self.known.handed])

    def outcomes(self, answer: Any) -> None:
        """What became of the last sends, of a day at most."""
        key, bad = self._keys.outcomes, 0
        if not isinstance(answer, list):
            self._bad(key, f"{key} is no sorted set", f"all of {key}")
            return
        for text in cast("list[bytes]", answer):
            try:
                each = read_row(Numbered, text)
            except ValueError:
                bad += 1
                continue
            if each.row.at > self._now.wall - OUTCOMES_TTL:
                self.known.outcomes.append(each)
            self.known.last_seq = max(self.known.last_seq, each.row.seq)
        if bad:
            self._bad(key, f"{bad} rows of {key} cannot be read", f"{bad} outcomes")

    def records(self, answer: Any) -> None:
        """The session records, the oldest first."""
        key, bad = self._keys.records, 0
        found: list[tuple[int, str, str]] = []
        for field, text in (self._fields(key, answer) or {}).items():
            try:
                number, record = read_record(text)
                found.append((number, text_name(field), record))
            except ValueError:
                bad += 1
        if bad:
            self._bad(key, f"{bad} rows of {key} cannot be read", f"{bad} session records")
        self.known.records = {name: (number, record) for number, name, record in sorted(found)}

    # ---- positions --------------------------------------------------------------------------------------------

    def session_names(self, answer: Any) -> dict[str, str | None]:
        """The sessions of which there is a position; None for one that cannot be read."""
        key = self._keys.sessions
        fields = self._fields(key, answer)
        self.known.has_lost |= fields is None
        names: dict[str, str | None] = {}
        bad = 0
        for field, body in (fields or {}).items():
            try:
                name = text_name(field)
            except ValueError:
                bad += 1
                self.known.has_lost = True
                continue
            try:
                watermark_of(name, body.decode(), (), (), self._now)
                names[name] = body.decode()
            except (ValueError, KeyError, TypeError):
                bad += 1
                names[name] = None
        if bad:
            self._bad(key, f"{bad} rows of {key} cannot be read", f"{bad} positions")
        return names

    def position(self, name: str, body: str | None, tail: Any, used: Any) -> None:
        """The position of one session. Without its messages it has no anchor, and its next join ends UNKNOWN."""
        tail_key, used_key = self._keys.lists(name)
        self._lists += [tail_key, used_key]
        if body is None:
            body, tail, used = _NOTHING_KNOWN, [], []
        stored = cast("dict[str, Any]", json.loads(body))
        marks = self._rows(MarkRow, tail_key, tail, int(stored["taken"]), f"messages behind {name}")
        answers = self._rows(AnswerRow, used_key, used, int(stored["answers_used"]), f"answers of {name}")
        watermark = watermark_of(name, body, marks, answers, self._now)
        written = WrittenPosition(name, body, watermark.taken, watermark.answers_used, doubt_of(body))
        self.known.positions.append(StoredPosition(watermark, written))

    def _rows(self, kind: Any, key: str, answer: Any, last: int, what: str) -> list[Any]:
        """The rows without a hole before the one with the number `last`."""
        if not isinstance(answer, list):
            self._bad(key, f"{key} is no sorted set", f"the {what}")
            return []
        texts = cast("Sequence[bytes]", answer)
        found: list[Any] = []
        for text in reversed(texts):
            try:
                row = read_row(kind, text)
            except ValueError:
                row = None
            if row is None or row[0] != last - len(found):  # or there is a hole
                self._bad(key, f"rows of {key} cannot be read", f"{len(texts) - len(found)} {what}")
                break
            found.append(row)
        return found[::-1]

    # ---- in all -----------------------------------------------------------------------------------------------

    def loaded(self, found: Sequence[Any]) -> LoadedState:
        """What it comes to."""
        is_empty = not any(found) and not self._aside
        if not self._has_head and not is_empty and self._keys.head not in self._aside:
            self._faults.append(f"{self._keys.head} is not there")
            self._lost.append("what else there was")
            self.known.has_lost = True
        if self._is_foreign:
            self._aside = dict.fromkeys([*self._keys.fixed[1:], *self._lists, *self._aside])
        return LoadedState(
            self.known, list(self._aside), self._faults, self._lost, self._is_foreign, is_new=is_empty
        )
