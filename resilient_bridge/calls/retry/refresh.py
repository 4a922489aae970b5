"""A rule's `before`: the function that runs before a retry, such as a token refresh after a 401.

Rule: one refresh at a time. Of many calls that fail together, one refreshes; the others wait for it
and use its result. The refresh is part of the call: it runs within the call's deadline, and an
error that it raises ends the call. It runs between two attempts, so that a refresh that meets the
same failure does not refresh itself.
"""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ...errors import config_error
from ..frame import CURRENT, CallFrame, leave_context, new_frame


if TYPE_CHECKING:
    from collections.abc import Callable

    from .refresh_lock import RefreshLock
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
        gate = _gate(self.retrying)
        done_before = gate.done
        async with gate.of_loop():
            if gate.is_fresh(self.attempt, done_before):
                return
            token = CURRENT.set(_edge(self.retrying, self.attempt))
            try:
                result: Any = self.before()
                if isawaitable(result):
                    await result
            finally:
                leave_context(token)
            gate.refreshed(self.attempt)

    def block(self) -> None:
        """Refresh, unless another call has; an async `before` cannot be waited for here."""
        gate = _gate(self.retrying)
        done_before = gate.done
        with gate.of_threads:
            if gate.is_fresh(self.attempt, done_before):
                return
            token = CURRENT.set(_edge(self.retrying, self.attempt))
            try:
                result: Any = self.before()
                if isawaitable(result):
                    close = getattr(result, "close", None)
                    if close is not None:
                        close()
                    wanted = "a sync function: the function it helps is sync"
                    raise config_error("Rule.before", wanted, self.before)
            finally:
                leave_context(token)
            gate.refreshed(self.attempt)


def _gate(retrying: Retrying) -> RefreshLock:
    return retrying.plan.gate(retrying.rule)


def _edge(retrying: Retrying, attempt: CallFrame) -> CallFrame:
    edge = new_frame(None, attempt, attempt.world, attempt.started, attempt.deadline_at)
    edge.before_of = retrying.rule
    return edge
