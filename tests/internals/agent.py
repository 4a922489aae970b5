"""What tests use of `resilient_bridge.agent` below its door."""

from __future__ import annotations

from tests.internals import lazily


__getattr__ = lazily(
    "resilient_bridge.agent",
    {
        "spending": "spend_budget",
        "spending.spend_state": "SpendAccount amount_of",
        "suggestions": "suggest",
        "suggestions.existing_paths": "status_of",
        "suggestions.near_misses": "SearchAllowance close_names near_paths",
        "suggestions.suggest": "fixes",
        "suggestions.suggestion_context": "SuggestionContext",
        "tools": "bounded tool_calls",
        "tools.tool_arguments": "Parameters",
        "workflow": "runner verification workflow",
        "workflow.artifacts": "ArtifactError HiddenError Measured commit_of measure name_of problems",
        "workflow.checkpoint": "PhaseCheckpoint SkippedPhase WorkflowState",
        "workflow.file_form": "VERSION",
        "workflow.journal": "CallRecord",
        "workflow.report": "report_of",
        "workflow.workflow_file": "WorkflowStateFile",
    },
)
