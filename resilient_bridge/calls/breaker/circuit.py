"""The circuits of this process, and the handle of one.

A handle inspects a circuit, sets its state, and runs a block under it.

Rule: a handle holds no state of the circuit. All handles of one name refer to one `CircuitState` of
the registry.
"""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from ... import events
from ...failure import RejectedError, config_error, failure_or_none
from ...failure.teaching import TeachesNames, taught
from ...telemetry import emit
from ...telemetry.hub import HUB, tell
from ...world import current_world
from ..registry import IN_FORCE, Sort
from .state import CircuitState
from .value import Breaker


if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Literal, Self

    from ..rejections import CircuitOpenError
    from ..shared import SharedState, State
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
            is_shadow=circuit.settings.shadow,
        )
    )


def _tell_shadow(circuit: CircuitState, error: CircuitOpenError) -> None:
    """Emit the event of a call that a shadow would have rejected."""
    if HUB.listening:
        tell(events.ShadowRejected(key=circuit.key, failure=error.failure))


def _new_circuit(key: str, settings: Breaker) -> CircuitState:
    return CircuitState(key, settings, _chance, _tell, _tell_shadow)


def _worth(circuit: CircuitState) -> int:
    """Return how much would be lost with a circuit, as a rank.

    From low to high: nothing, some failures, an open time that is over, a state in force.
    """
    if circuit.state == "closed":
        return 1 if circuit.counts(clock())[0] else 0
    over = circuit.state in ("open", "half_open") and not circuit.retry_after(clock())
    return 2 if over else IN_FORCE


def _shared(store: SharedState, key: str, settings: Breaker) -> SharedCircuit:
    from .shared_circuit import SharedCircuit  # imported here: most processes share nothing

    return SharedCircuit(key, settings, _chance, _tell, store, on_shadow=_tell_shadow)


