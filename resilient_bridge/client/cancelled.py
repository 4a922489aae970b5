"""Cancellation: waiting for a cancelled task, whose resources must be released before its owner
continues, and telling our own cancellation from one that a function of the user's lets through.
"""

from __future__ import annotations

import asyncio


class NotOursError(RuntimeError):
    """A function of the user's raised CancelledError, although nobody cancelled the task it ran in."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} raised CancelledError: it awaited something that was cancelled elsewhere"
        )


def is_ours() -> bool:
    """Return whether this task itself is being cancelled, so that a CancelledError must pass."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def ended(task: asyncio.Task[None], within: float | None = None) -> None:
    """Wait for a cancelled task to end, even if this task is cancelled as well.

    `within`: seconds after which it is abandoned, for a task that runs the user's code, which may
    ignore a cancellation.
    """
    loop = asyncio.get_running_loop()
    until = None if within is None else loop.time() + within
    cancelled: asyncio.CancelledError | None = None
    while not task.done() and (until is None or loop.time() < until):
        try:
            await asyncio.wait([task], timeout=None if until is None else until - loop.time())
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
