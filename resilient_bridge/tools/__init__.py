"""Tools that an agent calls: bounded, repeated as the policy says, and their failures as data. Each name loads when it is first used.

Rule: a tool stays the function it was; what the room adds is found at `Toolbox.call`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .commands import CommandResult as CommandResult
    from .context_guard import ContextGuard as ContextGuard
    from .degradation import Degradation as Degradation
    from .degradation import degradations as degradations
    from .hooks import HookEvent as HookEvent
    from .hooks import hook_answer as hook_answer
    from .spend_budget import SpendBudget as SpendBudget
    from .spend_state import SpendState as SpendState
    from .spend_state import SpendStatus as SpendStatus
    from .suggestions import suggest as suggest
    from .toolbox import Tool as Tool
    from .toolbox import Toolbox as Toolbox

__all__ = [
    "CommandResult",
    "ContextGuard",
    "Degradation",
    "HookEvent",
    "SpendBudget",
    "SpendState",
    "SpendStatus",
    "Tool",
    "Toolbox",
    "degradations",
    "hook_answer",
    "suggest",
]

_HOMES = {
    "CommandResult": "commands",
    "ContextGuard": "context_guard",
    "Degradation": "degradation",
    "HookEvent": "hooks",
    "SpendBudget": "spend_budget",
    "SpendState": "spend_state",
    "SpendStatus": "spend_state",
    "Tool": "toolbox",
    "Toolbox": "toolbox",
    "degradations": "degradation",
    "hook_answer": "hooks",
    "suggest": "suggestions",
}


if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, _HOMES)
