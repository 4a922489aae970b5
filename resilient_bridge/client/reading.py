"""How `async for message in bridge` reads.

Gaps in position, one reader at a time, the position saved on the next request.
"""

from __future__ import annotations

import asyncio
import weakref
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ..telemetry.events import BridgeState
from .one_reader import second_reader


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..protocol import Gap, Message
    from .driver import Driver


class Messages:
    """An iterator over the inbox; it owns nothing, so dropping it in the middle leaks nothing.

    Asking for the next message commits the one before. `on_gap` is awaited where messages are
    missing; if it raises, the reader gets that error, and the gap is reported again on the next
    request.

    It ends when the client is closed, and raises the fatal error of a failed client, both after the
    last accepted message. With a durable store, messages that were not requested before the close
    belong to the next client. StoreError if that store cannot save the reader's position: nothing
    was handed out, and the next request tries the store again.
    """

    def __init__(
        self, driver: Driver, on_gap: Callable[[Gap], Awaitable[None] | None] | None
    ) -> None:
        self._driver = driver
        self._on_gap = on_gap
        self._busy = False
        self._task: asyncio.Task[Any] | None = None  # that reads
        self._become_the_reader()

    @property
    def is_read_elsewhere(self) -> bool:
        """Return whether another task reads here, or has and may go on."""
        task = self._task
        return self._busy or (
            task is not None and task is not asyncio.current_task() and not task.done()
        )

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Message:
        self._driver.guard.check()
        if self._busy:
            raise second_reader("BridgeClient.__aiter__")
        if self._task is None:
            self._become_the_reader()
            self._task = asyncio.current_task()
        writing = self._driver.before_taking() if self._driver.is_durable else None
        message = self._driver.session.inbound.take() if writing is None else None
        if message is None:  # rare: a coroutine of its own is for waiting only (P11)
            self._busy = True
            try:
                message = await self._wait(writing)
            except Exception:
                self._task = None  # the iteration is over
                raise
            finally:
                self._busy = False
        self._driver.taken()
        return message

    def _become_the_reader(self) -> None:
        """Raises ConfigError while another task reads."""
        reader = self._driver.reader()
        if reader is not None and reader is not self and reader.is_read_elsewhere:
            raise second_reader("BridgeClient.__aiter__")
        self._driver.reader = weakref.ref(self)

    async def _wait(self, writing: Awaitable[None] | None) -> Message:
        driver = self._driver
        session = driver.session
        inbound = session.inbound
        while True:
            if writing is not None:
                await driver.written(writing)
            message = inbound.take()
            if message is not None:
                return message
            gap = inbound.inbox.peek_gap()
            if gap is not None:
                await self._tell(gap)
                inbound.inbox.pass_gap()
            elif session.state is BridgeState.FAILED and session.failure is not None:
                raise driver.error(session.failure)
            elif session.state in {BridgeState.CLOSING, BridgeState.CLOSED}:
                raise StopAsyncIteration
            else:
                driver.taken()  # perhaps the last message: its server may wait for that
                if driver.pump is not None:
                    driver.pump.wake_reader()
                await driver.readable()
            writing = driver.before_taking()

    async def _tell(self, gap: Gap) -> None:
        if self._on_gap is not None:
            answer = self._on_gap(gap)
            if isawaitable(answer):  # what a plain function returns means nothing here
                await answer
