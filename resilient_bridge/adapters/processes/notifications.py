"""The queue of a child's notifications that are not read yet, and the one task that reads it.

Rule: bounded in number and bytes; the oldest is dropped first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from ...client.one_reader import OneReader
from ...protocol import Message


if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from ...failure import BridgeError
    from ...transports.loop_guard import LoopGuard


_CAPACITY: Final = 1_000


class Notifications:
    """A queue of notifications. `missed` counts those that were dropped to make room."""

    def __init__(self, max_bytes: int, ending: Callable[[], BridgeError | None]) -> None:
        """Keep at most 1,000, and at most `max_bytes` of lines, but always the last one.

        `ending` returns the error that ends the readers after the last; None: they just stop.
        """
        self.missed = 0
        self._queue: deque[tuple[int, Message]] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._ending = ending
        self._is_ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._one_reader = OneReader("Peer.notifications")

    def put(self, method: str, params: dict[str, Any] | list[Any] | None, size: int) -> None:
        """Add a notification; `size` is that of its line."""
        payload = {"params": params} if isinstance(params, list) else params or {}
        self._queue.append(
            (size, Message(type=method, id=None, raw_timestamp=None, payload=payload))
        )
        self._bytes += size
        while len(self._queue) > _CAPACITY or (
            self._bytes > self._max_bytes and len(self._queue) > 1
        ):
            self._take()
            self.missed += 1
        self._wake()

    def end(self) -> None:
        self._is_ended = True
        self._wake()

    async def next(self) -> Message:
        """Return the oldest notification, waiting for one.

        After the last, raise the error of `ending`, or StopAsyncIteration if it is None. Raises
        ConfigError while another task reads.
        """
        self._one_reader.check(is_waiting=self._waiter is not None)
        while not self._queue:
            if self._is_ended:
                error = self._ending()
                if error is None:
                    raise StopAsyncIteration
                raise error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._take()

    def loop(self) -> AsyncIterator[Message]:
        """Return the iterator of an `async for`. Raises ConfigError while another task reads."""
        return self._one_reader.begins(self.next)

    def _take(self) -> Message:
        size, message = self._queue.popleft()
        self._bytes -= size
        return message

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Reader:
    """An async iterator over notifications, for the event loop of their peer.

    It holds no notification, so dropping it loses none.
    """

    def __init__(self, notifications: Notifications, guard: LoopGuard) -> None:
        self._notifications = notifications
        self._guard = guard

    def __aiter__(self) -> AsyncIterator[Message]:
        self._guard.check()
        return self._notifications.loop()

    async def __anext__(self) -> Message:
        self._guard.check()
        return await self._notifications.next()
