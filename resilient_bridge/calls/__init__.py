"""Retry, breaker and the other policies: composed, put around functions, or read as data.

Each name loads when it is first used. There is a folder for each sort of strategy, with its value,
its state, and the layer that is entered and exited. `engine` is the loop; it does not depend on the
internals of a strategy.

Rule: decisions are pure (values, states, `decision`, `outcomes`, `explanation`). The code with side
effects is small, and gets the time, random numbers and waits from the world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .breaker.circuit import Circuit as Circuit
    from .breaker.circuit import circuit as circuit
    from .breaker.circuit import circuits as circuits
    from .breaker.value import Breaker as Breaker
    from .current import Attempt as Attempt
    from .current import current_attempt as current_attempt
    from .explanation import Explanation as Explanation
    from .fallback.value import Fallback as Fallback
    from .layer import Layer as Layer
    from .limits.value import Bulkhead as Bulkhead
    from .limits.value import RateLimit as RateLimit
    from .outcome import Outcome as Outcome
    from .outcome import capture as capture
    from .policy import Policy as Policy
    from .policy import Protected as Protected
    from .recommended import resilient as resilient
    from .retry.value import Retry as Retry
    from .retry.value import RetryBudget as RetryBudget
    from .timeout.value import Deadline as Deadline
    from .timeout.value import Timeout as Timeout

_NAMES = {
    "breaker.circuit": "Circuit circuit circuits",
    "current": "Attempt",
    "explanation": "Explanation",
    "outcome": "Outcome",
    "policy": "Protected",
}

# Listed at the top level.
_INSIDE = {
    "breaker.value": "Breaker",
    "current": "current_attempt",
    "fallback.value": "Fallback",
    "layer": "Layer",
    "limits.value": "Bulkhead RateLimit",
    "outcome": "capture",
    "policy": "Policy",
    "recommended": "resilient",
    "retry.value": "Retry RetryBudget",
    "timeout.value": "Deadline Timeout",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES, _INSIDE)
