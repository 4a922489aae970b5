"""The account of a spend budget with its lock, its file and its events.

Rule: the lock is held only for arithmetic, never during a write. An account is changed before it is
saved, because spent money cannot be taken back; a call is admitted only after the save.

What was spent survives one damaged file: the backup has each value too.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import finalize

from ... import events
from ...failure import BridgeError, Failure, SpendLimitError, config_error
from ...files.owner import Owner
from ...locks import new_lock, new_rlock
from ...stores.state_files.copies import backup_of, is_whole
from ...stores.state_files.state_file import StateFile
from ...telemetry import emit
from .spend_state import Charge, SpendAccount, SpendState, SpendStatus


if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path


T = TypeVar("T")

_VERSION: Final = 1
_LOST: Final = "look up what was spent (the damaged files are kept beside it), then approve what may be spent from here on"


class Book:
    """An account with its lock, its file, its waiting calls and its events."""

    def __init__(
        self, name: str, account: SpendAccount, path: str | os.PathLike[str] | None
    ) -> None:
        self.name = name
        self.mode = account.mode
        self.file = file = (
            None
            if path is None
            else StateFile(path, version=_VERSION, check=SpendAccount.check, copies=2)
        )
        self.is_open = file is None
        self._owner = None if file is None else Owner(file.path)
        self._is_taken = False
        if self._owner is not None:
            finalize(self, self._owner.release)  # a garbage-collected budget releases its file
        self._account = account
        self._lock = new_lock()  # guards the account; held only for arithmetic
        # guards the file; reentrant: a listener of a damage event may read the status
        self._disk = new_rlock()
        self._is_lost = False  # no copy of the file could be read
        self._version = 0  # the number of the last change
        self._saved = 0  # the number of the last change in the file
        self._has_failed = False
        self._is_mending = False

    def status(self) -> SpendStatus:
        """Return the status, without reading the file."""
        with self._lock:
            return self._account.status

    def change(self, act: Callable[[SpendAccount], T]) -> T:
        """Change the account; then, outside of the lock, wake the admitted and refused calls and
        emit the events.
        """
        with self._lock:
            result = act(self._account)
            self._version += 1
            changes = self._account.take_changes()
        for charge in changes.woken:
            if not charge.wake():  # its event loop is closed
                self.change(partial(SpendAccount.end, charge=charge, has_run=False))
        for state, spent, limit in changes.events:
            emit(events.SpendChanged(budget=self.name, state=state, spent=spent, limit=limit))
        return result

    def write(self, act: Callable[[SpendAccount], T]) -> T:
        self.open()
        result = self.change(act)
        self.save()
        return result

    def open(self) -> None:
        """Lock and read the file at the first use.

        Raises StoreError if another budget has the file or a later version wrote it, and what
        StateFile.load raises.
        """
        if self.is_open or self.file is None:
            return
        with self._disk:
            if self._owner is not None and not self._is_taken:
                # Only for its StoreError: the file of a later version must not be locked at all.
                _is_lost(self.file.path)
                self._owner.take()  # two accounts in one file would overwrite each other
                self._is_taken = True
            try:
                # Before `load`: a listener of its damage event may read the status, which opens
                # again.
                self._is_lost = _is_lost(self.file.path) or self._is_lost
                # True: called by such a listener
                is_mended, self._is_mending = self._is_mending, True
                found = self.file.load()
                # A sound file that reports losses: another process recovered it, and ended before
                # it saved.
                is_in_doubt = found.source == "file" and not is_mended
                self._is_lost |= bool(found.lost) and (
                    is_in_doubt or found.source in {"new", "salvaged"}
                )
            except BaseException:
                self._leave()
                raise
        self.change(partial(self._restore, found=found.value))
        if found.lost:
            self.save_or_tell()

    def close(self) -> None:
        """Save and release the file.

        Raises ConfigError while a call runs or waits, and StoreError.
        """
        if self.file is None or not self.is_open:
            return
        self.save()
        with self._disk, self._lock:
            if not self._account.is_idle or self._saved < self._version:
                raise config_error("SpendBudget.close", "a budget that no call uses", "one in use")
            self.is_open = False
            self._leave()

    def _leave(self) -> None:
        self._is_lost = self._is_mending = False
        if self._owner is not None and self._is_taken:
            self._is_taken = False
            self._owner.release()

    def _restore(self, account: SpendAccount, found: Any) -> None:
        if self.is_open:  # under the lock: only one of two threads restores
            return
        self.is_open = True
        if found is not None:
            account.restore(found)
        if self._is_lost:
            account.lose()

    def save(self) -> None:
        """Save all changes so far; one write serves all threads that wait for it."""
        if self.file is None:
            return
        with self._lock:
            wanted = self._version
        with self._disk:
            if self._saved >= wanted:
                return
            with self._lock:
                version, value = self._version, self._account.saved()
            if self._owner is None or not self._is_taken:
                self.file.save(value)
            else:
                self.file.save_as(self._owner, value)
            self._saved = version
            recovered, self._has_failed = self._has_failed, False
        if recovered:
            emit(events.StoreChanged(store=f"SpendBudget {self.name}", state="working"))

    def save_or_tell(self) -> None:
        """Save; emit an error as StoreChanged instead of raising it, once until a save succeeds.

        Meanwhile no call is admitted, because its own save fails.
        """
        try:
            self.save()
        except BridgeError as error:
            with self._disk:
                again, self._has_failed = self._has_failed, True
            if not again:
                store = f"SpendBudget {self.name}"
                emit(events.StoreChanged(store=store, state="failed", failure=error.failure))

    def refusal(self, charge: Charge | None, waited: float | None) -> SpendLimitError:
        """Return the error for a call that was not admitted, or for an approval after a
        cancellation.
        """
        now = self.status()
        is_cancelled = now.state is SpendState.CANCELLED
        estimate = Decimal(0) if charge is None else charge.estimate
        why = (
            "cancelled"
            if is_cancelled
            else "paused"
            if now.state is SpendState.PAUSED
            else "has no room now"
        )
        is_lost = not (now.is_known or is_cancelled)
        spent = f"{now.spent:f} of {now.limit:f} spent"
        if is_lost:
            spent = f"what was spent is not known, all of {now.limit:f} counts as spent"
        text = f"budget {self.name} {why}: {spent}"
        if not is_cancelled:
            text += f", {now.reserved:f} reserved" if now.reserved else ""
            text += f", {estimate:f} asked" if estimate else ""
            text += f", nothing approved within {waited:g} s" if waited else ""
        details = {
            "budget": self.name,
            "mode": self.mode,
            "reason": "cancelled" if is_cancelled else "spend_limit",
            "spent": "unknown" if is_lost else f"{now.spent:f}",
            "limit": f"{now.limit:f}",
            **{
                name: f"{value:f}"
                for name, value in (("reserved", now.reserved), ("estimate", estimate))
            },
        }
        hints = ("begin a new budget",) if is_cancelled else (_LOST,) if is_lost else ()
        return SpendLimitError(
            Failure.of("SYS_SPEND_LIMIT", text, suggestions=hints, details=details)
        )


def _is_lost(path: Path) -> bool:
    """Return whether copies of the file exist and none is intact; one with a wrong checksum is not.

    Raises StoreError for a file of a later version, which must not be set aside.
    """
    copies = [
        is_whole(one, _VERSION, field="SpendBudget.path", of="a spend budget")
        for one in (path, backup_of(path))
    ]
    return False in copies and True not in copies
