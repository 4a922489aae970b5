"""One run of a workflow: each phase is started, run, verified and saved.

Rule: the start of a phase is recorded before the phase runs, and its end after it was verified. A
failure is decided on once: the policy repeats a transient one, a corrupt or partial one is
recovered from once; any other skips an optional phase and halts at a required one.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from ... import events
from ...failure import Executed, Failure, Kind, Severity, classify, config_error, error_for, redact
from ...telemetry import emit
from ...world import current_world
from .artifacts import ArtifactError, HiddenError, Measured, measure
from .checkpoint import PhaseCheckpoint, WorkflowState, WorkflowStatus
from .failures import as_call_record, as_error_record, as_its_own, check_result, settled
from .journal import unknown
from .phase import Phase, PhaseSpec, recovered
from .phase_calls import PhaseCalls
from .verification import broken, check, invalid


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ..tools.toolbox import Toolbox
    from .workflow_file import WorkflowStateFile


_DEATHS: Final = 3  # crashes inside of one phase before the workflow halts
_SEE: Final = "make the artifact readable and run again; no work is lost"
_RECOVERABLE: Final = (Kind.CORRUPTION, Kind.PARTIAL)


class Run:
    """A run that continues from `state` and saves each step to `file`.

    `forced`: the phase that `resume` allows to run again.
    """

    def __init__(
        self,
        state: WorkflowState,
        phases: Sequence[PhaseSpec],
        file: WorkflowStateFile,
        *,
        root: Path,
        tools: Toolbox | None,
        forced: str | None,
    ) -> None:
        self.state = state
        self._phases = phases
        self._file = file
        self._root = root
        self._tools = tools
        self._forced = forced
        self._resumed: str | None = None
        self._measured = Measured(root, ours=file.path)
        self._recovered: set[str] = set()
        self._order = asyncio.Lock()  # one save at a time: a phase may run several tasks
        self._under_way: object = None  # the token of the Phase that may still save

    async def go(self) -> WorkflowState:
        """Run the remaining phases and return the state, completed or halted.

        Raises StoreError if a step cannot be saved.
        """
        began = current_world().monotonic()
        try:
            before = self.state = self._with_death()
            await self._undo_what_does_not_hold()
            if before.status is WorkflowStatus.COMPLETED:
                if self.state is before and all(before.is_done(one.name) for one in self._phases):
                    return before  # all artifacts still hold
                if self.state.status is WorkflowStatus.COMPLETED:
                    self.state = attrs.evolve(self.state, status=WorkflowStatus.RUNNING)
            emit(
                events.WorkflowChanged(
                    workflow=self.state.workflow,
                    status="running",
                    completed=len(self.state.checkpoints),
                    total=len(self._phases),
                )
            )
            while self.state.status is WorkflowStatus.RUNNING:
                spec = next((one for one in self._phases if not self.state.is_done(one.name)), None)
                if spec is None:
                    await self._complete(began)
                else:
                    await self._one(spec)
        except Exception:  # the file has the last step that could be saved
            raise
        except BaseException:
            self._file.save_if_possible(self._interrupted())
            raise
        return self.state

    def _with_death(self) -> WorkflowState:
        """Return the state with a warning about a crash inside a phase that begins again.

        A phase that is refused has a failure instead.
        """
        state = self.state
        begins = [one.name for one in self._phases if one.idempotent is not False]
        may_begin = state.current_phase in begins and not state.open_calls(str(state.current_phase))
        if 0 < state.starts < _DEATHS and may_begin:
            return state.warned(
                f"phase {state.current_phase} began again: the process had ended inside of it"
            )
        return state

    def _interrupted(self) -> WorkflowState:
        """Return the state to save when the run is cancelled.

        That is no crash, unless the phase must not run twice and may have run.
        """
        is_in_doubt = any(
            one.name == self.state.current_phase and one.idempotent is False for one in self._phases
        )
        return self.state if is_in_doubt else self.state.interrupted()

    async def keep(self, state: WorkflowState, *, synced: int = 1) -> None:
        """Set the state and append it to the journal; `synced` as in `WorkflowStateFile.note`.

        Raises StoreError, with the state unchanged.
        """
        await self._set(state, partial(self._file.note, state, synced=synced))

    async def _save(self, state: WorkflowState) -> None:
        """Set the state and save it to the file. Raises StoreError, with the state unchanged."""
        await self._set(state, partial(self._file.save, state))

    async def _set(self, state: WorkflowState, save: Callable[[], Awaitable[None]]) -> None:
        # Set before the save: concurrent saves build on it, and a cancelled save is completed.
        before = self.state
        self.state = state
        try:
            async with self._order:
                await save()
        except Exception:
            if self.state is state:
                self.state = before
            raise

    async def _complete(self, began: float) -> None:
        await self._save(self.state.ended(WorkflowStatus.COMPLETED))
        emit(
            events.WorkflowChanged(
                workflow=self.state.workflow,
                status="completed",
                completed=len(self.state.checkpoints),
                total=len(self._phases),
                skipped=tuple(one.phase for one in self.state.skipped),
                seconds=current_world().monotonic() - began,
            )
        )

    # ---- one phase ----------------------------------------------------------------------------------------------

    async def _one(self, spec: PhaseSpec) -> None:
        refusal = self._refusal(spec)
        if refusal is not None:
            # A warning too: the failure is gone once `resume` has let the phase run again.
            warned = self.state.warned(refusal.message) if spec.required else self.state
            await self._give_up(spec, refusal, warned)
            return
        # What must not run twice must be known to have begun, also after a power cut.
        synced = 1 if spec.idempotent is False else 0
        await self.keep(self.state.began(spec.name), synced=synced)
        number, total, began = self._number(spec), len(self._phases), current_world().monotonic()
        emit(
            events.PhaseChanged(
                workflow=self.state.workflow,
                phase=spec.name,
                status="started",
                run=self.state.starts,
                number=number,
                total=total,
            )
        )
        phase = self._phase(spec)
        has_ended = False
        try:
            check_result(await spec.run(phase))
            has_ended = True
            if phase.attempts > 1:  # saved with the next step
                self.state = self.state.warned(recovered(f"phase {spec.name}", phase.attempts))
            checkpoint = await self._verified(spec, phase)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 -- any error of a phase is its failure
            self._under_way = None
            is_own = not has_ended and error is not phase.tool_error
            await self._failed(spec, phase, as_its_own(error, spec.name), is_own=is_own)
            return
        finally:
            self._under_way = None
        await self._save(self.state.finished(checkpoint))
        emit(
            events.PhaseChanged(
                workflow=self.state.workflow,
                phase=spec.name,
                status="completed",
                seconds=current_world().monotonic() - began,
                number=number,
                total=total,
            )
        )

    def _remembers(self, tool: str) -> bool:
        """Return whether the toolbox has effects, which say more of a call of a tool in doubt."""
        found = None if self._tools is None else self._tools.tools.get(tool)
        return found is not None and self._tools is not None and self._tools.remembers(found)

    def _refusal(self, spec: PhaseSpec) -> Failure | None:
        """Return why a phase must not begin; None if it may.

        It must not if it may have run and must not run twice, or if it keeps killing the process.
        """
        state = self.state
        if spec.name == self._forced:
            self._forced, self._resumed = None, spec.name
            return None
        has_started = state.current_phase == spec.name and state.starts > 0
        open_calls = [one for one in state.open_calls(spec.name) if not self._remembers(one.tool)]
        if open_calls:
            return unknown(open_calls[0], open_calls)
        if spec.idempotent is False and (has_started or spec.name in state.in_doubt):
            return Failure.of(
                "SYS_OUTCOME_UNKNOWN",
                f"phase {spec.name} may have run: "
                + (
                    "the process ended inside of it"
                    if has_started
                    else "nothing says that it had not begun"
                ),
                suggestions=(
                    "find out what it did; then resume to run it again, or skip it if it was done",
                ),
            )
        if has_started and state.starts >= _DEATHS:
            return Failure.of(
                "TOOL_EXECUTION_FAILED",
                f"the process ended {state.starts} times inside of phase {spec.name}",
                executed=Executed.MAYBE,
                suggestions=(
                    "look for what ends the process: memory, a signal, a supervisor",
                    "then resume",
                ),
            )
        return None

    def _phase(self, spec: PhaseSpec) -> Phase:
        token = self._under_way = object()

        def refuse_late(field: str) -> None:  # a task that outlived the phase
            if self._under_way is not token:
                raise config_error(field, "a phase that is under way", spec.name)

        async def save(value: Any) -> None:
            refuse_late("Phase.checkpoint")
            await self.keep(attrs.evolve(self.state, saved=value))

        async def warn(text: str) -> None:
            refuse_late("Phase.warn")
            await self.keep(self.state.warned(redact(text)))

        async def skip(tool: str, arguments: dict[str, Any], failure: Failure) -> None:
            refuse_late("Phase.call")
            text = f"{spec.name}: skipped optional tool {tool}: {failure}"
            record = as_call_record(phase, failure, (tool, arguments))
            await self.keep(self.state.failed(record).warned(redact(text)))

        phase = Phase(
            spec,
            number=self._number(spec),
            run=self.state.starts,
            workflow_id=self.state.id,
            root=self._root,
            tools=self._tools,
            restored=self.state.saved,
            save=save,
            warn=warn,
            skip=skip,
            calls=PhaseCalls(self, spec.name),
            is_resumed=spec.name == self._resumed,
        )
        return phase

    def _number(self, spec: PhaseSpec) -> int:
        return self._phases.index(spec) + 1

    # ---- verification ---------------------------------------------------------------------------------------------

    async def _verified(self, spec: PhaseSpec, phase: Phase) -> PhaseCheckpoint:
        """Return the checkpoint of a phase that has just ended.

        Raises BridgeError (SYS_ARTIFACT_INVALID) if its artifacts or checks do not hold.
        """
        try:
            sums = await asyncio.to_thread(measure, self._measured, phase.artifacts)
        except ArtifactError as error:
            raise error_for(invalid(f"phase {spec.name} ended, but {error}")) from None
        await check(spec)
        try:
            harmed = await asyncio.to_thread(
                broken, self.state, self._measured, self._root, {*phase.artifacts}
            )
        except HiddenError as error:
            text = f"phase {spec.name} ended, but what was finished before it cannot be verified: {error}"
            raise error_for(invalid(text, kind=Kind.PERMANENT, suggestions=(_SEE,))) from None
        if harmed:
            text = "; ".join(
                f"{one}, of phase {name}" for name, ones in harmed.items() for one in ones
            )
            # Running the other phases again would undo finished work: the user decides.
            raise error_for(
                invalid(
                    f"while phase {spec.name} ran, {text}",
                    kind=Kind.PERMANENT,
                    suggestions=(
                        f"list it among the artifacts of {spec.name}, if that is meant to change it",
                        "else put it back, or resume: the phase that makes it runs again",
                    ),
                )
            )
        return PhaseCheckpoint(
            phase=spec.name,
            completed_at=current_world().now(),
            artifacts=phase.artifacts,
            checksums=sums,
            commits=phase.commits,
        )

    async def _harmed(self) -> dict[str, list[str]]:
        try:
            return await asyncio.to_thread(
                broken, self.state, self._measured, self._root, frozenset()
            )
        except HiddenError as error:  # the artifact may exist: undo nothing, run nothing
            text = f"what was finished cannot be verified: {error}"
            raise error_for(
                Failure.of("SYS_STORE_UNAVAILABLE", text, suggestions=(_SEE,))
            ) from None

    async def _undo_what_does_not_hold(self) -> None:
        """Undo each finished phase whose artifacts are gone or changed: it runs again.

        So do the phases that changed what it makes.
        """
        harmed = await self._harmed()
        remade: set[str] = set()
        for spec in self._phases:
            checkpoint = self.state.checkpoint_of(spec.name)
            if checkpoint is None:
                remade.update(() if self.state.is_done(spec.name) else spec.artifacts)
                continue
            anew = [f"{name} is made anew" for name in checkpoint.artifacts if name in remade]
            wrong = harmed.get(spec.name) or anew
            if not wrong:
                try:
                    await check(spec)
                except Exception as error:  # noqa: BLE001 -- a check that raises does not hold
                    wrong = [classify(error).message]
            if not wrong:
                continue
            failure = invalid(f"phase {spec.name} was finished, but {'; '.join(wrong)}")
            state = self.state.undone(spec.name)
            if spec.idempotent is False:  # the user decides whether it may run twice
                await self._give_up(spec, attrs.evolve(failure, kind=Kind.PERMANENT), state)
                if self.state.status is not WorkflowStatus.RUNNING:
                    return
                continue
            remade.update(checkpoint.artifacts)
            await self._save(state.warned(f"{failure.message}: it ran again"))
            self._emit_undone(spec, failure)

    def _emit_undone(self, spec: PhaseSpec, failure: Failure) -> None:
        emit(
            events.PhaseChanged(
                workflow=self.state.workflow,
                phase=spec.name,
                status="undone",
                number=self._number(spec),
                total=len(self._phases),
                failure=failure,
            )
        )

    # ---- failures -----------------------------------------------------------------------------------------------

    async def _failed(
        self, spec: PhaseSpec, phase: Phase, error: Exception, *, is_own: bool
    ) -> None:
        """Recover from the error of a phase, once, or give the phase up.

        `is_own`: the phase's own code raised it, not a tool or a check.
        """
        failure = settled(classify(error))
        if failure.executed is Executed.NO:  # true of the last step only; those before it ran
            failure = attrs.evolve(failure, executed=Executed.MAYBE)
        state = self.state.failed(as_error_record(phase, failure, error)).forgot_repeatable(
            spec.name
        )
        open_calls = state.open_calls(spec.name)
        # the phase's own code may run again; after its own failure only if it is idempotent
        may_run_again = spec.idempotent is True or (spec.idempotent is None and not is_own)
        if (
            failure.kind in _RECOVERABLE
            and spec.name not in self._recovered
            and may_run_again
            and not (open_calls or phase.is_in_doubt)
        ):
            self._recovered.add(spec.name)
            # A damaged file is overwritten; then only phases whose artifacts are gone run again.
            text = f"phase {spec.name} was done again: {failure.message}"
            await self._save(state.interrupted().warned(text))
            self._emit_undone(spec, failure)
            await self._undo_what_does_not_hold()
            return
        failure = await self._with_fixes(failure, phase)
        if open_calls and failure.code != "SYS_OUTCOME_UNKNOWN":
            fixes = unknown(open_calls[0], open_calls).suggestions
            failure = attrs.evolve(failure, suggestions=(*failure.suggestions, *fixes))
        await self._give_up(spec, failure, state)

    async def _with_fixes(self, failure: Failure, phase: Phase) -> Failure:
        from ..suggestions.suggest import suggest

        arguments = phase.last_call[1] if phase.last_call is not None else {}
        fixes = await asyncio.to_thread(suggest, failure, arguments=arguments, directory=self._root)
        return attrs.evolve(failure, suggestions=fixes or failure.suggestions)

    async def _give_up(self, spec: PhaseSpec, failure: Failure, state: WorkflowState) -> None:
        """Skip an optional phase, with a warning in the report; halt at a required one, or if it is fatal."""
        if spec.required or failure.severity is Severity.FATAL:
            await self._save(state.halted(spec.name, failure))
            emit(
                events.WorkflowChanged(
                    workflow=state.workflow,
                    status="halted",
                    completed=len(state.checkpoints),
                    total=len(self._phases),
                    phase=spec.name,
                    failure=failure,
                )
            )
            return
        marked_skipped = state.marked_skipped(spec.name, current_world().now(), str(failure))
        warning = f"skipped optional phase {spec.name}: {failure}"
        await self._save(marked_skipped.warned(warning))
        emit(
            events.PhaseChanged(
                workflow=state.workflow,
                phase=spec.name,
                status="skipped",
                number=self._number(spec),
                total=len(self._phases),
                reason="optional",
                failure=failure,
            )
        )
