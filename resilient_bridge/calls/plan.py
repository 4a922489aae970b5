"""A policy compiled for one function: its layers in order, split at the Retry and the Fallback.

Rule: all that can be decided before the first call is decided here, once. A call only walks two
short tuples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from ..failure import BridgeError
from ..failure.what import Named
from ..values.fields import refuse
from .conditions import check_conditions, conditions
from .fallback.value import Fallback
from .frame import Planned
from .guards import CircuitAsked, Guard
from .hedge.value import Hedge
from .layer_order import only
from .layers import Compiled, for_thread, guard_of
from .limits.value import Bulkhead
from .results import RESULTS
from .retry.coordination import BUDGETS, NO_PAUSE, pause_of
from .retry.decision import Matcher, asks_result, sits_out_circuits
from .retry.value import Retry
from .timeout.guard import TimeoutGuard, Timers
from .timeout.value import Timeout


if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from .frame import Form, Proofs
    from .hedge.race import Racing
    from .layers import HasLayers
    from .registry import States
    from .results import Reading
    from .retry.coordination import SharedBudget


NO_RETRY: Final = Matcher(Retry(attempts=1))


class Plan(Planned):
    """The layers of one policy around one function. Read-only once it is made."""

    __slots__ = (
        "allowed_by",
        "around",
        "asks",
        "asks_result",
        "attempts",
        "before",
        "budget",
        "circuit",
        "circuits",
        "enter",
        "exits",
        "fallback",
        "form",
        "guards",
        "held",
        "idempotent",
        "is_asking",
        "is_short",
        "key",
        "leave",
        "matcher",
        "name",
        "named",
        "outer",
        "pause",
        "plain",
        "policy",
        "proofs",
        "racing",
        "reading",
        "retry",
        "states",
        "thread_timeout",
        "tokens",
    )

    def __init__(
        self,
        policy: HasLayers,
        states: States,
        *,
        form: Form,
        idempotent: bool | None,
        name: str,
        proofs: Proofs,
        allowed_by: str,
        reading: Reading = RESULTS,
    ) -> None:
        self.policy = policy
        self.form = form
        self.name = name
        self.idempotent = idempotent
        self.proofs = proofs
        self.allowed_by = allowed_by
        self.reading = reading
        self.retry = only(policy.layers, Retry)
        self.attempts = None if self.retry is None else self.retry.attempts
        self.fallback: Fallback | None = only(policy.layers, Fallback)
        self.named = _named_by_class(self.retry)
        self.budget = None
        if self.retry is not None and self.retry.budget is not None:
            self.budget = states.state(BUDGETS, self.retry.budget, policy.state)
        self.tokens: SharedBudget | None = None
        if self.budget is not None and self.budget.is_shared:
            self.tokens = cast("SharedBudget", self.budget)
        self.thread_timeout: Timeout | None = None
        self.states = states
        self.held: tuple[Guard, ...] = ()
        before, around, inner = self._cut(policy, states, form)
        self.pause = NO_PAUSE if self.retry is None else pause_of(states)
        circuits = (guard.circuit for guard in (*before, *around, *inner))
        states.current = next((circuit for circuit in circuits if circuit is not None), None)
        self.key = states.name if states.current is None else states.current.key
        self.before, self.around = tuple(reversed(before)), tuple(reversed(around))
        self.guards: tuple[Guard, ...] = tuple(inner)
        exits = reversed(self.guards)
        if form.endswith("block"):  # every layer is entered for each block
            exits = iter((*exits, *self.around, *self.before))
        self.exits = tuple(guard for guard in exits if guard.gives_back)
        self.outer: tuple[Guard, ...] = (*before, *around)
        self.matcher = NO_RETRY if self.retry is None else Matcher(self.retry)
        self.asks_result = self.retry is not None and asks_result(self.retry)
        # The types of results that need no check; none if the policy checks every result.
        self.plain: AbstractSet[type] = frozenset() if self.asks_result else reading.plain
        check_conditions(policy.layers, form, name)
        self.asks = form in ("async", "async_stream") and (
            self.asks_result or any(conditions(layer) for layer in policy.layers)
        )
        # Whether an answer is needed before a failed attempt is decided on.
        self.is_asking = self.asks or self.tokens is not None
        sits_out = self.retry is not None and sits_out_circuits(self.retry)
        self.circuits: tuple[CircuitAsked, ...] = ()
        if self.retry is not None and not sits_out:
            self.circuits = tuple(guard.circuit for guard in inner if guard.circuit is not None)
        self.racing = self._raced(policy)
        self._shorten([*before, *around], inner, sits_out=sits_out)

    def _shorten(self, outer: list[Guard], inner: list[Guard], *, sits_out: bool) -> None:
        """Prepare the short path, if there is one: the steps of a first attempt that succeeds.

        It cannot wait, and an open circuit ends it. The next circuit inside the Retry is nearly
        always present and is called by the runners directly.
        """
        guards = [*outer, *inner]
        may_wait = any(guard.may_wait for guard in guards)
        self.circuit: CircuitAsked | None = inner[0].circuit if inner else None
        if self.circuit is not None:
            guards = [*outer, *inner[1:]]
        self.enter = _one(tuple(_shortest(guard).enter for guard in guards))
        self.leave = _one(
            tuple(_shortest(guard).leave for guard in reversed(guards) if guard.gives_back)
        )
        self.is_short = (
            self.fallback is None
            and self.thread_timeout is None
            and self.tokens is None
            and not may_wait
            and not sits_out
            and self.racing is None
        )

    def _cut(
        self, policy: HasLayers, states: States, form: Form
    ) -> tuple[list[Guard], list[Guard], list[Guard]]:
        """Return three groups of guards.

        Those outside the Fallback, those between it and the Retry, and those inside the Retry.
        """
        inner: list[Guard] = []
        before: list[Guard] = []
        around: list[Guard] = []
        for layer in policy.layers:
            if isinstance(layer, Fallback):
                before, inner = inner, []
            elif isinstance(layer, Retry):
                around, inner = inner, []
            elif isinstance(layer, Hedge):
                pass  # around the function alone: see `_raced`
            elif isinstance(layer, Timeout) and not form.startswith("async"):
                self.thread_timeout = for_thread(layer, form, self.name)
            else:
                guard = guard_of(layer, Compiled(policy, states, form, self.named))
                if isinstance(layer, Bulkhead) and form.endswith("stream"):
                    # a stream keeps its permit until it ends, not until its first item
                    self.held = (guard,)
                else:
                    inner.append(guard)
        return before, around, inner

    def _raced(self, policy: HasLayers) -> Racing | None:
        """Return what races the requests of an attempt; None if they may not run twice."""
        hedge = only(policy.layers, Hedge)
        if hedge is None:
            return None
        if self.form not in {"async", "async_stream"}:
            refuse(
                f"Hedge on {self.name}",
                "an async function, of which two calls can run in one task's time",
                hedge,
                write="rb.Timeout(10, thread=True)",
            )
        if not self.idempotent:
            return None
        from .hedge.race import Racing  # imported here: few policies have one

        guards = (*self.outer, *self.guards, *self.held)
        return Racing(self, hedge, states=self.states, guards=guards, pause=self.pause)


def _one(steps: tuple[Callable[..., Any], ...]) -> Callable[..., Any] | None:
    """Return the steps as one: none, the only one, or a loop over them."""
    if len(steps) < 2:
        return steps[0] if steps else None

    def all_of_them(*args: Any) -> None:
        for step in steps:
            step(*args)

    return all_of_them


def _shortest(guard: Guard) -> Guard | Timers:
    """Return what a first attempt that succeeds enters and exits.

    For a constant Timeout these are its timers themselves.
    """
    return guard.timers[0] if isinstance(guard, TimeoutGuard) else guard


def _named_by_class(retry: Retry | None) -> tuple[Any, ...]:
    """Return the exception classes that the Retry names: for the circuit they are failures, too."""
    named: list[Any] = [] if retry is None else [*retry.on, *retry.rules]
    return tuple(what for what in named if _is_error_class(what))


def _is_error_class(what: object) -> bool:
    # Our own rejections never reached the server. `Exception` is taken literally: every one.
    return isinstance(what, Named) or (isinstance(what, type) and not issubclass(what, BridgeError))
