"""The durable store of one machine: one SQLite file with one owner.

A send is a row before `send()` returns; before the first byte of a batch is sent, one mark records
which sends may have been handed out. Outcomes and read positions follow with the next write, after
a turn of the loop or 100 ms at the latest. Rule: after a crash the file has what was reported to
the caller, or states that it may be behind.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from ...failure import Failure, StoreError, config_error
from ...failure.teaching import taught
from ...files.private_files import path_of
from ...protocol import Watermark
from ...telemetry import emit
from ...telemetry.events import StateSetAside
from ...values.fields import Seconds, optional_seconds
from ..rows import noted
from .commits import NOTHING, Commits, Gathered
from .database import insert, summed
from .opening import opened
from .positions import Positions
from .sends import Sends


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ...protocol import Entry, Now
    from .opening import Mended
    from .owned import OwnedDatabase, Renewal


_WITHIN: Final = 0.1  # seconds after which a changed position is saved
_AT_MOST: Final = 63  # messages after which it is saved; the one handed out meanwhile makes 64
_RETRY: Final = 1.0  # seconds until a failed save is tried again
_LOOK_EVERY: Final = (
    2.0  # seconds after which the files are looked at, whether something is written or not
)

_RECORD: Final = insert("records", or_what="REPLACE")


class SQLiteStore:
    """The durable store in a file: what a client accepts is in it before `send()` returns.

        store = rb.stores.SQLiteStore("bridge.db", durability="machine")
        bridge = rb.BridgeClient("wss://host/ws", store=store)

    A new process with the same path continues from there. `durability`: "process" survives the
    death of the process (`kill -9`), not of the machine, and costs 10 us a send; "machine" waits
    for the disk, so that it survives a power cut, and concurrent senders share the wait. One client
    at a time owns the file: a second gets StoreError (SYS_STORE_IN_USE) at once, or after `wait`
    seconds (None: no limit). The directory is created 0700, the file 0600. A damaged file is set aside beside it,
    its certain content is used, and the event `StateSetAside` names what was lost.
    """

    is_durable = True

    @taught
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Literal["process", "machine"] = "process",
        wait: Seconds | None = 0,
    ) -> None:
        """Check the arguments; nothing is opened yet. ConfigError names a wrong argument."""
        self._path = path_of(path, "SQLiteStore.path")
        if durability not in ("process", "machine"):
            raise config_error("SQLiteStore.durability", "'process' or 'machine'", durability)
        self._is_machine = durability == "machine"
        self._wait = optional_seconds("SQLiteStore.wait", wait)
        self._opening = asyncio.Lock()
        self._users = 0
        self._has_client = False
        self._has_failed = False
        self.on_failure: Callable[[StoreError | None], object] | None = None

    def __repr__(self) -> str:
        """A status line."""
        return f"<SQLiteStore {self._path.name} {'open' if self._users else 'closed'}>"

    # ---- life -------------------------------------------------------------------------------------------------

    async def open(self, now: Now, *, outbox: bool = True) -> None:
        """Become the owner, and load.

        Raises StoreError: in use, not readable, of another program or a later version; ConfigError
        for an unsafe path.
        """
        async with self._opening:
            if outbox and self._has_client:
                raise config_error(
                    "BridgeClient.store", "a store of its own", "one that another client uses"
                )
            if not self._users:
                await self._open(now)
            elif outbox:  # another user has kept it open since the last client ended
                await self._commits.quiet()
                self._load(self._database, now)
            self._users += 1
            self._has_client |= outbox

    async def _open(self, now: Now) -> None:
        owner, database, mended = await opened(
            self._path, is_machine=self._is_machine, wait=inf if self._wait is None else self._wait
        )
        try:
            self._load(database, now)
        except BaseException:
            database.close()
            owner.release()
            raise
        self._owner, self._database = owner, database
        self._commits = Commits(
            database,
            self._gather,
            self._failed,
            self._doubt,
            self._works,
            inline=not self._is_machine,
        )
        database.on_renewal = self._on_renewal
        self._look_later()
        if mended is not None:
            self._tell(mended)

    def _load(self, database: OwnedDatabase, now: Now) -> None:
        self._now = now
        self._wall_offset = now.wall - now.mono
        self._is_soon = False
        self._touched = 0
        self._has_moved = True
        self._timer: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        self._sends = Sends(database, now)
        database.in_memory = self._sends.in_memory
        records = sorted(database.rows("records"), key=_used)
        self._records = {session: body for session, _, body in records}
        self._records_used = _used(records[-1]) if records else 0
        self._positions = Positions(database, now, self._current)

    def _look_later(self) -> None:
        self._looking = self._loop.call_later(_LOOK_EVERY, self._look)

    def _look(self) -> None:
        """Look at the files: nothing may be written for hours."""
        if self._users:
            self._commits.look()
            self._look_later()

    def _current(self) -> Now:
        """Return both clocks now, computed from the reading when loaded; for ages only."""
        passed = self._loop.time() - self._now.mono
        return type(self._now)(self._now.mono + passed, self._now.wall + passed)

    def _on_renewal(self, renewal: Renewal) -> None:
        self._loop.call_soon_threadsafe(partial(self._renewed, renewal))  # it may be in the thread

    def _renewed(self, renewal: Renewal) -> None:
        """Report that all was written anew, and write the positions in use again."""
        if self._users:
            self._positions.write_all()
            self._has_moved = True
            self._later(_WITHIN)
        emit(
            StateSetAside(
                path=str(self._path),
                set_aside=renewal.set_aside,
                source="what the open file and this process have, written anew",
                lost=renewal.lost or "nothing",
                failure=Failure.of("SYS_STATE_DAMAGED", f"{self._path.name} {renewal.what}"),
            )
        )

    def _tell(self, mended: Mended) -> None:
        failure = Failure.of("SYS_STATE_DAMAGED", f"{self._path.name} was damaged: {mended.faults}")
        self._positions.has_lost = True
        emit(
            StateSetAside(
                path=str(self._path),
                set_aside=str(mended.set_aside),
                source="the rows whose check sums are right",
                lost=mended.lost,
                failure=failure,
            )
        )

    async def close(self, *, outbox: bool = True) -> None:
        """Save the rest and release the file. StoreError: not all was saved, but it is closed."""
        if self._users:
            self._commits.check_process()
        async with self._opening:
            if not self._users or (outbox and not self._has_client):
                return
            if outbox:
                self._has_client = False
                self._positions.is_exact = self._has_moved = True
            self._users -= 1
            if self._users:
                self._commits.flush()
                return
            self._looking.cancel()
            if self._timer is not None:
                self._timer.cancel()
            try:
                await self._commits.close()
            finally:
                self._owner.release()

    def _check_open(self) -> None:
        if not self._users:
            raise config_error(
                "BridgeClient", "a client entered with `async with`", "one whose store is closed"
            )
        self._commits.check_process()

    # ---- postponed work ---------------------------------------------------------------------------------------

    def _gather(self) -> Gathered:
        if not self._has_moved and not self._sends.has_settled:
            return NOTHING
        self._has_moved = False  # later changes are part of the next transaction
        touched = self._touched
        positions, positions_done = self._positions.ops()
        sends, sends_done = self._sends.ops(self._wall())

        def done() -> None:
            self._touched = max(self._touched - touched, 0)
            positions_done()
            sends_done()
            self._works()

        def failed() -> None:
            self._has_moved = True

        return Gathered([*positions, *sends], done, failed)

    def _later(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._flush)

    def _flush(self) -> None:
        self._timer = None
        self._is_soon = False
        if self._users:
            # This write covers all that was handed out, and no further message is handed out before
            # `is_exact` is withdrawn.
            if not self._is_machine and not self._positions.says_exact:
                self._positions.is_exact = self._has_moved = True
            self._commits.flush()

    def _works(self) -> None:
        if self._has_failed:
            self._has_failed = False
            if self.on_failure is not None:
                self.on_failure(None)

    def _failed(self, error: StoreError) -> None:
        self._has_failed = True
        if self.on_failure is not None:
            self.on_failure(error)
        self._later(_RETRY)

    # ---- positions --------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> Watermark:
        """The position of this session, a new one if none is stored or the store is closed."""
        return self._positions.session(session_id) if self._users else Watermark(session_id)

    def drop_session(self, session_id: str) -> None:
        """Delete the position of a session that the server has forgotten."""
        if not self._users:
            return
        self._has_moved = True
        self._positions.drop(session_id)

    def last_session(self) -> str | None:
        """The session used last."""
        return self._positions.last() if self._users else None

    def touch(self, taken: int = 0) -> Awaitable[None] | None:
        """Save the read position soon, and at least once per 64 messages.

        `taken` messages are about to be handed out. If a save is due before that, return what to
        wait for, or raise StoreError if it cannot be made.
        """
        if not self._users:
            return None
        self._has_moved = True
        written = None
        # If the file says that its position is exact, that must be withdrawn before the consumer
        # gets more.
        is_exact = self._positions.says_exact and not self._is_machine
        if taken and (is_exact or self._touched + taken > _AT_MOST):
            self._positions.is_exact = False
            written = self._commit_now()
        self._touched += taken
        self._has_moved = True
        self._later(_WITHIN)
        return written

    def _commit_now(self) -> Awaitable[None] | None:
        try:
            written = self._commits.submit()
        except StoreError as error:
            self._failed(error)
            raise
        if written is not None:
            written.add_done_callback(noted)
        return written

    def _doubt(self) -> None:
        """Withdraw that the position is exact, before the consumer gets more messages."""
        self._positions.is_exact = False
        self._has_moved = True
        with suppress(StoreError):
            self._commit_now()

    def keep(self, watermark: Watermark) -> Awaitable[None] | None:
        """Save this position now."""
        del watermark  # every transaction saves all positions in use
        self._check_open()
        self._has_moved = True
        return self._commits.submit()

    # ---- sends ------------------------------------------------------------------------------------------------

    def entries(self) -> Iterable[Entry]:
        """The unsettled sends of earlier processes. Those handed out are WRITTEN, with the time."""
        return tuple(self._sends.entries) if self._users else ()

    def outcomes(self) -> Iterable[Entry]:
        """The last outcomes of earlier processes."""
        return tuple(self._sends.outcomes) if self._users else ()

    def last_seq(self) -> int:
        """The highest sequence number in this file."""
        return self._sends.last_seq if self._users else 0

    def put(self, entry: Entry) -> Awaitable[None] | None:
        """Accept a send. StoreError: it was not accepted; once settled, no process will send it."""
        self._check_open()
        return self._commits.submit(self._sends.put(entry, self._wall()))

    def mark(self, through: int, wall: float) -> Awaitable[None] | None:
        """Note that the sends up to this number are about to be handed out."""
        self._check_open()
        return self._commits.submit(self._sends.mark(through, float(wall)))

    def settle(self, entry: Entry) -> None:
        """Store the outcome of a send within a turn of the loop."""
        if not self._users or not self._sends.settle(entry):
            return
        if not self._is_soon:
            self._is_soon = True
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_soon(self._flush)

    def _wall(self) -> float:
        return self._wall_offset + self._loop.time()

    # ---- session records --------------------------------------------------------------------------------------

    def records(self) -> Mapping[str, str]:
        """The session records, the oldest first."""
        return MappingProxyType(self._records if self._users else {})

    def keep_record(self, session_id: str, record: str) -> Awaitable[None] | None:
        """Store a session record."""
        self._check_open()
        self._records_used += 1
        written = self._commits.submit((_RECORD, summed((session_id, self._records_used, record))))
        return _then(written, partial(self._note_record, session_id, record))

    def drop_record(self, session_id: str) -> Awaitable[None] | None:
        """Delete a session record."""
        self._check_open()
        written = self._commits.submit(("DELETE FROM records WHERE session = ?", (session_id,)))
        return _then(written, partial(self._note_record, session_id, None))

    def _note_record(self, session_id: str, record: str | None) -> None:
        self._records.pop(session_id, None)
        if record is not None:
            self._records[session_id] = record


def _then(written: Awaitable[None] | None, do: Callable[[], object]) -> Awaitable[None] | None:
    """Call `do` once that is written, and not if it fails."""
    if written is None:
        do()
        return None

    async def both() -> None:
        await written
        do()

    return both()


def _used(row: tuple[Any, ...]) -> int:
    return int(row[1])
