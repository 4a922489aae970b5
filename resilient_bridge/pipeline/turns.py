"""The layers that make a call wait for its turn: Bulkhead and RateLimit.

Rule: a turn that is not taken goes to the next in line. Whoever is cancelled, timed out or interrupted while waiting gives back
what it had, and what it was handed in the same instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import RejectedError
from ..world.signal import Signal
from .guards import not_admitted


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..policies.bulkhead import Bulkhead
    from ..policies.rate_limit import RateLimit
    from .bulkhead_state import BulkheadState, Ticket
    from .frame import CallFrame
    from .guards import Wait
    from .rate_state import RateState

__all__ = ["BulkheadGuard", "RateGuard"]


class BulkheadGuard:
    """Takes a place before the call, and frees it after."""

    __slots__ = ("layer", "state")

    def __init__(self, state: BulkheadState, layer: Bulkhead) -> None:
        self.state = state
        self.layer = layer

    def enter(self, attempt: CallFrame) -> Wait | None:
        if self.state.try_acquire():
            attempt.slot = self.state
            return None
        return _Place(self.state, self.layer, attempt)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        state = attempt.slot
        if state is not None:
            attempt.slot = None
            state.release()
        return error


class _Place:
    """A place in the queue of a bulkhead."""

    def __init__(self, state: BulkheadState, layer: Bulkhead, attempt: CallFrame) -> None:
        self._state = state
        self._attempt = attempt
        bounds = [bound for bound in (layer.max_wait, attempt.remaining) if bound is not None]
        self._patience = min(bounds) if bounds else None

    def block(self) -> None:
        signal = Signal()
        ticket = self._join(signal.set)
        try:
            signal.wait(self._patience)
        except BaseException:
            self._state.leave(ticket)
            raise
        self._settle(ticket)

    async def suspend(self) -> None:
        signal = Signal()
        ticket = self._join(signal.set)
        try:
            await signal.suspend(self._attempt.world, self._patience)
        except BaseException:
            self._state.leave(ticket)
            raise
        self._settle(ticket)

    def _join(self, wake: Callable[[], object]) -> Ticket:
        try:
            return self._state.join(wake)
        except RejectedError as error:
            not_admitted(self._attempt, "bulkhead", self._state.key, error)
            raise

    def _settle(self, ticket: Ticket) -> None:
        if self._state.is_served(ticket):
            self._attempt.slot = self._state
            return
        self._state.leave(ticket)
        error = self._state.rejection(self._patience)
        not_admitted(self._attempt, "bulkhead", self._state.key, error)
        raise error


class RateGuard:
    """Takes a turn before the call. A turn is used up by the call, however it ends."""

    __slots__ = ("layer", "state")

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
        return None if wait <= 0 else _Turn(self.state, wait, attempt)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:  # noqa: ARG002 -- as guards do
        return error


class _Turn:
    """A turn that comes later."""

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
            await self._attempt.world.asleep(self._wait)
        except BaseException:
            self._state.cancel()
            raise
