"""The state of a workflow, its steps and its JSON form.

It has the finished phases with their artifacts, the current phase, warnings and errors.

Rule: the state is a value, and each step returns the next one. A state read from a file is checked
completely, and refused with the path of the first wrong field. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Final

import attrs

from ...failure import Failure, StoreError
from ...protocol.session_text import failure_fields, read_failure
from ...stores.state_files.document import instant
from ...stores.state_files.journal import SavedChange
from .journal import CallRecord, read_call
from .workflow_fields import (
    check_names,
    commits,
    count,
    each,
    flag,
    mapping,
    moment,
    optional,
    text,
    texts,
    wrong,
)


_ERRORS: Final = 50  # kept: the newest
_WARNINGS: Final = 500  # kept: the oldest, which say what was lost first
_MORE: Final = "further warnings are left out: the events had them"
_UNKNOWN: Final = "SYS_OUTCOME_UNKNOWN"
_NONE: Final[Mapping[str, str]] = {}


def _as_table(sums: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(sums))


class WorkflowStatus(StrEnum):
    """The status of a workflow.

        report = rb.agent.Workflow("release.json").status()
        print(report.status is rb.agent.WorkflowStatus.NEW)      # True

    RUNNING: phases are left, whether or not a process runs them. HALTED: it waits for its user.
    """

    NEW = "new"
    RUNNING = "running"
    HALTED = "halted"
    COMPLETED = "completed"
    ABORTED = "aborted"


@attrs.frozen(kw_only=True)
class PhaseCheckpoint:
    """A finished phase: when it ended, and its artifacts, as names below the root.

    `checksums` has one for each artifact that this program has measured. Of artifacts in another
    program's file only the existence is checked.
    """

    phase: str
    completed_at: datetime
    artifacts: tuple[str, ...] = ()
    checksums: Mapping[str, str] = attrs.field(converter=_as_table, default=_NONE)
    commits: tuple[str, ...] = ()

    def to_value(self) -> dict[str, Any]:
        """Return the record as JSON data, for the file."""
        return {
            "phase": self.phase,
            "completed_at": instant(self.completed_at),
            "artifacts": list(self.artifacts),
            "checksums": dict(self.checksums),
            "commits": list(self.commits),
        }


@attrs.frozen(kw_only=True)
class SkippedPhase:
    """A skipped phase, when and why."""

    phase: str
    at: datetime
    reason: str

    def to_value(self) -> dict[str, str]:
        """Return the record as JSON data, for the file and for a report."""
        return {"phase": self.phase, "at": instant(self.at), "reason": self.reason}


@attrs.frozen(kw_only=True)
class WorkflowState:
    """The complete state of one workflow.

    `root`: the directory of the artifacts, relative to that of the file, so that both can be moved
    together. `current_phase`: the one that began and has not ended. `starts`: how often it began,
    to detect one that kills its process. `in_doubt`: phases that may have begun without a record,
    because the file was damaged.

    `saved`: the checkpoint of the current phase. `failure`: why a halted workflow halted. `calls`:
    the journal of the tool calls of unfinished phases, and of the calls in finished ones that may
    not be repeated. `is_adopted`: another program wrote the file, which has no root and names the
    workflow itself.
    """

    id: str
    workflow: str
    started_at: datetime
    root: str = "."
    status: WorkflowStatus = WorkflowStatus.RUNNING
    checkpoints: tuple[PhaseCheckpoint, ...] = ()
    skipped: tuple[SkippedPhase, ...] = ()
    current_phase: str | None = None
    starts: int = 0
    in_doubt: tuple[str, ...] = ()
    saved: Any = None
    failure: Failure | None = None
    errors: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    last_backup: datetime | None = None
    calls: tuple[CallRecord, ...] = ()
    is_adopted: bool = False

    @property
    def phases_completed(self) -> tuple[str, ...]:
        """The finished phases, in the order in which they ended."""
        return tuple(one.phase for one in self.checkpoints)

    def is_done(self, phase: str) -> bool:
        return phase in self.phases_completed or any(one.phase == phase for one in self.skipped)

    def checkpoint_of(self, phase: str) -> PhaseCheckpoint | None:
        """Return the record of a finished phase, None for any other."""
        return next((one for one in self.checkpoints if one.phase == phase), None)

    # ---- steps --------------------------------------------------------------------------------------------------

    def began(self, phase: str) -> WorkflowState:
        again = self.current_phase == phase
        return attrs.evolve(
            self,
            status=WorkflowStatus.RUNNING,
            current_phase=phase,
            starts=self.starts + 1 if again else 1,
            in_doubt=tuple(one for one in self._doubts(phase) if one != phase),
            saved=self.saved if again else None,
            failure=None,
        )

    def interrupted(self) -> WorkflowState:
        """Record that the phase was cancelled, which is no crash."""
        return attrs.evolve(self, starts=max(self.starts - 1, 0))

    def finished(self, checkpoint: PhaseCheckpoint) -> WorkflowState:
        """Record that the current phase has succeeded.

        Its calls that may not be repeated stay recorded: the phase may be undone.
        """
        return attrs.evolve(
            self.forgot_repeatable(checkpoint.phase),
            checkpoints=(*self.checkpoints, checkpoint),
            current_phase=None,
            starts=0,
            saved=None,
        )

    def marked_skipped(self, phase: str, at: datetime, reason: str) -> WorkflowState:
        skipped = SkippedPhase(phase=phase, at=at, reason=reason)
        return attrs.evolve(
            self,
            status=WorkflowStatus.RUNNING,
            skipped=(*self.skipped, skipped),
            current_phase=None,
            starts=0,
            in_doubt=self._doubts(phase),
            saved=None,
            failure=None,
            calls=tuple(one for one in self.calls if one.phase != phase),
        )

    # ---- the journal of tool calls --------------------------------------------------------------------------------

    def noted(self, call: CallRecord) -> WorkflowState:
        """Record that a tool call begins or has ended, in place of its earlier record."""
        others = self.unnoted(call).calls
        return attrs.evolve(self, calls=(*others, call))

    def unnoted(self, call: CallRecord) -> WorkflowState:
        others = (one for one in self.calls if one.phase != call.phase or not one.is_same(call))
        return attrs.evolve(self, calls=tuple(others))

    def open_calls(self, phase: str) -> tuple[CallRecord, ...]:
        """Return the open calls of a phase: begun, without a recorded end, not to be repeated."""
        return tuple(one for one in self.calls if one.phase == phase and one.is_open)

    def forgot_repeatable(self, phase: str) -> WorkflowState:
        """Forget the calls of a phase that may be repeated.

        After a failure their results may be its cause.
        """
        calls = tuple(one for one in self.calls if one.phase != phase or not one.may_repeat)
        return attrs.evolve(self, calls=calls)

    def looked_at(self, phase: str) -> WorkflowState:
        """Forget the calls in doubt of a phase: its user has decided that they may run."""
        failure = self.failure
        named: Any = (
            failure.details.get("calls", ()) if failure and failure.code == _UNKNOWN else ()
        )
        tool = failure.details.get("tool") if failure else None
        return attrs.evolve(
            self,
            calls=tuple(
                one
                for one in self.calls
                if one.phase != phase
                or not (one.is_open or (one.tool == tool and one.number in named))
            ),
        )

    def halted(self, phase: str, failure: Failure) -> WorkflowState:
        """Record that a required phase failed permanently; `saved` stays for `resume`."""
        return attrs.evolve(
            self,
            status=WorkflowStatus.HALTED,
            current_phase=phase,
            starts=0,
            in_doubt=self._doubts(phase),
            failure=failure,
        )

    def _doubts(self, phase: str) -> tuple[str, ...]:
        """Return the phases in doubt once `phase` is the current one.

        An unfinished current phase joins them.
        """
        is_abandoned = self.starts > 0 and self.current_phase not in {phase, None, *self.in_doubt}
        return (*self.in_doubt, str(self.current_phase)) if is_abandoned else self.in_doubt

    def undone(self, phase: str) -> WorkflowState:
        return attrs.evolve(
            self, checkpoints=tuple(one for one in self.checkpoints if one.phase != phase)
        )

    def ended(self, status: WorkflowStatus) -> WorkflowState:
        calls = () if status is WorkflowStatus.ABORTED else self.calls
        return attrs.evolve(
            self, status=status, current_phase=None, starts=0, saved=None, calls=calls
        )

    def failed(self, error: Mapping[str, Any]) -> WorkflowState:
        return attrs.evolve(self, errors=(*self.errors, dict(error))[-_ERRORS:])

    def warned(self, *texts: str) -> WorkflowState:
        new = [one for one in texts if one not in self.warnings]
        if not new or len(self.warnings) > _WARNINGS:
            return self
        warnings = (*self.warnings, *new)
        return attrs.evolve(
            self,
            warnings=warnings if len(warnings) <= _WARNINGS else (*warnings[:_WARNINGS], _MORE),
        )

    # ---- the file -----------------------------------------------------------------------------------------------

    def to_value(self) -> dict[str, Any]:
        """Return the state as JSON data: the fields of ccsetup's checkpoint, then ours."""
        return {name: self._written(name) for name in _WRITTEN}

    def _written(self, name: str) -> Any:
        value, write = getattr(self, _ATTRIBUTES.get(name, name)), _WRITTEN[name]
        if name in _LISTS:
            return [write(item) for item in value]
        return None if value is None else write(value)

    def change_since(self, before: WorkflowState) -> SavedChange:
        """Return what is new in the JSON data of this state, if `before` is known."""
        change = SavedChange()
        for name, write in _WRITTEN.items():
            attribute = _ATTRIBUTES.get(name, name)
            value, old = getattr(self, attribute), getattr(before, attribute)
            if value is old or value == old:
                continue
            if name not in _LISTS:
                change.fields[name] = self._written(name)
                continue
            same = takewhile(lambda pair: pair[0] is pair[1], zip(value, old, strict=False))
            length = sum(1 for _ in same)
            change.added[name] = length, [write(item) for item in value[length:]]
        return change

    @classmethod
    def from_value(cls, value: Any) -> WorkflowState:
        """Read a state from JSON data. Raises ValueError with the path of the wrong field."""
        body = mapping(value, "state", _KEYS)
        state = cls(
            id=text(body["id"], "id"),
            root=text(body["root"], "root"),
            workflow=text(body["workflow"], "workflow"),
            started_at=moment(body["started_at"], "started_at"),
            status=_status(body["status"]),
            checkpoints=each(body["checkpoints"], _checkpoint, "checkpoints"),
            skipped=each(body["skipped"], _skipped, "skipped"),
            current_phase=optional(body["current_phase"], text, "current_phase"),
            starts=count(body["begun"], "begun"),
            in_doubt=texts(body["in_doubt"], "in_doubt"),
            saved=body["saved"],
            failure=optional(body["failure"], _failure, "failure"),
            errors=each(body["errors"], mapping, "errors"),
            warnings=texts(body["warnings"], "warnings"),
            last_backup=optional(body["last_backup"], moment, "last_backup"),
            calls=each(body["calls"], read_call, "calls"),
            is_adopted=flag(body["is_adopted"], "is_adopted"),
        )
        state._check(texts(body["phases_completed"], "phases_completed"))
        return state

    def _check(self, completed: tuple[str, ...]) -> None:
        """Check the fields against each other. Raises ValueError."""
        done = [*self.phases_completed, *(one.phase for one in self.skipped)]
        if completed != self.phases_completed:
            raise ValueError("phases_completed: wanted the phases of checkpoints, in their order")
        if len(set(done)) != len(done):
            raise ValueError("checkpoints: wanted each phase once, finished or skipped")
        if self.current_phase in done:
            raise ValueError("current_phase: wanted one that is not finished")
        if self.starts and self.current_phase is None:
            raise ValueError("begun: wanted 0 without a current phase")
        if (self.status is WorkflowStatus.HALTED) != (self.failure is not None):
            raise ValueError("failure: wanted one if it is halted, and none otherwise")
        if self.status is WorkflowStatus.HALTED and self.current_phase is None:
            raise ValueError("current_phase: wanted the one that it halted at")


