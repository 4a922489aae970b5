"""A phase: its declaration, and the object that its function gets.

Rule: the artifacts of a phase are those declared and those that its last attempt has named.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast
from uuid import NAMESPACE_URL, uuid5

import attrs

from ...calls.ports import form_of, outside
from ...failure import Kind, OutcomeUnknownError, Severity, config_error, error_for, redact_value
from ...protocol.session_text import as_json
from ..blocking import in_thread
from ..context_guard import NEARLY_FULL
from .artifacts import commit_of, name_of
from .phase_calls import result_of


if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ...calls import Outcome
    from ...failure import Failure
    from ..tools.tool_calls import Tool
    from ..tools.toolbox import Toolbox
    from .journal import CallRecord
    from .phase_calls import PhaseCalls

P = ParamSpec("P")
T = TypeVar("T")


_LARGEST: Final = 1 << 20  # bytes of a checkpoint


@attrs.frozen(kw_only=True, eq=False)
class PhaseSpec:
    """A declared phase; `run` calls its function under its policy."""

    name: str
    run: Callable[[Phase], Awaitable[object]]
    artifacts: tuple[str, ...]
    checks: tuple[Callable[[], object], ...]
    required: bool
    idempotent: bool | None


def _for_async(method: Callable[Concatenate[Phase, P], T]) -> Callable[Concatenate[Phase, P], T]:
    """Return a method that raises ConfigError in a sync phase.

    There its coroutine would never be awaited.
    """

    @wraps(method)
    def checked(self: Phase, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.is_sync:
            raise config_error(
                f"Phase.{method.__name__}", "an async phase, to be awaited in", "a sync phase"
            )
        return method(self, *args, **kwargs)

    return checked


class Phase:
    """The argument of a phase's function.

        flow = rb.agent.Workflow("release.json")

        @flow.phase(artifacts=["notes.md"])
        async def collect(phase: rb.agent.Phase) -> None:
            (phase.root / "notes.md").write_text("new in this release")

    It has the phase's position, its checkpoint from before a crash, its tools, and methods to name
    artifacts.
    """

    def __init__(
        self,
        spec: PhaseSpec,
        *,
        number: int,
        run: int,
        workflow_id: str,
        root: Path,
        tools: Toolbox | None,
        restored: Any,
        save: Callable[[Any], Awaitable[None]],
        warn: Callable[[str], Awaitable[None]],
        skip: Callable[[str, dict[str, Any], Failure], Awaitable[None]],
        calls: PhaseCalls,
        is_resumed: bool = False,
    ) -> None:
        self.name = spec.name
        self.number = number
        self.run = run
        self.root = root
        self.restored = restored
        """The last `checkpoint` of an earlier run of this phase that did not end; None without one."""
        self.idempotency_key = str(uuid5(NAMESPACE_URL, f"{workflow_id}/{spec.name}"))
        """An idempotency key for the side effects of this phase: the same in every run and attempt."""
        self._spec = spec
        self._tools = tools
        self._save = save
        self._warn = warn
        self._skip = skip
        self._journal = calls
        # its user has decided that what may have run is run again
        self._is_resumed = is_resumed
        self._value_of: Callable[[], Any] | None = None
        self._made: list[str] = []
        self._commits: list[str] = []
        self._calls = 0
        self.attempts = 0
        """The calls of its function so far: more than one if its policy repeated it."""
        self.is_sync = False
        """Whether the function is sync: it can await nothing, so it calls no tools and saves no checkpoint."""
        self.last_call: tuple[str, dict[str, Any]] | None = None
        """The tool that this attempt called last, if it failed, with its arguments masked."""
        self.is_in_doubt = False
        """Whether a tool call was refused because it may have run: the workflow halts, even if the phase catches the error."""
        self.tool_error: Exception | None = None
        """The error that the last tool call raised into the phase, to distinguish it from errors of the phase's own code."""

    def __repr__(self) -> str:
        """Return a status line."""
        return f"<Phase {self.number} {self.name} run={self.run}>"

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The artifacts of this attempt: those declared, and those passed to `produced`."""
        return tuple(dict.fromkeys((*self._spec.artifacts, *self._made)))

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits that this attempt has made."""
        return tuple(dict.fromkeys(self._commits))

    def begin_attempt(self) -> None:
        """Begin an attempt: forget the artifacts and commits of a failed one."""
        self.attempts += 1
        self._made.clear()
        self._commits.clear()
        self._calls = 0
        self.last_call = None
        self.tool_error = None
        self._value_of = None
        self._journal.begin_attempt(self.attempts)

    def produced(self, *paths: str | os.PathLike[str]) -> None:
        """Add files or directories to the artifacts.

        They must exist when the phase ends, and later. Raises ConfigError for a path that leads out
        of the root.
        """
        self._made += [name_of(path, self.root, "Phase.produced.path") for path in paths]

    @_for_async
    async def committed(self, commit: str | None = None) -> str:
        """Add a commit (default: HEAD) to the artifacts and return its full name.

        Raises ArtifactError if it does not exist.
        """
        full = await asyncio.to_thread(commit_of, self.root, commit)
        self._commits.append(full)
        return full

    @_for_async
    async def checkpoint(self, value: Any) -> None:
        """Save a JSON value: a later run of this phase, also after a crash, has it in `restored`.

        Raises ConfigError for a value that is no JSON or is too large, and StoreError if it cannot
        be saved.
        """
        await self._save(as_json("Phase.checkpoint.value", value, _LARGEST))

    def checkpoint_with(self, value_of: Callable[[], Any]) -> None:
        """Set a function whose value is saved when the context is nearly full.

        A ContextGuard used in this phase has it saved, as by `checkpoint`.
        """
        if not callable(cast("object", value_of)):
            raise config_error("Phase.checkpoint_with.value_of", "a function of nothing", value_of)
        self._value_of = value_of

    async def save_before_the_end(self, tokens: int, limit: int) -> None:
        """Save the value of `checkpoint_with`, and a warning.

        A ContextGuard calls this when its context is nearly full.
        """
        if self._value_of is not None:
            await self._save(as_json("Phase.checkpoint_with.value_of", self._value_of(), _LARGEST))
        await self._warn(
            f"{self.name}: the context was nearly full ({tokens} of {limit} tokens): the state was saved"
        )

    @_for_async
    async def warn(self, text: str) -> None:
        """Add a warning to the report of the workflow. Raises StoreError if it cannot be saved."""
        await self._warn(f"{self.name}: {text}")

    @_for_async
    async def call(self, tool: str, arguments: Mapping[str, Any] | str | None = None, /) -> Any:
        """Call a tool of the workflow's toolbox and return its result.

        The call is recorded before and after. When the phase runs again after a crash, a call that
        ended is not made again: its recorded result is returned, matched by its number, tool and
        arguments. After a failure this holds only for tools that may not be repeated; the others
        are called again. A call that may have run and must not run twice raises
        OutcomeUnknownError, unless the toolbox has `effects` that find out what became of it.

        An optional tool that fails, but for a fatal failure, is skipped: the result is None, and the report has a warning and
        an entry in `errors`. A required tool that fails, after its own repeats, fails the phase;
        the phase is not repeated because of it. If a repeat helped, the report's warnings name the
        tool. The idempotency key is the same for the n-th call of every run of this phase.
        """
        if self._tools is None:
            raise config_error("Workflow.tools", "a Toolbox, to call a tool", None)
        self._calls += 1
        self.last_call = None  # an error from here on is not that of an earlier call
        key = str(uuid5(NAMESPACE_URL, f"{self.idempotency_key}/{self._calls}/{tool}"))
        asked: Mapping[str, Any] | str = arguments or {}
        declared = self._tools.tools.get(tool)
        record = None if declared is None else await self._recorded(declared, asked)
        if record is not None and record.result:
            return result_of(record)
        # Outside the phase's attempt: otherwise the phase's policy would repeat the tool, and
        # everything before it.
        with outside():
            if record is not None and self._journal.is_in_doubt(record):
                outcome = await self._tools.settle(tool, asked, key)
            else:
                outcome = await self._tools.call(tool, asked, idempotency_key=key)
                if self._is_resumed and _is_held(outcome):
                    outcome = await self._tools.call(tool, asked, idempotency_key=key, again=True)
        self.is_in_doubt |= _is_held(outcome)
        if record is not None:
            await self._journal.end(record, outcome)
        failure = await self._failure_of(tool, asked, outcome)
        if failure is None:
            return outcome.value if outcome.failure is None else None
        # its retries are used up, or those of the phase will not be asked
        if failure.kind is Kind.TRANSIENT or (failure.kind is Kind.PERMANENT and failure.retryable):
            failure = attrs.evolve(failure, kind=Kind.PERMANENT, retryable=False)
        raise self._failed(error_for(failure), tool, asked) from failure.cause

    async def _recorded(self, tool: Tool, arguments: Mapping[str, Any] | str) -> CallRecord:
        """Return the record of the call.

        With a result the call is not made; without one it may be made now.
        """
        number = self._calls
        try:
            record, is_changed = self._journal.asked(number, tool, arguments)
        except OutcomeUnknownError as error:
            same = self._journal.same(number, tool, arguments)
            if same is not None and self._tools is not None and self._tools.remembers(tool):
                return same  # the effects know more, or are asked to find it out
            self.is_in_doubt = True
            raise self._failed(error, tool.name, arguments) from None
        if is_changed and not record.result:
            text = f"call {number} is one of {tool.name}, and was another one in an earlier run: it is made"
            await self._warn(f"{self.name}: {text}")
        if not record.result:
            await self._journal.begin(record, required=tool.required)
        return record

    async def _failure_of(
        self, tool: str, arguments: Mapping[str, Any] | str, outcome: Outcome[Any]
    ) -> Failure | None:
        """Return the failure of the call for the phase; None if it succeeded or is skipped."""
        failure = outcome.failure
        if failure is None:
            if outcome.attempts > 1:
                await self._warn(f"{self.name}: {recovered(f'tool {tool}', outcome.attempts)}")
        elif outcome.is_skipped and failure.severity is not Severity.FATAL:
            await self._skip(tool, _masked(arguments), failure)
            return None
        return failure

    def _failed(self, error: Exception, tool: str, arguments: Mapping[str, Any] | str) -> Exception:
        self.last_call = tool, _masked(arguments)
        self.tool_error = error
        return error


