"""The data of a durable store as plain rows: sends, outcomes and positions, to and from objects.

Rule: a process reads what another wrote, so times are wall-clock seconds here, and impossible
values are not trusted. If the wall clock went back, a send that can expire counts as expired. After
a position that is not exact, more messages may have been handed out.
"""

from __future__ import annotations

import base64
import json
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from ..protocol import Entry, EntryState, Mark, Now, Watermark
from ..protocol.bookmark import Bookmark
from ..protocol.messages import parse_timestamp


if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable, Sequence

    from ..protocol import Key
    from ..protocol.facts import Frame


#: The time at which an entry was handed out, if that is unknown: too long ago to repeat it.
UNSURE: Final = -inf
#: How many messages may have been handed out since a position was last written.
UNSURE_MESSAGES: Final = 64


_FLOATING: Final = 2  # a second bit in the column `doubtful`, which exists since release 0.1


_BYTES: Final = "\x02bytes:"  # how the text of a row begins that stands for bytes
_TEXT: Final = "\x02text:"  # and that of a text that begins like one of these two


def row_text(frame: Frame) -> str:
    """Return a frame as the text of a row, which says whether it was text or bytes."""
    if isinstance(frame, bytes):
        return _BYTES + base64.b64encode(frame).decode()
    return _TEXT + frame if frame.startswith("\x02") else frame


def frame_of(text: str) -> Frame:
    """Return the frame in the text of a row. Raises ValueError for what `row_text` does not write."""
    if not text.startswith("\x02"):
        return text
    if text.startswith(_BYTES):
        return base64.b64decode(text[len(_BYTES) :], validate=True)
    if not text.startswith(_TEXT):
        raise ValueError("expected a text or bytes")
    return text[len(_TEXT) :]


class EntryRow(NamedTuple):
    """An accepted send; `frame` as `row_text`, `expires` and `accepted` in epoch seconds."""

    seq: int
    id: str
    key: str
    type: str
    frame: str
    expires: float | None
    coalesce: str | None
    accepted: float


class OutcomeRow(NamedTuple):
    """The outcome of a send."""

    seq: int
    id: str
    key: str
    type: str
    state: str
    confirmation: str | None
    reason: str
    at: float


class MarkRow(NamedTuple):
    """A message that the consumer took; `n` counts them, `text` is its frame as `row_text`, `at` when
    it was accepted.
    """

    n: int
    type: str | None
    id: str | None
    text: str
    stamp: str | None
    at: float
    doubtful: int


class AnswerRow(NamedTuple):
    """A message that was the answer to a request."""

    n: int
    type: str
    id: str


# ---- sends ---------------------------------------------------------------------------------------------------------


def entry_row(entry: Entry, wall: float) -> EntryRow:
    # SQLite would return an int as a float, whose checksum is another.
    expires = None if entry.expires is None else float(entry.expires.wall)
    # without the constructor, which is written in Python and takes twice as long
    return tuple.__new__(  # pyright: ignore[reportUnknownMemberType] -- of what it is a tuple
        EntryRow,
        (
            entry.seq,
            entry.id,
            entry.key,
            entry.type,
            row_text(entry.frame),
            expires,
            entry.coalesce,
            float(wall),
        ),
    )


def entry_of(row: EntryRow, handed: float | None, now: Now) -> Entry:
    """Return the send of a row.

    `handed`: when it was first handed out (None: provably never, UNSURE: unknown).
    """
    expires = None
    if row.expires is not None:
        # An unknown age counts as expired.
        expires = _moment(row.expires, now) if row.accepted <= now.wall else now
    frame = frame_of(row.frame)
    entry = Entry(row.seq, row.id, row.key, row.type, frame, expires=expires, coalesce=row.coalesce)
    if handed is not None:
        entry.state = EntryState.WRITTEN
        entry.sends = 1  # at least
        entry.written_at = Now(-inf, -inf) if handed == UNSURE else _moment(handed, now)
    return entry


def _moment(wall: float, now: Now) -> Now:
    return Now(now.mono + (wall - now.wall), wall)


def outcome_row(entry: Entry, wall: float) -> OutcomeRow:
    return OutcomeRow(
        entry.seq,
        entry.id,
        entry.key,
        entry.type,
        str(entry.state),
        entry.confirmation,
        entry.reason,
        wall,
    )


def outcome_of(row: OutcomeRow) -> Entry:
    """Return the settled send of a row, without its payload."""
    entry = Entry(row.seq, row.id, row.key, row.type, "")
    entry.settle(EntryState(row.state), confirmation=row.confirmation, reason=row.reason)
    return entry


