"""A rule's `before`: the function that runs before a retry, such as a token refresh after a 401.

Rule: one refresh at a time. Of many calls that fail together, one refreshes; the others wait for it
and use its result. The refresh is part of the call: it runs within the call's deadline, and an
error that it raises ends the call. It runs in a frame of its own, marked with the rule, so that a
refresh that meets the same failure does not refresh itself.
"""

from __future__ import annotations

from contextlib import contextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ...failure import config_error
from ..frame import CURRENT, leave_context, new_frame


if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from ..frame import CallFrame
    from .planned import RefreshLock
    from .retrying import Retrying


class Refresh:
    """The step before a retry whose rule has a `before`."""

    __slots__ = ("attempt", "before", "retrying")

    def __init__(self, before: Callable[[], Any], retrying: Retrying, attempt: CallFrame) -> None:
        self.before = before
        self.retrying = retrying
        self.attempt = attempt

    async def suspend(self) -> None:
        """Refresh, unless another call has."""
        lock = self.retrying.plan.refresh_lock(self.retrying.rule)
        done_before = lock.done
        async with lock.of_loop():
            if not lock.is_fresh(self.attempt, done_before):
                with self._refreshing(lock):
                    result: Any = self.before()
                    if isawaitable(result):
                        await result

    def block(self) -> None:
        """Refresh, unless another call has; an async `before` cannot be waited for here."""
        lock = self.retrying.plan.refresh_lock(self.retrying.rule)
        done_before = lock.done
        with lock.of_threads:
            if not lock.is_fresh(self.attempt, done_before):
                with self._refreshing(lock):
                    result: Any = self.before()
                    if isawaitable(result):
                        close = getattr(result, "close", None)
                        if close is not None:
                            close()
                        wanted = "a sync function: the function it helps is sync"
                        raise config_error("Rule.before", wanted, self.before)

    @contextmanager
    def _refreshing(self, lock: RefreshLock) -> Generator[None]:
        attempt = self.attempt
        frame = new_frame(None, attempt, attempt.world, attempt.started, attempt.deadline_at)
        frame.before_of = self.retrying.rule
        token = CURRENT.set(frame)
        try:
            yield
        finally:
            leave_context(token)
        lock.refreshed(attempt)
