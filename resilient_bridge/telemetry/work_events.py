"""The events of tools, workflows, budgets, contexts, degradation and hooks. Public as `rb.events`.

Rule: an event has a tool's name, a phase's name or an amount, never an argument or a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from .event import Event


if TYPE_CHECKING:
    from decimal import Decimal

    from ..errors import Failure

__all__ = [
    "ContextCompacted",
    "ContextNearlyFull",
    "Degraded",
    "HookRejected",
    "PhaseCompleted",
    "PhaseSkipped",
    "PhaseStarted",
    "PhaseUndone",
    "Restored",
    "SpendApproved",
    "SpendCancelled",
    "SpendPaused",
    "SpendWarned",
    "TaskLeftBehind",
    "ToolFailed",
    "ToolPending",
    "WorkflowAborted",
    "WorkflowCompleted",
    "WorkflowHalted",
    "WorkflowStarted",
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


class ToolPending(Event):
    """A tool with escalating limits is still running after `seconds`.

    Its limit is `timeout` seconds in all.
    """

    tool: str
    seconds: float
    timeout: float


class TaskLeftBehind(Event):
    """An async call of `name` was cancelled after `seconds` and is still running.

    It is no longer awaited.
    """

    name: str
    seconds: float


class HookRejected(Event):
    """A hook event was not valid; the failure lists its wrong fields."""

    failure: Failure


# ---- workflows ---------------------------------------------------------------------------------------------------


class WorkflowStarted(Event):
    """A run of a workflow began or continued; `completed` of its `total` phases were finished
    before.
    """

    workflow: str
    completed: int
    total: int


class PhaseStarted(Event):
    """A phase starts; `number` counts phases from 1, `run` this one's starts, across restarts."""

    workflow: str
    phase: str
    number: int
    total: int
    run: int


class PhaseCompleted(Event):
    """A phase succeeded: its artifacts exist and it is recorded.

    It does not run again while they exist.
    """

    workflow: str
    phase: str
    number: int
    total: int
    seconds: float


class PhaseSkipped(Event):
    """A phase was skipped: an optional one failed (with its failure), or a person skipped it."""

    workflow: str
    phase: str
    number: int
    total: int
    reason: str
    failure: Failure | None


class PhaseUndone(Event):
    """A phase will run again: it failed half way, or an artifact of a finished one is missing or
    changed.
    """

    workflow: str
    phase: str
    failure: Failure


class WorkflowHalted(Event):
    """A required phase failed for good.

    The checkpoint is saved; a person resumes, skips or aborts.
    """

    workflow: str
    phase: str
    failure: Failure


class WorkflowCompleted(Event):
    """Every phase is finished or skipped."""

    workflow: str
    skipped: tuple[str, ...]
    seconds: float


class WorkflowAborted(Event):
    """A person ended the workflow; the results of its finished phases remain."""

    workflow: str
    phase: str | None


# ---- model calls -------------------------------------------------------------------------------------------------


class SpendWarned(Event):
    """Spending has reached the warning threshold, 80 % of the limit by default."""

    budget: str
    spent: Decimal
    limit: Decimal


class SpendPaused(Event):
    """Spending has reached a hard limit: calls wait, or are refused, until more is approved."""

    budget: str
    spent: Decimal
    limit: Decimal


class SpendApproved(Event):
    """A higher limit was approved; `limit` is the new one."""

    budget: str
    spent: Decimal
    limit: Decimal


class SpendCancelled(Event):
    """The budget was cancelled: every further call is refused."""

    budget: str
    spent: Decimal
    limit: Decimal


class ContextCompacted(Event):
    """A conversation was too long and has been compacted, from `before` to `after` tokens of at
    most `limit`.
    """

    before: int
    after: int
    limit: int


class ContextNearlyFull(Event):
    """A conversation takes `tokens` of at most `limit`: save what a new session needs.

    Reported again only after a check in which it was not nearly full.
    """

    tokens: int
    limit: int


class Degraded(Event):
    """A capability went from `previous` to a lesser `mode` after a failure.

    None means that no mode remains.
    """

    feature: str
    previous: str
    mode: str | None
    failure: Failure


class Restored(Event):
    """A capability was restored: by one mode after a time without failures, or to its first mode by
    `reset()`.
    """

    feature: str
    previous: str
    mode: str
    reason: Literal["restore_after", "reset"]
