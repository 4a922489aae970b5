"""Where the circuits and budgets that are shared between processes are found in this one: by their store and their name.

Rule: one object a name and store, so that all who use it here share one line to the store. It is kept by those who use it, and
forgotten with the last of them: what it knew is in the store.
"""

from __future__ import annotations

import warnings
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from weakref import WeakValueDictionary

from ..breaker.registry import chance, list_circuit, tell
from ..names import numbers
from .budget import SharedBudget
from .circuit import SharedCircuit


if TYPE_CHECKING:
    from collections.abc import Callable

    from ..breaker.value import Breaker
    from ..retry.budget import RetryBudget
    from .ports import SharedState

__all__ = ["shared_budget", "shared_circuit"]

S = TypeVar("S")
V = TypeVar("V")


class _Shared(Generic[S, V]):
    """What is in use here, of one sort."""

    def __init__(
        self, sort: str, make: Callable[[SharedState, str, V], S], settings: Callable[[S], V]
    ) -> None:
        self._sort = sort
        self._make = make
        self._settings = settings
        self._lock = Lock()
        # By the store itself, not its value: what is found holds it, so that its id cannot be another's.
        self._used: WeakValueDictionary[tuple[int, str], S] = WeakValueDictionary()

    def get(self, store: SharedState, key: str, value: V, *, warn: bool) -> S:
        """Return what has this name in this store, with these numbers from now on."""
        with self._lock:
            found = self._used.get((id(store), key))
            if found is None:
                found = self._used[id(store), key] = self._make(store, key, value)
                return found
        before = self._settings(found)
        if before != value:
            cast("Any", found).configure(value)
            if warn and numbers(before) != numbers(value):
                text = f"{self._sort} {key!r} was {before!r}, is {value!r} now: the last one wins, for all who use it"
                warnings.warn(text, UserWarning, stacklevel=4)
        return found


def _new_circuit(store: SharedState, key: str, breaker: Breaker) -> SharedCircuit:
    circuit = SharedCircuit(key, breaker, chance, tell, store)
    list_circuit(circuit)
    return circuit


_circuits: Final = _Shared[SharedCircuit, "Breaker"](
    "shared circuit", _new_circuit, lambda circuit: circuit.breaker
)
_budgets: Final = _Shared[SharedBudget, "RetryBudget"](
    "shared retry budget",
    lambda store, key, budget: SharedBudget(key, budget, store),
    lambda state: state.budget,
)


def shared_circuit(store: SharedState, key: str, breaker: Breaker, *, warn: bool) -> SharedCircuit:
    """Return the circuit of this name, with these numbers from now on; other ones than before make a UserWarning."""
    return _circuits.get(store, key, breaker, warn=warn)


def shared_budget(store: SharedState, key: str, budget: RetryBudget, *, warn: bool) -> SharedBudget:
    """Return the retry budget of this name, with these numbers from now on."""
    return _budgets.get(store, key, budget, warn=warn)
