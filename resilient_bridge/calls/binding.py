"""A function and its policy: the kind of function, the state in use, and the plan in force.

Rule: the plan is made at decoration. A policy that replaces another is compiled at the next call
and keeps the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from ..failure import ConfigError, Failure, config_error
from .plan import Plan
from .results import RESULTS, Reading
from .retry.value import Retry


if TYPE_CHECKING:
    from .explanation import Explanation
    from .frame import Form, Proofs
    from .layer import Layer
    from .layers import HasLayers
    from .registry import States


class Options(TypedDict, total=False):
    """The settings of a protected function besides its policy.

    `idempotent`: whether a repeat is harmless; None if not specified. `must_say`: then a policy
    with a Retry is refused. `proofs`: which proofs of the errors that come out of it hold for the
    whole call. `allowed_by`: how its user would permit repeats, for the note. `reading`: how its
    results are read, by their type if not specified.
    """

    idempotent: Required[bool | None]
    must_say: bool
    proofs: Proofs
    allowed_by: str
    reading: Reading


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

    __slots__ = ("__weakref__", "form", "must_say", "name", "plan", "states")

    def __init__(
        self,
        policy: HasLayers,
        states: States,
        *,
        form: Form,
        name: str,
        **options: Unpack[Options],
    ) -> None:
        self.form: Form = form
        self.name = name
        self.states = states
        self.must_say = options.get("must_say", False)
        self.plan = self._planned(
            policy,
            options["idempotent"],
            options.get("proofs", "none"),
            options.get("allowed_by", "@policy(idempotent=True)"),
            options.get("reading", RESULTS),
        )

    def _planned(
        self,
        policy: HasLayers,
        idempotent: bool | None,
        proofs: Proofs,
        allowed_by: str,
        reading: Reading,
    ) -> Plan:
        if (
            self.must_say
            and idempotent is None
            and any(isinstance(layer, Retry) for layer in policy.layers)
        ):
            raise undecided(self.name)
        if self.must_say and not idempotent:
            for layer in policy.layers:
                if layer.needs_permission:
                    raise unpermitted(self.name, layer, idempotent)
        return Plan(
            policy,
            self.states,
            form=self.form,
            idempotent=idempotent,
            name=self.name,
            proofs=proofs,
            allowed_by=allowed_by,
            reading=reading,
        )

    def explain(self) -> Explanation:
        """Return what the policy means around this function, and which repeats are allowed.

        The result prints as text.
        """
        from .explanation import Explanation

        plan = self.plan
        return Explanation.of(
            plan.policy.layers, plan.policy.state, "" if plan.retry is None else _repeats(plan)
        )

    def __circuit__(self) -> object | None:
        """Return the circuit in use, None if no layer has one."""
        return self.states.current

    def adopt(self, policy: Any) -> Plan:
        """Apply another policy; circuits and budgets keep their state.

        Raises ConfigError for an object that is no policy.
        """
        if not isinstance(policy, type(self.plan.policy)):
            raise config_error(f"{self.name}.policy", "a Policy", policy)
        was = self.plan
        self.plan = self._planned(policy, was.idempotent, was.proofs, was.allowed_by, was.reading)
        return self.plan