# ---- positions -----------------------------------------------------------------------------------------------------


def position_of(watermark: Watermark, now: Now, *, is_exact: bool, doubt: int = 0) -> str:
    """Return a position as one JSON text, without its messages.

    `is_exact`: no message is handed out after this.

    `doubt`: an earlier process may have handed out messages up to this number; an exact position of
    this process does not change that.
    """
    return json.dumps(
        {
            "asked_to_join": watermark.asked_to_join,
            "joined": watermark.joined,
            "replaces": watermark.replaces,
            "epoch": watermark.epoch,
            "taken": watermark.taken,
            "answers_used": watermark.answers_used,
            "in_hand": [_mark_row(0, mark, now) for mark in watermark.in_hand],
            "unsure": max(doubt - watermark.taken, 0 if is_exact else UNSURE_MESSAGES),
            "horizon": watermark.horizon_text,
            "seam": min(watermark.seam, watermark.taken),
            "shuffled": watermark.is_shuffled,
            "own": watermark.is_own,
            "behind_gap": watermark.is_behind_gap,
            **({} if watermark.bookmark is None else {"bookmark": watermark.bookmark.to_stored()}),
        }
    )


def state_of(watermark: Watermark, *, is_exact: bool) -> tuple[Any, ...]:
    """Return a tuple to compare positions by: if it is equal, there is nothing new to write."""
    return (
        watermark.session_id, watermark.taken, watermark.handed, watermark.answers_used, watermark.asked_to_join,
        watermark.joined, watermark.replaces, watermark.epoch, watermark.bookmark_changes, is_exact,
        watermark.is_own,
    )  # fmt: skip


def mark_rows(watermark: Watermark, after: int, now: Now) -> list[MarkRow]:
    return [_mark_row(n, mark, now) for n, mark in watermark.marks(after)]


def _mark_row(n: int, mark: Mark, now: Now) -> MarkRow:
    type_, id_ = mark.key or (None, None)
    at = float(now.wall - (now.mono - mark.mono))
    return MarkRow(
        n,
        type_,
        id_,
        row_text(mark.text),
        mark.stamp,
        at,
        mark.doubtful + _FLOATING * mark.floating,
    )


def answer_rows(watermark: Watermark, after: int) -> list[AnswerRow]:
    """Return the answers used up since the one with number `after`."""
    return [AnswerRow(n, *key) for n, key in watermark.answers(after)]


def watermark_of(
    session_id: str,
    position: str,
    marks: Sequence[MarkRow],
    answers: Iterable[AnswerRow],
    now: Now,
) -> Watermark:
    """Return the position of a session, from its rows in order.

    Raises ValueError or KeyError for invalid rows.
    """
    stored = cast("dict[str, Any]", json.loads(position))
    watermark = Watermark(session_id)
    watermark.asked_to_join = bool(stored["asked_to_join"])
    watermark.joined = bool(stored["joined"])
    watermark.replaces = bool(stored["replaces"])
    watermark.epoch = stored["epoch"]
    watermark.is_shuffled = bool(stored.get("shuffled"))
    watermark.is_own = bool(stored.get("own"))
    watermark.is_behind_gap = bool(stored.get("behind_gap"))
    # the tail does not age while no client is connected
    newest = marks[-1].at if marks else now.wall
    watermark.restore(
        [_mark(row, now, newest) for row in marks],
        taken=int(stored["taken"]),
        answers=[(row.type, row.id) for row in answers],
        answers_used=int(stored["answers_used"]),
        in_hand=[_mark(MarkRow(*row), now, newest) for row in stored["in_hand"]],
        unsure=int(stored["unsure"]),
        # Release 0.1 did not write these.
        horizon=parse_timestamp(stored.get("horizon")),
        seam=stored.get("seam"),
        bookmark=Bookmark.from_stored(stored["bookmark"]) if "bookmark" in stored else None,
    )
    return watermark


def doubt_of(position: str) -> int:
    """Return the number of the last message that the position's writer may have handed out."""
    stored = cast("dict[str, Any]", json.loads(position))
    return int(stored["taken"]) + int(stored["unsure"])


def _mark(row: MarkRow, now: Now, newest: float) -> Mark:
    key: Key | None = None if row.type is None or row.id is None else (row.type, row.id)
    return Mark(
        key,
        frame_of(row.text),
        row.stamp,
        now.mono - (newest - row.at),
        bool(row.doubtful & 1),
        bool(row.doubtful & _FLOATING),
    )


def noted(writing: asyncio.Future[None]) -> None:
    """Mark a future's exception as retrieved; a failure is reported elsewhere."""
    if not writing.cancelled():
        writing.exception()
