"""Where circuits are found in this process: by their key, or as long as their owner lives."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakSet

from ...telemetry import emit, events
from ...world import current_world
from ..names import IN_FORCE, Names
from .state import CircuitState
from .value import Breaker


if TYPE_CHECKING:
    import random

    from .value import State

__all__ = [
    "chance",
    "circuit_by_name",
    "circuit_state",
    "clock",
    "find_circuit",
    "known_circuits",
    "list_circuit",
    "own_circuit_state",
    "tell",
]


def _worth(circuit: CircuitState) -> int:
    """How much is lost with a circuit: nothing, some counts, a wait that is over, a decision in force."""
    if circuit.state == "closed":
        return 0 if circuit.is_calm else 1
    over = circuit.state in ("open", "half_open") and not circuit.retry_after(clock())
    return 2 if over else IN_FORCE


class _Chance:
    """The random source of whoever makes a circuit open: a test has one of its own."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return current_world().rng.random()


chance: Final = cast("random.Random", _Chance())
"""Whatever draws from it draws from the source of the context it is in."""


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


def _new_circuit(key: str, breaker: Breaker) -> CircuitState:
    return CircuitState(key, breaker, chance, tell)


_circuits: Final = Names[CircuitState, Breaker]("circuit", _new_circuit, lambda state: state.breaker, _worth)
_own: Final[WeakSet[CircuitState]] = WeakSet()
_own_lock: Final = Lock()


def circuit_state(key: str, breaker: Breaker, *, warn: bool = True) -> CircuitState:
    """Return the circuit of this name, with these numbers from now on; other ones than before make a UserWarning."""
    return _circuits.get(key, breaker, warn=warn)


def own_circuit_state(name: str, breaker: Breaker) -> CircuitState:
    """Return a circuit for one owner, listed under `name` for as long as that owner keeps it."""
    circuit = _new_circuit(name, breaker)
    list_circuit(circuit)
    return circuit


def list_circuit(circuit: CircuitState) -> None:
    """Let it be found among the known circuits, for as long as somebody uses it."""
    with _own_lock:
        _own.add(circuit)


def circuit_by_name(key: str) -> CircuitState:
    """Return the circuit of this name; one that nobody has used yet has the default numbers."""
    return find_circuit(key) or _circuits.assume(key, Breaker(key=key))


def find_circuit(key: str) -> CircuitState | None:
    """Return the circuit of this name, if somebody uses it: one shared between processes if it is in use here, else that of this process."""
    with _own_lock:
        shared = [circuit for circuit in _own if circuit.is_shared and circuit.key == key]
    return shared[0] if shared else _circuits.find(key)


def known_circuits() -> list[CircuitState]:
    """Return every circuit there is: those with a name, then those of an owner."""
    with _own_lock:
        own = list(_own)
    return [*_circuits.all(), *own]
