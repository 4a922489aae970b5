"""Run blocking work in a thread, so that the event loop is not blocked.

Rule: a cancelled caller waits for the end of the work, so that no other caller repeats it or takes
its file while it still runs.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ParamSpec, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable


P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a function in a thread and return its result.

    When cancelled, wait until the function ends, then raise the CancelledError.
    """

    def call() -> T:
        try:
            return function(*args, **kwargs)
        except StopIteration as error:
            # A future cannot hold a StopIteration: the caller would never wake up (Python 3.11).
            raise RuntimeError("a function raised StopIteration") from error

    work = asyncio.ensure_future(asyncio.to_thread(call))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()
        raise cancelled
    return work.result()
