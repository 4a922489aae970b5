"""The lock for a rule's `before`: the function that runs before a repeat, such as a token refresh.

Rule: one refresh at a time. Of many calls that fail together, one refreshes; the others wait for it
and use its result. The refresh is part of the call: it runs within the call's deadline, and an
error that it raises ends the call. It runs in a frame of its own, marked with the rule, so that a
refresh that meets the same failure does not refresh itself.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable
from math import inf
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ...failure import config_error
from ...locks import new_lock
from ...transports.event_loop import running_loop
from ..frame import CURRENT, leave_context, new_frame
from ..registry import InUse


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ...values.rule import Rule
    from ..frame import CallFrame


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

    def is_fresh(self, frame: CallFrame, done_before: int) -> bool:
        """Return whether another call refreshed since this attempt started, or while it waited."""
        return self.done != done_before or self.refreshed_at > frame.started

    @contextmanager
    def refreshing(self, frame: CallFrame) -> Generator[None]:
        """Run the rule's `before` in a frame of its own; count the refresh if it succeeds."""
        inside = new_frame(None, frame, frame.world, frame.started, frame.deadline_at)
        inside.before_of = self.rule
        token = CURRENT.set(inside)
        try:
            yield
        finally:
            leave_context(token)
        self.done += 1
        self.refreshed_at = frame.world.monotonic()

    def of_loop(self) -> asyncio.Lock:
        """Return the lock for the tasks of the running loop."""
        return self._of_loop.setdefault(running_loop("Rule.before"), asyncio.Lock())


# By the id() of the rule: equal rules count separately.
_LOCKS: Final = InUse[RefreshLock]()


def refresh_lock(used: dict[int, RefreshLock], rule: Rule | None) -> RefreshLock:
    """Return the lock under which the calls that repeat by this rule wait for its `before`.

    Calls of the policy's other functions use the same lock. `used` keeps those of one function
    alive.
    """
    found = used.get(id(rule))
    if found is None:
        found = used[id(rule)] = _LOCKS.of(id(rule), partial(RefreshLock, rule))
    return found


def refresh(before: Callable[[], Any]) -> None:
    """Call the `before` of a sync call. ConfigError for one that would have to be awaited."""
    result = before()
    if isawaitable(result):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        raise config_error("Rule.before", "a sync function: the function it helps is sync", before)
