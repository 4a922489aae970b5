"""The owner of the connections: connect, carry, lose, wait, again. One task per client, started by `async with`.

Everything is made afresh per attempt (URL, headers, token, transport), because a dead one cannot be repaired.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from ..classification import classify
from ..errors import BridgeError, Failure
from .pump import Pump


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..transports import Transport
    from .driver import Driver

    Dial = Callable[["tuple[str, int] | None"], Awaitable["tuple[Transport, str | None]"]]

__all__ = ["Supervisor", "ask"]

T = TypeVar("T")


async def ask(source: Any) -> Any:
    """A value, or what a callable (plain or async) returns now. Failing credentials are AUTH_REFRESH_FAILED."""
    if not callable(source):
        return source
    try:
        value = source()
        return await value if inspect.isawaitable(value) else value
    except BridgeError:
        raise
    except Exception as error:
        raise BridgeError(
            Failure.of(
                "AUTH_REFRESH_FAILED", f"asking for credentials raised {type(error).__name__}", cause=error
            )
        ) from error


class Supervisor:
    """`dial(address)` makes one transport and the token to authenticate with; `address` means: without DNS."""

    def __init__(self, driver: Driver, dial: Dial, connect_timeout: float) -> None:
        self._driver = driver
        self._dial = dial
        self._timeout = connect_timeout
        self._waiting: asyncio.Future[None] | None = None
        self._address: tuple[str, int] | None = None
        self.pump: Pump | None = None

    async def run(self) -> None:
        """Until the session gives up or the task is cancelled. Raises nothing: a defect of ours fails the client, in words."""
        try:
            await self._run()
        except Exception as error:  # noqa: BLE001 -- whoever waits must learn that nobody works for him any more
            self._driver.defect(error)

    async def _run(self) -> None:
        driver = self._driver
        reuse = False
        while True:
            now = driver.now()
            driver.session.connecting(now)
            driver.after(now)
            failure = await self._one_connection(self._address if reuse else None)
            now = driver.now()
            decision = driver.session.connection_lost(failure, now)
            driver.after(now)
            if not decision.retry:
                return
            reuse = decision.reuse_address
            await self._wait(decision.wait)

    async def _one_connection(self, address: tuple[str, int] | None) -> Failure:
        driver = self._driver
        try:
            async with asyncio.timeout(self._timeout):
                transport, token = await self._dial(address)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the session decides what it means
            return _classified(error)
        self._address = transport.address
        now = driver.now()
        driver.session.connection_made(token, now)
        self.pump = Pump(driver, transport)
        try:
            driver.after(now)
            loss = await self.pump.run()
        finally:
            self.pump = None
        return loss if isinstance(loss, Failure) else _classified(loss)

    async def _wait(self, seconds: float) -> None:
        """Sleep, unless `skip_wait`; a full inbox keeps the link down, because a replay would only fill it further."""
        self._waiting = self._driver.loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._waiting
        except TimeoutError:
            pass
        finally:
            self._waiting = None
        if self._driver.session.inbound.inbox.is_full:
            await self._driver.room()

    def skip_wait(self) -> None:
        """Try again now."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _classified(error: Exception) -> Failure:
    if isinstance(error, TimeoutError) and not isinstance(error, BridgeError):
        return Failure.of("CONN_TIMEOUT", "no connection within the connect timeout", cause=error)
    return classify(error)
