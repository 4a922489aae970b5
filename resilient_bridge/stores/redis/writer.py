"""The one task that writes to Redis: one write at a time, each with all changes since the last.

It also renews the lease, and repeats a write that no caller waits for until it is done. If Redis
has lost its data, it writes everything again before anything new. Rule: every caller gets an answer
within the timeout, and what was refused is not done later: see `Change`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...failure import Executed, Failure, StoreError
from ...world import REAL
from .keys import FORMAT, TAIL_TTL, RedisCommands
from .known import Change, Known
from .link import is_full
from .scripts import ACQUIRE, RELEASE, WRITE


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...protocol import Now
    from .keys import Keys
    from .known import StoredPosition, WrittenPosition
    from .link import RedisLink


_ASK_AGAIN: Final = 0.1  # seconds between two attempts to become the owner
_FIRST_RETRY: Final = 0.1  # seconds, doubled with every failure
_LAST_RETRY: Final = 2.0
# timeouts that writing everything again may take, while nothing new is accepted
_PATIENCE: Final = 10


class Terms(NamedTuple):
    """In seconds: the lease, the timeout of a call, and how long to wait for another owner."""

    lease: float
    timeout: float
    wait: float | None


class Writer:
    """The writes of one store, from `acquire` to `close`.

    `known` is what Redis has, `pending` the next write. `error` is set once another process is the
    owner. `taken` counts the messages handed out, `stored` those of them that Redis knows of;
    `is_exact`: no further message is handed out. `report` is called with a failure that no caller
    waits for, and with None once writing works again.
    """

    def __init__(
        self, link: RedisLink, keys: Keys, terms: Terms, clock: Callable[[], Now], report: Callable[[StoreError | None], object]
    ) -> None:  # fmt: skip
        self.known = Known()
        self.pending = Change()
        self.error: StoreError | None = None
        self.is_exact = False
        self.taken = self.stored = 0
        self._link, self._keys, self._terms, self._clock, self._report = (
            link,
            keys,
            terms,
            clock,
            report,
        )
        self._loop = asyncio.get_running_loop()
        self._token = REAL.new_id()
        self._opening = ""
        self._acknowledged = self._revision = 0
        self._under_way: Change | None = None
        self._news = asyncio.Event()
        self._is_lost = False  # Redis does not have what we know
        self._has_failed_to_restore = False
        self._retry = 0.0
        self._due = self._closing_by = 0.0
        self._task: asyncio.Task[None] | None = None

    # ---- ownership --------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        lease, timeout, wait = self._terms
        until = self._loop.time() + (inf if wait is None else wait)
        args = self._token, int(lease * 1000), FORMAT
        while True:
            answer, _, number = await self._link.script(
                ACQUIRE, self._keys.fixed[:2], lambda _: args, deadline=self._loop.time() + timeout
            )
            if answer == "ok":
                self._opening = str(number)
                return
            if self._loop.time() >= until:
                remaining = max(number / 1000, 0.0)
                text = f"the store {self._keys.tag} is in use by another client, whose lease has {remaining:.1f} s left"
                raise StoreError(Failure.of("SYS_STORE_IN_USE", text, retry_after=remaining))
            await asyncio.sleep(min(_ASK_AGAIN, max(until - self._loop.time(), 0.0)))

    async def release(self) -> None:
        """Release the lease without writing anything, if Redis answers."""
        deadline = self._loop.time() + min(self._terms.timeout, 1.0)
        with suppress(StoreError):
            await self._link.script(
                RELEASE, (self._keys.owner,), lambda _: (self._token,), deadline=deadline
            )

    def start(self) -> None:
        self._due = self._loop.time() + self._terms.lease / 3
        self._task = self._loop.create_task(self._run(), name="resilient_bridge redis store")

    async def close(self) -> None:
        """Write the rest and release the lease, in time. Raises StoreError if that fails."""
        task, self._task = self._task, None
        if task is None:
            return
        self._closing_by = self._loop.time() + self._terms.timeout
        self._news.set()
        try:
            await asyncio.wait_for(task, self._terms.timeout + 1)  # the task keeps the deadline
        except TimeoutError:
            raise self._unavailable(
                "not everything was written when the store was closed"
            ) from None

    # ---- for the store ----------------------------------------------------------------------------------------

    def awaited(self) -> tuple[Change, asyncio.Future[None]]:
        """Return the next write and a future for it. StoreError: nothing is accepted now."""
        if self.error is not None:
            raise StoreError(self.error.failure)
        if self._is_restoring:
            raise self._unavailable("its data was lost and is being written again")
        if self.pending.since is None:
            self.pending.since = self._loop.time()
        self._news.set()
        return self.pending, self._loop.create_future()

    def wake(self) -> None:
        """Write what no caller waits for; after a failure not before the next retry."""
        if not self._retry:
            self._news.set()

    def knows(self, seq: int) -> bool:
        """Return whether this send is accepted or about to be, and not settled."""
        for change in (self._under_way, self.pending):
            if change is not None and seq in change.settled:
                return False
            if change is not None and seq in change.puts:
                return not change.puts[seq][1].cancelled()
        return seq in self.known.rows

    @property
    def _is_restoring(self) -> bool:
        """Return whether Redis lost its data, and an attempt to write it again has failed."""
        return self._is_lost and self._has_failed_to_restore

    def _unavailable(self, text: str, cause: Exception | None = None) -> StoreError:
        return StoreError(
            Failure.of("SYS_STORE_UNAVAILABLE", f"redis at {self._link.name}: {text}", cause=cause)
        )

    # ---- the task ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self.error is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._due):
                        await self._news.wait()
                self._news.clear()
                is_last = self._closing_by > 0
                await self._next(is_last=is_last)
                if is_last:
                    return
        finally:
            error = self._unavailable("the store was closed") if self.error is None else self.error
            for change in (self._under_way, self.pending):
                if change is not None:
                    change.refuse(error, self.known, was_sent=False)

    async def _next(self, *, is_last: bool) -> None:
        """Write what is pending; raise an error of the last write, try again after any other."""
        change, self.pending = self.pending, Change()
        self._under_way = change
        now = self._loop.time()
        if is_last:
            deadline = self._closing_by
        elif self._is_restoring:  # nothing is accepted meanwhile, so no caller waits
            deadline = now + self._terms.timeout * _PATIENCE
        else:
            deadline = (change.since or now) + self._terms.timeout
        try:
            await self._write(change, deadline, is_last=is_last)
        except Exception as error:
            if isinstance(error, StoreError):
                self._failed(change, error)
            else:  # a defect here or in `redis` must not end the task: callers wait
                self._failed(change, self._unavailable(type(error).__name__, error))
            if is_last:
                raise
        finally:
            self._under_way = None

    async def _write(self, change: Change, deadline: float, *, is_last: bool) -> None:
        while True:
            commands, written = self._commands(change, is_last=is_last)
            taken = self.taken
            is_due = self._is_lost or self._loop.time() >= self._due
            if not (commands.args or change.is_awaited or is_last or is_due):
                break
            how = "close" if is_last else "accept" if change.accepts else "defer"
            try:
                if self._is_lost:
                    await self.restore((), deadline)
                while (await self._call(how, commands, deadline))[0] != "ok":
                    await self.restore((), deadline)
                break
            except StoreError as error:
                if not (change.accepts and is_full(error)):
                    raise
                # then write the rest, which makes room
                change.refuse(error, self.known, was_sent=True, only_new=True)
        for position, now_written in written:
            position.written = now_written
        self.stored = taken
        change.done(self.known, self.pending)
        had_failed, self._retry, self._has_failed_to_restore = self._retry > 0, 0.0, False
        self._due = self._loop.time() + self._terms.lease / 3
        if had_failed:
            self._report(None)

    def _commands(
        self, change: Change, *, is_last: bool
    ) -> tuple[RedisCommands, list[tuple[StoredPosition, WrittenPosition]]]:
        commands = RedisCommands(self._keys)
        change.add(commands, self.known)
        now = self._clock()
        used = [position for position in self.known.positions if position.is_used]
        after = [
            (position, position.add_new(commands, now, is_exact=self.is_exact)) for position in used
        ]
        if commands.args:
            self.known.add_head(commands)
        # when the lease is renewed, so is the expiry of the messages of sessions in use
        if is_last or self._loop.time() >= self._due:
            for position in used:
                for key in self._keys.lists(position.watermark.session_id):
                    commands.add("PEXPIRE", key, TAIL_TTL)
        return commands, [(position, written) for position, written in after if written is not None]

    def _failed(self, change: Change, error: StoreError) -> None:
        is_unheard = not change.is_awaited
        if error.failure.code == "SESS_SUPERSEDED":
            self.error = error
            is_unheard = True  # the caller may not be the client
            for position in self.known.positions:
                # so that a client that only listens saves again, and gets the error
                position.watermark.is_stored = False
        self._has_failed_to_restore = self._is_lost
        # What is pending has waited for nearly as long.
        self.pending.refuse(error, self.known, was_sent=False)
        change.refuse(error, self.known, was_sent=True)
        self.pending.prepend(change)
        self._is_lost |= self.pending.forget_erasures()
        self._retry = min(max(2 * self._retry, _FIRST_RETRY), _LAST_RETRY, self._terms.lease / 3)
        self._due = self._loop.time() + self._retry
        if is_unheard:
            self._report(error)

    # ---- scripts ----------------------------------------------------------------------------------------------

    async def restore(self, aside: Iterable[str], deadline: float) -> list[str]:
        """Replace all in Redis by what is known; return the new names of the keys set aside."""
        self._is_lost = True
        commands = RedisCommands(self._keys)
        slots = " ".join(["", *(str(commands.slot(key)) for key in aside), ""])
        self.known.add_all(commands, self._clock())
        answer = await self._call("reset", commands, deadline, slots)
        self._is_lost = False
        return answer[2:]

    async def _call(
        self, how: str, commands: RedisCommands, deadline: float, aside: str = ""
    ) -> list[Any]:
        """Run WRITE; return its answer, which begins with `ok`, `lost` or `stale`.

        Raises StoreError.
        """

        def args(server_deadline: float) -> list[Any]:
            self._revision += 1
            stamp = f"{self._clock().wall:.3f}"
            lease = int(self._terms.lease * 1000)
            return [
                *(self._token, lease, self._opening, self._acknowledged, self._revision),
                *(f"{server_deadline:.6f}", how, FORMAT, stamp, aside, *commands.args),
            ]

        while True:
            answer = await self._link.script(WRITE, commands.keys, args, deadline=deadline)
            if answer[0] == "taken":
                text = f"the store {self._keys.tag} was taken over by another process"
                raise StoreError(Failure.of("SESS_SUPERSEDED", text, executed=Executed.NO))
            if answer[0] == "late":
                # The server's clock was changed, or its last answer was late; now the offset is
                # right.
                continue
            if answer[0] == "ok":
                self._acknowledged = self._revision
            return answer
