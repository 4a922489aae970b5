"""The layer that asks a circuit before a call and reports the outcome to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...failure import RejectedError, is_refusal
from ..conditions import conditions
from ..decision import failure_in
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

    __slots__ = ("layer", "named")

    asks_circuit = True

    def __init__(self, layer: Breaker, named: tuple[object, ...]) -> None:
        self.layer = layer
        self.named = named

    def enter(self, attempt: CallFrame) -> Wait | None:
        operation: Any = attempt.operation
        state: CircuitState = operation.circuit
        if state.under_way:
            state.count_overdue(attempt.world.monotonic())
        if not state.is_closed:
            self.admitted(attempt, self.asked(attempt, state.admit, attempt.world.monotonic()))
            return None
        attempt.permit = state.era
        if (under_way := state.under_way) is not None:
            under_way[attempt] = None
        return None

    def admitted(self, attempt: CallFrame, permit: int) -> None:
        """Keep the permit of a call that starts."""
        attempt.permit = permit
        circuit_of(attempt).began(attempt)

    def asked(self, attempt: CallFrame, ask: Callable[..., T], *args: Any) -> T:
        """Return the circuit's answer; record its rejection."""
        try:
            return ask(*args)
        except RejectedError as error:
            not_admitted(attempt, "circuit", circuit_of(attempt).key, error)
            raise

    def leave(self, attempt: CallFrame, error: BaseException | None) -> BaseException | None:
        permit = attempt.permit
        if permit is None:
            return error
        attempt.permit = None
        operation: Any = attempt.operation
        state: CircuitState = operation.circuit
        under_way = state.under_way
        if (
            (under_way is None or under_way.pop(attempt, 0) is not None)
            and state.overdue
            and state.is_counted(attempt)
        ):
            return error
        if error is None:
            now = attempt.world.monotonic()
            state.succeeded(permit, now, now - attempt.started)
            return None
        failure = None if issubclass(type(error), RejectedError) else failure_in(attempt, error)
        if operation.plan.limit is not None and self._is_refusal(failure):
            failure = None  # it costs the call time, and says that the server lives
        now = attempt.world.monotonic()
        state.ended(permit, attempt, now, failure, self.layer, self.named)
        return error

    def enter_hedge(self, hedge: CallFrame) -> bool:
        return circuit_of(hedge).is_closed

    def conditions(self) -> tuple[Any, ...]:
        return conditions(self.layer)

    def answered(self, attempt: CallFrame, failure: Failure) -> None:
        permit, attempt.permit = attempt.permit, None
        operation: Any = attempt.operation
        state: CircuitState = operation.circuit
        if permit is not None and not state.is_counted(attempt):
            now = attempt.world.monotonic()
            is_handled = operation.plan.limit is not None and self._is_refusal(failure)
            counted = None if is_handled else failure
            state.ended(permit, attempt, now, counted, self.layer, self.named)

    def _is_refusal(self, failure: Failure | None) -> bool:
        """Return whether a failure is a refusal that an adaptive limit handles: `on` names none."""
        return failure is not None and not self.layer.on and is_refusal(failure)

    def broke_off(self, attempt: CallFrame, error: BaseException, failure: Failure) -> None:
        state = circuit_of(attempt)
        if state.is_closed:
            reported = None if issubclass(type(error), RejectedError) else failure
            now, permit = attempt.world.monotonic(), self.under_way(state)
            state.ended(permit, attempt, now, reported, self.layer, self.named)

    def under_way(self, circuit: CircuitState) -> int:
        """Return the permit of a call that runs without having asked the circuit."""
        return circuit.era


def circuit_of(attempt: CallFrame) -> CircuitState:
    """Return the circuit that the attempt's operation uses."""
    operation: Any = attempt.operation
    found: CircuitState = operation.circuit
    return found
