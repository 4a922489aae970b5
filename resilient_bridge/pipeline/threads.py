"""A sync call bounded by `Timeout(…, thread=True)`: it runs in a thread, and is left behind there when its time is up.

Rule: honest about what it cannot do. A thread cannot be stopped; the caller goes on, the thread ends when its function does,
and an event says that it is still there. Context variables are those of the caller.
"""

from __future__ import annotations

from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from ..errors import Executed
from ..telemetry import emit, events
from .attempt import CURRENT
from .guards import timed_out, too_late


if TYPE_CHECKING:
    from collections.abc import Callable

    from .plan import Plan

__all__ = ["run_in_thread"]


class _Work:
    """One call in a thread of its own. Daemonic: a call that never returns must not keep the process."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str
    ) -> None:
        self.done = Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._call: Callable[[], Any] = partial(copy_context().run, function, *args, **kwargs)
        Thread(target=self._run, name=f"resilient_bridge {name}", daemon=True).start()

    def _run(self) -> None:
        try:
            self.result = self._call()
        except BaseException as error:  # noqa: BLE001 -- it is raised where the call was made
            self.error = error
        finally:
            self.done.set()


def run_in_thread(function: Callable[..., Any], plan: Plan) -> Callable[..., Any]:
    """Return `function` bounded by the plan's thread timeout."""

    def call(*args: Any, **kwargs: Any) -> Any:
        attempt = CURRENT.get()
        timeout = plan.thread_timeout
        seconds = timeout.of(attempt.number) if timeout is not None else 0.0
        left = attempt.remaining
        is_last = left is not None and left < seconds
        if left is not None and is_last:
            seconds = left
        work = _Work(function, args, kwargs, plan.name)
        if not work.done.wait(seconds):
            emit(events.ThreadLeftBehind(at=datetime.now(UTC), name=plan.name, seconds=seconds))
            raise too_late(seconds, Executed.MAYBE, None) if is_last else timed_out(seconds, None)
        if work.error is not None:
            try:
                raise work.error
            finally:
                work.error = None
        return work.result

    return call
