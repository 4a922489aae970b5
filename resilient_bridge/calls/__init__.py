"""Policies composed and run: around functions of every kind, in blocks, and as data. Each name loads when it is first used.

A folder for each strategy: its value, its state, the layer that enters and exits it. `run/` is the engine, which knows no strategy's insides.
Rule: what decides is pure (values, states, `decision`, `verdict`, `explanation`); what acts is small, and learns the time, random numbers
and how to wait from the world.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .attempt import Attempt as Attempt
    from .attempt import current_attempt as current_attempt
    from .breaker.handle import Circuit as Circuit
    from .breaker.handle import circuit as circuit
    from .breaker.handle import circuits as circuits
    from .breaker.value import Breaker as Breaker
    from .bulkhead.value import Bulkhead as Bulkhead
    from .explanation import Explanation as Explanation
    from .fallback.value import Fallback as Fallback
    from .outcome import Outcome as Outcome
    from .outcome import capture as capture
    from .policy import Policy as Policy
    from .policy import Protected as Protected
    from .rate_limit.value import RateLimit as RateLimit
    from .recommended import resilient as resilient
    from .retry.budget import RetryBudget as RetryBudget
    from .retry.value import Retry as Retry
    from .timeout.deadline import Deadline as Deadline
    from .timeout.value import Timeout as Timeout

__all__ = [
    "Attempt",
    "Breaker",
    "Bulkhead",
    "Circuit",
    "Deadline",
    "Explanation",
    "Fallback",
    "Outcome",
    "Policy",
    "Protected",
    "RateLimit",
    "Retry",
    "RetryBudget",
    "Timeout",
    "capture",
    "circuit",
    "circuits",
    "current_attempt",
    "resilient",
]

_HOMES = {
    "Breaker": "breaker.value",
    "Bulkhead": "bulkhead.value",
    "Deadline": "timeout.deadline",
    "Timeout": "timeout.value",
    "Fallback": "fallback.value",
    "RateLimit": "rate_limit.value",
    "Retry": "retry.value",
    "RetryBudget": "retry.budget",
    "Attempt": "attempt",
    "Circuit": "breaker.handle",
    "Explanation": "explanation",
    "Outcome": "outcome",
    "Policy": "policy",
    "Protected": "policy",
    "capture": "outcome",
    "circuit": "breaker.handle",
    "circuits": "breaker.handle",
    "current_attempt": "attempt",
    "resilient": "recommended",
}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
