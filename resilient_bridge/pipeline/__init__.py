"""Policies composed and run: around functions of every kind, in blocks, and as data. Each name loads when it is first used.

Rule: what decides is pure (`decision`, `verdicts`, `explanation`, the `*_state` modules); what acts is small (`calls`, `streams`,
`blocks`) and learns the time, chance and how to wait from `environment` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .attempt import Attempt as Attempt
    from .attempt import current_attempt as current_attempt
    from .explanation import Explanation as Explanation
    from .handles import Circuit as Circuit
    from .handles import circuit as circuit
    from .handles import circuits as circuits
    from .outcome import Outcome as Outcome
    from .outcome import capture as capture
    from .policy import Policy as Policy
    from .policy import Protected as Protected
    from .recommended import resilient as resilient

__all__ = [
    "Attempt",
    "Circuit",
    "Explanation",
    "Outcome",
    "Policy",
    "Protected",
    "capture",
    "circuit",
    "circuits",
    "current_attempt",
    "resilient",
]

_HOMES = {
    "Attempt": "attempt",
    "Circuit": "handles",
    "Explanation": "explanation",
    "Outcome": "outcome",
    "Policy": "policy",
    "Protected": "policy",
    "capture": "outcome",
    "circuit": "handles",
    "circuits": "handles",
    "current_attempt": "attempt",
    "resilient": "recommended",
}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
