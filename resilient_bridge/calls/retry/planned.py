"""The part of a compiled policy that the repeats of a call need."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

from ...locks import new_lock
from ...transports.event_loop import running_loop
from ..frame import Planned


if TYPE_CHECKING:
    from ...values.rule import Rule
    from ..frame import CallFrame
    from ..guards import CircuitAsked
    from .budget_state import BudgetState
    from .decision import Matcher
    from .pause import Pause
    from .value import Retry


class RefreshLock:
    """The lock under which one call refreshes for a rule, while the other calls wait.

    It is shared by all functions and origins that the policy protects. It consists of a lock for
    threads, one for the tasks of each loop, and a count of the refreshes made.
    """

    __slots__ = ("__weakref__", "_of_loop", "done", "of_threads", "refreshed_at", "rule")

    def __init__(self, rule: Rule | None) -> None:
        self.rule = rule  # kept, so that its id() stays unique as long as this is in use
        self.done = 0
        self.refreshed_at = -inf
        self.of_threads = new_lock()
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = (
            WeakKeyDictionary()
        )

    def is_fresh(self, attempt: CallFrame, done_before: int) -> bool:
        """Return whether another call refreshed since this attempt started, or while it waited."""
        return self.done != done_before or self.refreshed_at > attempt.started

    def refreshed(self, attempt: CallFrame) -> None:
        """Count a refresh that has succeeded."""
        self.done += 1
        self.refreshed_at = attempt.world.monotonic()

    def of_loop(self) -> asyncio.Lock:
        return self._of_loop.setdefault(running_loop("Rule.before"), asyncio.Lock())


# By the id() of the rule: equal rules count separately.
_refresh_locks: WeakValueDictionary[int, RefreshLock] = WeakValueDictionary()
_lock = new_lock()


class RepeatPlan(Planned):
    """The part of a plan that the repeats need."""

    __slots__ = ()

    retry: Retry | None
    matcher: Matcher
    budget: BudgetState | None
    pause: Pause
    circuits: tuple[CircuitAsked, ...]  # the layers inside the Retry whose rejection ends the call
    allowed_by: str  # how a user can permit repeats
    logged: set[str]  # the classes of which the log has said why they are not repeated
    refresh_locks: dict[int, RefreshLock]

    def refresh_lock(self, rule: Rule | None) -> RefreshLock:
        """Return the lock under which the calls that repeat by this rule wait for its `before`.

        Calls of the policy's other functions use the same lock.
        """
        found = self.refresh_locks.get(id(rule))
        if found is None:
            with _lock:  # its users keep it alive
                found = _refresh_locks.setdefault(id(rule), RefreshLock(rule))
            self.refresh_locks[id(rule)] = found
        return found
