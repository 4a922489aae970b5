"""Policies composed and run: around functions of every kind, in blocks, and as data. Each name loads when it is first used.

Rule: what decides is pure (`decision`, `verdicts`, `explanation`, the `*_state` modules); what acts is small (`calls`, `streams`,
`blocks`) and learns the time, chance and how to wait from `environment` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


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
    from .recommended import resilient as resilient

__all__ = [
    "Attempt",
    "Circuit",
    "Explanation",
    "Outcome",
    "Policy",
    "capture",
    "circuit",
    "circuits",
    "current_attempt",
    "resilient",
]

_MODULES = {
    "Attempt": "attempt",
    "Circuit": "handles",
    "Explanation": "explanation",
    "Outcome": "outcome",
    "Policy": "policy",
    "capture": "outcome",
    "circuit": "handles",
    "circuits": "handles",
    "current_attempt": "attempt",
    "resilient": "recommended",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    module = import_module(f".{_MODULES[name]}", __name__)
    value = getattr(module, name)
    globals()[name] = value
    return value
