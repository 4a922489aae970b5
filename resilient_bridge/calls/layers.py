"""The guard for each layer of a policy; the only module that knows every strategy by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from ..values.fields import refuse
from .breaker.circuit import CIRCUITS
from .breaker.guard import BreakerGuard
from .breaker.value import Breaker
from .limits.guard import BulkheadGuard, RateGuard
from .limits.state import BULKHEADS, RATES
from .limits.value import Bulkhead, RateLimit
from .timeout.guard import BlockDeadlineGuard, DeadlineGuard, SyncDeadlineGuard, TimeoutGuard
from .timeout.value import Deadline, Timeout


if TYPE_CHECKING:
    from .breaker.shared_circuit import SharedCircuit
    from .breaker.state import CircuitState
    from .frame import Form
    from .guards import Guard
    from .layer import Layer
    from .registry import States
    from .shared.ports import SharedState

    class HasLayers(Protocol):
        """The part of a Policy that a plan is made from."""

        @property
        def layers(self) -> tuple[Layer, ...]: ...
        @property
        def state(self) -> SharedState | None: ...


def guard_of(
    layer: Layer, policy: HasLayers, states: States, form: Form, named: tuple[object, ...]
) -> Guard:
    """Return the guard of a layer.

    `named`: the exception classes that the Retry beside it names.
    """
    if isinstance(layer, Breaker):
        circuit = states.state(CIRCUITS, layer, policy.state)
        if circuit.is_shared:
            # imported here: most processes share nothing
            from .breaker.shared_circuit import SharedBreakerGuard

            return SharedBreakerGuard(cast("SharedCircuit", circuit), layer, named)
        return BreakerGuard(circuit, layer, named)
    if isinstance(layer, Bulkhead):
        return BulkheadGuard(states.state(BULKHEADS, layer), layer)
    if isinstance(layer, RateLimit):
        return RateGuard(states.state(RATES, layer), layer)
    if isinstance(layer, Timeout):
        return TimeoutGuard(layer)
    if isinstance(layer, Deadline):
        if form == "async_block":
            return BlockDeadlineGuard(layer.seconds)
        if form.startswith("async"):
            return DeadlineGuard(layer.seconds)
        return SyncDeadlineGuard(layer.seconds, is_bound=form == "block")
    message = f"no guard for {layer!r}"
    raise TypeError(message)


def circuit_of(policy: HasLayers, states: States) -> CircuitState | None:
    """Return the circuit that the policy's own calls use, None if no layer has one."""
    layer = next((layer for layer in policy.layers if isinstance(layer, Breaker)), None)
    return None if layer is None else states.state(CIRCUITS, layer, policy.state)


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
