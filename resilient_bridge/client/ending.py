"""How a client ends: send what it can, say goodbye, leave no task and no socket, close the store.

Each step is bounded.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ..failure import StoreError
from ..telemetry.events import BridgeState
from .cancelled import ended


if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ..protocol import Entry
    from .driver import Driver
    from .pump import Pump


_GOODBYE: Final = 1.0  # seconds a polite close may take before the connection is aborted
# seconds for the connection's task, in which the user's callables run as well
_PATIENCE: Final = 5.0
_DRAINABLE: Final = frozenset({BridgeState.READY, BridgeState.FLUSHING})
_OVER: Final = frozenset(
    {BridgeState.IDLE, BridgeState.FAILED, BridgeState.CLOSING, BridgeState.CLOSED}
)


async def drain(driver: Driver, seconds: float | None) -> None:
    """Send what can be sent within that time (None: no limit); nothing new is accepted."""
    session = driver.session
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while session.outbound.outbox.is_open and session.state not in _OVER:
                if session.state in _DRAINABLE:
                    session.drain(driver.now())
                    driver.after(driver.now())
                    if not session.outbound.outbox.is_open:
                        break
                if session.state is BridgeState.DRAINING and session.link is None:
                    # the link was lost while draining: a new one would outlast the user's patience
                    break
                await driver.changed()


async def shut(
    driver: Driver,
    pump: Pump | None,
    task: asyncio.Task[None] | None,
    checking: asyncio.Task[None] | None,
) -> list[Entry]:
    """End the client now, even if this task is cancelled meanwhile.

    Returns the sends whose outcome could not be settled.
    """
    session = driver.session
    remaining = session.close(driver.now())
    if driver.is_durable:
        _leave_unread(driver)
    driver.after(driver.now())
    if checking is not None:
        checking.cancel()
    try:
        if pump is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE):
                    await pump.close()
        if checking is not None:
            await asyncio.wait([checking], timeout=_GOODBYE)
    finally:
        try:
            if task is not None:
                task.cancel()
                await ended(task, within=_PATIENCE)
        finally:
            session.closed(driver.now())
            driver.after(driver.now())
            driver.stop()
            await _let_go(driver)
    return remaining


def _leave_unread(driver: Driver) -> None:
    """Leave messages that were not requested to the next client, by the saved position."""
    inbox = driver.session.inbound.inbox
    while len(inbox):
        if inbox.take() is None:
            inbox.pass_gap()


async def _let_go(driver: Driver) -> None:
    """Pause the session's record, and close the store."""
    try:
        await _last(driver, driver.leave())
    finally:
        await _last(driver, driver.store.close())


async def _last(driver: Driver, step: Coroutine[Any, Any, None]) -> None:
    """Run it even if this task is cancelled.

    What the store has accepted stays there, whatever it raises now.
    """
    closing = driver.loop.create_task(step, name="resilient_bridge store")
    try:
        await ended(closing)
    finally:
        if closing.done() and not closing.cancelled():
            error = closing.exception()
            if isinstance(error, StoreError):
                driver.store_failed(error)
            elif error is not None:
                raise error
