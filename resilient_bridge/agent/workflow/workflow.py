"""A workflow: its phases, its state file, and what its user can do: run, resume, skip, abort.

Rule: one process at a time works on the file; an operation takes it, and releases it at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import attrs

from ... import events
from ...calls import Policy
from ...failure import ConfigError, Failure, config_error, redact
from ...failure.teaching import TeachesNames, taught
from ...presets import ccsetup
from ...presets.bridge_policy import BridgePolicy, calls_of
from ...telemetry import emit
from ...values.fields import check_flag, read_name
from ...world import current_world
from .artifacts import name_of
from .checkpoint import WorkflowState, WorkflowStatus
from .file_form import UNNAMED, UNSAID
from .phase import PhaseSpec, runnable
from .report import WorkflowReport, report_of
from .runner import Run
from .workflow_file import WorkflowStateFile


if TYPE_CHECKING:
    from ...stores.state_files.state_file import Loaded
    from ..tools.toolbox import Toolbox


F = TypeVar("F", bound=Callable[..., Any])


class Workflow(TeachesNames):
    """Phases in order, and a state file that records which are finished.

        flow = rb.agent.Workflow("release.json")

        @flow.phase()
        async def collect(phase: rb.agent.Phase) -> None: ...

        print((await flow.run()).is_completed)      # True

    `path` is the file, readable by its owner alone, with a backup beside it. `name` is written to
    it (default: the name of the file, without its ending). Artifacts are below `root` (default: the
    working directory now). `tools` is the Toolbox of `Phase.call`. `policy` repeats a phase that
    failed transiently (default: after 2, 4 and 8 s).

    One process at a time works on a file; creating the object does no I/O. Raises ConfigError that
    names a wrong argument.
    """

    @taught
    def __init__(
        self,
        path: str | os.PathLike[str],
        /,
        *,
        name: str | None = None,
        root: str | os.PathLike[str] | None = None,
        tools: Toolbox | None = None,
        policy: Policy | BridgePolicy | None = None,
    ) -> None:
        self._file = WorkflowStateFile(path)
        self._name = read_name("Workflow.name", self._file.path.stem if name is None else name)
        self._has_name = name is not None
        self._root = _root_of(root)
        self._tools = tools
        self._policy = calls_of(ccsetup if policy is None else policy, "Workflow.policy")
        self._phases: list[PhaseSpec] = []

    def __repr__(self) -> str:
        """Return a status line."""
        return f"<Workflow {self._name} {self._file.path} phases={len(self._phases)}>"

    @property
    def name(self) -> str:
        """The name of the workflow, in its file and in events."""
        return self._name

    @property
    def path(self) -> Path:
        """The path of the state file."""
        return self._file.path

    @property
    def phases(self) -> tuple[str, ...]:
        """The names of the phases, in order."""
        return tuple(one.name for one in self._phases)

    @overload
    def phase(self, function: F, /) -> F: ...
    @overload
    def phase(
        self,
        /,
        *,
        name: str | None = None,
        artifacts: Sequence[str | os.PathLike[str]] = (),
        checks: Sequence[Callable[[], object]] = (),
        required: bool = True,
        idempotent: bool | None = None,
        policy: Policy | BridgePolicy | None = None,
    ) -> Callable[[F], F]: ...
    @taught
    def phase(
        self,
        function: Any = None,
        /,
        *,
        name: str | None = None,
        artifacts: Sequence[str | os.PathLike[str]] = (),
        checks: Sequence[Callable[[], object]] = (),
        required: bool = True,
        idempotent: bool | None = None,
        policy: Policy | BridgePolicy | None = None,
    ) -> Any:
        """Add a function, sync or async, of the Phase or of nothing, as the next phase.

        The function stays as it is. The phase is finished when its function has returned, all
        `artifacts` exist, and no check returned False or raised. If what it returned is a failure by
        its type (the Outcome of a tool that failed, a result of MCP with `is_error`, a response of
        400 or more), the phase has failed. A finished phase never runs again
        while its artifacts exist with the same content and its checks hold. A phase that changes an
        artifact of an earlier one lists it too; if the artifact is later not what the last of them
        made, all of them run again.

        `required=False`: if the phase fails, it is skipped, and the report has a warning. Sync
        functions and checks run in a thread; a cancelled run waits for their end.

        `idempotent` is about the phase's own code; each tool declares its own. None: the phase runs
        again after a crash, and once more if a tool's answer or an artifact is corrupt or missing,
        but never after a failure of its own code. True: after such a failure too, as `policy` says
        (NotExecutedError, "nothing of it has happened", allows that for any phase). False: the
        phase must not run twice, so a crash or a cancellation inside it halts the workflow.

        In every case a tool call that began, has no recorded end and may not be repeated halts the
        workflow (SYS_OUTCOME_UNKNOWN); the failure names the tool.
        """
        if function is None:
            return partial(
                self.phase,
                name=name,
                artifacts=artifacts,
                checks=checks,
                required=required,
                idempotent=idempotent,
                policy=policy,
            )
        run = runnable(function)
        called = read_name(
            "Workflow.phase.name", getattr(function, "__name__", "") if name is None else name
        )
        if called in self.phases:
            raise config_error("Workflow.phase.name", "a name that no other phase has", called)
        check_flag("Workflow.phase.required", required)
        if not (idempotent is None or type(cast("object", idempotent)) is bool):
            raise config_error("Workflow.phase.idempotent", "True, False or None", idempotent)
        if not _is_list(artifacts):
            raise config_error("Workflow.phase.artifacts", "a list of paths", artifacts)
        if not _is_list(checks):
            raise config_error("Workflow.phase.checks", "a list of functions", checks)
        for index, check in enumerate(checks):
            if not callable(check):
                raise config_error(
                    f"Workflow.phase.checks[{index}]", "a function of nothing", check
                )
        used = self._policy if policy is None else calls_of(policy, "Workflow.phase.policy")
        names = [
            name_of(one, self._root, f"Workflow.phase.artifacts[{index}]")
            for index, one in enumerate(artifacts)
        ]
        self._phases.append(
            PhaseSpec(
                name=called,
                run=used(idempotent=idempotent is True, name=f"{self._name}.{called}")(run),
                artifacts=tuple(dict.fromkeys(names)),
                checks=tuple(checks),
                required=required,
                idempotent=idempotent,
            )
        )
        return function

    # ---- operations -------------------------------------------------------------------------------------------------

    @taught
    async def run(self) -> WorkflowReport:
        """Begin, or continue where an earlier run ended, and return the report.

        The workflow has completed then, or halted with a failure. A halted workflow runs nothing
        and returns its report. So does a completed one whose artifacts still exist. An aborted one
        begins anew.

        Raises StoreError: SYS_STORE_IN_USE if another process has the file; SYS_STATE_FOREIGN if a
        later version wrote it or its backup, which stay unchanged; SYS_STORE_UNAVAILABLE if a step
        cannot be saved, or finished artifacts cannot be read. Raises ConfigError for the file of
        another workflow, or of this one with another root.
        """
        return await self._work(may_begin=True, is_forced=False)

    @taught
    async def resume(self) -> WorkflowReport:
        """Continue where the workflow halted, or where an earlier run ended.

        The phase that failed runs again. Raises what `run` raises, and ConfigError if the workflow
        has not begun or was aborted.
        """
        return await self._work(may_begin=False, is_forced=True)

    @taught
    async def skip(
        self, phase: str | None = None, /, *, reason: str = "skipped by hand"
    ) -> WorkflowReport:
        """Mark a phase as skipped (default: the one that halted the workflow); return the report.

        Runs nothing: `resume` continues. Raises what `run` raises, and ConfigError for a phase that
        is unknown, finished or skipped.
        """
        reason = redact(read_name("Workflow.skip.reason", reason))
        self._file.take()
        try:
            state, _ = await self._opened()
            if state is None or state.status in {WorkflowStatus.COMPLETED, WorkflowStatus.ABORTED}:
                raise self._wrong("skip", state)
            marked_skipped = state.current_phase if phase is None else phase
            remaining = [name for name in self.phases if not state.is_done(name)]
            if marked_skipped is None or marked_skipped not in remaining:
                raise config_error(
                    "Workflow.skip.phase", f"one of {', '.join(remaining)}", marked_skipped
                )
            now = current_world().now()
            is_current = marked_skipped == state.current_phase
            after = state.marked_skipped(marked_skipped, now, reason)
            if not is_current:  # the current phase stays the current one
                after = attrs.evolve(state, skipped=after.skipped)
            await self._file.save(after)
            emit(
                events.PhaseChanged(
                    at=now,
                    workflow=self._name,
                    phase=marked_skipped,
                    status="skipped",
                    number=self.phases.index(marked_skipped) + 1,
                    total=len(self._phases),
                    reason=reason,
                    failure=state.failure if is_current else None,
                )
            )
            return self._report(after)
        finally:
            self._file.release()

    @taught
    async def abort(self) -> WorkflowReport:
        """End the workflow and return the report. Artifacts stay; the next `run` starts over.

        Raises what `run` raises, and ConfigError if the workflow has not begun.
        """
        self._file.take()
        try:
            state, _ = await self._opened()
            if state is None:
                raise self._wrong("abort", state)
            phase = state.current_phase
            after = attrs.evolve(state.ended(WorkflowStatus.ABORTED), failure=None)
            await self._file.save(after)
            emit(
                events.WorkflowChanged(
                    workflow=self._name,
                    status="aborted",
                    completed=len(after.checkpoints),
                    total=len(self._phases),
                    phase=phase,
                )
            )
            return self._report(after)
        finally:
            self._file.release()

    def status(self) -> WorkflowReport:
        """Return the report of what the file says now, also while a process runs the workflow.

        Blocks for a few reads and changes nothing. Raises StoreError: SYS_STATE_DAMAGED for a file
        that the next run has to restore, SYS_STATE_FOREIGN for one that a later version wrote.
        """
        return self._report(self._file.peek())

    # ---- inside ---------------------------------------------------------------------------------------------------

    async def _work(self, *, may_begin: bool, is_forced: bool) -> WorkflowReport:
        if not self._phases:
            raise config_error("Workflow", "at least one phase", "none")
        self._file.take()
        try:
            state, loaded = await self._opened()
            if state is None or state.status is WorkflowStatus.ABORTED:
                if not may_begin:
                    raise self._wrong("resume", state)
                state = self._fresh(loaded)
            elif state.status is WorkflowStatus.HALTED and not is_forced:
                return self._report(state)
            forced = state.current_phase if state.status is WorkflowStatus.HALTED else None
            if forced is not None:
                state = attrs.evolve(
                    state.looked_at(forced), status=WorkflowStatus.RUNNING, failure=None
                )
            run = Run(
                state, self._phases, self._file, root=self._root, tools=self._tools, forced=forced
            )
            return self._report(await run.go())
        finally:
            self._file.release()

    def _fresh(self, loaded: Loaded) -> WorkflowState:
        """Return the state of a new workflow, with a warning if an earlier state was lost."""
        state = WorkflowState(
            id=current_world().new_id(),
            workflow=self._name,
            started_at=current_world().now(),
            root=self._relative_root(),
        )
        if not loaded.lost:
            return state
        text = f"lost workflow progress ({loaded.lost}): starting from phase {self.phases[0]}"
        return attrs.evolve(state, in_doubt=self.phases).warned(text)

    async def _opened(self) -> tuple[WorkflowState | None, Loaded]:
        """Load the state and check it against the phases, name and root of this program."""
        state, loaded = await self._file.load()
        if state is None:
            return None, loaded
        if state.is_adopted:  # it has no root, and its name counts unless this program gives one
            state = self._adopted(state)
        if state.workflow != self._name:
            raise config_error("Workflow.name", f"{state.workflow}, as its file says", self._name)
        if state.root != (root := self._relative_root()):
            raise config_error(
                "Workflow.root",
                f"{state.root} from {self._file.path.parent}, as its file says",
                root,
            )
        known = {*state.phases_completed, *(one.phase for one in state.skipped)}
        if state.current_phase is not None:
            known.add(state.current_phase)
        if unknown := sorted(known - set(self.phases)):
            raise config_error(
                "Workflow.phases",
                f"the phases of its file, {', '.join(unknown)} among them",
                self.phases,
            )
        if loaded.lost:  # the next phase may have begun; a backup does not even know the last end
            remaining = [name for name in self.phases if not state.is_done(name)]
            doubts = remaining[: 1 if loaded.source == "file" else 2]
            state = attrs.evolve(state, in_doubt=tuple(dict.fromkeys((*state.in_doubt, *doubts))))
        return state, loaded

    def _adopted(self, state: WorkflowState) -> WorkflowState:
        """Return the state of another program's file with what the file does not say."""
        if state.workflow == UNNAMED:  # nor an id: that would be the same in every project
            state = attrs.evolve(state, workflow=self._name, id=current_world().new_id())
        if state.started_at == datetime.fromisoformat(UNSAID):
            state = attrs.evolve(state, started_at=current_world().now())
        self._name = self._name if self._has_name else state.workflow
        return attrs.evolve(state, root=self._relative_root(), is_adopted=False)

    def _relative_root(self) -> str:
        """Return the root relative to the directory of the file: both can be moved together."""
        try:
            return Path(
                os.path.relpath(self._root.resolve(), self._file.path.parent.resolve())
            ).as_posix()
        except ValueError:  # on another drive
            return self._root.as_posix()

    def _report(self, state: WorkflowState | None) -> WorkflowReport:
        return report_of(
            state, workflow=self._name, phases=self.phases, state_file=str(self._file.path)
        )

    def _wrong(self, verb: str, state: WorkflowState | None) -> ConfigError:
        got = "has not begun" if state is None else f"is {state.status.value}"
        text = f"Workflow.{verb}: nothing to {verb}: {self._name} {got}"
        return ConfigError(Failure.of("SYS_CONFIG_INVALID", text, suggestions=("run it",)))


def _root_of(root: object) -> Path:
    if root is None:
        return Path.cwd()
    if not isinstance(root, str | os.PathLike):
        raise config_error("Workflow.root", "a path to a directory", root)
    return Path(cast("str | os.PathLike[str]", root)).absolute()


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | AbstractSet) and not isinstance(value, str | bytes)
