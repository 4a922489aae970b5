"""The table of strategies: what makes the guard of each layer. A new one has a row here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ..values.fields import refuse
from .adaptive.value import AdaptiveLimit
from .breaker.circuit import CIRCUITS
from .breaker.guard import BreakerGuard
from .breaker.value import Breaker
from .limits.guard import RATES, BulkheadGuard, RateGuard
from .limits.state import BULKHEADS
from .limits.value import Bulkhead, RateLimit
from .timeout.guard import BlockDeadlineGuard, DeadlineGuard, SyncDeadlineGuard, timeout_guard_of
from .timeout.value import Deadline, Timeout


if TYPE_CHECKING:
    from collections.abc import Callable

    from .breaker.state import CircuitState
    from .frame import Form
    from .guards import Guard
    from .layer import Layer
    from .registry import Sort, States
    from .shared import Store

    class HasLayers(Protocol):
        """The part of a Policy that a plan is made from."""

        @property
        def layers(self) -> tuple[Layer, ...]: ...
        @property
        def state(self) -> Store | None: ...


class Compiled(NamedTuple):
    """What a layer needs to make its guard, which is that of all functions of a policy.

    `is_shared`: whether processes share the policy's circuits; `is_limit_shared`: its adaptive
    limits. `named`: the exception classes that
    the Retry beside it names.
    """

    is_shared: bool
    form: Form
    named: tuple[object, ...]
    is_limit_shared: bool = False


def _adaptive(layer: AdaptiveLimit, compiled: Compiled) -> Guard:
    from .adaptive.guard import AdaptiveGuard  # 2,000 lines that no other policy needs

    return AdaptiveGuard(layer, compiled.is_limit_shared)


def _breaker(layer: Breaker, compiled: Compiled) -> Guard:
    if compiled.is_shared:
        # imported here: most processes share nothing
        from .breaker.shared_circuit import SharedBreakerGuard

        return SharedBreakerGuard(layer, compiled.named)
    return BreakerGuard(layer, compiled.named)


def _deadline(layer: Deadline, compiled: Compiled) -> Guard:
    if compiled.form == "async_block":
        return BlockDeadlineGuard(layer.seconds)
    if compiled.form.startswith("async"):
        return DeadlineGuard(layer.seconds)
    return SyncDeadlineGuard(layer.seconds, is_bound=compiled.form == "block")


GUARDS: Final[dict[type[Layer], Callable[[Any, Compiled], Guard]]] = {
    AdaptiveLimit: _adaptive,
    Bulkhead: lambda layer, _: BulkheadGuard(layer),
    RateLimit: lambda layer, _: RateGuard(layer),
    Breaker: _breaker,
    Timeout: lambda layer, _: timeout_guard_of(layer.seconds),
    Deadline: _deadline,
}
"""What makes the guard of each layer. Retry and Fallback have none: they are the loop around the
others (`plan`). A layer that is not here is a user's own."""

SORTS: Final[dict[type[Layer], Sort[Any, Any]]] = {
    Bulkhead: BULKHEADS,
    RateLimit: RATES,
    Breaker: CIRCUITS,
}
"""The sort of state that each owner of a layer has for it; the guard finds it at the attempt's
operation (`guards.state_for`)."""


def guard_of(layer: Layer, compiled: Compiled) -> Guard:
    """Return the guard of a layer; a user's own is asked through `own_layer`."""
    for kind in type(layer).__mro__:
        if kind in GUARDS:
            return GUARDS[kind](layer, compiled)
    from .own_layer import OwnGuard  # imported here: few policies have one

    return OwnGuard(layer)


def sort_of(layer: Layer) -> Sort[Any, Any] | None:
    """Return the sort of state that a layer needs, if it needs one."""
    return next((SORTS[kind] for kind in type(layer).__mro__ if kind in SORTS), None)


def circuit_of(policy: HasLayers, states: States) -> CircuitState | None:
    """Return the circuit that the policy's own calls use, None if there is not one for all."""
    layer = next((layer for layer in policy.layers if isinstance(layer, Breaker)), None)
    if layer is None or layer.key_function is not None:
        return None
    return states.state(CIRCUITS, layer, policy.state)


def for_thread(layer: Timeout, form: Form, name: str) -> Timeout:
    """Return a Timeout bounding a sync function in a thread; ConfigError if that is impossible."""
    if form == "stream" or not layer.thread:
        refuse(
            f"Timeout on {name}",
            "an async function, or thread=True on a sync function that is no generator (it is left behind in its thread)",
            layer,
            write=f"rb.{layer.evolve(thread=True)!r}" if form != "stream" else "rb.Deadline(10)",
        )
    return layer
