"""A phase: what was declared of it, and what its function is given when it runs.

Rule: what a phase made is what it declared and what it said while it ran; each attempt says it anew.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast
from uuid import NAMESPACE_URL, uuid5

import attrs

from ...calls.frame import CURRENT, leave_context, outside_of
from ...calls.run.protect import form_of
from ...errors import Kind, OutcomeUnknownError, config_error, error_for, redact_value
from ...protocol.session_text import as_json
from ..blocking import in_thread
from ..context_guard import NEARLY_FULL
from .artifacts import commit_of, name_of
from .phase_calls import result_of


if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ...calls.outcome import Outcome
    from ...errors import Failure
    from ..tools.tool_calls import Tool
    from ..tools.toolbox import Toolbox
    from .journal import CallRecord
    from .phase_calls import PhaseCalls

P = ParamSpec("P")
T = TypeVar("T")


_LARGEST: Final = 1 << 20  # bytes of what a phase may save


@attrs.frozen(kw_only=True)
class PhaseSpec:
    """A phase as it was declared; `run` calls its function under its policy."""

    name: str
    run: Callable[[Phase], Awaitable[object]]
    artifacts: tuple[str, ...]
    checks: tuple[Callable[[], object], ...]
    required: bool
    idempotent: bool | None


def _for_async(method: Callable[Concatenate[Phase, P], T]) -> Callable[Concatenate[Phase, P], T]:
    """A method that has to be awaited: in a sync phase it would do nothing, without a word."""

    @wraps(method)
    def checked(self: Phase, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.is_sync:
            raise config_error(f"Phase.{method.__name__}", "an async phase, to be awaited in", "a sync phase")
        return method(self, *args, **kwargs)

    return checked


class Phase:
    """What the function of a phase is given: where it is, what it saved before a crash, its tools, and where it says what it made."""

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
    ) -> None:
        self.name = spec.name
        self.number = number
        self.run = run
        self.root = root
        self.restored = restored
        """What `checkpoint` kept of an earlier run of this phase that did not end; None if there was none."""
        self.idempotency_key = str(uuid5(NAMESPACE_URL, f"{workflow_id}/{spec.name}"))
        """A key for what this phase does to the world: the same in every run and every attempt of it."""
        self._spec = spec
        self._tools = tools
        self._save = save
        self._warn = warn
        self._skip = skip
        self._journal = calls
        self._value_of: Callable[[], Any] | None = None
        self._made: list[str] = []
        self._commits: list[str] = []
        self._calls = 0
        self.attempts = 0
        """How often its function was called: more than once where its policy repeated it."""
        self.is_sync = False
        """Whether the function is a sync one: it can await nothing, so it calls no tools and keeps no checkpoint."""
        self.last_call: tuple[str, dict[str, Any]] | None = None
        """The tool that this attempt called last, if it failed, with its arguments masked."""
        self.is_in_doubt = False
        """Whether a tool call was refused because it may have run: a person decides, whatever the phase makes of that."""
        self.tool_error: Exception | None = None
        """What the last call of a tool has raised into the phase: to tell it from what the phase's own code raises."""

    def __repr__(self) -> str:
        """A status line."""
        return f"<Phase {self.number} {self.name} run={self.run}>"

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The names of what this attempt has to leave behind: declared, and said by `produced`."""
        return tuple(dict.fromkeys((*self._spec.artifacts, *self._made)))

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits that this attempt has made."""
        return tuple(dict.fromkeys(self._commits))

    def begin_attempt(self) -> None:
        """What an attempt that failed has said does not count."""
        self.attempts += 1
        self._made.clear()
        self._commits.clear()
        self._calls = 0
        self.last_call = None
        self.tool_error = None
        self._value_of = None
        self._journal.begin_attempt(self.attempts)

    def produced(self, *paths: str | os.PathLike[str]) -> None:
        """Say that these files or directories are artifacts too: they have to be there when the phase ends, and as long as it counts.

        Raises ConfigError for a path that leads out of the root.
        """
        self._made += [name_of(path, self.root, "Phase.produced.path") for path in paths]

    @_for_async
    async def committed(self, commit: str | None = None) -> str:
        """Say that this commit, HEAD if none is named, is an artifact too, and return its full name. Raises ArtifactError if there is none."""
        full = await asyncio.to_thread(commit_of, self.root, commit)
        self._commits.append(full)
        return full

    @_for_async
    async def checkpoint(self, value: Any) -> None:
        """Keep a JSON value: a later run of this phase finds it in `restored`, after a crash too. Raises ConfigError, StoreError."""
        await self._save(as_json("Phase.checkpoint.value", value, _LARGEST))

    def checkpoint_with(self, value_of: Callable[[], Any]) -> None:
        """Say what to keep when the session may end soon: `value_of()` is kept as by `checkpoint` when a ContextGuard is nearly full."""
        if not callable(cast("object", value_of)):
            raise config_error("Phase.checkpoint_with.value_of", "a function of nothing", value_of)
        self._value_of = value_of

    async def save_before_the_end(self, tokens: int, limit: int) -> None:
        """What a ContextGuard asks for when the context has become nearly full."""
        if self._value_of is not None:
            await self._save(as_json("Phase.checkpoint_with.value_of", self._value_of(), _LARGEST))
        await self._warn(
            f"{self.name}: the context was nearly full ({tokens} of {limit} tokens): the state was saved"
        )

    @_for_async
    async def warn(self, text: str) -> None:
        """Have this said at the end of the workflow."""
        await self._warn(f"{self.name}: {text}")

    @_for_async
    async def call(self, tool: str, arguments: Mapping[str, Any] | str | None = None, /) -> Any:
        """Call a tool of the workflow's toolbox and return its result.

        The call is recorded before and after. One that ended is not made again when the phase is: after a crash its recorded result is
        returned, matched by its place, its tool and its arguments; after a failure that holds only for tools that may not be repeated, the
        others are called again. One that may have run and must not run twice raises OutcomeUnknownError.

        An optional tool that fails is skipped: None, a warning at the end, and an entry in the report's `errors`. A required one that fails,
        after its own repeats, fails the phase, and the phase is not repeated for it; one that its repeats have helped is named at the end.
        Its idempotency key is the same for the n-th call of every run of this phase.
        """
        if self._tools is None:
            raise config_error("Workflow.tools", "a Toolbox, to call a tool", None)
        self._calls += 1
        self.last_call = None  # what comes from here on is no fault of an earlier one
        key = str(uuid5(NAMESPACE_URL, f"{self.idempotency_key}/{self._calls}/{tool}"))
        asked: Mapping[str, Any] | str = arguments or {}
        declared = self._tools.tools.get(tool)
        record = None if declared is None else await self._recorded(declared, asked)
        if record is not None and record.result:
            return result_of(record)
        # Its repeats are its own: inside of the phase's they would be left to the phase, and everything before it would be repeated too.
        token = CURRENT.set(outside_of(CURRENT.get()))
        try:
            outcome = await self._tools.call(tool, asked, idempotency_key=key)
        finally:
            leave_context(token)
        if record is not None:
            await self._journal.end(record, outcome)
        failure = await self._failure_of(tool, asked, outcome)
        if failure is None:
            return outcome.value if outcome.failure is None else None
        raise self._failed(error_for(_final(failure)), tool, asked) from failure.cause

    async def _recorded(self, tool: Tool, arguments: Mapping[str, Any] | str) -> CallRecord:
        """The record of the call that is asked for: with a result it is not made, without one it may be made now."""
        number = self._calls
        try:
            record, is_changed = self._journal.asked(number, tool, arguments)
        except OutcomeUnknownError as error:
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
        """What the phase fails of; None for a call that worked, and for one that is skipped."""
        failure = outcome.failure
        if failure is None:
            if outcome.attempts > 1:
                await self._warn(f"{self.name}: {recovered(f'tool {tool}', outcome.attempts)}")
        elif outcome.is_skipped:
            await self._skip(tool, _masked(arguments), failure)
            return None
        return failure

    def _failed(self, error: Exception, tool: str, arguments: Mapping[str, Any] | str) -> Exception:
        self.last_call = tool, _masked(arguments)
        self.tool_error = error
        return error


def _masked(arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    masked: Any = redact_value(arguments)
    return masked if isinstance(arguments, Mapping) else {"arguments": masked}


def recovered(who: str, attempts: int) -> str:
    """What is told of a phase or a tool that its repeats have helped."""
    return f"{who} recovered after {attempts - 1} {'retry' if attempts == 2 else 'retries'}"


def _final(failure: Failure) -> Failure:
    """What has been repeated as often as it may is permanent from here on."""
    if failure.kind is not Kind.TRANSIENT:
        return failure
    return attrs.evolve(failure, kind=Kind.PERMANENT, retryable=False)


def runnable(function: Callable[..., Any]) -> Callable[[Phase], Awaitable[object]]:
    """Return the function of a phase as one that is awaited with the Phase. Raises ConfigError for what is no such function."""
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
