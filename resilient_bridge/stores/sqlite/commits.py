"""When transactions are made: at once on the loop, or together in a thread, always in order.

With durability "process" a commit is a write to the log (10 us), and a thread would cost more, so
it is made on the loop. With "machine" it waits for the disk, so it is made in a thread; what is
submitted meanwhile goes into the next transaction, so many senders share one flush of the disk.
Copying the log into the database takes milliseconds: it is rare, and done in the thread. Rule:
transactions never overlap, and none overtakes another.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...failure import StoreError, config_error
from ...world import current_world


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .database import Op
    from .owned import OwnedDatabase


_LOOK_EVERY: Final = 512  # transactions
_LOG_LIMIT: Final = 16 * 1024 * 1024  # bytes; above that, writers wait until the log restarts


# Another object in each fork: asking the system for the process costs more than the rest of a check.
_process: Final = [object()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _process.__setitem__(0, object()))


class Gathered(NamedTuple):
    """Postponed work that is written with the next transaction, and what to call after it."""

    ops: list[Op]
    done: Callable[[], None]
    failed: Callable[[], None]


NOTHING: Final = Gathered([], lambda: None, lambda: None)


class Commits:
    """The transactions of one open database.

    `gather` returns the postponed work; `on_failure` gets the errors that no caller gets;
    `on_working` is called when a look at the files finds in order what the one before did not.
    """

    def __init__(
        self,
        database: OwnedDatabase,
        gather: Callable[[], Gathered],
        on_failure: Callable[[StoreError], object],
        before_waiting: Callable[[], object],
        on_working: Callable[[], object],
        *,
        inline: bool,
    ) -> None:
        self._database = database
        self._gather = gather
        self._on_failure = on_failure
        self._before_waiting = before_waiting
        self._on_working = on_working
        self._inline = inline
        self._loop = asyncio.get_running_loop()
        self._thread = current_world().new_executor("store")
        self._process = _process[0]
        self._waiting: list[tuple[Sequence[Op], asyncio.Future[None]]] = []
        self._is_busy = False
        self._is_due = False  # was asked to write while it was busy
        self._copying: asyncio.Future[Any] | None = None
        self._since_look = 0
        self._idle: asyncio.Future[None] | None = None
        self._has_failed_look = False

    def check_process(self) -> None:
        """Raise ConfigError in a fork: it has neither the lock nor the thread."""
        if _process[0] is not self._process:
            raise config_error("BridgeClient.store", "the process that opened it", "a fork of it")

    def submit(self, *ops: Op) -> asyncio.Future[None] | None:
        """Write these and the postponed work. StoreError, now or when awaited: nothing written."""
        if self._inline and not self._is_busy:
            gathered = self._gather()
            if gathered is NOTHING:
                if ops:
                    self._database.run(ops)
            else:
                self._with(gathered, ops)
            self._since_look += 1
            if self._since_look >= _LOOK_EVERY:
                self._copy()
            return None
        future = self._loop.create_future()
        self._waiting.append((ops, future))
        if not self._is_busy:
            # From now on, though the write begins with the next turn: sends of this turn share a
            # flush.
            self._is_busy = True
            self._loop.call_soon(self._start)
        return future

    def flush(self) -> None:
        """Write the postponed work; after a failure it stays postponed."""
        if self._is_busy:
            self._is_due = True
            return
        if self._inline:
            gathered = self._gather()
            if gathered.ops:
                try:
                    self._with(gathered, ())
                except StoreError as error:
                    self._on_failure(error)
        else:
            self._start()

    async def quiet(self) -> None:
        """Return when everything is written, the postponed work included. Raises StoreError."""
        while self._is_busy or self._copying is not None:
            self._idle = self._loop.create_future()
            await self._idle
        gathered = self._gather()
        if gathered.ops:
            try:
                await self._in_thread(self._database.run, gathered.ops)
            except BaseException:
                gathered.failed()
                raise
            gathered.done()

    async def close(self) -> None:
        """Write the rest, then close the database and the thread. Raises StoreError."""
        try:
            await self.quiet()
        finally:
            try:
                await self._in_thread(self._database.close)
            finally:
                self._thread.shutdown(wait=False)

    def _with(self, gathered: Gathered, ops: Sequence[Op]) -> None:
        try:
            self._database.run([*ops, *gathered.ops])
        except BaseException:
            gathered.failed()
            raise
        gathered.done()

    # ---- in the thread ----------------------------------------------------------------------------------------

    def _in_thread(self, work: Callable[..., Any], *value: Any) -> asyncio.Future[Any]:
        return self._loop.run_in_executor(self._thread, work, *value)

    def _start(self) -> None:
        """Write what waits, in one transaction."""
        waiting = [(ops, future) for ops, future in self._waiting if not future.cancelled()]
        self._waiting = []
        self._is_due = False
        gathered = self._gather()
        # Postponed work comes last: it may settle a send that waits here.
        ops = [*(op for each, _ in waiting for op in each), *gathered.ops]
        if not ops:
            self._is_busy = False
            for _, future in waiting:
                future.set_result(None)
            self._rest()
            return
        self._is_busy = True
        self._since_look += 1

        def ran(work: asyncio.Future[Any]) -> None:
            self._is_busy = False
            error = work.exception()
            if error is None:
                gathered.done()
                self._copy()
            else:
                gathered.failed()
                if isinstance(error, StoreError) and not waiting:
                    self._on_failure(error)
            for _, future in waiting:
                if future.done():
                    continue
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)
            self._go_on()

        self._in_thread(self._database.run, ops).add_done_callback(ran)

    def _go_on(self) -> None:
        if self._is_busy:
            return
        if self._waiting or self._is_due:
            self._start()
        else:
            self._rest()

    def _rest(self) -> None:
        if self._idle is not None and not self._idle.done() and self._copying is None:
            self._idle.set_result(None)

    # ---- the files --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at the files, unless they are in use: then a transaction does."""
        if self._is_busy or self._copying is not None:
            return
        if self._inline:
            try:
                self._database.look(is_idle=True)
            except StoreError as error:
                self._report(error)
            else:
                self._report(None)
            return
        self._is_busy = True
        look = partial(self._database.look, is_idle=True)
        self._in_thread(look).add_done_callback(self._looked)

    def _looked(self, work: asyncio.Future[Any]) -> None:
        self._is_busy = False
        error = work.exception()
        self._report(error if isinstance(error, StoreError) else None)
        self._go_on()

    def _report(self, error: StoreError | None) -> None:
        """Report what a look found; that of a full disk, for one, is not over because of it."""
        has_failed, self._has_failed_look = self._has_failed_look, error is not None
        if error is not None:
            self._on_failure(error)
        elif has_failed:
            self._on_working()

    # ---- the log ----------------------------------------------------------------------------------------------

    def _copy(self) -> None:
        """Copy a long log and begin a new one; writers on the loop wait only for the last part."""
        if self._since_look < _LOOK_EVERY or self._copying is not None:
            return
        self._since_look = 0
        if self._database.log_size() <= _LOG_LIMIT:
            return
        if self._inline:
            self._database.hold_log()
            self._copying = self._in_thread(self._database.copy_log)
            self._copying.add_done_callback(self._begin_log_anew)
        else:
            self._begin_log_anew()

    def _begin_log_anew(self, work: asyncio.Future[Any] | None = None) -> None:
        if work is not None:
            work.exception()
        self._before_waiting()
        self._is_busy = True  # later writes wait for it, and the loop does not
        self._copying = self._in_thread(self._database.begin_log_anew)
        self._copying.add_done_callback(self._log_restarted)

    def _log_restarted(self, work: asyncio.Future[Any]) -> None:
        work.exception()
        self._copying = None
        self._is_busy = False
        self._go_on()
