"""The account of a spend budget in the world: shared by threads, kept in a file, told to whoever listens.

Rule: the lock is held for no longer than it takes to add, and the disk is never waited for while it is. An account changes first and
is saved then, because what is spent is spent; what depends on its being saved waits for that.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import finalize

from ..errors import BridgeError, Failure, SpendLimitError, config_error
from ..stores.owner import Owner
from ..telemetry import emit, events
from .spend_state import Charge, SpendAccount, SpendState, SpendStatus


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..stores.state_file import StateFile

__all__ = ["Book", "in_thread"]

T = TypeVar("T")


class Book:
    """The account, with the world around it: a lock, the file, whoever waits, and whoever listens."""

    def __init__(self, name: str, account: SpendAccount, file: StateFile | None) -> None:
        self.name = name
        self.mode = account.mode
        self.file = file
        self.is_open = file is None
        self._owner = None if file is None else Owner(file.path)
        self._is_taken = False
        if self._owner is not None:
            finalize(
                self, self._owner.release
            )  # a budget that nobody has any more leaves its file to the next
        self._account = account
        self._lock = Lock()  # around the account; held for no longer than it takes to add
        self._disk = RLock()  # around the file; a listener that hears of damage may ask for the status
        self._version = 0  # counts changes; `_saved` is the one that stands in the file
        self._saved = 0
        self._has_failed = False

    def status(self) -> SpendStatus:
        """Return how it stands, as far as it has been read."""
        with self._lock:
            return self._account.status

    def change(self, act: Callable[[SpendAccount], T]) -> T:
        """Change the account, then wake and tell whom it concerns: outside of the lock, because a listener may do as it likes."""
        with self._lock:
            result = act(self._account)
            self._version += 1
            changes = self._account.take_changes()
        for charge in changes.woken:
            try:
                charge.wake()
            except RuntimeError:  # its event loop is closed: nobody is there to be let in
                self.change(partial(SpendAccount.end, charge=charge, has_run=False))
        for told, spent, limit in changes.told:
            emit(told(at=datetime.now(UTC), budget=self.name, spent=spent, limit=limit))
        return result

    def write(self, act: Callable[[SpendAccount], T]) -> T:
        """Change the account, and save it."""
        self.open()
        result = self.change(act)
        self.save()
        return result

    def open(self) -> None:
        """Take and read the file, the first time. Raises StoreError if another budget has it, and what StateFile.load does."""
        if self.is_open or self.file is None:
            return
        with self._disk:
            if self._owner is not None and not self._is_taken:
                self._owner.take()  # two accounts in one file would overwrite each other
                self._is_taken = True
            try:
                found = self.file.load().value
            except BaseException:
                self._leave()
                raise
        self.change(partial(self._restore, found=found))

    def close(self) -> None:
        """Leave the file to others, with all that is known in it. Raises ConfigError while a call runs or waits, and StoreError."""
        if self.file is None or not self.is_open:
            return
        self.save()
        with self._disk, self._lock:
            if not self._account.is_idle or self._saved < self._version:
                raise config_error("SpendBudget.close", "a budget that no call uses", "one in use")
            self.is_open = False
            self._leave()

    def _leave(self) -> None:
        if self._owner is not None and self._is_taken:
            self._is_taken = False
            self._owner.release()

    def _restore(self, account: SpendAccount, found: Any) -> None:
        if self.is_open:  # under the lock: of two threads that have read the file, one restores
            return
        self.is_open = True
        if found is not None:
            account.restore(found)

    def save(self) -> None:
        """Have all that was changed so far in the file. One write serves everybody who waits for it."""
        if self.file is None:
            return
        with self._lock:
            wanted = self._version
        with self._disk:
            if self._saved >= wanted:
                return
            with self._lock:
                version, value = self._version, self._account.saved()
            self.file.save(value)
            self._saved = version
            recovered, self._has_failed = self._has_failed, False
        if recovered:
            emit(events.StoreRecovered(at=datetime.now(UTC), store=f"SpendBudget {self.name}"))

    def save_or_tell(self) -> None:
        """Save what has happened already: an error could not undo it, and is told once. Until it is saved, no call is let in."""
        try:
            self.save()
        except BridgeError as error:
            with self._disk:
                again, self._has_failed = self._has_failed, True
            if not again:
                store, now = f"SpendBudget {self.name}", datetime.now(UTC)
                emit(events.StoreFailed(at=now, store=store, degraded=False, failure=error.failure))

    def refusal(self, charge: Charge | None, waited: float | None) -> SpendLimitError:
        """Return the error for a call that was not let in, or for an approval that came too late."""
        now = self.status()
        is_cancelled = now.state is SpendState.CANCELLED
        estimate = Decimal(0) if charge is None else charge.estimate
        why = (
            "cancelled" if is_cancelled else "paused" if now.state is SpendState.PAUSED else "has no room now"
        )
        told = f"budget {self.name} {why}: {now.spent:f} of {now.limit:f} spent"
        if not is_cancelled:
            told += f", {now.reserved:f} reserved" if now.reserved else ""
            told += f", {estimate:f} asked" if estimate else ""
            told += f", nothing approved within {waited:g} s" if waited else ""
        details = {
            "budget": self.name,
            "mode": self.mode,
            "reason": "cancelled" if is_cancelled else "spend_limit",
            **{name: f"{value:f}" for name, value in (("spent", now.spent), ("limit", now.limit))},
            **{name: f"{value:f}" for name, value in (("reserved", now.reserved), ("estimate", estimate))},
        }
        hints = ("begin a new budget",) if is_cancelled else ()
        return SpendLimitError(Failure.of("SYS_SPEND_LIMIT", told, suggestions=hints, details=details))


async def in_thread(work: Callable[[], None]) -> None:
    """Have a thread do what blocks; once begun it is done, whoever is cancelled meanwhile."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, work))
