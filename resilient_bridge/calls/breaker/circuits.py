"""The circuits of this process: the registry of them, and the event of every transition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from ... import events
from ...telemetry import emit
from ...world import current_world
from ..registry import IN_FORCE, Sort
from .state import CircuitState
from .value import Breaker


if TYPE_CHECKING:
    import random

    from ..shared.ports import SharedState, State
    from .shared_circuit import SharedCircuit


class _Chance:
    """The random source of the context that opens the circuit: a test has its own."""

    def random(self) -> float:
        """Return a random number from 0 to below 1."""
        return current_world().rng.random()


_chance: Final = cast("random.Random", _Chance())


def clock() -> float:
    """Return the monotonic time, as policies see it in this context."""
    return current_world().monotonic()


def _tell(circuit: CircuitState, previous: State, state: State, reason: str, now: float) -> None:  # noqa: ARG001 -- events carry where it went
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


def _new_circuit(key: str, settings: Breaker) -> CircuitState:
    return CircuitState(key, settings, _chance, _tell)


def _worth(circuit: CircuitState) -> int:
    """Return how much would be lost with a circuit, as a rank.

    From low to high: nothing, some failures, an open time that is over, a state in force.
    """
    if circuit.state == "closed":
        return 1 if circuit.counts(clock())[0] else 0
    over = circuit.state in ("open", "half_open") and not circuit.retry_after(clock())
    return 2 if over else IN_FORCE


def _shared() -> Any:
    from .shared_circuit import SharedCircuit  # imported here: most processes share nothing

    def make(store: SharedState, key: str, settings: Breaker) -> SharedCircuit:
        return SharedCircuit(key, settings, _chance, _tell, store)

    return make


CIRCUITS: Final = Sort[CircuitState, Breaker]("circuit", _new_circuit, _worth, shared=_shared)
"""A circuit without a key is listed under its owner's name as long as the owner keeps it."""


def circuit_by_name(key: str) -> CircuitState:
    """Return the circuit of this name; a new one has the default numbers."""
    return find_circuit(key) or CIRCUITS.assume(key, Breaker(key=key))


def find_circuit(key: str) -> CircuitState | None:
    """Return the circuit of this name if it is in use.

    A circuit shared between processes comes first, if it is in use here; else it is that of this
    process.
    """
    shared = [circuit for circuit in CIRCUITS.unnamed() if circuit.is_shared and circuit.key == key]
    return shared[0] if shared else CIRCUITS.find(key)


def known_circuits() -> list[CircuitState]:
    """Return every circuit: first those with a name, then those of an owner."""
    return [*CIRCUITS.named(), *CIRCUITS.unnamed()]
