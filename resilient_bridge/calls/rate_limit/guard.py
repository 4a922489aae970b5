"""The layer that waits for its turn under a rate limit. An unused turn is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...failure import RejectedError
from ...transports.event_loop import running_loop
from ..guards import Guard, not_admitted


if TYPE_CHECKING:
    from ..frame import CallFrame
    from ..guards import Wait
    from .state import RateState
    from .value import RateLimit


class RateGuard(Guard):
    """Takes a turn before the call. The call uses up the turn, however it ends."""

    __slots__ = ("layer", "state")

    may_wait = True
    gives_back = False

    def __init__(self, state: RateState, layer: RateLimit) -> None:
        self.state = state
        self.layer = layer

    def enter(self, attempt: CallFrame) -> Wait | None:
        patience, remaining = self.layer.max_wait, attempt.remaining
        if remaining is not None:
            patience = min(patience, remaining)
        try:
            wait = self.state.reserve(attempt.world.monotonic(), patience)
        except RejectedError as error:
            not_admitted(attempt, "rate_limit", self.state.key, error)
            raise
        return None if wait <= 0 else _TurnWait(self.state, wait, attempt)


class _TurnWait:
    """The wait for a turn that comes later."""

    def __init__(self, state: RateState, wait: float, attempt: CallFrame) -> None:
        self._state = state
        self._wait = wait
        self._attempt = attempt

    def block(self) -> None:
        try:
            self._attempt.world.sleep(self._wait)
        except BaseException:
            self._state.cancel()
            raise

    async def suspend(self) -> None:
        try:
            running_loop("RateLimit")
            await self._attempt.world.asleep(self._wait)
        except BaseException:
            self._state.cancel()
            raise
