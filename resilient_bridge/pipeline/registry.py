"""Where the state of circuits, budgets, bulkheads and rate limits is found by its key, in this process.

Rule: a state with a name is shared by everybody who says that name, and kept here for the next one who does; a state without belongs
to its owner, and is only known here as long as that owner lives. The number of names is bounded, because people make
keys from hosts and users: what is forgotten first was not used for long, and has nothing to say.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from weakref import WeakSet, WeakValueDictionary

import attrs

from ..policies.breaker import Breaker
from ..telemetry import emit, events
from .breaker_state import CircuitState
from .budget_state import BudgetState
from .bulkhead_state import BulkheadState
from .frame import CURRENT
from .rate_state import RateState
from .shared_circuit import SharedCircuit


if TYPE_CHECKING:
    import random

    from ..policies.bulkhead import Bulkhead
    from ..policies.ports import State
    from ..policies.rate_limit import RateLimit
    from ..policies.retry_budget import RetryBudget

__all__ = [
    "MOST",
    "budget_state",
    "bulkhead_state",
    "chance",
    "circuit_by_name",
    "circuit_state",
    "clock",
    "find_circuit",
    "known_circuits",
    "list_circuit",
    "numbers",
    "own_budget_state",
    "own_bulkhead_state",
    "own_circuit_state",
    "own_rate_state",
    "rate_state",
    "tell",
]

MOST: Final = 1024
"""Names of one sort that are kept although nobody uses them."""

_IN_FORCE: Final = 3  # the worth of a state that must not be lost unnoticed

S = TypeVar("S")
V = TypeVar("V")


class _Names(Generic[S, V]):
    """The states of one sort by name, the least recently asked for first.

    A state that is forgotten while somebody still uses it is found again: two under one name would not be shared.
    """

    def __init__(
        self,
        sort: str,
        make: Callable[[str, V], S],
        settings: Callable[[S], V],
        worth: Callable[[S], int] = lambda _: 0,
    ) -> None:
        self._sort = sort
        self._make = make
        self._settings = settings
        self._worth = worth
        self._lock = Lock()
        self._kept: OrderedDict[str, S] = OrderedDict()
        self._used: WeakValueDictionary[str, S] = WeakValueDictionary()
        self._assumed: set[str] = set()  # names of which nobody has said the numbers yet

    def assume(self, key: str, value: V) -> S:
        """Return the state of this name; if there is none, one with these numbers, which others replace without a word."""
        with self._lock:
            state = self._used.get(key)
            if state is not None:
                return state
            state, lost = self._add(key, value)
            self._assumed.add(key)
        self._warn(lost)
        return state

    def get(self, key: str, value: V, *, warn: bool) -> S:
        """Return the state of this name, with these numbers from now on."""
        text = ""
        with self._lock:
            state = self._used.get(key)
            if state is None:
                state, text = self._add(key, value)
            else:
                self._kept[key] = state
                self._kept.move_to_end(key)
            before = self._settings(state)
            if key in self._assumed:
                self._assumed.discard(key)
                warn = False
        if before != value:
            cast("Any", state).configure(value)
            if warn and numbers(before) != numbers(value):
                text = f"{self._sort} {key!r} was {before!r}, is {value!r} now: the last one wins, for all who use it"
        self._warn(text)
        return state

    def find(self, key: str) -> S | None:
        """Return the state of this name, if there is one."""
        with self._lock:
            return self._used.get(key)

    def all(self) -> list[S]:
        """Return every state there is."""
        with self._lock:
            return list(self._used.values())

    def _add(self, key: str, value: V) -> tuple[S, str]:
        """Make the state of a new name; return it, and what there is to say about another that had to go."""
        lost = self._forget() if len(self._kept) >= MOST else ""
        state = self._kept[key] = self._used[key] = self._make(key, value)
        return state, lost

    def _forget(self) -> str:
        # The first of those that say least: a circuit in force goes only when all the others are in force, too.
        forgotten, least = "", _IN_FORCE + 1
        for key, state in self._kept.items():
            worth = self._worth(state)
            if worth < least:
                forgotten, least = key, worth
            if worth == 0:
                break
        del self._kept[forgotten]
        self._assumed.discard(forgotten)
        if least < _IN_FORCE:
            return ""
        return f"{self._sort} {forgotten!r} is forgotten while in force: so are {MOST} others"

    @staticmethod
    def _warn(text: str) -> None:
        if text:
            warnings.warn(text, UserWarning, stacklevel=4)


def numbers(value: Any) -> Any:
    """Return what two users of one name have to agree on."""
    # What counts is decided by each policy for itself: two that differ in that can share a circuit.
    return attrs.evolve(value, on=(), ignore=()) if hasattr(value, "ignore") else value


def _worth(circuit: CircuitState) -> int:
    """How much is lost with a circuit: nothing, some counts, a wait that is over, a decision in force."""
    if circuit.state == "closed":
        return 0 if circuit.is_calm else 1
    over = circuit.state in ("open", "half_open") and not circuit.retry_after(clock())
    return 2 if over else _IN_FORCE


class _Chance:
    """The random source of whoever makes a circuit open: a test has one of its own."""

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return CURRENT.get().world.rng.random()


chance: Final = cast("random.Random", _Chance())
"""Whatever draws from it draws from the source of the context it is in."""


def clock() -> float:
    """Return the monotonic time, as policies see it in this context."""
    return CURRENT.get().world.monotonic()


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


_circuits: Final = _Names[CircuitState, Breaker]("circuit", _new_circuit, lambda state: state.breaker, _worth)
_budgets: Final = _Names[BudgetState, "RetryBudget"]("retry budget", BudgetState, lambda state: state.budget)
_bulkheads: Final = _Names[BulkheadState, "Bulkhead"](
    "bulkhead", BulkheadState, lambda state: state.bulkhead, lambda state: min(state.running, 1)
)
_rates: Final = _Names[RateState, "RateLimit"]("rate limit", RateState, lambda state: state.limit)
_own: Final[WeakSet[CircuitState]] = WeakSet()
_own_lock: Final = Lock()


def circuit_state(key: str, breaker: Breaker, *, warn: bool = True) -> CircuitState:
    """Return the circuit of this name, with these numbers from now on; other ones than before make a UserWarning."""
    return _circuits.get(key, breaker, warn=warn)


def budget_state(key: str, budget: RetryBudget, *, warn: bool = True) -> BudgetState:
    """Return the retry budget of this name, with these numbers from now on."""
    return _budgets.get(key, budget, warn=warn)


def bulkhead_state(key: str, bulkhead: Bulkhead, *, warn: bool = True) -> BulkheadState:
    """Return the bulkhead of this name, with these numbers from now on."""
    return _bulkheads.get(key, bulkhead, warn=warn)


def rate_state(key: str, limit: RateLimit, *, warn: bool = True) -> RateState:
    """Return the rate limit of this name, with these numbers from now on."""
    return _rates.get(key, limit, warn=warn)


def own_circuit_state(name: str, breaker: Breaker) -> CircuitState:
    """Return a circuit for one owner, listed under `name` for as long as that owner keeps it."""
    circuit = _new_circuit(name, breaker)
    list_circuit(circuit)
    return circuit


def list_circuit(circuit: CircuitState) -> None:
    """Let it be found among the known circuits, for as long as somebody uses it."""
    with _own_lock:
        _own.add(circuit)


def own_budget_state(name: str, budget: RetryBudget) -> BudgetState:
    """Return a retry budget for one owner."""
    return BudgetState(name, budget)


def own_bulkhead_state(name: str, bulkhead: Bulkhead) -> BulkheadState:
    """Return a bulkhead for one owner."""
    return BulkheadState(name, bulkhead)


def own_rate_state(name: str, limit: RateLimit) -> RateState:
    """Return a rate limit for one owner."""
    return RateState(name, limit)


def circuit_by_name(key: str) -> CircuitState:
    """Return the circuit of this name; one that nobody has used yet has the default numbers."""
    return find_circuit(key) or _circuits.assume(key, Breaker(key=key))


def find_circuit(key: str) -> CircuitState | None:
    """Return the circuit of this name, if somebody uses it: one shared between processes if it is in use here, else that of this process."""
    with _own_lock:
        shared = [circuit for circuit in _own if isinstance(circuit, SharedCircuit) and circuit.key == key]
    return shared[0] if shared else _circuits.find(key)


def known_circuits() -> list[CircuitState]:
    """Return every circuit there is: those with a name, then those of an owner."""
    with _own_lock:
        own = list(_own)
    return [*_circuits.all(), *own]
