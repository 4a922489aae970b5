"""Putting a policy around a function: the loop for its kind.

For good (`bind`), or for one call or one `for` loop of `policy.call(f)` and `policy.attempts()`:
those are compiled once for each kind and name of function, or line of a loop. Rule: what is
compiled belongs to the policy object and holds neither that nor a function, so that both are freed
with their last reference.
"""

from __future__ import annotations

from functools import update_wrapper
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Unpack

from ..failure.failure import PLAIN
from ..values.fields import refuse
from .binding import Binding, Options, settled
from .engine import protect_async
from .engine_sync import protect_sync
from .fallback.value import Fallback
from .forms import check_arguments, form_of, label_of
from .frame import CURRENT
from .hedge.value import Hedge
from .keys import passed_on
from .layer_order import only
from .plan import Operation, plan_of
from .registry import States
from .share.value import Share
from .stream_calls import protect_async_stream, protect_stream
from .timeout.value import Timeout


if TYPE_CHECKING:
    from collections.abc import Callable

    from .frame import Form
    from .plan import Compiles


def bind(
    policy: Compiles,
    function: Any,
    *,
    name: str | None = None,
    states: States | None = None,
    shared_as: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """Return `function` protected by `policy`.

    With `states` it uses that state, without it it is a decoration.

    `shared_as` is its name for other processes; None: its qualified name. The rest: see `Options`.
    """
    form = form_of(function)
    label = name or label_of(function)
    used = states or States(label, shared_as or (label_of(function) if name else label))
    binding = Binding(policy, used, form=form, name=label, **options)
    check_target(policy, function, label)
    protected: Any = PROTECT[form](function, binding)
    if (ledger := options.get("effects")) is not None:
        from .effects import Gate, guarded

        gate = Gate(ledger, label, function, binding.operation.plan.reading)
        protected = guarded(protected, gate, form)
    if states is None:
        update_wrapper(protected, function)
        protected.explain = binding.explain
        if isinstance(function, FunctionType):  # what `update_wrapper` leaves out
            protected.__defaults__, protected.__kwdefaults__ = (
                function.__defaults__,
                function.__kwdefaults__,
            )
        protected.policy = policy  # after `update_wrapper`: the function may be protected already
    protected.__binding__ = binding  # for `circuit(function)`, adapters and tests
    return protected


def check_target(policy: Compiles, function: Any, name: str) -> None:
    """Raise ConfigError if a Hedge goes to a function with other arguments."""
    hedge = only(policy.layers, Hedge)
    if hedge is not None and hedge.to is not None:
        check_arguments(f"Hedge.to on {name}", hedge.to, function)


PROTECT: Final[dict[Form, Callable[[Any, Binding], Any]]] = {
    "async": protect_async,
    "sync": protect_sync,
    "async_stream": protect_async_stream,
    "stream": protect_stream,
}


def protected_for(bound: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what is bound around `function`, as it is for the key of these arguments.

    It is `bound` itself unless its policy has key functions.
    """
    by_key = bound.__binding__.operation.by_key
    if by_key is not None and not CURRENT.get().world.is_disabled:
        binding = by_key.of(args, kwargs)
        bound = PROTECT[binding.operation.plan.form](function, binding)
        bound.__binding__ = binding
    return bound


# ---- calls and loops of a policy -----------------------------------------------------------------


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
    detached, protect = policy.detached(), PROTECT[form]
    # a rung gets the function's arguments, and a stream is a generator of its own
    is_whole = form not in {"sync", "async"} or any(
        isinstance(layer, Fallback | Share) or (isinstance(layer, Hedge) and layer.to is not None)
        for layer in detached.layers
    )
    binding = Binding(
        detached,
        states,
        form=form,
        name=label,
        idempotent=idempotent,
        must_say=True,
        read=None if is_whole else passed_on,
    )

    def whole(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return protect(function, binding)(*args, **kwargs)

    check_target(detached, function, label)
    runner: Callable[..., Any] = whole
    if not is_whole:
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


def loop_operation(
    policy: Compiles, states: States, line: object, *, idempotent: bool | None, is_async: bool
) -> Operation:
    """Return what a loop at this line in the code. ConfigError for layers that no block can have."""
    key = "loop", line, idempotent, is_async
    operation: Operation | None = found_in(states, policy, key)
    if operation is not None:
        return operation
    if any(isinstance(layer, Timeout) for layer in policy.layers) and not is_async:
        refuse(
            "Policy.attempts", "no Timeout around a sync block: it cannot be interrupted", policy
        )
    if any(isinstance(layer, Hedge) for layer in policy.layers):
        refuse("Policy.attempts", "no Hedge: a block cannot run twice at once", policy)
    if any(isinstance(layer, Share) for layer in policy.layers):
        refuse(
            "Policy.attempts", "no Share: a block returns no answer that others could get", policy
        )
    plan = plan_of(
        policy,
        form="async_block" if is_async else "block",
        idempotent=idempotent,
        name=states.name,
        proofs="none",
        allowed_by="policy.attempts(idempotent=True)",
    )
    if plan.keys:
        wanted = "keys that are names: a block has no arguments that a function could read"
        refuse("Policy.attempts", wanted, policy)
    if plan.fallback is not None:
        refuse("Policy.attempts", "no Fallback: a block cannot be replaced by a function", policy)
    operation = Operation(policy.detached(), plan, states, states.name)
    keep(policy, key, operation)
    return operation


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    result = function(*args, **kwargs)
    return result if type(result) in PLAIN else settled(function, result)


def _start(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)
