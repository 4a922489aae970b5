"""A wake-up for one waiter, set from any thread."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable

    from .real import World


class Signal:
    """Set once, from any thread; waited for by one thread or one task, before or after it was set."""

    __slots__ = ("_event", "_wake")

    def __init__(self) -> None:
        self._event = Event()
        self._wake: Callable[[], bool] | None = None

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self, *_: object) -> bool:
        """Wake the waiter, now or as soon as it waits.

        False if its loop is closed and no waiter remains.

        Arguments are ignored, so that this can be a callback.
        """
        self._event.set()
        return self._wake is None or self._wake()

    def wait(self, seconds: float | None = None) -> bool:
        """Block this thread until it is set, or for so many real seconds; return whether it is set."""
        return self._event.wait(seconds)

    async def suspend(self, world: World, seconds: float | None = None) -> bool:
        """Suspend this task until it is set, or for so many seconds of that world.

        Return whether it is set.
        """
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        self._wake = partial(_wake_in, loop, woken)
        # after `_wake` is set: a thread that sets the signal from now on finds it
        if not self._event.is_set():
            timer = None if seconds is None else world.call_later(loop, seconds, partial(_resolve, woken))
            try:
                await woken
            finally:
                if timer is not None:
                    timer.cancel()
        return self._event.is_set()


def _wake_in(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> bool:
    if asyncio._get_running_loop() is loop:  # noqa: SLF001 -- exported for this; `get_running_loop` raises where there is none
        _resolve(future)
        return True
    try:
        loop.call_soon_threadsafe(_resolve, future)
    except RuntimeError:  # the loop is closed
        return False
    return True


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
