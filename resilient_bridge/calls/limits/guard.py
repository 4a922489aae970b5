"""The layers that wait for a permit of a bulkhead, or for a turn under a rate limit.

Rule: what is not used is given back. A call that is cancelled, timed out or interrupted while it
waits gives back its permit, also one that it was handed in the same instant, or its turn.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

from ...failure import RejectedError
from ...world import current_world
from ..frame import CURRENT, earlier, enclosing
from ..guards import Guard, not_admitted, state_for
from ..registry import Sort
from ..waits import SignalWait, Sleeps
from .state import BULKHEADS, MADE, RateState


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...failure import Failure
    from ...world import World
    from ..frame import CallFrame
    from ..guards import Wait
    from .state import BulkheadState, Ticket
    from .value import Bulkhead, RateLimit


class BulkheadGuard(Guard):
    """Takes a permit before the call and releases it after."""

    __slots__ = ("layer",)

    may_wait = True

    def __init__(self, layer: Bulkhead) -> None:
        self.layer = layer

    def enter(self, attempt: CallFrame) -> Wait | None:
        state: BulkheadState = state_for(attempt, BULKHEADS)
        if state.try_acquire():
            attempt.slot = state
            return None
        return _QueueSlot(state, self.layer, attempt)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        state = attempt.slot
        if state is not None:
            attempt.slot = None
            state.release()
        return error

    def enter_hedge(self, hedge: CallFrame) -> bool:
        state: BulkheadState = state_for(hedge, BULKHEADS)
        is_free = state.try_acquire()
        hedge.slot = state if is_free else None
        return is_free

    def leave_hedge(self, hedge: CallFrame, failure: Failure | None) -> None:  # noqa: ARG002 -- as of all
        self.leave(hedge, None)


class _QueueSlot(SignalWait):
    """A waiter in the queue of a bulkhead."""

    __slots__ = ("_attempt", "_deadline_at", "_max_wait", "_state", "_ticket")

    def __init__(self, state: BulkheadState, layer: Bulkhead, attempt: CallFrame) -> None:
        self._state = state
        self._attempt = attempt
        self._max_wait = layer.max_wait
        self._deadline_at = attempt.deadline_at
        super().__init__("Bulkhead", attempt.world, earlier(layer.max_wait, attempt.remaining))

    def longer(self) -> float | None:
        if self._attempt.deadline_at == self._deadline_at or self.patience is None:
            return 0.0
        self._deadline_at, waited = self._attempt.deadline_at, self.patience
        rest = None if self._max_wait is None else self._max_wait - waited
        more = earlier(rest, self._attempt.remaining)
        self.patience = None if more is None else waited + more
        return more

    def begin(self, wake: Callable[[], bool]) -> None:
        try:
            self._ticket: Ticket = self._state.join(wake)
        except RejectedError as error:
            not_admitted(self._attempt, "bulkhead", self._state.key, error)
            raise

    def give_back(self) -> None:
        self._state.leave(self._ticket)

    def settle(self) -> None:
        if self._state.is_served(self._ticket):
            self._attempt.slot = self._state
            return
        self._state.leave(self._ticket)
        error = self._state.rejection(self.patience)
        not_admitted(self._attempt, "bulkhead", self._state.key, error)
        raise error


def _begin_anew() -> None:
    """In a forked child: only the permits of the thread that forked are given back here."""
    held: Counter[int] = Counter()
    attempt: CallFrame | None = CURRENT.get()
    while attempt is not None:
        held.update(id(each.slot) for each in {attempt, attempt.first or attempt})
        attempt = enclosing(attempt)
    for state in list(MADE):
        state.begin_anew(held[id(state)])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


RATES: Final = Sort[RateState, "RateLimit"](
    "rate limit", RateState, lambda state: int(state.is_used(current_world().monotonic()))
)


class RateGuard(Guard):
    """Takes a turn before the call. The call uses up the turn, however it ends."""

    __slots__ = ("layer",)

    may_wait = True
    gives_back = False

    def __init__(self, layer: RateLimit) -> None:
        self.layer = layer

    def enter(self, attempt: CallFrame) -> Wait | None:
        state: RateState = state_for(attempt, RATES)
        patience, remaining = self.layer.max_wait, attempt.remaining
        if remaining is not None:
            patience = min(patience, remaining)
        try:
            wait = state.reserve(attempt.world.monotonic(), patience)
        except RejectedError as error:
            not_admitted(attempt, "rate_limit", state.key, error)
            raise
        waits = _waits(state, attempt.world, wait)
        wait = next(waits, 0.0)
        if wait <= 0:
            return None
        return Sleeps("RateLimit", attempt.world, chain((wait,), waits), state.cancel)

    def enter_hedge(self, hedge: CallFrame) -> bool:
        state: RateState = state_for(hedge, RATES)
        try:
            state.reserve(hedge.started, 0.0)
        except RejectedError:
            return False
        if state.start(hedge.started) > 0:  # it has taken another turn, later
            state.cancel()
            state.cancel()
            return False
        return True

    def leave_hedge(self, hedge: CallFrame, failure: Failure | None) -> None:  # noqa: ARG002 -- as of all
        if hedge.is_rejected:  # by another layer: its turn was not used
            state: RateState = state_for(hedge, RATES)
            state.cancel(has_started=True)


def _waits(state: RateState, world: World, wait: float) -> Iterator[float]:
    """Yield the wait for a turn, and for another one as long as that came too late."""
    while wait > 0 or (wait := state.start(world.monotonic())) > 0:
        yield wait
        wait = 0.0
