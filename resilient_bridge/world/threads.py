"""Daemon threads as an executor: a call that never returns keeps neither the process nor the calls after it."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DAEMON_THREADS", "run_into"]

P = ParamSpec("P")
T = TypeVar("T")


class _DaemonThreads(Executor):
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call the function in a thread of its own, at once."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        # In a list, and taken out of it: an error holds the frames it came through, and must not be held by one of them.
        run = partial(run_into, [future], partial(fn, *args, **kwargs))
        Thread(target=run, name="resilient_bridge call", daemon=True).start()
        return future


def run_into(held: list[Future[Any]], function: Callable[[], Any]) -> None:
    """Call the function, and put what comes of it into the future, which is taken out of its list."""
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 -- it is raised where the call was made
        held.pop().set_exception(error)
    else:
        held.pop().set_result(result)
        del result


DAEMON_THREADS: Final = _DaemonThreads()
