"""Retry, breaker and the other policies: composed, put around functions, or read as data.

Each name loads when it is first used. There is a folder for each sort of strategy, with its value,
its state, and the layer that is entered and exited. `engine` is the loop; it does not depend on the
internals of a strategy. The tables here list the strategies, `layers` has what makes the guard of each.

Rule: decisions are pure (values, states, `decision`, `outcomes`, `explanation`). The code with side
effects is small, and gets the time, random numbers and waits from the world.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .adaptive.status import LimitStatus as LimitStatus
    from .adaptive.status import adaptive_limits as adaptive_limits
    from .adaptive.value import AdaptiveLimit as AdaptiveLimit
    from .breaker.circuit import Circuit as Circuit
    from .breaker.circuit import circuit as circuit
    from .breaker.circuit import circuits as circuits
    from .breaker.value import Breaker as Breaker
    from .explanation import Explanation as Explanation
    from .fallback.value import Fallback as Fallback
    from .frame import Attempt as Attempt
    from .frame import current_attempt as current_attempt
    from .hedge.value import Hedge as Hedge
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
    from .share.flight import Answer as Answer
    from .share.flight import current_answer as current_answer
    from .share.value import Share as Share
    from .timeout.value import Deadline as Deadline
    from .timeout.value import Timeout as Timeout

_NAMES = {
    "adaptive.status": "LimitStatus adaptive_limits",
    "breaker.circuit": "Circuit circuit circuits",
    "explanation": "Explanation",
    "frame": "Attempt",
    "hedge.value": "Hedge",
    "outcome": "Outcome",
    "policy": "Protected",
    "share.flight": "Answer current_answer",
    "share.value": "Share",
}

# Listed at the top level. First the strategies, in the order in which texts name them.
_INSIDE = {
    "retry.value": "Retry RetryBudget",
    "breaker.value": "Breaker",
    "timeout.value": "Timeout Deadline",
    "limits.value": "Bulkhead RateLimit",
    "adaptive.value": "AdaptiveLimit",
    "fallback.value": "Fallback",
    "frame": "current_attempt",
    "layer": "Layer",
    "outcome": "capture",
    "policy": "Policy",
    "recommended": "resilient",
}


@cache
def strategies() -> tuple[type[Layer], ...]:
    """Return the class of each strategy of ours: the layers among the values of both tables."""
    base: type[Layer] = import_module(".layer", __name__).Layer
    found = (
        getattr(import_module(f".{home}", __name__), name)
        for home, names in (*_INSIDE.items(), *_NAMES.items())
        if home.endswith(".value")
        for name in names.split()
    )
    return tuple(kind for kind in found if issubclass(kind, base))


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES, _INSIDE)
