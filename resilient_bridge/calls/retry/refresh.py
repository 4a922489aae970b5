"""A rule's `before`: what runs before a failure is repeated, such as asking for a new token after a 401.

Rule: one at a time. Of many calls that fail together one refreshes; the others wait for it and go on with what it brought. It is
part of the call: inside its deadline, and what it raises ends it. It runs at the edge of the attempt, so that a refresh
that meets the failure it is there for does not refresh itself.
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
    """The step of a call that repeats by a rule with a `before`."""

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
                said: Any = self.before()
                if isawaitable(said):
                    await said
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
                said: Any = self.before()
                if isawaitable(said):
                    close = getattr(said, "close", None)
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