CIRCUITS: Final = Sort[CircuitState, Breaker](
    "circuit", _new_circuit, _worth, shared=_shared, lists_own=True
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
    shared = [circuit for circuit in CIRCUITS.unnamed() if circuit.is_shared and circuit.key == key]
    return shared[0] if shared else CIRCUITS.find(key)


def known_circuits() -> list[CircuitState]:
    """Return every circuit: first those with a name, then those of an owner."""
    return [*CIRCUITS.named(), *CIRCUITS.unnamed()]


# ---- the handle ----------------------------------------------------------------------------------


class Circuit(TeachesNames):
    """The handle of a circuit; `rb.calls.circuit("github")` or `rb.calls.circuit(function)` makes one.

        circuit = rb.calls.circuit(rb.Policy(rb.Breaker()))
        with circuit:
            ...      # what is protected
        print(circuit.state)      # closed

    `with circuit:` runs a block under it: CircuitOpenError if it lets nothing through, and how the
    block ends is counted as a call's end is (a mistake of the caller, or a cancelled block, counts
    neither way). An exception class of your own counts, too, unless it is a ValueError, a TypeError
    or another of Python's classes for mistakes: no Retry stands here that could name it. One handle
    may be entered by many tasks and threads at once, and left in another task than it was entered
    in.
    """

    __slots__ = ("_blocks", "_find", "_name")

    def __init__(self, find: Callable[[], CircuitState], name: str = "") -> None:
        """Made by `circuit` and `circuits`; `name` is what the user wrote."""
        self._find = find
        self._name = name
        # an ordered set; two threads never remove the same entry
        self._blocks: dict[_Block, None] = {}

    @property
    def key(self) -> str:
        """The key by which the circuit is shared, or the name of what it protects."""
        return self._find().key

    @property
    def state(self) -> Literal["closed", "open", "half_open", "isolated", "disabled"]:
        """The current state.

        `open` remains until a call comes after the open time: that call is the first probe and
        finds the circuit `half_open`.
        """
        found = self._asked()
        found.count_overdue(clock())
        return found.state

    @property
    def is_shadow(self) -> bool:
        """Whether it only counts and tells (`Breaker(shadow=True)`): no call is rejected."""
        return self._asked().settings.shadow

    @property
    def retry_after(self) -> float | None:
        """Seconds until a call may be admitted; None if one may now, or if unknown (isolated)."""
        return self._asked().retry_after(clock())

    def reset(self) -> None:
        """Close it, clear its counts, and restart its open times (reason `manual_reset`)."""
        self._asked().reset(clock())

    def isolate(self) -> None:
        """Reject every call until `reset`."""
        self._asked().isolate(clock())

    def disable(self) -> None:
        """Admit every call and count nothing until `reset`."""
        self._asked().disable(clock())

    def __enter__(self) -> Self:
        """Take a permit, or raise CircuitOpenError."""
        state, now = self._find(), clock()
        state.count_overdue(now)
        block = _Block(state, state.admit(now), now)
        self._blocks[block] = None
        _entered.set((*(other for other in _entered.get() if not other.is_over), block))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Report how the block ended; its error propagates."""
        block = self._leaving()
        block.is_over = True
        block.end(error, clock())

    def _asked(self) -> CircuitState:
        """Return the circuit; warn if the name is not in use, because it may be misspelt.

        A block that is entered uses the name.
        """
        if self._name and find_circuit(self._name) is None:
            near = get_close_matches(self._name, [state.key for state in known_circuits()], 1)
            meant = f": did you mean {near[0]!r}?" if near else ""
            text = f"no policy and no block has used a circuit {self._name!r} yet{meant}"
            warnings.warn(text, UserWarning, stacklevel=3)
        return self._find()

    def _leaving(self) -> _Block:
        """Remove the block that ends here: the last one of this context, else the last of all."""
        for block in reversed(_entered.get()):
            if not block.is_over and self._blocks.pop(block, 0) is None:
                return block
        return self._blocks.popitem()[0]

    def __repr__(self) -> str:
        """Return the name, the state, and the reason for it."""
        found = self._find()
        now = clock()
        parts = [f"<Circuit {found.key} {found.state}"]
        if found.settings.shadow:
            parts.append("a shadow: rejects no call")
        if found.state == "open":
            parts.append(f"{found.retry_after(now) or 0:.1f} s left")
        if found.state in ("closed", "open", "half_open"):
            failed, seen = found.counts(now)
            parts.append(f"{failed}/{seen} failed")
        return ", ".join(parts) + ">"


class _Block:
    """A permit in use by a block."""

    __slots__ = ("__weakref__", "_state", "is_over", "permit", "started")

    def __init__(self, state: CircuitState, permit: int, started: float) -> None:
        self._state = state
        self.permit = permit
        self.started = started
        self.is_over = False
        state.began(self)

    def end(self, error: BaseException | None, now: float) -> None:
        state, permit = self._state, self.permit
        if state.is_counted(self):
            return
        if error is None:
            state.succeeded(permit, now, now - self.started)
            return
        failure = None if issubclass(type(error), RejectedError) else failure_or_none(error)
        named = () if failure is None else _own_class(error)
        state.ended(permit, self, now, failure, state.settings, named)


_MISTAKES: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
    ValueError,
)


def _own_class(error: BaseException) -> tuple[type[BaseException], ...]:
    """Return the class of a user-defined error that means a failure, not a programming error."""
    from ...failure import rule_for  # loaded by the first error

    kind = type(error)
    is_own = (
        kind.__module__ != "builtins"
        and not issubclass(kind, _MISTAKES)
        and not rule_for(error).rules
    )
    return (kind,) if is_own else ()


_entered: Final[ContextVar[tuple[_Block, ...]]] = ContextVar(
    "resilient_bridge.circuit_blocks", default=()
)


@taught
def circuit(of: str | Callable[..., Any], /) -> Circuit:
    """Return the handle of a circuit by its key, or of a decorated function or Policy.

        policy = rb.Policy(rb.Breaker())
        rb.calls.circuit(policy).isolate()      # nothing is called until `reset()`
        print(rb.calls.circuit(policy).state)      # isolated

    The function, method or Policy has to have a Breaker. A key not yet in use creates a circuit
    with the default numbers, which a Breaker with that key replaces. Reading or changing the state
    of such a circuit warns (UserWarning). Raises ConfigError for an object that has no circuit.
    """
    if isinstance(of, str) and of:
        return Circuit(partial(circuit_by_name, of), of)
    find: Callable[[], CircuitState | None] | None = getattr(
        getattr(of, "__binding__", of), "__circuit__", None
    )

    def found() -> CircuitState:
        state = None if find is None else find()
        if state is None:
            wanted = "a key, or what is protected by a policy with a Breaker"
            write = None
            if any(
                layer.key_function for layer in getattr(getattr(of, "policy", of), "layers", ())
            ):
                wanted = "a handle of circuits(): its key is a function, and has a circuit for each value"
                write = "rb.calls.circuits()"
            raise config_error("circuit.of", wanted, of, write=write)
        return state

    found()
    return Circuit(found)


def circuits() -> Mapping[str, Circuit]:
    """Return every circuit of this process, by key or by the name of the function it belongs to.

        for name, circuit in rb.calls.circuits().items():
            print(name, circuit.state)

    If two have the same name, the later ones are numbered: `app.search #2`.
    """
    found: dict[str, Circuit] = {}
    for state in known_circuits():
        name, number = state.key, 1
        while name in found:
            number += 1
            name = f"{state.key} #{number}"
        found[name] = Circuit(partial(_itself, state))
    return MappingProxyType(found)


def _itself(state: CircuitState) -> CircuitState:
    return state
