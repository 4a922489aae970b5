"""A policy compiled: its layers in order, split at the Retry and the Fallback; and its use by one function.

Rule: all that can be decided before the first call is decided here, once. A call only walks two
short tuples. What follows from the policy alone is in its `Plan`, which all its functions share;
what a function has of its own (a name, a circuit, a budget, a pause) is in its `Operation`.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from ..failure import BridgeError
from ..failure.classifier import RESULTS
from ..failure.what import Named
from ..values.fields import refuse
from .adaptive.value import AdaptiveLimit
from .breaker.circuit import CIRCUITS
from .conditions import check_conditions, conditions
from .decision import Matcher, asks_result, sits_out_circuits
from .fallback.ladder import started
from .fallback.value import Fallback
from .forms import form_of, label_of
from .hedge.value import Hedge
from .layer_order import key_functions, only
from .layers import Compiled, for_thread, guard_of, sort_of
from .limits.value import Bulkhead
from .retry.coordination import BUDGETS, NO_PAUSE, pause_of
from .retry.value import Retry
from .share.value import Share
from .shared import shares_circuits, shares_limits
from .timeout.guard import TimeoutGuard, Timers
from .timeout.value import Timeout


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from collections.abc import Set as AbstractSet

    from ..failure.classifier import Reading
    from .adaptive.guard import AdaptiveGuard
    from .adaptive.state import Limits
    from .breaker.state import CircuitState
    from .frame import CallFrame, Form, Proofs
    from .guards import Guard
    from .hedge.race import Racing
    from .keys import ByKey
    from .layer import Layer
    from .layers import HasLayers
    from .registry import Sort, States
    from .retry.coordination import SharedBudget
    from .share.flight import Sharing
    from .shared import Store

    class Wraps(Protocol):
        """What is put around a function for one call of it: a race, or a call that is shared."""

        def __call__(
            self,
            operation: Any,
            function: Callable[..., Awaitable[Any]],
            discarded: Callable[[Any], Awaitable[None]],
            /,
        ) -> Callable[..., Awaitable[Any]]: ...

    class Compiles(HasLayers, Protocol):
        """A Policy, which keeps what was compiled of it: for decorations, and for `call` and `attempts`."""

        @property
        def plans(self) -> tuple[Plan, ...]: ...
        def keep_plan(self, plan: Plan) -> None: ...
        @property
        def compiled(self) -> dict[Any, Any]: ...
        def detached(self) -> Compiles: ...


NO_RETRY: Final = Matcher(Retry(attempts=1))
_NONE: Final[Mapping[Any, Any]] = {}


class Plan:
    """The layers of one policy around functions of one form. Read-only once it is made.

    It holds neither the policy nor a function nor any state. `name` is that of the function for
    which it is made, for its errors.
    """

    __slots__ = (
        "allowed_by",
        "around",
        "asks",
        "asks_in_front",
        "asks_result",
        "attempts",
        "before",
        "exits",
        "fallback",
        "first_enter",
        "first_leave",
        "foresees",
        "form",
        "guards",
        "held",
        "idempotent",
        "inner",
        "is_asking",
        "is_short",
        "keys",
        "layers",
        "limit",
        "matcher",
        "of_value",
        "outer",
        "plain",
        "proofs",
        "reading",
        "retry",
        "shares_budget",
        "thread_timeout",
        "wraps",
    )

    def __init__(
        self,
        policy: HasLayers,
        *,
        form: Form,
        idempotent: bool | None,
        name: str,
        proofs: Proofs,
        allowed_by: str,
        reading: Reading = RESULTS,
    ) -> None:
        keyed, share = key_functions(policy.layers), only(policy.layers, Share)
        # Those inside of a Share: they belong to the call that its callers have in common.
        self.inner: Plan | None = None
        if share is not None:
            policy, part = _parted(policy, share, form, name, idempotent=idempotent)
            if part is not None:
                self.inner = Plan(
                    part,
                    form=form,
                    idempotent=idempotent,
                    name=name,
                    proofs=proofs,
                    allowed_by=allowed_by,
                    reading=reading,
                )
        self.layers = policy.layers
        self.form: Form = form
        self.idempotent = idempotent  # None: not specified
        self.proofs: Proofs = proofs
        self.allowed_by = allowed_by
        self.reading = reading  # how the results are read
        self.retry = only(policy.layers, Retry)
        # The most calls, or tenacity's stop; None without a Retry.
        self.attempts: object = None if self.retry is None else self.retry.attempts
        self.fallback: Fallback | None = only(policy.layers, Fallback)
        self.thread_timeout: Timeout | None = None
        self.held: tuple[Guard, ...] = ()
        before, around, inner = self._cut(policy, name)
        self.before, self.around = tuple(reversed(before)), tuple(reversed(around))
        self.guards: tuple[Guard, ...] = tuple(inner)
        limit: Any = next((guard for guard in inner if guard.is_adaptive), None)
        self.limit: AdaptiveGuard | None = limit
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
        # Whether it has conditions that may have to be awaited.
        self.asks = form in ("async", "async_stream") and (
            self.asks_result or any(conditions(layer) for layer in policy.layers)
        )
        self.shares_budget = (
            self.retry is not None
            and self.retry.budget is not None
            and shares_circuits(policy.state)
        )
        # Whether an answer is needed before a failed attempt is decided on.
        self.is_asking = self.asks or self.shares_budget
        sits_out = self.retry is not None and sits_out_circuits(self.retry)
        # Whether a repeat is not made that the circuit would reject.
        self.foresees = (
            self.retry is not None
            and not sits_out
            and any(guard.asks_circuit for guard in self.guards)
        )
        # What is around the function alone, inside of all guards.
        self.wraps: Wraps | None = self._raced(name) or self._shared(share)
        self._shorten([*before, *around], inner, sits_out=sits_out)
        # With key functions this plan takes no call: each value of them has an operation of its own.
        self.keys = keyed
        self.of_value: Plan | None = None
        if self.keys:
            self.of_value, self.is_short = copy(self), False

    def _shorten(self, outer: list[Guard], inner: list[Guard], *, sits_out: bool) -> None:
        """Prepare the short path, if there is one: the steps of a first attempt that succeeds.

        It cannot wait, and an open circuit ends it. The next circuit inside the Retry is nearly
        always present and is called by the runners directly.
        """
        guards = [*outer, *inner]
        may_wait = any(guard.may_wait for guard in guards)
        # an adaptive limit that limits nothing only notes the call, so the circuit may go first
        nearest = next((guard for guard in inner if guard is not self.limit), None)
        self.asks_in_front = nearest is not None and nearest.asks_circuit
        if self.asks_in_front:
            guards = [guard for guard in guards if guard is not nearest]
        # A constant Timeout is here by its timers themselves.
        steps = [guard.timers[0] if isinstance(guard, TimeoutGuard) else guard for guard in guards]
        self.first_enter = _one(steps)
        self.first_leave = _one(
            [step for step in reversed(steps) if isinstance(step, Timers) or step.gives_back]
        )
        self.is_short = (
            self.fallback is None
            and self.thread_timeout is None
            and not self.shares_budget
            and not may_wait
            and not sits_out
            and self.wraps is None
        )

    def _cut(self, policy: HasLayers, name: str) -> tuple[list[Guard], list[Guard], list[Guard]]:
        """Return three groups of guards.

        Those outside the Fallback, those between it and the Retry, and those inside the Retry.
        """
        form = self.form
        compiled = Compiled(
            shares_circuits(policy.state),
            form,
            _named_by_class(self.retry),
            shares_limits(policy.state),
        )
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
                self.thread_timeout = for_thread(layer, form, name)
            else:
                guard = guard_of(layer, compiled)
                if isinstance(layer, Bulkhead) and form.endswith("stream"):
                    # a stream keeps its permit until it ends, not until its first item
                    self.held = (guard,)
                else:
                    inner.append(guard)
        return before, around, inner

    def _shared(self, share: Share | None) -> Sharing | None:
        """Return what joins callers to one call; None if it may not run twice."""
        if share is None or self.inner is None:
            return None
        from .share.flight import Sharing  # imported here: few policies have one

        return Sharing(share, self.reading)

    def _raced(self, name: str) -> Racing | None:
        """Return what races the requests of an attempt; None if they may not run twice."""
        hedge = only(self.layers, Hedge)
        if hedge is None:
            return None
        if self.form not in {"async", "async_stream"}:
            refuse(
                f"Hedge on {name}",
                "an async function: both requests run in one thread",
                hedge,
                write="rb.Timeout(10, thread=True)",
            )
        if hedge.to is not None and form_of(hedge.to) != self.form:
            kind = "an async function" if self.form == "async" else "an async generator function"
            refuse(f"Hedge.to on {name}", f"{kind}, as the function is", hedge.to)
        if not self.idempotent:
            return None
        from .hedge.race import Racing  # imported here: few policies have one

        guards = (*self.outer, *self.guards, *self.held)
        if hedge.to is None:
            return Racing(hedge, self.reading, guards)
        # What goes elsewhere needs no permit and no turn here, and says nothing of what is here.
        circuits = tuple(guard for guard in guards if guard.asks_circuit)
        counts = circuits if self.limit is None else (*circuits, self.limit)
        to = started(self, hedge.to)
        return Racing(
            hedge, self.reading, circuits, to=to, target=label_of(hedge.to), counts=counts
        )


class Operation:
    """What one owner does by a plan: its name, and the state that its calls use.

    Another policy makes another one; the calls under way keep theirs.
    """

    __slots__ = (
        "budget",
        "by_key",
        "circuit",
        "in_front",
        "inner",
        "key",
        "limit_key",
        "limits",
        "name",
        "pause",
        "plan",
        "policy",
        "states",
        "used",
    )

    def __init__(self, policy: Compiles, plan: Plan, states: States, name: str) -> None:
        self.policy = policy
        self.plan = plan
        self.states = states
        self.name = name
        # Inside of a Share: the call that its callers have in common.
        self.inner: Any = None
        if plan.inner is not None:
            part: Any = Part(plan.inner.layers, policy.state)
            of_value = plan.inner.of_value or plan.inner
            self.inner = Operation(part, of_value, states, f"{name} (shared)")
        # With key functions: what calls the function for each value of them.
        self.by_key: ByKey[Any] | None = None
        self.budget = None
        if plan.retry is not None and plan.retry.budget is not None:
            self.budget = states.state(BUDGETS, plan.retry.budget, policy.state)
        self.circuit: CircuitState | None = None
        used: dict[Sort[Any, Any], Any] = {}
        for layer in policy.layers:
            if (sort := sort_of(layer)) is not None:
                used[sort] = states.state(sort, layer, policy.state)
        self.circuit = used.pop(CIRCUITS, None)
        # The state of the other layers, by its sort.
        self.used: Mapping[Sort[Any, Any], Any] = used or _NONE
        # The circuit that a first attempt asks before anything else.
        self.in_front = self.circuit if plan.asks_in_front else None
        self.limits: Limits | None = None
        # The key of the limit of every call, where a key function says it.
        self.limit_key: tuple[Any, ...] | None = None
        if (limit := only(policy.layers, AdaptiveLimit)) is not None:
            from .adaptive.owners import limits_of  # as its guard, in `layers`

            self.limits = limits_of(states.owner, limit, policy.state)
            self.limit_key = states.key_of(limit)
        self.pause = NO_PAUSE if plan.retry is None else pause_of(states)
        states.current = self.circuit
        # The name in events: of its circuit, or of the owner of its state.
        self.key = states.name if self.circuit is None else self.circuit.key

    @property
    def operation(self) -> Operation:
        """Itself: what is inside of a Share is called without a binding, and keeps its policy."""
        return self

    @property
    def tokens(self) -> SharedBudget | None:
        """The budget, if several processes share it."""
        return cast("SharedBudget", self.budget) if self.plan.shares_budget else None


class Part(NamedTuple):
    """Some layers of a policy."""

    layers: tuple[Layer, ...]
    state: Store | None


def _parted(
    policy: HasLayers, share: Share, form: Form, name: str, *, idempotent: bool | None
) -> tuple[Part, Part | None]:
    """Return the layers outside of a Share, and those inside of it.

    All are outside if the calls may not run twice: then there is nothing to share.
    """
    if form != "async":
        refuse(
            f"Share on {name}",
            "an async function that returns its whole answer",
            share,
            write="rb.Policy(rb.Retry())",
        )
    layers = policy.layers
    at = next(index for index, layer in enumerate(layers) if layer is share)
    outer, inner = layers[:at], layers[at + 1 :]
    if not idempotent:
        return Part((*outer, *inner), policy.state), None
    return Part(outer, policy.state), Part(inner, policy.state)


def plan_of(
    policy: Compiles,
    *,
    form: Form,
    idempotent: bool | None,
    name: str,
    proofs: Proofs,
    allowed_by: str,
    reading: Reading = RESULTS,
) -> Plan:
    """Return the plan of a policy for this form, which all functions have for which it says the same.

    ConfigError for a layer that no such function can have.
    """
    for plan in policy.plans:
        if (
            plan.form == form
            and plan.idempotent is idempotent
            and plan.proofs == proofs
            and plan.allowed_by == allowed_by
            and plan.reading is reading
        ):
            return plan
    plan = Plan(
        policy,
        form=form,
        idempotent=idempotent,
        name=name,
        proofs=proofs,
        allowed_by=allowed_by,
        reading=reading,
    )
    policy.keep_plan(plan)
    return plan


class _All:
    """Several guards as one, for a first attempt that succeeds; `steps` are in the order of use."""

    __slots__ = ("_steps",)

    def __init__(self, steps: list[Guard | Timers]) -> None:
        self._steps = tuple(steps)

    def enter(self, attempt: CallFrame) -> None:
        for step in self._steps:
            step.enter(attempt)

    def leave(self, attempt: CallFrame, error: BaseException | None) -> None:
        for step in self._steps:
            step.leave(attempt, error)


def _one(steps: list[Guard | Timers]) -> Guard | Timers | _All | None:
    """Return the steps as one: none, the only one, or a loop over them."""
    if len(steps) < 2:
        return steps[0] if steps else None
    return _All(steps)


def _named_by_class(retry: Retry | None) -> tuple[Any, ...]:
    """Return the exception classes that the Retry names: for the circuit they are failures, too."""
    named: list[Any] = [] if retry is None else [*retry.on, *retry.rules]
    found = tuple(what for what in named if _is_error_class(what))
    return retry.on if retry is not None and found == retry.on else found


def _is_error_class(what: object) -> bool:
    # Our own rejections never reached the server. `Exception` is taken literally: every one.
    return isinstance(what, Named) or (isinstance(what, type) and not issubclass(what, BridgeError))
