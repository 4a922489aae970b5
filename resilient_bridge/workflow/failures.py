"""What a phase raised: whose it is, and all that is known of it as plain data without secrets (C3)."""

from __future__ import annotations

import asyncio
import math
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ..errors import Failure, error_for, redact
from ..protocol.session_text import told_failure
from ..stores.state_document import instant


if TYPE_CHECKING:
    from collections.abc import Sequence

    from .phase import Phase, PhaseSpec

__all__ = ["as_its_own", "told_of"]

_FRAMES: Final = 12
_OURS: Final = str(Path(__file__).parents[1])


def told_of(spec: PhaseSpec, phase: Phase, failure: Failure, error: Exception) -> dict[str, Any]:
    """All that is known of a failure, as plain data without secrets (C3): where in the code, but none of its values."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and frames[0].filename.startswith(_OURS):
        del frames[0]
    tool, arguments = phase.last_call or (None, None)
    return {
        "at": instant(datetime.now(UTC)),
        "phase": spec.name,
        "run": phase.run,
        "tool": tool,
        "arguments": _storable(arguments),
        "failure": told_failure(failure),
        "error": type(error).__name__,
        "trace": [redact(f"{frame.filename}:{frame.lineno} in {frame.name}") for frame in frames[-_FRAMES:]],
    }


def as_its_own(error: Exception | asyncio.CancelledError, phase: str) -> Exception:
    """What a phase raised. CancelledError comes out as it is if somebody ends us; else the phase awaited what it had cancelled itself."""
    if isinstance(error, Exception):
        return error
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise error
    told = f"phase {phase} was not cancelled, but awaited something that was"
    return error_for(Failure.of("TOOL_EXECUTION_FAILED", told)).with_traceback(error.__traceback__)


def _storable(value: Any) -> Any:
    """Plain data as JSON has it: a number that is not finite becomes text."""
    if isinstance(value, dict):
        return {key: _storable(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, tuple):
        return [_storable(item) for item in cast("Sequence[Any]", value)]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
