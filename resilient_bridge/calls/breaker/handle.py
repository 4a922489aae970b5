"""The handle of a circuit: to inspect it, to set its state, and to run a block under it.

Rule: a handle holds no state of the circuit. All handles of one name refer to one circuit.
"""

from __future__ import annotations

import warnings
from contextvars import ContextVar
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ...failure import RejectedError, config_error, failure_or_none, rule_for
from ...failure.teaching import TeachesNames, taught
from . import circuits as registry
from .circuits import clock
from .verdict import verdict_of


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Literal, Self

    from .state import CircuitState


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
        if self._name and registry.find_circuit(self._name) is None:
            near = get_close_matches(
                self._name, [state.key for state in registry.known_circuits()], 1
            )
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
        state, permit, seconds = self._state, self.permit, now - self.started
        if state.is_counted(self):
            return
        if error is None:
            state.succeeded(permit, now, seconds)
            return
        failure = None if issubclass(type(error), RejectedError) else failure_or_none(error)
        verdict = (
            "neutral" if failure is None else verdict_of(failure, state.settings, _own_class(error))
        )
        if verdict == "neutral":
            state.released(permit, now, seconds)
        else:
            state.failed(permit, now, seconds, critical=verdict == "critical", because=failure)


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
        return Circuit(partial(registry.circuit_by_name, of), of)
    find: Callable[[], CircuitState | None] | None = getattr(
        getattr(of, "__binding__", of), "__circuit__", None
    )

    def found() -> CircuitState:
        state = None if find is None else find()
        if state is None:
            raise config_error(
                "circuit.of", "a key, or what is protected by a policy with a Breaker", of
            )
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
    for state in registry.known_circuits():
        name, number = state.key, 1
        while name in found:
            number += 1
            name = f"{state.key} #{number}"
        found[name] = Circuit(partial(_itself, state))
    return MappingProxyType(found)


def _itself(state: CircuitState) -> CircuitState:
    return state
