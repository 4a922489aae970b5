"""The errors of phases as plain data for the state file.

Rule: no secrets and no values of variables; a trace names files, lines and functions.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import traceback
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from ...failure import Failure, Kind, error_for, failure_of_result, redact
from ...protocol.session_text import failure_fields
from ...stores.state_files.document import instant
from ...world import current_world


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType

    from .phase import Phase


_Walked: TypeAlias = "tuple[FrameType, int]"

_FRAMES: Final = 12
_CALLERS: Final = 4  # of these, those of the phase that has called a tool
_OURS: Final = str(Path(__file__).parents[2])


def as_error_record(phase: Phase, failure: Failure, error: Exception) -> dict[str, Any]:
    return _record(
        phase, failure, phase.last_call, error, _frames(traceback.walk_tb(error.__traceback__))
    )


def as_call_record(
    phase: Phase, failure: Failure, call: tuple[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the record of a failed call of an optional tool.

    Must be called inside the phase's own call: the trace is that of the current stack.
    """
    stack = [
        *takewhile(
            _is_of_the_phase, dropwhile(_is_ours, traceback.walk_stack(inspect.currentframe()))
        )
    ]
    return _record(phase, failure, call, error_for(failure), _frames(reversed(stack)))


def _record(
    phase: Phase,
    failure: Failure,
    call: tuple[str, dict[str, Any]] | None,
    error: BaseException,
    frames: list[traceback.FrameSummary],
) -> dict[str, Any]:
    native = failure.cause or error
    inner = [] if native is error else _frames(traceback.walk_tb(native.__traceback__))
    if inner:  # the frames of the failure follow those of the phase, and keep some of them
        frames = frames[-_CALLERS:]
        frames += inner[len(frames) - _FRAMES :]
    tool, arguments = call or (None, None)
    return {
        "at": instant(current_world().now()),
        "phase": phase.name,
        "run": phase.run,
        "tool": tool,
        "arguments": _storable(arguments),
        "failure": failure_fields(settled(failure)),
        "error": type(native).__name__,
        "trace": [
            redact(f"{frame.filename}:{frame.lineno} in {frame.name}")
            for frame in frames[-_FRAMES:]
        ],
    }


def _frames(walked: Iterable[_Walked]) -> list[traceback.FrameSummary]:
    """Return the frames without the leading ones of this package."""
    return [
        *traceback.StackSummary.extract(iter([*dropwhile(_is_ours, walked)]), lookup_lines=False)
    ]


def _is_ours(walked: _Walked) -> bool:
    return walked[0].f_code.co_filename.startswith(_OURS)


def _is_of_the_phase(walked: _Walked) -> bool:
    return not _is_ours(walked) and walked[0].f_code.co_filename != asyncio.events.__file__


def settled(failure: Failure) -> Failure:
    """Return a failure as a workflow records it: one that was escalated to permanent is not retryable."""
    is_escalated = failure.kind is Kind.PERMANENT and failure.retryable
    return attrs.evolve(failure, retryable=False) if is_escalated else failure


def check_result(result: object) -> None:
    """Raise the failure that a phase returned, such as the Outcome of a tool: it is no success."""
    failure = failure_of_result(result)
    if failure is not None:
        raise error_for(failure)


def as_its_own(error: Exception | asyncio.CancelledError, phase: str) -> Exception:
    """Return the error of a phase.

    Raises CancelledError if the run itself is cancelled; otherwise the phase awaited something that
    was cancelled, which is a failure.
    """
    if issubclass(type(error), Exception):
        return cast("Exception", error)
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise error
    text = f"phase {phase} was not cancelled, but awaited something that was"
    return error_for(Failure.of("TOOL_EXECUTION_FAILED", text)).with_traceback(error.__traceback__)


def _storable(value: Any) -> Any:
    """Return plain data as JSON data: a number that is not finite becomes text."""
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, tuple):
        return [_storable(item) for item in cast("Sequence[Any]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
