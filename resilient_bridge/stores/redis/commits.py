"""The one task that writes to Redis: one write at a time, the next carries all that came meanwhile, in order.

It renews the lease as well, repeats what nobody waits for until it is done, and gives a Redis that came back empty what it had before
anything new. Rule: whoever waits has his answer within the timeout, and a no is a no: see `Change`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ...errors import Failure, StoreError
from .change import Change
from .keys import FORMAT, TAIL_TTL, RedisCommands
from .outbox_scripts import WRITE
from .redis_link import is_full, superseded


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ...protocol import Now
    from .keys import Keys
    from .known import Known, StoredPosition, WrittenPosition
    from .redis_link import RedisLink


_FIRST_RETRY: Final = 0.1  # seconds, doubled with every failure
_LAST_RETRY: Final = 2.0
_PATIENCE: Final = 10  # timeouts that writing everything anew may take, while nothing new is accepted
_EXTEND_EVERY: Final = TAIL_TTL / 1000 / 24  # seconds


class Commits:
    """The writes of one open store. `error` is set for good once another process has taken it over.

    `is_exact`: from here on nothing is handed out. `taken` counts what was, `stored` how many of those are in Redis. `tell` hears of a failure that nobody waits for, and None when it works again.
    """

    def __init__(
        self, link: RedisLink, keys: Keys, known: Known, clock: Callable[[], Now],
        tell: Callable[[StoreError | None], object], *, token: str, opening: str, lease: float, timeout: float,
    ) -> None:  # fmt: skip
        self.pending = Change()
        self.error: StoreError | None = None
        self.is_exact = False
        self.taken = self.stored = 0  # messages handed out, and how many of them Redis knows of
        self._tell = tell
        self._link, self._keys, self._known, self._clock = link, keys, known, clock
        self._token, self._opening = token, opening
        self._lease, self._timeout = lease, timeout
        self._loop = asyncio.get_running_loop()
        self._acknowledged = self._revision = 0
        self._under_way: Change | None = None
        self._news = asyncio.Event()
        self._is_lost = False  # Redis does not have what we know
        self._is_restoring = False  # it takes long
        self._restoring_failed = False
        self._retry = 0.0
        self._due = self._loop.time() + lease / 3
        self._extend_at = self._loop.time() + _EXTEND_EVERY
        self._closing_by: float | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to write. Before it only `restore` may be called."""
        self._task = self._loop.create_task(self._run(), name="resilient_bridge redis store")

    async def close(self) -> None:
        """Write the rest, exactly, and let go; within the timeout. Raises StoreError for what could not be written."""
        task, self._task = self._task, None
        if task is None:
            return
        self._closing_by = self._loop.time() + self._timeout
        self._news.set()
        try:
            await asyncio.wait([task], timeout=self._timeout + 1)  # it keeps to that by itself
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
        if task.cancelled():
            text = f"redis at {self._link.name}: not everything was written when the store was closed"
            raise StoreError(Failure.of("SYS_STORE_UNAVAILABLE", text))
        task.result()

    # ---- what is to be written --------------------------------------------------------------------------------

    def awaited(self) -> tuple[Change, asyncio.Future[None]]:
        """What is written next, and a future to wait for it. Raises StoreError if that makes no sense now."""
        if self.error is not None:
            raise StoreError(self.error.failure)
        if self._is_restoring:
            raise StoreError(_being_restored(self._link.name))
        if self.pending.since is None:
            self.pending.since = self._loop.time()
        self._news.set()
        return self.pending, self._loop.create_future()

    def wake(self) -> None:
        """Something was put off until now. While Redis is away, it waits for the next try."""
        if not self._retry:
            self._news.set()

    def knows(self, seq: int) -> bool:
        """Was this send accepted, or is it about to be, and is it unsettled?"""
        if self._under_way is not None:
            if seq in self._under_way.settled:
                return False
            if seq in self._under_way.puts:
                return not self._under_way.puts[seq][1].cancelled()
        if seq in self.pending.puts:
            return not self.pending.puts[seq][1].cancelled()
        return seq in self._known.rows and seq not in self.pending.settled

    # ---- the task ---------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self.error is None:
                await self._until_due()
                self._news.clear()
                by = self._closing_by
                await self._once(is_last=by is not None)
                if by is not None:
                    return
        finally:
            self._end()

    async def _until_due(self) -> None:
        try:
            async with asyncio.timeout_at(self._due):
                await self._news.wait()
        except TimeoutError:
            pass

    def _end(self) -> None:
        """Nobody writes any more: whoever waits is told."""
        error = self.error or StoreError(Failure.of("SYS_STORE_UNAVAILABLE", "the store was closed"))
        for change in (self._under_way, self.pending):
            if change is not None:
                change.tell(error)
        self.pending = Change()

    async def _once(self, *, is_last: bool) -> None:
        change, self.pending = self.pending, Change()
        is_restoring = self._is_lost and self._restoring_failed and not is_last
        deadline = (change.since or self._loop.time()) + self._timeout
        if is_last and self._closing_by is not None:
            deadline = self._closing_by
        elif is_restoring:  # nobody can wait for as long as that takes
            deadline = self._loop.time() + self._timeout * _PATIENCE
            change = self._refused(change, StoreError(_being_restored(self._link.name)))
        self._under_way, self._is_restoring = change, is_restoring
        try:
            await self._try(change, deadline, is_last=is_last)
        except StoreError as error:
            self._failed(change, error)
            if is_last:
                raise
        except Exception as error:
            # A defect of ours, or of the driver's: nobody must wait for ever for a task that died.
            text = f"redis at {self._link.name}: {type(error).__name__}"
            self._failed(change, StoreError(Failure.of("SYS_STORE_UNAVAILABLE", text, cause=error)))
            if is_last:
                raise
        finally:
            self._is_restoring = False
            self._under_way = None

    async def _try(self, change: Change, deadline: float, *, is_last: bool) -> None:
        """Write it. Without memory only what is new is refused."""
        while True:
            commands, written = self._commands(change, is_last=is_last)
            taken = self.taken
            how = "close" if is_last else "accept" if change.accepts else "defer"
            try:
                if (
                    commands
                    or change.is_awaited
                    or is_last
                    or self._loop.time() >= self._due
                    or self._is_lost
                ):
                    await self._write(how, commands, deadline)
            except StoreError as error:
                if not (change.accepts and is_full(error)):
                    raise
                change.refuse(error, self._known)
                continue
            break
        for position, now_written in written:
            position.written = now_written
        self.stored = taken
        change.done(self._known, self.pending)
        had_failed, self._retry, self._restoring_failed = self._retry > 0, 0.0, False
        self._due = self._loop.time() + self._lease / 3
        if had_failed:
            self._tell(None)

    def _commands(
        self, change: Change, *, is_last: bool
    ) -> tuple[RedisCommands, list[tuple[StoredPosition, WrittenPosition]]]:
        commands = RedisCommands(self._keys)
        change.commands(self._keys, self._known, commands)
        now = self._clock()
        written: list[tuple[StoredPosition, WrittenPosition]] = []
        used = [position for position in self._known.positions if position.is_used]
        for position in used:
            news = position.news(self._keys, commands, now, is_exact=self.is_exact)
            if news is not None:
                written.append((position, news))
        if commands:
            self._known.head(self._keys, commands)
        if is_last or self._loop.time() >= self._extend_at:
            self._extend_at = self._loop.time() + _EXTEND_EVERY
            for position in used:
                for key in self._keys.lists(position.watermark.session_id):
                    commands.add("PEXPIRE", key, repr(TAIL_TTL))
        return commands, written

    def _failed(self, change: Change, error: StoreError) -> None:
        is_untold = not change.is_awaited
        if error.failure.code == "SESS_SUPERSEDED":
            self.error = error
            is_untold = True  # whoever waits may not be the client
            for position in self._known.positions:
                position.watermark.is_stored = (
                    False  # so that a client that only listens asks, and learns of it
                )
        self._restoring_failed = self._is_lost
        self.pending = self._refused(self.pending, error)  # it has waited for nearly as long
        change.tell(error)
        self._is_lost |= change.put_right(self.pending, self._known)
        self._retry = min(max(2 * self._retry, _FIRST_RETRY), _LAST_RETRY, self._lease / 3)
        self._due = self._loop.time() + self._retry
        if is_untold:
            self._tell(error)

    def _refused(self, change: Change, error: StoreError) -> Change:
        """What is left of a change that was never tried once everybody who waits for it is told."""
        remaining = Change()
        change.tell(error)
        change.puts, change.marks = {}, {}
        change.put_right(remaining, self._known)
        return remaining

    # ---- one write --------------------------------------------------------------------------------------------

    async def _write(self, how: str, commands: RedisCommands, deadline: float) -> None:
        if self._is_lost:
            await self.restore((), deadline)
        while (await self._call(how, commands, deadline))[0] != "ok":
            await self.restore((), deadline)

    async def restore(self, aside: Iterable[str], deadline: float) -> list[str]:
        """Write everything that is known, in the place of what is there. Returns what the keys set aside are called now."""
        self._is_lost = True
        commands = RedisCommands(self._keys)
        slots = " ".join(["", *(str(commands.slot(key)) for key in aside), ""])
        self._known.all(self._keys, commands, self._clock())
        answer = await self._call("reset", commands, deadline, slots)
        self._is_lost = False
        return answer[2:]

    async def _call(self, how: str, commands: RedisCommands, deadline: float, aside: str = "") -> list[Any]:
        """`ok` with what the script says, or `lost`. Raises StoreError."""

        def args(server_deadline: float) -> list[Any]:
            self._revision += 1
            stamp = f"{self._clock().wall:.3f}"
            return [
                *(self._token, int(self._lease * 1000), self._opening, self._acknowledged, self._revision),
                *(f"{server_deadline:.6f}", how, FORMAT, stamp, aside, *commands.args),
            ]

        while True:
            answer = await self._link.script(WRITE, commands.keys, args, deadline=deadline)
            if answer[0] == "taken":
                raise superseded(f"the store {self._keys.tag}")
            if answer[0] == "late":
                continue  # its clock was moved, or the answer before took long: from here on we know it better
            if answer[0] == "ok":
                self._acknowledged = self._revision
            return answer


def _being_restored(name: str) -> Failure:
    text = f"redis at {name} came back without what it had, which is being written again"
    return Failure.of("SYS_STORE_UNAVAILABLE", text)
