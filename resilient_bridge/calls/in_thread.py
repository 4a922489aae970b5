"""A sync call under `Timeout(…, thread=True)`: it runs in a thread, which a timeout abandons.

Rule: the limits are stated. A thread cannot be stopped: the caller continues, the thread ends when
its function does, and an event reports that it still runs. Context variables are those of the
caller.
"""

from __future__ import annotations

from concurrent.futures import wait
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import events
from ..telemetry import emit
from .frame import CURRENT
from .timeout.guard import deadline_passed, timed_out


if TYPE_CHECKING:
    from collections.abc import Callable

    from .timeout.value import Timeout


def run_in_thread(function: Callable[..., Any], timeout: Timeout, name: str) -> Callable[..., Any]:
    """Return `function`, which events call `name`, bounded by this timeout."""

    def call(*args: Any, **kwargs: Any) -> Any:
        attempt = CURRENT.get()
        seconds = timeout.of(attempt.number)
        remaining = attempt.remaining
        is_last = remaining is not None and remaining < seconds
        if remaining is not None and is_last:
            seconds = remaining
        work = attempt.world.call_in_thread(
            partial(copy_context().run, function, *args, **kwargs), name
        )
        try:
            if wait([work], seconds).done:
                return work.result()
        finally:
            del work  # it holds the error that holds this frame
        emit(events.CallLeftBehind(name=name, seconds=seconds, runs_in="thread"))
        raise deadline_passed(attempt) if is_last else timed_out(seconds, None)

    return call
