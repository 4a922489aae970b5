"""The registry of circuits in this process: by key, or for as long as their owner lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..names import IN_FORCE, Names
from .in_use import chance, clock, list_circuit, listed_circuits, tell
from .state import CircuitState
from .value import Breaker


if TYPE_CHECKING:
    from ..shared.ports import SharedState


def _worth(circuit: CircuitState) -> int:
    """Return how much would be lost with a circuit, as a rank.

    From low to high: nothing, some failures, an open time that is over, a state in force.
    """
    if circuit.state == "closed":
        return 1 if circuit.counts(clock())[0] else 0
    over = circuit.state in ("open", "half_open") and not circuit.retry_after(clock())
    return 2 if over else IN_FORCE


def _new_circuit(key: str, settings: Breaker) -> CircuitState:
    return CircuitState(key, settings, chance, tell)


def _own_circuit(name: str, settings: Breaker) -> CircuitState:
    circuit = _new_circuit(name, settings)
    list_circuit(circuit)
    return circuit


def _shared_circuit(store: SharedState, key: str, settings: Breaker, warn: bool) -> CircuitState:
    from .shared_circuit import SHARED_CIRCUITS  # imported here: most processes share nothing

    return SHARED_CIRCUITS.get(store, key, settings, warn)


CIRCUITS: Final = Names[CircuitState, Breaker](
    "circuit", _new_circuit, _worth, own=_own_circuit, shared=_shared_circuit
)
"""A circuit without a key is listed under its owner's name as long as the owner keeps it."""


def circuit_by_name(key: str) -> CircuitState:
    """Return the circuit of this name; a new one has the default numbers."""
    return find_circuit(key) or CIRCUITS.assume(key, Breaker(key=key))


def find_circuit(key: str) -> CircuitState | None:
    """Return the circuit of this name if it is in use.

    A circuit shared between processes comes first, if it is in use here; else it is that of this
    process.
    """
    shared = [circuit for circuit in listed_circuits() if circuit.is_shared and circuit.key == key]
    return shared[0] if shared else CIRCUITS.find(key)


def known_circuits() -> list[CircuitState]:
    """Return every circuit: first those with a name, then those of an owner."""
    return [*CIRCUITS.all(), *listed_circuits()]
