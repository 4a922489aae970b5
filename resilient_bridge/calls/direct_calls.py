"""`policy.call(f)` and `policy.attempts()`: compiled once for each kind and name of function, or line of a loop.

Rule: what is compiled belongs to the policy object and holds neither that nor a function, so that
both are freed with their last reference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from ..failure.plain import PLAIN
from ..values.fields import refuse
from .binding import Binding
from .plan import Plan
from .protect import PROTECT, form_of, label_of
from .results import settled
from .timeout.value import Timeout


if TYPE_CHECKING:
    from collections.abc import Callable

    from .layers import HasLayers
    from .registry import States

    class Compiles(HasLayers, Protocol):
        """A Policy, as its `call` and `attempts` see it."""

        @property
        def compiled(self) -> dict[Any, Any]: ...
        def detached(self) -> HasLayers: ...


_MOST: Final = 512  # compiled functions and loops of one policy object


def runner_for(
    policy: Compiles, states: States, function: Any, *, name: str | None, idempotent: bool | None
) -> Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]:
    """Return what calls `function`, or another of its kind and name, with arguments, protected.

    Raises ConfigError for what cannot be protected.
    """
    form, label = form_of(function), name or label_of(function)
    key = form, label, idempotent
    found: Callable[..., Any] | None = found_in(states, policy, key)
    if found is not None:
        return found
    binding = Binding(
        policy.detached(), states, form=form, name=label, idempotent=idempotent, must_say=True
    )
    protect = PROTECT[form]

    def whole(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return protect(function, binding)(*args, **kwargs)

    # a rung gets the function's arguments, and a stream is a generator of its own
    runner: Callable[..., Any] = whole
    if form in {"sync", "async"} and binding.plan.fallback is None:
        runner = protect(_call if form == "sync" else _start, binding)
    keep(policy, key, runner)
    return runner


def found_in(states: States, policy: Compiles, key: object) -> Any:
    """Return what the policy has compiled; nothing if another one has applied its numbers since."""
    if states.compiled_for is not policy.layers:
        states.compiled_for = policy.layers
        policy.compiled.clear()
    return policy.compiled.get(key)


def keep(policy: Compiles, key: object, compiled: object) -> None:
    """Keep what was compiled; all is dropped when there is too much of it."""
    if len(policy.compiled) >= _MOST:
        policy.compiled.clear()
    policy.compiled[key] = compiled


def loop_plan(
    policy: Compiles, states: States, line: object, *, idempotent: bool | None, is_async: bool
) -> Plan:
    """Return the plan of a loop at this line in the code. ConfigError for layers that no block can have."""
    key = "loop", line, idempotent, is_async
    plan: Plan | None = found_in(states, policy, key)
    if plan is not None:
        return plan
    if any(isinstance(layer, Timeout) for layer in policy.layers) and not is_async:
        refuse(
            "Policy.attempts", "no Timeout around a sync block: it cannot be interrupted", policy
        )
    plan = Plan(
        policy.detached(),
        states,
        form="async_block" if is_async else "block",
        idempotent=idempotent,
        name=states.name,
        proofs="none",
        allowed_by="policy.attempts(idempotent=True)",
    )
    if plan.fallback is not None:
        refuse("Policy.attempts", "no Fallback: a block cannot be replaced by a function", policy)
    keep(policy, key, plan)
    return plan


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = function(*args, **kwargs)
    return result if type(result) in PLAIN else settled(function, result)


def _start(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)
