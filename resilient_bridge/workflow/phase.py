"""A phase: what was declared of it, and what its function is given when it runs.

Rule: what a phase made is what it declared and what it said while it ran; each attempt says it anew.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from uuid import NAMESPACE_URL, uuid5

import attrs

from ..errors import Kind, config_error, error_for, redact_value
from ..pipeline.attempt import CURRENT, outside_of
from ..pipeline.protect import form_of
from ..protocol.session_text import as_json
from .artifacts import commit_of, name_of
from .waiting import in_thread


if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from ..errors import Failure
    from ..tools import Toolbox

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["Phase", "PhaseSpec", "recovered", "runnable"]

_LARGEST: Final = 1 << 20  # bytes of what a phase may save


@attrs.frozen(kw_only=True)
class PhaseSpec:
    """A phase as it was declared; `run` calls its function under its policy."""

    name: str
    run: Callable[[Phase], Awaitable[object]]
    artifacts: tuple[str, ...]
    checks: tuple[Callable[[], object], ...]
    required: bool
    idempotent: bool


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
        self._made: list[str] = []
        self._commits: list[str] = []
        self._calls = 0
        self.attempts = 0
        """How often its function was called: more than once where its policy repeated it."""
        self.is_sync = False
        """Whether the function is a sync one: it can await nothing, so it calls no tools and keeps no checkpoint."""
        self.last_call: tuple[str, dict[str, Any]] | None = None
        """The tool that this attempt called last, if it failed, with its arguments masked."""

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

    @_for_async
    async def warn(self, text: str) -> None:
        """Have this said at the end of the workflow."""
        await self._warn(f"{self.name}: {text}")

    @_for_async
    async def call(self, tool: str, arguments: Mapping[str, Any] | str | None = None, /) -> Any:
        """Call a tool of the workflow's toolbox and return its result (C9).

        An optional tool that fails is skipped: None, a warning at the end, and an entry in the report's `errors`. A required one that fails,
        after its own repeats, fails the phase, and the phase is not repeated for it; one that its repeats have helped is named at the end.
        Its idempotency key is the same for the n-th call of every run of this phase.
        """
        if self._tools is None:
            raise config_error("Workflow.tools", "a Toolbox, to call a tool", None)
        self._calls += 1
        self.last_call = None  # what comes from here on is no fault of an earlier one
        key = str(uuid5(NAMESPACE_URL, f"{self.idempotency_key}/{self._calls}/{tool}"))
        # Its repeats are its own: inside of the phase's they would be left to the phase, and everything before it would be repeated too.
        token = CURRENT.set(outside_of(CURRENT.get()))
        try:
            outcome = await self._tools.call(tool, arguments or {}, idempotency_key=key)
        finally:
            CURRENT.reset(token)
        failure = outcome.failure
        if failure is None:
            if outcome.attempts > 1:
                await self._warn(f"{self.name}: {recovered(f'tool {tool}', outcome.attempts)}")
            return outcome.value
        masked: Any = redact_value(arguments)
        given: dict[str, Any] = masked if isinstance(arguments, Mapping) else {"arguments": masked}
        if outcome.is_skipped:
            await self._skip(tool, given, failure)
            return None
        self.last_call = tool, given
        raise error_for(_final(failure)) from failure.cause


def recovered(who: str, attempts: int) -> str:
    """What is told of a phase or a tool that its repeats have helped."""
    return f"{who} recovered after {attempts - 1} {'retry' if attempts == 2 else 'retries'}"


def _final(failure: Failure) -> Failure:
    """What has been repeated as often as it may is permanent from here on (C2)."""
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
        given = (phase,) if takes_phase else ()
        if form == "async":
            return await function(*given)
        return await in_thread(function, *given)

    return run
