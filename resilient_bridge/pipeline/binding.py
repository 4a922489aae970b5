"""A function and the policy around it: what kind of function it is, whose state it uses, and the plan in force.

Rule: the plan is made at decoration; a policy put in its place later is compiled at the next call and keeps the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import config_error
from .plan import Plan


if TYPE_CHECKING:
    from .breaker_state import CircuitState
    from .plan import Form, HasLayers
    from .states import States

__all__ = ["Binding"]


class Binding:
    """What a protected function needs to know at a call."""

    __slots__ = ("__weakref__", "form", "idempotent", "name", "plan", "states")

    def __init__(self, policy: HasLayers, states: States, *, form: Form, idempotent: bool, name: str) -> None:
        self.form: Form = form
        self.idempotent = idempotent
        self.name = name
        self.states = states
        self.plan = Plan(policy, states, form=form, idempotent=idempotent, name=name)

    def circuit_state(self) -> CircuitState | None:
        """Return the circuit in use, None without a Breaker."""
        return self.states.current

    def adopt(self, policy: Any) -> Plan:
        """Put another policy in force; circuits and budgets keep their state. ConfigError for what is no policy."""
        if not isinstance(policy, type(self.plan.policy)):
            raise config_error(f"{self.name}.policy", "a Policy", policy)
        self.plan = Plan(policy, self.states, form=self.form, idempotent=self.idempotent, name=self.name)
        return self.plan
