"""`async for message in bridge`: gaps in their place, one reader at a time, the position saved on the next request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import config_error, error_for
from ..telemetry.events import BridgeState


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..protocol import Gap, Message
    from .driver import Driver

__all__ = ["Messages"]


class Messages:
    """An iterator over the inbox; it owns nothing, so dropping it in the middle leaks nothing.

    Asking for the next message commits the one before. `on_gap` is awaited where messages are missing; if it raises, the
    reader sees that, and the gap is reported again on the next request. Ends when the client is closed, raises the fatal
    error when it has failed, both after the last accepted message; with a durable store what was not asked for before the
    client was closed is the next client's.
    """

    def __init__(self, driver: Driver, on_gap: Callable[[Gap], Awaitable[None] | None] | None) -> None:
        self._driver = driver
        self._on_gap = on_gap
        self._busy = False

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Message:
        if self._busy:
            raise config_error("BridgeClient.__aiter__", "one reader at a time", "a second one")
        if self._driver.unkept is not None:
            await self._until_kept()
        message = self._driver.session.inbound.take()
        if message is None:  # seldom: a coroutine of its own is for waiting only (P11)
            self._busy = True
            try:
                message = await self._wait()
            finally:
                self._busy = False
        self._driver.taken()
        return message

    async def _until_kept(self) -> None:
        """Wait for the position of what was taken: a crash is to bring back no more than was promised. A failure is told elsewhere."""
        driver = self._driver
        if driver.unkept is None:
            return
        keeping = driver.unkept = asyncio.ensure_future(driver.unkept)
        self._busy = True
        try:
            await asyncio.wait([keeping])
        finally:
            self._busy = False
        driver.unkept = None
        if not keeping.cancelled():
            keeping.exception()

    async def _wait(self) -> Message:
        driver = self._driver
        session = driver.session
        inbound = session.inbound
        while True:
            message = inbound.take()
            if message is not None:
                return message
            gap = inbound.inbox.peek_gap()
            if gap is not None:
                await self._tell(gap)
                inbound.inbox.pass_gap()
                continue
            if session.state is BridgeState.FAILED and session.failure is not None:
                raise error_for(session.failure)
            if session.state in {BridgeState.CLOSING, BridgeState.CLOSED}:
                raise StopAsyncIteration
            if driver.pump is not None:
                driver.pump.wake_reader()
            await driver.readable()

    async def _tell(self, gap: Gap) -> None:
        if self._on_gap is not None:
            answer = self._on_gap(gap)
            if answer is not None:
                await answer
