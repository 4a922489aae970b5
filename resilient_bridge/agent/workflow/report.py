"""The report of a workflow, for a person, a program or a log.

Rule: it names what is finished, skipped and left; of a halted workflow also what failed, why, and
what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ...stores.state_files.document import instant
from .checkpoint import SkippedPhase, WorkflowState, WorkflowStatus


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from ...failure import Failure


@attrs.frozen(kw_only=True)
class WorkflowReport:
    """The progress of a workflow, as its state file records it.

        report = rb.agent.Workflow("release.json").status()
        print(report.status, report.completed, report.remaining)      # new () ()

    `completed`, `skipped` and `remaining` are its phases; `current_phase` is the one that began and
    has not ended, or that halted it. `failure` is why it halted. `warnings` name what was lost,
    done again or skipped, which phase a process crashed in, and what recovered after how many
    retries.

    `errors` are the failures so far, the newest last, those of skipped tools included: each with
    phase, tool, masked arguments, the class of the native error, and its trace.
    """

    workflow: str
    status: WorkflowStatus
    state_file: str
    started_at: datetime | None = None
    completed: tuple[str, ...] = ()
    skipped: tuple[SkippedPhase, ...] = ()
    remaining: tuple[str, ...] = ()
    current_phase: str | None = None
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_completed(self) -> bool:
        """Whether every phase is finished or skipped."""
        return self.status is WorkflowStatus.COMPLETED

    def explain(self) -> str:
        """Return the report for a person.

        It says what failed, why, fixes (the likeliest first), alternatives, and the progress.
        """
        lines = [self._headline()]
        if self.failure is not None:
            native = str(self.failure.details.get("error") or self.failure.message)
            tool = self.failure.details.get("tool")
            where = f"phase {self.current_phase}" + (
                f", tool {tool}" if isinstance(tool, str) else ""
            )
            lines += ["", "what failed", f"  {where}: {native}"]
            lines += [
                "why",
                *(
                    f"  {line}"
                    for line in self.failure.explain().partition("\nyou can:")[0].splitlines()
                ),
            ]
            lines += ["suggested fixes"]
            lines += [
                f"  {index}. {text}" for index, text in enumerate(self.failure.suggestions, 1)
            ]
            lines += ["alternatives", *(f"  - {text}" for text in self._alternatives())]
        lines += ["", f"finished: {', '.join(self.completed) or 'nothing'}"]
        if self.remaining:
            lines.append(f"left: {', '.join(self.remaining)}")
        lines += [f"skipped: {one.phase}: {one.reason}" for one in self.skipped]
        shown = {f"skipped optional phase {one.phase}: {one.reason}" for one in self.skipped}
        shown |= {self.failure.message} if self.failure is not None else set()
        lines += [f"warning: {text}" for text in self.warnings if text not in shown]
        lines.append(f"state: {self.state_file}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return every field as data that `json.dumps` takes."""
        return {
            "workflow": self.workflow,
            "status": self.status.value,
            "state_file": self.state_file,
            "started_at": None if self.started_at is None else instant(self.started_at),
            "completed": list(self.completed),
            "skipped": [one.to_value() for one in self.skipped],
            "remaining": list(self.remaining),
            "current_phase": self.current_phase,
            "failure": None if self.failure is None else self.failure.to_dict(),
            "warnings": list(self.warnings),
            "errors": [dict(error) for error in self.errors],
        }

    def __str__(self) -> str:
        """Return the report as one line."""
        return self._headline()

    def _headline(self) -> str:
        total = len(self.completed) + len(self.skipped) + len(self.remaining)
        step = {WorkflowStatus.HALTED: " at", WorkflowStatus.RUNNING: ", in"}.get(self.status)
        where = f"{step} phase {self.current_phase}" if step and self.current_phase else ""
        marked_skipped = f", {len(self.skipped)} skipped" if self.skipped else ""
        fields = {WorkflowStatus.NEW: "has not begun", WorkflowStatus.RUNNING: "is not finished"}
        words = fields.get(self.status, self.status.value)
        return f"{self.workflow} {words}{where} ({len(self.completed)} of {total} phases finished{marked_skipped})"

    def _alternatives(self) -> list[str]:
        return [
            "fix it, then resume: the finished phases do not run again",
            f"skip phase {self.current_phase}, if what follows can do without it",
            "abort: what the finished phases made stays",
        ]


def report_of(
    state: WorkflowState | None, *, workflow: str, phases: Iterable[str], state_file: str
) -> WorkflowReport:
    """Return the report of a state; None means that the workflow has not started."""
    if state is None:
        return WorkflowReport(
            workflow=workflow,
            status=WorkflowStatus.NEW,
            state_file=state_file,
            remaining=tuple(phases),
        )
    remaining = tuple(name for name in phases if not state.is_done(name))
    # phases were added since
    is_longer = bool(remaining) and state.status is WorkflowStatus.COMPLETED
    return WorkflowReport(
        workflow=state.workflow,
        status=WorkflowStatus.RUNNING if is_longer else state.status,
        state_file=state_file,
        started_at=state.started_at,
        completed=state.phases_completed,
        skipped=state.skipped,
        remaining=remaining,
        current_phase=state.current_phase,
        failure=state.failure,
        warnings=state.warnings,
        errors=state.errors,
    )
