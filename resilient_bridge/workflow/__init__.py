"""Work in phases that survives crashes, damage and failures: what is finished is never done again, and nothing ends silently.

Rule: `checkpoint` knows and decides nothing of the world; `runner` acts; `keeping` and `artifacts` are its hands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_names import lazily


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
    __getattr__ = lazily(__name__, _HOMES)
