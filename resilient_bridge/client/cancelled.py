"""Waiting for a cancelled task: its resources must be released before its owner continues."""

from __future__ import annotations

import asyncio


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
