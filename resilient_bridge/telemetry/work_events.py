"""The events of tools, workflows, budgets, contexts, degradation and hooks. Public as `rb.events`.

Rule: an event has a tool's name, a phase's name or an amount, never an argument or a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from .event import Event, with_failure


if TYPE_CHECKING:
    from decimal import Decimal

    from ..failure import Failure

__all__ = [
    "ContextCompacted",
    "ContextNearlyFull",
    "HookRejected",
    "ModeChanged",
    "PhaseChanged",
    "SpendChanged",
    "ToolFailed",
    "ToolPending",
    "WorkflowChanged",
]


# ---- tools and hooks ---------------------------------------------------------------------------------------------


class ToolFailed(Event):
    """A tool of a Toolbox failed for good; its caller got the failure as data.

    `required` is False for a tool that may be skipped; `seconds` is how long the whole call took,
    waits included.
    """

    tool: str
    required: bool
    failure: Failure
    seconds: float = 0.0

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        text = "failed" if self.required else "is optional and skipped"
        return f"tool {self.tool} {text}: {self.failure}"


class ToolPending(Event):
    """A tool with escalating limits is still running after `seconds`.

    Its limit is `timeout` seconds in all.
    """

    tool: str
    seconds: float
    timeout: float

    __kind__ = "escalation"


class HookRejected(Event):
    """A hook event was not valid; the failure lists its wrong fields."""

    failure: Failure

    __by_strangers__ = True

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        return f"hook event refused: {self.failure}"


# ---- workflows ---------------------------------------------------------------------------------------------------


class WorkflowChanged(Event):
    """A workflow has the `status` of its report; `completed` of its `total` phases are finished.

    "running": a run began or continued. "halted": a required `phase` failed for good, with
    `failure`; the checkpoint is saved, and a person resumes, skips or aborts. "completed": every
    phase is finished or `skipped`, and this run took `seconds`. "aborted": a person ended it, in
    `phase`; the results of its finished phases remain.
    """

    workflow: str
    status: Literal["running", "halted", "completed", "aborted"]
    completed: int
    total: int
    phase: str | None = None
    failure: Failure | None = None
    skipped: tuple[str, ...] = ()
    seconds: float | None = None

    __state__ = "status"
    __words__: ClassVar = {
        "running": "workflow started",
        "halted": "workflow halted",
        "completed": "workflow completed",
        "aborted": "workflow aborted",
    }

    def __level__(self) -> str:
        return {"halted": "error", "aborted": "warning"}.get(self.status, "info")

    def __text__(self) -> str:
        if self.status == "running":
            return f"{self.workflow} began, {self.completed} of {self.total} phases are finished"
        if self.status == "halted":
            return f"{self.workflow} halted at phase {self.phase}: {self.failure}"
        if self.status == "aborted":
            return f"{self.workflow} was aborted"
        return f"{self.workflow} completed{', without ' if self.skipped else ''}{', '.join(self.skipped)}"


class PhaseChanged(Event):
    """A phase of a workflow went to `status`; `number` counts the `total` phases from 1.

    "started": `run` counts its starts, across restarts. "completed", after `seconds`: its artifacts
    exist and it is recorded; it does not run again while they exist. "skipped": an optional one
    failed (with its failure), or a person skipped it. "undone": it will run again; it failed half
    way, or an artifact of a finished one is missing or changed.
    """

    workflow: str
    phase: str
    status: Literal["started", "completed", "skipped", "undone"]
    number: int
    total: int
    run: int | None = None
    seconds: float | None = None
    reason: str = ""
    failure: Failure | None = None

    __state__ = "status"
    __words__: ClassVar = {
        "started": "phase started",
        "completed": "phase completed",
        "skipped": "phase skipped",
        "undone": "phase undone",
    }

    def __level__(self) -> str:
        return "info" if self.status in ("started", "completed") else "warning"

    def __text__(self) -> str:
        if self.status == "started":
            return f"{self.workflow}: phase {self.phase} began ({self.number} of {self.total})"
        if self.status == "completed":
            return f"{self.workflow}: phase {self.phase} finished in {self.seconds:.3g} s"
        if self.status == "undone":
            return f"{self.workflow}: phase {self.phase} will run again: {self.failure}"
        return f"{self.workflow}: skipping phase {self.phase}: {with_failure(self.reason, self.failure)}"


# ---- model calls -------------------------------------------------------------------------------------------------


class SpendChanged(Event):
    """A budget went to `state`, with `spent` of its `limit`.

    "warning": spending has reached the warning threshold, 80 % of the limit by default. "paused":
    it has reached a hard limit; calls wait, or are refused, until more is approved. "approved": a
    higher limit was approved, and `limit` is the new one; one that is not high enough is followed
    by "paused". "cancelled": every further call is refused.
    """

    budget: str
    state: Literal["warning", "paused", "approved", "cancelled"]
    spent: Decimal
    limit: Decimal

    __state__ = "state"
    __words__: ClassVar = {
        "warning": "spend warned",
        "paused": "spend paused",
        "approved": "spend approved",
        "cancelled": "spend cancelled",
    }

    def __level__(self) -> str:
        return "info" if self.state == "approved" else "warning"

    def __text__(self) -> str:
        if self.state == "approved":
            return f"{self.budget}: goes on, up to {self.limit}"
        if self.state == "cancelled":
            return f"{self.budget}: cancelled at {self.spent}"
        how = " are spent" if self.state == "warning" else " spent, paused"
        return f"{self.budget}: {self.spent} of {self.limit}{how}"


class ContextCompacted(Event):
    """A conversation was too long and has been compacted, from `before` to `after` tokens of at
    most `limit`.
    """

    before: int
    after: int
    limit: int

    def __level__(self) -> str:
        return "info"

    def __text__(self) -> str:
        return f"context compacted from {self.before} to {self.after} of {self.limit} tokens"


class ContextNearlyFull(Event):
    """A conversation takes `tokens` of at most `limit`: save what a new session needs.

    Reported again only after a check in which it was not nearly full.
    """

    tokens: int
    limit: int

    def __level__(self) -> str:
        return "warning"

    def __text__(self) -> str:
        used = f"{self.tokens} of {self.limit} tokens"
        return f"context is nearly full: {used}: save what a new session needs"


class ModeChanged(Event):
    """A capability went from `previous` to `mode`.

    `reason` is "failure": to a lesser mode, after `failure`; None means that no mode remains. It is
    restored by "restore_after", by one mode after a time without failures, or to its first mode by
    "reset".
    """

    feature: str
    previous: str
    mode: str | None
    reason: Literal["failure", "restore_after", "reset"]
    failure: Failure | None = None

    __state__ = "reason"
    __words__: ClassVar = {"failure": "degraded", "restore_after": "restored", "reset": "restored"}

    def __level__(self) -> str:
        return "warning" if self.reason == "failure" else ""

    def __text__(self) -> str:
        return (
            f"{self.feature}: {self.mode or 'given up'} instead of {self.previous}: {self.failure}"
        )
