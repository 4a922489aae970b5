"""How `on_doubt` is called: for each loss that leaves sends in doubt, one call after the other.

It runs in a task of its own, because a client that only sends has no reader in which it could run.
Rule: what it raises is logged and ends nothing; it delays neither the reconnection nor the sends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from ..telemetry.hub import say
from .cancelled import ended, is_ours


if TYPE_CHECKING:
    from ..telemetry.events import OutboundInDoubt
    from .driver import Driver
    from .signature import OnDoubt


_PATIENCE: Final = 5.0  # seconds for a function of the user's, when the client is closed


class Doubts:
    """The doubts of a client that its `on_doubt` was not called with so far."""

    def __init__(self, driver: Driver, on_doubt: OnDoubt) -> None:
        self._driver, self._on_doubt = driver, on_doubt
        self._waiting: deque[OutboundInDoubt] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, event: OutboundInDoubt) -> None:
        self._waiting.append(event)
        if self._task is None or self._task.done():
            self._task = self._driver.loop.create_task(
                self._run(), name="resilient_bridge on_doubt"
            )

    async def _run(self) -> None:
        while self._waiting:
            try:
                answer = self._on_doubt(self._waiting.popleft())
                if answer is not None:
                    await answer
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_ours():
                    raise
                say("error", f"on_doubt raised {type(error).__name__}: the client goes on")

    async def aclose(self) -> None:
        """Wait for the calls that are due, for 5 s at most; then cancel the one that runs."""
        task = self._task
        if task is None or task is asyncio.current_task():
            return
        try:
            await ended(task, _PATIENCE)
        finally:
            if not task.done():
                self._waiting.clear()
                task.cancel()
                await ended(task, _PATIENCE)
