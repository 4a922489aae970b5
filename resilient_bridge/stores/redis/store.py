"""The durable store of many machines: a client's memory in Redis, one owner at a time, who keeps it by a lease.

A send is in Redis before `send()` returns; one mark per batch says what may have been handed out before a byte of it moves; what
became of it, and how far the consumer is, follow with the next write. Rule: every write first asks whether this process is still the
owner, so two processes never act on one outbox, however late a paused one wakes up.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from ...errors import StoreError, config_error
from ...protocol import Now, Watermark
from ...values.fields import is_number
from ..rows import entry_of, entry_row, noted, outcome_of, outcome_row
from .keys import Keys, Numbered
from .known import Known, StoredPosition
from .opening import Terms, open_store
from .redis_link import RedisLink, check_url


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ...protocol import Entry
    from .commits import Commits


_WITHIN: Final = 0.1  # seconds after which a position is kept
_AT_MOST: Final = 63  # messages after which it is; the one that is handed out meanwhile makes 64


class RedisStore:
    """What a client accepts is in Redis before `send()` returns; a new process with the same `url` and `name` goes on from there.

    Accepted means: in the memory of Redis, so it survives this process and this machine, and a restart of Redis as far as Redis itself
    writes to its disk (`appendonly yes`, `appendfsync always` for all of it). A Redis that comes back empty under a living client is
    given everything again before anything new is accepted. Use a Redis that evicts nothing (`maxmemory-policy noeviction`).

    One client at a time owns `{prefix:name}`: it holds a `lease` (seconds) and renews it. A second one gets StoreError
    (SYS_STORE_IN_USE) with the seconds left, or waits up to `wait` seconds; after a crash the lease runs out. An owner that slept
    longer than that and was replaced is refused, and its client fails (SESS_SUPERSEDED). What Redis does not do within `timeout` is
    refused with StoreError (SYS_STORE_UNAVAILABLE), is done by no process later, and may be sent again.
    """

    is_durable = True
    on_failure: Callable[[StoreError | None], object] | None = None

    def __init__(
        self,
        url: str,
        /,
        *,
        name: str = "default",
        prefix: str = "resilient_bridge",
        lease: float = 30.0,
        timeout: float = 2.0,
        wait: float | None = None,
    ) -> None:
        """Nothing is connected yet. ConfigError names a wrong argument."""
        check_url(url)
        for field, text in (("name", name), ("prefix", prefix)):
            if not isinstance(cast("Any", text), str) or not text:
                raise config_error(f"RedisStore.{field}", "a non-empty string", text)
        for field, seconds in (("lease", lease), ("timeout", timeout)):
            if not (is_number(seconds) and seconds > 0):
                raise config_error(f"RedisStore.{field}", "seconds, more than 0", seconds)
        if wait is not None and not (is_number(wait) and wait >= 0):
            raise config_error("RedisStore.wait", "seconds, or None", wait)
        self._keys = Keys(prefix, name)
        self._link = RedisLink(url, timeout)
        self._lease, self._timeout, self._wait = lease, timeout, wait
        self._opening = asyncio.Lock()
        self._commits: Commits | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._known = Known()
        self._outcomes: list[Entry] = []
        self._users = 0
        self._has_client = False
        self._numbered = 0
        self._drift = 0.0

    def __repr__(self) -> str:
        """A status link, without user and password."""
        state = "closed" if self._commits is None else "open"
        return f"<RedisStore {self._link.name} {self._keys.tag} {state}>"

    # ---- life -------------------------------------------------------------------------------------------------

    async def open(self, now: Now, *, outbox: bool = True) -> None:
        """Become the one owner, and load. Raises StoreError: in use, away; ConfigError without the package `redis`."""
        async with self._opening:
            if outbox and self._has_client:
                raise config_error("BridgeClient.store", "a store of its own", "one that another client uses")
            if self._commits is None:
                await self._become_owner(now)
            elif outbox:  # another user has kept it open since the last client ended
                self._set_clock(now.mono, now.wall)
                self._outcomes = [outcome_of(each.row) for each in self._known.outcomes]
                self._commits.is_exact = False
            self._users += 1
            self._has_client |= outbox

    async def _become_owner(self, now: Now) -> None:
        self._loop = asyncio.get_running_loop()
        self._started = now, self._loop.time()
        self._drift = 0.0
        terms = Terms(self._lease, self._timeout, self._wait)
        self._commits, self._known = await open_store(
            self._link, self._keys, terms, self._clock, tell=self._failed
        )
        self._outcomes = [outcome_of(each.row) for each in self._known.outcomes]
        self._numbered = max((each.n for each in self._known.outcomes), default=0)

    async def close(self, *, outbox: bool = True) -> None:
        """Keep what is left, exactly, and let go with the last user, within the timeout. Raises StoreError for what could not be kept."""
        async with self._opening:
            commits = self._commits
            if commits is None or (outbox and not self._has_client):
                return
            self._users -= 1
            if outbox:
                self._has_client = False
                commits.is_exact = True
            if self._users:
                if outbox:
                    change, future = commits.awaited()
                    change.others.append(future)
                    await future
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            try:
                await commits.close()
            finally:
                self._commits = None
                self._known, self._outcomes = Known(), []
                await self._link.close()

    def _failed(self, error: StoreError | None) -> None:
        if self.on_failure is not None:
            self.on_failure(error)

    def _clock(self) -> Now:
        """Both clocks as of now, from the readings that we were given."""
        (mono, wall), began = self._started
        passed = self._loop.time() - began
        return Now(mono + passed, wall + passed + self._drift)

    def _set_clock(self, mono: float, wall: float) -> None:
        (began, then), _ = self._started
        self._drift = (wall - mono) - (then - began)

    # ---- positions --------------------------------------------------------------------------------------------

    def session(self, session_id: str) -> Watermark:
        """The position of this session, a fresh one if there is none; before the store is open, only the fresh one."""
        if self._commits is None:
            return Watermark(session_id)
        position = self._known.position(session_id)
        if position is None:
            position = StoredPosition(Watermark(session_id))
            # What was known of it may be among what was lost: the join has to end in a verdict.
            position.watermark.asked_to_join = self._known.has_lost
            self._known.positions.append(position)
        position.is_used = True
        self._known.current = position
        self._commits.wake()
        return position.watermark

    def drop_session(self, session_id: str) -> None:
        """The server has forgotten this session."""
        if self._commits is None:
            return
        position = self._known.position(session_id)
        dropped = self._commits.pending.dropped
        dropped[session_id] = None
        if position is not None:
            self._known.positions.remove(position)
            if position.written is not None:
                dropped[position.written.name] = None
        if self._known.last_name == session_id:
            self._known.last, self._known.current = None, None
        self._commits.wake()

    def last_session(self) -> str | None:
        """The session used last, by the name the server knows it by."""
        return self._known.last_name

    def touch(self, taken: int = 0) -> Awaitable[None] | None:
        """The position may have moved, or so many messages are about to be taken: of 64 the place of the first is kept before the last is."""
        commits = self._commits
        if commits is None:
            return None
        stored = None
        if commits.taken + taken - commits.stored > _AT_MOST:
            stored = self.keep(self._known.positions[-1].watermark)
            stored.add_done_callback(noted)
        commits.taken += taken
        if self._timer is None:
            self._timer = self._loop.call_later(_WITHIN, self._moved)
        return stored

    def _moved(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._commits is not None:
            self._commits.wake()

    def keep(self, watermark: Watermark) -> asyncio.Future[None]:
        """Keep this position now. The awaitable raises StoreError."""
        change, future = self._open_commits().awaited()
        if not any(each.watermark is watermark for each in self._known.positions):
            self._known.positions.append(StoredPosition(watermark, is_used=True))
        change.others.append(future)
        return future

    # ---- sends ------------------------------------------------------------------------------------------------

    def entries(self) -> Iterable[Entry]:
        """What was accepted and never settled; those handed out are WRITTEN, with the time of that."""
        if self._commits is None:
            return ()
        now, known = self._clock(), self._known
        marks = sorted(known.handed)
        return [entry_of(row, known.handed_at(seq, marks), now) for seq, row in known.rows.items()]

    def outcomes(self) -> Iterable[Entry]:
        """What became of the last 1,024 sends of earlier processes, of a day at most, the oldest first."""
        return tuple(self._outcomes)

    def last_seq(self) -> int:
        """The highest sequence number ever given in this store."""
        return self._known.last_seq

    def put(self, entry: Entry) -> Awaitable[None]:
        """Accept a send. StoreError from here or from the awaitable: it was not accepted, and no process will send it."""
        change, future = self._open_commits().awaited()
        if entry.expires is not None:
            self._set_clock(entry.expires.mono, entry.expires.wall)
        change.puts[entry.seq] = entry_row(entry, self._clock().wall), future
        change.refused.pop(entry.seq, None)
        self._known.last_seq = max(self._known.last_seq, entry.seq)
        return future

    def mark(self, through: int, wall: float) -> Awaitable[None]:
        """Entries up to this number may move once this is done. StoreError: none of them may."""
        change, future = self._open_commits().awaited()
        self._set_clock(self._clock().mono, wall)
        change.marks.setdefault(through, wall)
        change.others.append(future)
        return future

    def settle(self, entry: Entry) -> None:
        """The outcome of this send is known; kept with the next write. What was cancelled before it was accepted has none."""
        commits = self._commits
        if commits is not None and commits.knows(entry.seq):
            self._numbered += 1
            row = outcome_row(entry, self._clock().wall)
            commits.pending.settled[entry.seq] = Numbered(self._numbered, row)
            commits.wake()

    def _open_commits(self) -> Commits:
        if self._commits is None:
            raise config_error(
                "BridgeClient", "a client entered with `async with`", "one whose store is closed"
            )
        return self._commits

    # ---- session records --------------------------------------------------------------------------------------

    def records(self) -> Mapping[str, str]:
        """The session records, the oldest first."""
        return MappingProxyType({name: record for name, (_, record) in self._known.records.items()})

    def keep_record(self, session_id: str, record: str) -> Awaitable[None]:
        """Keep a session record in the place of an earlier one. Raises StoreError."""
        return self._record(session_id, record)

    def drop_record(self, session_id: str) -> Awaitable[None]:
        """Forget a session record. Raises StoreError."""
        return self._record(session_id, None)

    def _record(self, session_id: str, record: str | None) -> Awaitable[None]:
        change, future = self._open_commits().awaited()
        change.records[session_id] = record
        change.keepers.append(future)
        return future