def _is_held(outcome: Outcome[Any]) -> bool:
    return outcome.failure is not None and outcome.failure.code == "SYS_EFFECT_HELD"


def _masked(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    masked: Any = redact_value(arguments)
    return masked if isinstance(arguments, Mapping) else {"arguments": masked}


def recovered(who: str, attempts: int) -> str:
    return f"{who} recovered after {attempts - 1} {'retry' if attempts == 2 else 'retries'}"


def runnable(function: Callable[..., Any]) -> Callable[[Phase], Awaitable[object]]:
    """Return the function of a phase as one that is awaited with the Phase.

    Raises ConfigError for anything that is no such function.
    """
    form = form_of(function)
    wanted = "a function, sync or async, of the Phase or of nothing"
    if form not in {"sync", "async"}:
        raise config_error("Workflow.phase.function", wanted, "a generator function")
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    asked = [
        one
        for one in parameters
        if one.default is one.empty and one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}
    ]
    if len(asked) > 1 or any(one.kind is one.KEYWORD_ONLY for one in asked):
        raise config_error("Workflow.phase.function", wanted, str(signature))
    takes_phase = any(one.kind not in {one.KEYWORD_ONLY, one.VAR_KEYWORD} for one in parameters)

    async def run(phase: Phase) -> object:
        phase.is_sync = form == "sync"
        phase.begin_attempt()
        received = (phase,) if takes_phase else ()
        if form == "sync":
            return await in_thread(function, *received)
        token = NEARLY_FULL.set(phase.save_before_the_end)
        try:
            return await function(*received)
        finally:
            NEARLY_FULL.reset(token)

    return run
