"""The durable store in Redis: sends, outcomes and read positions, owned by one process at a time.

A send is in Redis before `send()` returns; before the first byte of a batch is sent, one mark
records which sends are about to be handed out. Outcomes and read positions are part of the next
write. Rule: every write first checks that this process is still the owner, so two processes never
use one outbox, however long one of them was suspended.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from ...failure import StoreError, config_error
from ...failure.teaching import taught
from ...protocol import Now, Watermark
from ...values.fields import Seconds, optional_seconds, read_seconds
from ..rows import entry_of, entry_row, noted, outcome_of, outcome_row
from .keys import Keys, NumberedOutcome
from .known import Known, StoredPosition
from .link import RedisLink
from .loading import open_store
from .url import check_url
from .writer import Terms


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ...protocol import Entry
    from .writer import Writer


_WITHIN: Final = 0.1  # seconds after which a changed position is saved
# messages taken after which a position is saved; the one handed out meanwhile makes 64
_AT_MOST: Final = 63


class RedisStore:
    """The durable store in Redis: what a client accepts is in it before `send()` returns.

        store = rb.stores.RedisStore("redis://localhost:6379", name="worker-1")
        bridge = rb.BridgeClient("wss://host/ws", store=store)

    A new process with the same `url` and `name` continues from there. Accepted means: in the memory
    of Redis. It survives this process and this machine, and a restart of Redis as far as Redis
    itself writes to its disk (all of it with `appendonly yes` and `appendfsync always`). If Redis
    comes back empty while the client runs, the client writes everything again before anything new
    is accepted. Use a Redis that evicts nothing (`maxmemory-policy noeviction`).

    One client at a time owns `{prefix:name}`: it holds a `lease` (seconds) and renews it. A second
    client gets StoreError (SYS_STORE_IN_USE) with the seconds left, or waits up to `wait` seconds (None: no limit);
    after a crash the lease expires. An owner that was suspended for longer than its lease and was
    replaced is refused, and its client fails (SESS_SUPERSEDED). What Redis does not do within
    `timeout` is refused with StoreError (SYS_STORE_UNAVAILABLE), is never done later, and may be
    sent again.
    """

    is_durable = True
    on_failure: Callable[[StoreError | None], object] | None = None

    @taught
    def __init__(
        self,
        url: str,
        /,
        *,
        name: str = "default",
        prefix: str = "resilient_bridge",
        lease: Seconds = 30.0,
        timeout: Seconds = 2.0,
        wait: Seconds | None = 0,
    ) -> None:
        """Check the arguments; nothing is connected yet. ConfigError names a wrong argument."""
        check_url("RedisStore.url", url)
        for field, text in (("name", name), ("prefix", prefix)):
            if not isinstance(cast("Any", text), str) or not text:
                raise config_error(f"RedisStore.{field}", "a non-empty string", text)
        held, patience = (
            read_seconds("RedisStore.lease", lease),
            read_seconds("RedisStore.timeout", timeout),
        )
        self._keys = Keys(prefix, name)
        self._link = RedisLink(url, patience)
        self._terms = Terms(held, patience, optional_seconds("RedisStore.wait", wait))
        self._opening = asyncio.Lock()
        self._writer: Writer | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._known = Known()
        self._outcomes: list[Entry] = []
        self._users = 0
        self._has_client = False
        self._numbered = 0
        self._mono = self._wall = 0.0  # added to the loop's time they are the client's two clocks

    def __repr__(self) -> str:
        """The address without user and password, the keys, and whether the store is open."""
        state = "closed" if self._writer is None else "open"
        return f"<RedisStore {self._link.name} {self._keys.tag} {state}>"

    # ---- open and closed --------------------------------------------------------------------------------------

    async def open(self, now: Now, *, outbox: bool = True) -> None:
        """Become the owner, and load.

        Raises StoreError: in use, or unavailable; ConfigError: without the package redis.
        """
        async with self._opening:
            if outbox and self._has_client:
                raise config_error(
                    "BridgeClient.store", "a store of its own", "one that another client uses"
                )
            if self._writer is None:
                self._loop = asyncio.get_running_loop()
                self._mono = now.mono - self._loop.time()
                self._set_clock(now.mono, now.wall)
                self._writer = await open_store(
                    self._link, self._keys, self._terms, self._clock, self._report
                )
                self._known = self._writer.known
                self._numbered = max((each.n for each in self._known.outcomes), default=0)
                self._outcomes = [outcome_of(each.row) for each in self._known.outcomes]
            elif outbox:  # another user has kept it open since the last client was closed
                self._set_clock(now.mono, now.wall)
                self._outcomes = [outcome_of(each.row) for each in self._known.outcomes]
                self._writer.is_exact = False
            self._users += 1
            self._has_client |= outbox

    async def close(self, *, outbox: bool = True) -> None:
        """Write what is pending; the last user releases the lease.

        Raises StoreError if not all was written in time.
        """
        async with self._opening:
            writer = self._writer
            if writer is None or (outbox and not self._has_client):
                return
            self._users -= 1
            if outbox:
                self._has_client = False
                writer.is_exact = True
            if self._users:
                if outbox:
                    change, future = writer.awaited()
                    change.others.append(future)
                    await future
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            try:
                await writer.close()
            finally:
                self._writer = None
                self._known, self._outcomes = Known(), []
                await self._link.close()

    def _report(self, error: StoreError | None) -> None:
        if self.on_failure is not None:
            self.on_failure(error)

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise config_error(
                "BridgeClient", "a client entered with `async with`", "one whose store is closed"
            )
        return self._writer

    # ---- clocks -----------------------------------------------------------------------------------------------

    def _clock(self) -> Now:
        """Return the client's two clocks now, from their last readings and the loop's time."""
        time = self._loop.time()
        return Now(time + self._mono, time + self._wall)

    def _set_clock(self, mono: float, wall: float) -> None:
        self._wall = self._mono + wall - mono

    # ---- positions --------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> Watermark:
        """The read position of a session, a new one if none is stored or the store is not open."""
        if self._writer is None:
            return Watermark(session_id)
        position = self._known.position(session_id)
        if position is None:
            position = StoredPosition(Watermark(session_id))
            # If positions were lost, one may have been this session's: its join must end in a
            # verdict.
            position.watermark.asked_to_join = self._known.has_lost
            self._known.positions.append(position)
        position.is_used = True
        self._known.current = position
        self._writer.wake()
        return position.watermark

    def drop_session(self, session_id: str) -> None:
        """Delete the position of a session that the server does not know any more."""
        if self._writer is None:
            return
        position = self._known.position(session_id)
        dropped = self._writer.pending.dropped
        dropped[session_id] = None
        if position is not None:
            self._known.positions.remove(position)
            if position.written is not None:
                dropped[position.written.name] = None
        if self._known.last_name == session_id:
            self._known.last, self._known.current = None, None
        self._writer.wake()

    def last_session(self) -> str | None:
        """The server's name of the session used last."""
        return self._known.last_name

    def touch(self, taken: int = 0) -> Awaitable[None] | None:
        """Save the read position soon, and at least once per 64 messages.

        `taken` messages are about to be handed out. If a save is due before that, return what to
        wait for, or raise StoreError if it cannot be made.
        """
        writer = self._writer
        if writer is None:
            return None
        saved = None
        if taken and writer.taken + taken - writer.stored > _AT_MOST:
            saved = self.keep(self._known.positions[-1].watermark)
            saved.add_done_callback(noted)
        writer.taken += taken
        if self._timer is None:
            self._timer = self._loop.call_later(_WITHIN, self._moved)
        return saved

    def _moved(self) -> None:
        self._timer = None
        if self._writer is not None:
            self._writer.wake()

    def keep(self, watermark: Watermark) -> asyncio.Future[None]:
        """Save this position now. The awaitable raises StoreError."""
        change, future = self._open_writer().awaited()
        if not any(each.watermark is watermark for each in self._known.positions):
            self._known.positions.append(StoredPosition(watermark, is_used=True))
        change.others.append(future)
        return future

    # ---- sends ------------------------------------------------------------------------------------------------

    def entries(self) -> Iterable[Entry]:
        """The sends that are not settled. Those handed out are WRITTEN, with the time."""
        if self._writer is None:
            return ()
        now, known = self._clock(), self._known
        marks = sorted(known.handed)
        return [entry_of(row, known.handed_at(seq, marks), now) for seq, row in known.rows.items()]

    def outcomes(self) -> Iterable[Entry]:
        """The last 1,024 outcomes of earlier processes, at most a day old, the oldest first."""
        return tuple(self._outcomes)

    def last_seq(self) -> int:
        """The highest sequence number ever used in this store."""
        return self._known.last_seq

    def put(self, entry: Entry) -> Awaitable[None]:
        """Accept a send. StoreError, from the call or the awaitable: no process will send it."""
        change, future = self._open_writer().awaited()
        if entry.expires is not None:
            self._set_clock(entry.expires.mono, entry.expires.wall)
        change.puts[entry.seq] = entry_row(entry, self._clock().wall), future
        change.erased_sends.pop(entry.seq, None)
        self._known.last_seq = max(self._known.last_seq, entry.seq)
        return future

    def mark(self, through: int, wall: float) -> Awaitable[None]:
        """Note that the sends up to this number are about to be handed out.

        Raises StoreError; then none of them may be.
        """
        change, future = self._open_writer().awaited()
        self._set_clock(self._clock().mono, wall)
        change.marks.setdefault(through, wall)
        change.others.append(future)
        return future

    def settle(self, entry: Entry) -> None:
        """Store the outcome of a send with the next write, unless the send was not accepted."""
        writer = self._writer
        if writer is not None and writer.knows(entry.seq):
            self._numbered += 1
            row = outcome_row(entry, self._clock().wall)
            writer.pending.settled[entry.seq] = NumberedOutcome(self._numbered, row)
            writer.wake()

    # ---- session records --------------------------------------------------------------------------------------

    def records(self) -> Mapping[str, str]:
        """The session records, the oldest first."""
        return MappingProxyType({name: row.record for name, row in self._known.records.items()})

    def keep_record(self, session_id: str, record: str) -> Awaitable[None]:
        """Store a session record; it replaces an earlier one in its position. Raises StoreError."""
        return self._record(session_id, record)

    def drop_record(self, session_id: str) -> Awaitable[None]:
        """Delete a session record. Raises StoreError."""
        return self._record(session_id, None)

    def _record(self, session_id: str, record: str | None) -> Awaitable[None]:
        change, future = self._open_writer().awaited()
        change.records[session_id] = record
        change.keepers.append(future)
        return future
