"""One call of a tool by name: reads its arguments, runs it, and adds suggestions to a failure.

Rule: a failed tool, wrong arguments and an unknown name are outcomes. Only the cancellation of the
caller and a mistake in the program are raised.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from ... import events
from ...calls import Outcome
from ...calls.ports import DeadlineGuard, captured, current_frame
from ...failure import (
    BridgeError,
    DeadlineExceededError,
    Executed,
    Failure,
    config_error,
    error_for,
    redact,
)
from ...telemetry import emit
from ...telemetry.event import TOOL_CALL
from ...values.fields import read_seconds
from ...world.threads import TOOL_THREADS
from ..suggestions.near_misses import close_names
from .bounded import timed_out
from .shell_commands import MistakeError
from .tool_arguments import ANEW, Parameters, invalid
from .tool_policy import most_repeats


if TYPE_CHECKING:
    from .tool_arguments import Read


_SUGGEST_SECONDS: Final = 1.0  # a fix that takes longer to find is not worth the wait
_MOST_NAMES: Final = 8  # names of tools in a suggestion
_OF_THE_TOOL: Final = frozenset({"SYS_INTERNAL_ERROR", "SYS_CONFIG_INVALID"})


@attrs.frozen(kw_only=True)
class Tool:
    """One tool of a Toolbox; `timeout` is the longest time of one attempt, in seconds.

        tools = rb.agent.Toolbox(timeouts={"read": 10})

        @tools.tool(idempotent=True)
        def read(path: str) -> str: ...

        print(tools.tools["read"].timeout)      # 10.0

    `Toolbox.tools` has them by name.
    """

    name: str
    timeout: float
    required: bool = True
    idempotent: bool = False


@attrs.frozen(kw_only=True, repr=False, eq=False)
class ToolEntry:
    """A tool with its function and parameters."""

    tool: Tool
    function: Any
    in_thread: Any  # how a sync one is called by name; None for an async one
    parameters: Parameters
    directory: str | os.PathLike[str] | None
    description: str = ""

    def runner(self) -> Any:
        """Return the async function that calls it, a sync tool in a thread."""
        if self.in_thread is None:
            return self.function
        self.in_thread.policy = self.function.policy  # a later assignment of the user's
        return self.in_thread


def check_call(name: object, arguments: object, key: object, timeout: object) -> float | None:
    """Return the timeout in seconds.

    Raises ConfigError for arguments of a wrong type, a mistake in the program.
    """
    if not isinstance(name, str):
        raise config_error("Toolbox.call(name)", "a text", type(name).__name__)
    if not isinstance(arguments, str | Mapping):
        raise config_error(
            "Toolbox.call(arguments)", "a mapping or JSON text", type(arguments).__name__
        )
    if key is not None and (not isinstance(key, str) or not key):
        wanted = "a text that is not empty, or None"
        raise config_error("Toolbox.call(idempotency_key)", wanted, type(key).__name__)
    return None if timeout is None else read_seconds("Toolbox.call(timeout)", timeout)


async def call_tool(
    entry: ToolEntry, arguments: Mapping[str, Any] | str, key: str | None, seconds: float | None
) -> Outcome[Any]:
    """Call a tool and return its outcome, after `seconds` at the latest.

    Raises MistakeError for a mistake in its definition.
    """
    read = entry.parameters.read(arguments)
    if read.wrong:
        failure = invalid(entry.tool.name, read.wrong)
        return _refused(failure, entry.tool)
    anew = functools.partial(entry.parameters.anew, read, entry.tool.name)
    function = _uncancelled(entry.runner(), anew)
    if seconds is not None:
        function = _bounded(function, seconds)
    token = TOOL_CALL.set(entry.tool.name)
    try:
        outcome = await captured(function, read.args, dict(read.kwargs), key=key)
    finally:
        with suppress(ValueError):  # as above
            TOOL_CALL.reset(token)
    if outcome.error is not None and issubclass(type(outcome.error), MistakeError):
        raise outcome.error
    return await _tool_outcome(entry, read, outcome)


def _uncancelled(function: Any, anew: Callable[[], Read]) -> Any:
    """Return `function` with a cancellation from inside the tool turned into a BridgeError.

    Such a cancellation must not end the caller. `anew` makes the arguments of each attempt.
    """

    async def call(*args: Any, **kwargs: Any) -> Any:
        token = ANEW.set((current_frame(), anew))
        try:
            return await function(*args, **kwargs)
        except (asyncio.CancelledError, CancelledError) as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # made in another function: this frame must not hold the error that holds it
            raise _cut_short(error) from error
        except SystemExit as error:  # argparse raises it: it ends the tool, not the agent
            raise _exited(error) from error
        finally:
            # an abandoned coroutine, closed by the garbage collector: its context is gone
            with suppress(ValueError):
                ANEW.reset(token)

    return call


def _bounded(function: Any, timeout: float) -> Any:
    """Return `function` with a deadline of its own, which is reported as a timeout of the tool."""

    async def call(*args: Any, **kwargs: Any) -> Any:
        frame, deadline = current_frame(), DeadlineGuard(timeout)
        inherited = frame.deadline_at
        deadline.enter(frame)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            is_ours = deadline.leave(frame, error) is not error
            if issubclass(
                type(error), DeadlineExceededError
            ):  # no attempt or wait fits into the rest
                is_ours = inherited is None or cast("float", frame.deadline_at) < inherited
            if is_ours:
                raise timed_out((timeout,), error) from error
            raise
        deadline.leave(frame, None)
        return result

    return call


def _cut_short(error: BaseException) -> BridgeError:
    message = "what the tool waited for was cancelled"
    return error_for(
        Failure.of("TOOL_EXECUTION_FAILED", message, executed=Executed.MAYBE, cause=error)
    )


def _exited(error: SystemExit) -> BridgeError:
    code = error.code if isinstance(error.code, int) else int(error.code is not None)
    message = f"the tool ended itself with exit code {code}"
    failure = Failure.of("TOOL_EXECUTION_FAILED", message, cause=error, details={"exit_code": code})
    return error_for(failure)


def refuse_name(name: str, there_are: Iterable[str]) -> Outcome[Any]:
    names = sorted(there_are)
    near = close_names(name[:100], names)
    listed = ", ".join(names[:_MOST_NAMES]) + (
        f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    )
    suggestions = [
        *(f"did you mean {each}?" for each in near),
        f"call one of these: {listed or 'none'}",
    ]
    shown = redact(name, limit=100)
    failure = Failure.of(
        "TOOL_NOT_FOUND", f"no such tool: {shown}", executed=Executed.NO, suggestions=suggestions
    )
    return _refused(failure, Tool(name=shown, timeout=0.0))


async def _tool_outcome(entry: ToolEntry, read: Read, outcome: Outcome[Any]) -> Outcome[Any]:
    """Return the outcome of a tool; a failure has suggestions."""
    tool, error, failure = entry.tool, outcome.error, outcome.failure
    repeats = 0
    if failure is not None:
        if failure.stopped != "not_idempotent":
            repeats = most_repeats(entry.function.policy, failure, outcome.attempts)
        if failure.code in _OF_THE_TOOL and not issubclass(type(error), BridgeError):
            # For the caller any such error is a failure of the tool (R11).
            failure = attrs.evolve(failure, code="TOOL_EXECUTION_FAILED")
        failure = await _with_fixes(_of_tool(failure, tool), read.arguments, entry.directory)
        _tell(tool, failure, outcome.seconds)
    return Outcome(
        None if error is not None else outcome.value,
        error,
        failure,
        outcome.attempts,
        outcome.seconds,
        tool=tool.name,
        required=tool.required,
        max_retries=repeats,
    )


def _of_tool(failure: Failure, tool: Tool) -> Failure:
    """Return the failure with the name of the tool in its details, where reports read it."""
    return attrs.evolve(failure, details={**failure.details, "tool": tool.name})


def _refused(failure: Failure, tool: Tool) -> Outcome[Any]:
    failure = _of_tool(failure, tool)
    _tell(tool, failure)
    return Outcome(
        None, error_for(failure), failure, 0, 0.0, tool=tool.name, required=tool.required
    )


def _tell(tool: Tool, failure: Failure, seconds: float = 0.0) -> None:
    emit(
        events.ToolFailed(tool=tool.name, required=tool.required, failure=failure, seconds=seconds)
    )


async def _with_fixes(
    failure: Failure,
    arguments: Mapping[str, Any],
    directory: str | os.PathLike[str] | None,
) -> Failure:
    """Return the failure with suggestions.

    They are searched for in a thread: the search reads directories, and a disk may hang.
    """
    try:
        from ..suggestions.suggest import suggest

        look = functools.partial(suggest, failure, arguments=arguments, directory=directory)
        work = asyncio.get_running_loop().run_in_executor(TOOL_THREADS, look)
        try:
            # Not `wait_for`: in Python 3.11 it swallows a cancellation that comes with the result.
            await asyncio.wait({work}, timeout=_SUGGEST_SECONDS)
            fixes = work.result()
        finally:
            work.cancel()  # the result of a slow search is ignored
        return attrs.evolve(failure, suggestions=fixes) if fixes else failure
    except Exception:  # noqa: BLE001 -- a failure without suggestions is better than none
        return failure
