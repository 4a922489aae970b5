"""The state of one owner's layers: a decorated function, or a Policy for its `call` and `attempts`.

Rule: state has a key, never a value. A layer with a key shares what the registry holds under it; one without has its own
here, which outlives the policy: put another policy in its place, and the circuit stays as open as it was. What is shared with
other processes needs a name that they all come to by themselves: the key, or that of the function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..values.fields import refuse
from .breaker.registry import circuit_state, own_circuit_state
from .bulkhead.state import bulkhead_state, own_bulkhead_state
from .rate_limit.state import own_rate_state, rate_state
from .retry.budget_state import budget_state, own_budget_state
from .retry.pause import Pause, shared_pause
from .shared.names import shared_budget, shared_circuit


if TYPE_CHECKING:
    from .breaker.state import CircuitState
    from .breaker.value import Breaker
    from .bulkhead.state import BulkheadState
    from .bulkhead.value import Bulkhead
    from .layer import Layer
    from .rate_limit.state import RateState
    from .rate_limit.value import RateLimit
    from .retry.budget import RetryBudget
    from .retry.budget_state import BudgetState
    from .shared.ports import SharedState

__all__ = ["States"]


class States:
    """What belongs to one owner, made when a layer first asks for it; `name` is what people see.

    `shared_as` is the owner's name in all processes; None: it has none that they would agree on. `shares_pause`: all owners of this name
    wait for one pause.
    """

    __slots__ = (
        "__weakref__",
        "_budget",
        "_bulkhead",
        "_circuit",
        "_keys",
        "_pause",
        "_rate",
        "_shared",
        "current",
        "name",
        "shared_as",
    )

    def __init__(self, name: str, shared_as: str | None = None, *, shares_pause: bool = False) -> None:
        self.name = name
        self._pause: Pause | None = shared_pause(name) if shares_pause else None
        self.shared_as = shared_as
        self.current: CircuitState | None = None  # the one in use, its own or shared: what `circuit(x)` shows
        self._keys: frozenset[str] = frozenset()  # shared states that this owner has used
        self._circuit: CircuitState | None = None
        self._budget: BudgetState | None = None
        self._bulkhead: BulkheadState | None = None
        self._rate: RateState | None = None
        self._shared: tuple[CircuitState | None, BudgetState | None] = (None, None)  # kept while in use

    def circuit(self, layer: Breaker, store: SharedState | None = None) -> CircuitState:
        """Return the circuit of this layer; its numbers are the layer's from now on."""
        if store is not None:
            key = self._shared_key("circuit", "Breaker.key", layer.key)
            self.current = shared_circuit(store, key, layer, warn=self._is_new(key))
            self._shared = self.current, self._shared[1]
            return self.current
        if layer.key is not None:
            self.current = circuit_state(layer.key, layer, warn=self._is_new(layer.key))
            return self.current
        if self._circuit is None:
            self._circuit = own_circuit_state(self.name, layer)
        else:
            self._circuit.configure(layer)
        self.current = self._circuit
        return self._circuit

    def pause(self, layers: tuple[Layer, ...]) -> Pause:
        """Return what the calls of this owner wait for: shared by the first key among the layers, else its own."""
        for layer in layers:
            key: str | None = getattr(layer, "key", None) or getattr(
                getattr(layer, "budget", None), "key", None
            )
            if key is not None:
                return shared_pause(key)
        if self._pause is None:
            self._pause = Pause(self.name)
        return self._pause

    def _is_new(self, key: str) -> bool:
        """Return whether this owner comes to a shared state for the first time: later it may change the numbers as it likes."""
        is_new = key not in self._keys
        self._keys |= {key}
        return is_new

    def _shared_key(self, sort: str, path: str, key: str | None) -> str:
        """Return the name by which other processes know it, too."""
        found = key or self.shared_as
        if found is None or "<lambda>" in found:
            refuse(path, f"a key: a shared {sort} needs a name that all processes agree on", key)
        return found

    def budget(self, value: RetryBudget, store: SharedState | None = None) -> BudgetState:
        """Return the tokens of this budget."""
        if store is not None:
            key = self._shared_key("retry budget", "RetryBudget.key", value.key)
            budget = shared_budget(store, key, value, warn=self._is_new(key))
            self._shared = self._shared[0], budget
            return budget
        if value.key is not None:
            return budget_state(value.key, value, warn=self._is_new(value.key))
        if self._budget is None:
            self._budget = own_budget_state(self.name, value)
        else:
            self._budget.configure(value)
        return self._budget

    def bulkhead(self, layer: Bulkhead) -> BulkheadState:
        """Return the places of this layer."""
        if layer.key is not None:
            return bulkhead_state(layer.key, layer, warn=self._is_new(layer.key))
        if self._bulkhead is None:
            self._bulkhead = own_bulkhead_state(self.name, layer)
        else:
            self._bulkhead.configure(layer)
        return self._bulkhead

    def rate(self, layer: RateLimit) -> RateState:
        """Return the turns of this layer."""
        if layer.key is not None:
            return rate_state(layer.key, layer, warn=self._is_new(layer.key))
        if self._rate is None:
            self._rate = own_rate_state(self.name, layer)
        else:
            self._rate.configure(layer)
        return self._rate
