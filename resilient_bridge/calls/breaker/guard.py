"""The layer that asks a circuit before a call and reports the outcome to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...failure import RejectedError
from ..conditions import conditions
from ..evidence import failure_in
from ..guards import Guard, not_admitted


if TYPE_CHECKING:
    from collections.abc import Callable

    from ...failure import Failure
    from ..frame import CallFrame
    from ..guards import Wait
    from .state import CircuitState
    from .value import Breaker


T = TypeVar("T")


class BreakerGuard(Guard):
    """Asks the circuit before the call and reports the outcome to it."""

    __slots__ = ("circuit", "layer", "named", "state")

    def __init__(self, state: CircuitState, layer: Breaker, named: tuple[object, ...]) -> None:
        self.state = self.circuit = state
        self.layer = layer
        self.named = named

    def enter(self, attempt: CallFrame) -> Wait | None:
        state = self.state
        if state.under_way is not None:
            state.count_overdue(attempt.world.monotonic())
        elif state.is_closed:
            attempt.permit = state.era
            return None
        self.admitted(
            attempt,
            state.era
            if state.is_closed
            else self.asked(attempt, state.admit, attempt.world.monotonic()),
        )
        return None

    def admitted(self, attempt: CallFrame, permit: int) -> None:
        """Keep the permit of a call that starts."""
        attempt.permit = permit
        self.state.began(attempt)

    def asked(self, attempt: CallFrame, ask: Callable[..., T], *args: Any) -> T:
        """Return the circuit's answer; record its rejection."""
        try:
            return ask(*args)
        except RejectedError as error:
            not_admitted(attempt, "circuit", self.state.key, error)
            raise

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        permit = attempt.permit
        if permit is None:
            return error
        attempt.permit = None
        if self.state.is_counted(attempt):
            return error
        if error is None:
            now = attempt.world.monotonic()
            self.state.succeeded(permit, now, now - attempt.started)
            return None
        failure = None if issubclass(type(error), RejectedError) else failure_in(attempt, error)
        now = attempt.world.monotonic()
        self.state.ended(permit, attempt, now, failure, self.layer, self.named)
        return error

    def enter_hedge(self, hedge: CallFrame) -> bool:  # noqa: ARG002 -- the attempt has the permit
        return self.state.is_closed

    def conditions(self) -> tuple[Any, ...]:
        return conditions(self.layer)

    def answered(self, attempt: CallFrame, failure: Failure) -> None:
        permit, attempt.permit = attempt.permit, None
        if permit is not None and not self.state.is_counted(attempt):
            now = attempt.world.monotonic()
            self.state.ended(permit, attempt, now, failure, self.layer, self.named)

    def broke_off(self, attempt: CallFrame, error: BaseException, failure: Failure) -> None:
        if self.state.is_closed:
            reported = None if issubclass(type(error), RejectedError) else failure
            now, permit = attempt.world.monotonic(), self.under_way()
            self.state.ended(permit, attempt, now, reported, self.layer, self.named)

    def under_way(self) -> int:
        """Return the permit of a call that runs without having asked the circuit."""
        return self.state.era