# the fields of a file, in its order, and what writes their values, or each item of a list
_WRITTEN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "workflow": str,
    "started_at": instant,
    "phases_completed": str,
    "current_phase": str,
    "checkpoints": PhaseCheckpoint.to_value,
    "errors": dict,
    "last_backup": instant,
    "id": str,
    "root": str,
    "status": str,
    "skipped": SkippedPhase.to_value,
    "begun": int,
    "in_doubt": str,
    "failure": failure_fields,
    "saved": lambda value: value,
    "warnings": str,
    "calls": CallRecord.to_value,
    "is_adopted": bool,
}
_LISTS: Final = frozenset(
    {"phases_completed", "checkpoints", "errors", "skipped", "in_doubt", "warnings", "calls"}
)
_ATTRIBUTES: Final = {"begun": "starts"}
_KEYS: Final = frozenset(_WRITTEN)


# ---- reading -------------------------------------------------------------------------------------------------------


def _status(value: Any) -> WorkflowStatus:
    try:
        return WorkflowStatus(value)
    except ValueError:
        raise wrong("status", "one of " + ", ".join(WorkflowStatus), value) from None


def _failure(value: Any, path: str) -> Failure:
    try:
        return read_failure(value)
    except (StoreError, OverflowError):  # OverflowError: a wait of hundreds of digits
        raise wrong(path, "a failure", value) from None


def _checkpoint(value: Any, path: str) -> PhaseCheckpoint:
    body = mapping(
        value, path, frozenset({"phase", "completed_at", "artifacts", "checksums", "commits"})
    )
    artifacts = texts(body["artifacts"], f"{path}.artifacts")
    checksums = mapping(body["checksums"], f"{path}.checksums")
    check_names(artifacts, f"{path}.artifacts")
    if not checksums.keys() <= set(artifacts):
        raise ValueError(f"{path}.checksums: wanted those of its artifacts")
    for name, checksum in checksums.items():
        text(checksum, f"{path}.checksums.{name}")
    return PhaseCheckpoint(
        phase=text(body["phase"], f"{path}.phase"),
        completed_at=moment(body["completed_at"], f"{path}.completed_at"),
        artifacts=artifacts,
        checksums=checksums,
        commits=commits(body["commits"], f"{path}.commits"),
    )


def _skipped(value: Any, path: str) -> SkippedPhase:
    body = mapping(value, path, frozenset({"phase", "at", "reason"}))
    return SkippedPhase(
        phase=text(body["phase"], f"{path}.phase"),
        at=moment(body["at"], f"{path}.at"),
        reason=text(body["reason"], f"{path}.reason"),
    )
