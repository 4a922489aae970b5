"""An executor of daemon threads: a call that never returns blocks neither exit nor later calls."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from .real import REAL


if TYPE_CHECKING:
    from collections.abc import Callable


P = ParamSpec("P")
T = TypeVar("T")


class _DaemonThreads(Executor):
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call the function in a thread of its own, at once."""
        return REAL.call_in_thread(partial(fn, *args, **kwargs), "tool")


TOOL_THREADS: Final = _DaemonThreads()
"""For `loop.run_in_executor`, which a simulated loop runs itself."""
