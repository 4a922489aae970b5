"""A signal that any thread sets and one thread or task waits for."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from collections.abc import Callable

    from .real import World


class Signal:
    """An event that any thread sets once, and that one thread or task waits for."""

    __slots__ = ("_event", "_wake")

    def __init__(self) -> None:
        self._event = Event()
        self._wake: Callable[[], bool] | None = None

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self, *_: object) -> bool:
        """Set the signal: the waiter wakes now, or does not wait later.

        Return False if the waiter's loop is closed. Arguments are ignored, so that this can be a
        callback.
        """
        self._event.set()
        return self._wake is None or self._wake()

    def wait(self, seconds: float | None = None) -> bool:
        """Block this thread until it is set, at most `seconds` (real); return whether it is."""
        return self._event.wait(seconds)

    async def suspend(self, world: World, seconds: float | None = None) -> bool:
        """Suspend this task until it is set, at most `seconds` of `world`; return whether it is."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        self._wake = partial(_wake_in, loop, woken)
        # checked after `_wake` is assigned: a thread that sets the signal later calls it
        if not self._event.is_set():
            timer = (
                None
                if seconds is None
                else world.call_later(loop, seconds, partial(_resolve, woken))
            )
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
