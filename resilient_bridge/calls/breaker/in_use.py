"""The circuits without a key that are in use in this process, and the event of every transition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast
from weakref import WeakSet

from ...locks import new_lock
from ...telemetry import emit, events
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
    key = circuit.key
    if state in ("open", "isolated"):
        wait = circuit.retry_after(now)
        emit(events.CircuitOpened(key=key, reason=reason, retry_after=wait, failure=circuit.because))
    elif state == "half_open":
        emit(events.CircuitHalfOpened(key=key, reason=reason))
    else:
        emit(events.CircuitClosed(key=key, reason=reason))


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
