"""A function and its policy: the operation in force.

Rule: it is made at decoration. A policy that replaces another is compiled at the next call and
keeps the state.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack, cast

from ..failure import ConfigError, Failure, config_error
from ..failure.classifier import RESULTS, Reading
from .adaptive.value import AdaptiveLimit
from .breaker.value import Breaker
from .layer_order import only
from .plan import Operation, Plan, plan_of
from .retry.value import Retry


if TYPE_CHECKING:
    from collections.abc import Callable

    from .effects import EffectLedger
    from .explanation import Explanation
    from .frame import Form, Proofs
    from .keys import Read
    from .layer import Layer
    from .plan import Compiles
    from .registry import States


class Options(TypedDict, total=False):
    """The settings of a protected function besides its policy.

    `idempotent`: whether a repeat is harmless; None if not specified. `must_say`: then a policy
    with a Retry is refused. `proofs`: which proofs of the errors that come out of it hold for the
    whole call. `allowed_by`: how its user would permit repeats, for the note. `reading`: how its
    results are read, by their type if not specified. `effects`: the ledger whose gate is around it.
    `read`: how the arguments that a key function gets are found in those of the call; they are the
    same if not specified.
    """

    idempotent: Required[bool | None]
    must_say: bool
    proofs: Proofs
    allowed_by: str
    reading: Reading
    effects: EffectLedger | None
    read: Read | None


def unpermitted(name: str, layer: Layer, idempotent: bool | None) -> ConfigError:
    """Return the error for a layer that needs a function which may run twice."""
    return config_error(
        f"{type(layer).__name__} on {name}",
        "a function that may run twice: @policy(idempotent=True)",
        f"idempotent={idempotent}",
        write="@policy(idempotent=True)",
    )


def undecided(name: str, write: str = "") -> ConfigError:
    """Return the error for a Retry around a function whose `idempotent` is not specified."""
    write = (
        write
        or f"@policy(idempotent=True) above it, or policy(idempotent=True).call({name.rpartition('.')[2]})"
    )
    text = (
        f"{name}: say whether a repeat is safe: @policy(idempotent=True) if running it twice is harmless, "
        f"@policy(idempotent=False) if not, or wrap the client instead of the function; write {write}"
    )
    violation = {
        "field": "idempotent",
        "constraint": "True or False, because the policy has a Retry",
        "received": None,
        "write": write,
    }
    return ConfigError(
        Failure.of(
            "SYS_CONFIG_INVALID",
            text,
            details={"violations": (violation,)},
            suggestions=(
                "@policy(idempotent=True), @policy(idempotent=False), or wrap the client",
            ),
        )
    )


def _repeats(plan: Plan) -> str:
    if plan.idempotent:
        return "also what may have run, because you say that running it twice is harmless"
    if plan.proofs == "none":
        return "only what provably did not run: what these layers refused, and what raises NotExecutedError or is registered so"
    limited = "" if plan.idempotent is False else ", and what a limiter answered (429)"
    return f"only what provably did not reach the server{limited}; {plan.allowed_by} allows more"


class Binding:
    """The data that a protected function needs at a call."""

    __slots__ = ("__weakref__", "must_say", "operation", "read")

    def __init__(
        self,
        policy: Compiles,
        states: States,
        *,
        form: Form,
        name: str,
        **options: Unpack[Options],
    ) -> None:
        self.must_say = options.get("must_say", False)
        self.read = options.get("read")
        self.operation = self._compiled(
            policy,
            states,
            name,
            form=form,
            idempotent=options["idempotent"],
            proofs=options.get("proofs", "none"),
            allowed_by=options.get("allowed_by", "@policy(idempotent=True)"),
            reading=options.get("reading", RESULTS),
        )

    @property
    def states(self) -> States:
        """The state of its layers, which outlives a policy."""
        return self.operation.states

    def _compiled(
        self,
        policy: Compiles,
        states: States,
        name: str,
        *,
        form: Form,
        idempotent: bool | None,
        proofs: Proofs,
        allowed_by: str,
        reading: Reading,
    ) -> Operation:
        if (
            self.must_say
            and idempotent is None
            and any(isinstance(layer, Retry | AdaptiveLimit) for layer in policy.layers)
        ):
            raise undecided(name)
        if self.must_say and not idempotent:
            for layer in policy.layers:
                if layer.needs_permission:
                    raise unpermitted(name, layer, idempotent)
        plan = plan_of(
            policy,
            form=form,
            idempotent=idempotent,
            name=name,
            proofs=proofs,
            allowed_by=allowed_by,
            reading=reading,
        )
        if not plan.keys:
            return Operation(policy, plan, states, name)
        from .keys import ByKey, Unkeyed  # imported here: few policies have a key function

        unkeyed = Unkeyed(states)
        operation = Operation(policy, plan, unkeyed, name)
        operation.states = states
        compile_for = partial(_bound, policy, plan.of_value or plan, name, states)
        operation.by_key = ByKey(plan.keys, states, compile_for, self.read)
        breaker = only(plan.layers, Breaker)
        has_one = breaker is not None and breaker.key_function is None
        states.current = unkeyed.current if has_one else None
        return operation

    def explain(self) -> Explanation:
        """Return what the policy means around this function, and which repeats are allowed.

        The result prints as text.
        """
        from .explanation import Explanation

        operation, policy = self.operation, self.operation.policy
        if operation.inner is not None:
            operation = operation.inner.operation
        plan = operation.plan
        repeats = "" if plan.retry is None and plan.limit is None else _repeats(plan)
        now: tuple[str, ...] = ()
        if operation.limits is not None:
            from .adaptive.status import described

            now = described(operation.limits)
        return Explanation.of(policy.layers, policy.state, repeats, now)

    def __circuit__(self) -> object | None:
        """Return the circuit in use, None if no layer has one."""
        return self.operation.states.current

    def adopt(self, policy: Any) -> Operation:
        """Apply another policy; circuits and budgets keep their state.

        Raises ConfigError for an object that is no policy.
        """
        was = self.operation
        if not isinstance(policy, type(was.policy)):
            raise config_error(f"{was.name}.policy", "a Policy", policy)
        plan = was.plan
        self.operation = self._compiled(
            policy,
            was.states,
            was.name,
            form=plan.form,
            idempotent=plan.idempotent,
            proofs=plan.proofs,
            allowed_by=plan.allowed_by,
            reading=plan.reading,
        )
        return self.operation


def _bound(policy: Compiles, plan: Plan, name: str, owner: States, states: States) -> Binding:
    """Return the binding of a function for one value of its key functions."""
    binding = Binding.__new__(Binding)
    binding.must_say, binding.read = False, None
    binding.operation = Operation(policy, plan, states, name)
    binding.operation.states = owner
    return binding


def settled(function: Callable[..., Any], result: Any) -> Any:
    """Return the result of a sync function.

    ConfigError for an awaitable, which would end outside of every layer.
    """
    if not hasattr(cast("Any", type(result)), "__await__"):
        return result
    if hasattr(result, "close"):
        result.close()  # otherwise Python warns that it was never awaited
    wanted = "an async function, or one that returns no awaitable"
    raise config_error(
        getattr(function, "__qualname__", repr(function)), wanted, type(result).__name__
    )
