"""What is to be written next, and who waits for it; and what has to be put right once a write has failed.

A write whose answer is lost may have been done. Rule: what was refused is erased before anything else is accepted, whether or not
it is there, so that no process sends what its sender was told was not accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import StoreError
from .keys import name_of, row_text
from .known import add_outcomes, forget


if TYPE_CHECKING:
    import asyncio

    from ..rows import EntryRow
    from .keys import Keys, Numbered, RedisCommands
    from .known import Known


_MOST_REFUSED: Final = 1_024  # numbers to be erased; beyond that everything is written anew


class Change:
    """One write in the making, or on its way. `since` is when the first one began to wait for it."""

    def __init__(self) -> None:
        self.puts: dict[int, tuple[EntryRow, asyncio.Future[None]]] = {}
        self.records: dict[str, str | None] = {}
        self.marks: dict[int, float] = {}
        self.settled: dict[int, Numbered] = {}
        self.refused: dict[int, None] = {}
        self.unmarked: dict[int, None] = {}
        self.dropped: dict[str, None] = {}
        self.keepers: list[asyncio.Future[None]] = []  # who waits for a session record
        self.others: list[asyncio.Future[None]] = []  # who waits for a mark, or for a position
        self.since: float | None = None
        self._sent: list[int] = []
        self._idle: list[int] = []

    @property
    def accepts(self) -> bool:
        """Is there anything in it that is refused when the memory is used up?"""
        return bool(self.puts or self.keepers)

    @property
    def is_awaited(self) -> bool:
        """Does anybody wait for it?"""
        return bool(self.accepts or self.others)

    # ---- on the way there -------------------------------------------------------------------------------------

    def commands(self, keys: Keys, known: Known, commands: RedisCommands) -> None:
        """Add what it takes. What is to be erased goes first."""
        self._sent = [
            seq
            for seq, (_, future) in self.puts.items()
            if not future.cancelled() and seq not in self.settled
        ]
        self._idle = known.idle_marks()
        commands.many("HDEL", keys.outbox, [repr(seq) for seq in (*self.refused, *self.settled)])
        commands.many("HDEL", keys.handed, [repr(seq) for seq in (*self.unmarked, *self._idle)])
        rows = [part for seq in self._sent for part in (repr(seq), row_text(self.puts[seq][0]))]
        commands.many("HSET", keys.outbox, rows)
        for seq, wall in self.marks.items():
            commands.add("HSETNX", keys.handed, repr(seq), repr(wall))
        add_outcomes(keys, commands, self.settled.values())
        for name, record in self.records.items():
            if record is None:
                commands.add("HDEL", keys.records, name_of(name))
            else:
                row = (_record_slot(name, known), record)
                commands.add("HSET", keys.records, name_of(name), row_text(row))
        for name in self.dropped:
            forget(keys, commands, name)

    # ---- how it ended -----------------------------------------------------------------------------------------

    def done(self, known: Known, following: Change) -> None:
        """It was acknowledged: it is known, and whoever waits is told. What was cancelled meanwhile is erased by what follows."""
        for seq in self.settled:
            known.rows.pop(seq, None)
        for seq in (*self.unmarked, *self._idle):
            known.handed.pop(seq, None)
        for seq in self._sent:
            row, future = self.puts[seq]
            if future.cancelled():
                following.refused[seq] = None
            else:
                known.rows[seq] = row
        for seq, wall in self.marks.items():
            known.handed.setdefault(seq, wall)
        known.outcomes.extend(self.settled.values())
        for name, record in self.records.items():
            if record is None:
                known.records.pop(name, None)
            else:
                known.records[name] = (_record_slot(name, known), record)
        self.tell(None)

    def tell(self, error: StoreError | None) -> None:
        """Tell everybody who waits."""
        for _, future in self.puts.values():
            _tell(future, error)
        for future in (*self.keepers, *self.others):
            _tell(future, error)

    def refuse(self, error: StoreError, known: Known) -> None:
        """The memory is used up: what was to be accepted is refused, and the rest goes on."""
        for _, future in self.puts.values():
            _tell(future, error)
        for future in self.keepers:
            _tell(future, error)
        self._revert(known)

    def _revert(self, known: Known) -> None:
        self.refused.update(dict.fromkeys(self.puts))
        for name in self.records:
            self.records[name] = known.records[name][1] if name in known.records else None
        self.puts, self.keepers = {}, []

    def put_right(self, following: Change, known: Known) -> bool:
        """It failed, and nobody knows whether it was done: have what follows put that right, and do what is left of it.

        Returns whether that would be so much that everything has to be written anew.
        """
        self._revert(known)
        wrong = (seq for seq in self.marks if seq not in known.handed)
        again = {seq: None for seq in self.refused if seq not in following.puts}
        following.refused = {**again, **following.refused}
        following.unmarked = {**self.unmarked, **dict.fromkeys(wrong), **following.unmarked}
        following.settled = {**self.settled, **following.settled}
        following.dropped = {**self.dropped, **following.dropped}
        following.records = {**self.records, **following.records}
        if len(following.refused) + len(following.unmarked) <= _MOST_REFUSED:
            return False
        following.refused, following.unmarked = {}, {}
        return True


def _record_slot(name: str, known: Known) -> int:
    """A record stays in the place of the one before it."""
    if name in known.records:
        return known.records[name][0]
    return 1 + max((number for number, _ in known.records.values()), default=0)


def _tell(future: asyncio.Future[None], error: StoreError | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
        return
    own = StoreError(error.failure)  # each with its own traceback
    own.__cause__ = error.__cause__
    future.set_exception(own)
