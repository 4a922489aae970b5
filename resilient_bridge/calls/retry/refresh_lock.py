"""Where calls wait while one of them refreshes for a rule: one place for each rule, whatever functions and origins its policy protects."""

from __future__ import annotations

import asyncio
from math import inf
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from ...transports.event_loop import running_loop


if TYPE_CHECKING:
    from ...values.rule import Rule
    from ..frame import CallFrame


class RefreshLock:
    """One at a time: a lock for threads, one for the tasks of each loop, and a count of what has been done."""

    __slots__ = ("__weakref__", "_of_loop", "done", "of_threads", "refreshed_at", "rule")

    def __init__(self, rule: Rule | None) -> None:
        self.rule = rule  # kept, so that its id() stands for it as long as this is in use
        self.done = 0
        self.refreshed_at = -inf
        self.of_threads = Lock()
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    def is_fresh(self, attempt: CallFrame, done_before: int) -> bool:
        """Return whether somebody has refreshed since this attempt began, or while it waited here."""
        return self.done != done_before or self.refreshed_at > attempt.started

    def refreshed(self, attempt: CallFrame) -> None:
        """Note that a refresh has succeeded."""
        self.done += 1
        self.refreshed_at = attempt.world.monotonic()

    def of_loop(self) -> asyncio.Lock:
        return self._of_loop.setdefault(running_loop("Rule.before"), asyncio.Lock())


# By the id() of the rule: two that are equal are two all the same.
_refresh_locks: WeakValueDictionary[int, RefreshLock] = WeakValueDictionary()
_lock = Lock()


def refresh_lock_of(rule: Rule | None) -> RefreshLock:
    """Return the gate of a rule; whoever uses it keeps it."""
    with _lock:
        return _refresh_locks.setdefault(id(rule), RefreshLock(rule))
