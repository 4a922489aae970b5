"""For AI agents: tools with time limits and safe retries, workflows, spend and context limits,
local daemons.

Rule: a decorated tool keeps its signature and its exceptions; `Toolbox.call` returns outcomes. Each
name is imported on its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


if TYPE_CHECKING:
    from .commands.command_answers import CommandStatus as CommandStatus
    from .commands.commands import Command as Command
    from .commands.commands import Commands as Commands
    from .connection_states import ConnectionStates as ConnectionStates
    from .connection_states import ConnectionTracker as ConnectionTracker
    from .context_guard import ContextGuard as ContextGuard
    from .daemons.daemon import Daemon as Daemon
    from .daemons.daemon import DaemonAnswer as DaemonAnswer
    from .daemons.health_probe import DaemonHealth as DaemonHealth
    from .degradation import Degradation as Degradation
    from .degradation import degradations as degradations
    from .hook_events import HookEvent as HookEvent
    from .hook_events import hook_answer as hook_answer
    from .spending.spend_budget import SpendBudget as SpendBudget
    from .spending.spend_state import SpendState as SpendState
    from .spending.spend_state import SpendStatus as SpendStatus
    from .suggestions.suggest import suggest as suggest
    from .tools.shell_commands import CommandResult as CommandResult
    from .tools.tool_calls import Tool as Tool
    from .tools.toolbox import Toolbox as Toolbox
    from .workflow.checkpoint import WorkflowStatus as WorkflowStatus
    from .workflow.phase import Phase as Phase
    from .workflow.report import WorkflowReport as WorkflowReport
    from .workflow.workflow import Workflow as Workflow

_NAMES = {
    "commands.command_answers": "CommandStatus",
    "commands.commands": "Command Commands",
    "connection_states": "ConnectionStates ConnectionTracker",
    "context_guard": "ContextGuard",
    "daemons.daemon": "Daemon DaemonAnswer",
    "daemons.health_probe": "DaemonHealth",
    "degradation": "Degradation degradations",
    "hook_events": "hook_answer HookEvent",
    "spending.spend_budget": "SpendBudget",
    "spending.spend_state": "SpendState SpendStatus",
    "suggestions.suggest": "suggest",
    "tools.shell_commands": "CommandResult",
    "tools.tool_calls": "Tool",
    "tools.toolbox": "Toolbox",
    "workflow.checkpoint": "WorkflowStatus",
    "workflow.phase": "Phase",
    "workflow.report": "WorkflowReport",
    "workflow.workflow": "Workflow",
}


if not TYPE_CHECKING:
    __all__, __dir__, __getattr__ = lazily(__name__, _NAMES)
