"""The circuits without a key that are in use in this process, and the event of every transition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast
from weakref import WeakSet

from ... import events
from ...locks import new_lock
from ...telemetry import emit
from ...world import current_world


if TYPE_CHECKING:
    import random

    from ..shared.ports import State
    from .state import CircuitState


class _Chance:
    """The random source of the context that opens the circuit: a test has its own."""

    def random(self) -> float:
        """Return a random number from 0 to below 1."""
        return current_world().rng.random()


chance: Final = cast("random.Random", _Chance())
"""The random source of the current context."""


def clock() -> float:
    """Return the monotonic time, as policies see it in this context."""
    return current_world().monotonic()


def tell(circuit: CircuitState, previous: State, state: State, reason: str, now: float) -> None:  # noqa: ARG001 -- events carry where it went
    """Emit the event of a transition."""
    is_open = state in ("open", "isolated")
    emit(
        events.CircuitChanged(
            key=circuit.key,
            state=state,
            reason=reason,
            retry_after=circuit.retry_after(now) if is_open else None,
            failure=circuit.because if is_open else None,
        )
    )


_own: Final[WeakSet[CircuitState]] = WeakSet()
_own_lock: Final = new_lock()


def list_circuit(circuit: CircuitState) -> None:
    """List the circuit for as long as it is in use."""
    with _own_lock:
        _own.add(circuit)


def listed_circuits() -> list[CircuitState]:
    """Return the listed circuits that are in use."""
    with _own_lock:
        return list(_own)
