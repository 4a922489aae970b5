"""Work in phases that survives crashes, damage and failures: what is finished is never done again, and nothing ends silently.

Rule: `checkpoint` knows and decides nothing of the world; `runner` acts; `keeping` and `artifacts` are its hands.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from .checkpoint import WorkflowStatus as WorkflowStatus
    from .phase import Phase as Phase
    from .report import WorkflowReport as WorkflowReport
    from .workflow import Workflow as Workflow

__all__ = ["Phase", "Workflow", "WorkflowReport", "WorkflowStatus"]

_HOMES = {
    "Phase": "phase",
    "Workflow": "workflow",
    "WorkflowReport": "report",
    "WorkflowStatus": "checkpoint",
}


if not TYPE_CHECKING:  # loop, files and child processes are loaded by those who use them

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            msg = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value: object = getattr(import_module(f".{home}", __name__), name)
        globals()[name] = value
        return value
