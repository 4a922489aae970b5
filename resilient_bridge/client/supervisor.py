"""The owner of the connections: connect, run, lose, wait, repeat.

One task per client, started by `async with`.

URL, headers, token and transport are created again for each attempt, because a dead one cannot be
repaired.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..failure import BridgeError, Failure, classify
from .cancelled import NotOursError, ended, is_ours
from .pump import Pump


if TYPE_CHECKING:
    from ..transports.contract import Transport
    from .backfilling import Backfill
    from .dialing import Dialer
    from .driver import Driver
    from .pump import OnConnect


_DIALLING_ENDS = 5.0  # seconds for an attempt that was cancelled


class Supervisor:
    """Connects with `dial`, and again. Keeps the last resolved address for attempts without DNS."""

    def __init__(
        self,
        driver: Driver,
        dial: Dialer,
        connect_timeout: float,
        on_connect: OnConnect | None = None,
        backfill: Backfill | None = None,
    ) -> None:
        self._driver = driver
        self._dial = dial
        self._timeout = connect_timeout
        self._on_connect, self._backfill = on_connect, backfill
        driver.on_closing = self._replace
        self._dialling: asyncio.Task[None] | None = None
        self._next: tuple[Transport, str | None] | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._address: tuple[str, int] | None = None
        self.pump: Pump | None = None

    async def run(self) -> None:
        """Run until the session gives up or the task is cancelled.

        Raises nothing: a defect of ours fails the client.
        """
        try:
            await self._run()
        except Exception as error:  # noqa: BLE001 -- every waiter must get an error
            self._driver.defect(error)
        except asyncio.CancelledError:
            if is_ours():
                raise
            self._driver.defect(NotOursError("a function of yours"))
        finally:
            await self._drop_next()

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
            await self._wait(0.0 if self._next is not None else decision.wait)

    async def _one_connection(self, address: tuple[str, int] | None) -> Failure:
        driver = self._driver
        made, self._next = self._next, None
        try:
            transport, token = made or await self._connect(address)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the session decides what it means
            return self._dial.secrets.mask(_classified(error))
        except asyncio.CancelledError as error:
            if is_ours():
                raise
            text = "connecting was cancelled by something that it awaited"
            return Failure.of("CONN_UNREACHABLE", text, cause=error)
        finally:
            driver.session.reconnection.target = self._dial.target
        self._address = transport.address or self._address
        now = driver.now()
        driver.session.connection_made(token, now)
        self.pump = Pump(driver, transport, self._on_connect, self._backfill)
        try:
            driver.after(now)
            loss = await self.pump.run()
        finally:
            self.pump = None
        return self._dial.secrets.mask(loss if isinstance(loss, Failure) else _classified(loss))

    async def _connect(self, address: tuple[str, int] | None) -> tuple[Transport, str | None]:
        session = self._driver.session
        async with asyncio.timeout(self._timeout):
            return await self._dial(
                address,
                self._note_address,
                session.resume(),
                is_doubtful=session.reconnection.is_doubtful,
            )

    def _replace(self) -> None:
        """Make the next connection now, then end this one.

        If that fails, this one ends by itself.
        """
        if self._dialling is None and self.pump is not None:
            replacing = self._make_next(self.pump)
            self._dialling = self._driver.loop.create_task(
                replacing, name="resilient_bridge replacement"
            )

    async def _make_next(self, pump: Pump) -> None:
        try:
            made = await self._connect(None)
        except Exception:  # noqa: BLE001 -- the ordinary attempt, after the end that was announced, says what is wrong
            return
        finally:
            self._dialling = None
        if self.pump is pump and pump.loss is None:
            self._next = made
            pump.end(
                Failure.of(
                    "CONN_WEBSOCKET_CLOSED", "the server announced the end of this connection"
                )
            )
        else:
            made[0].abort()
            await made[0].close()

    async def _drop_next(self) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
            await ended(self._dialling, _DIALLING_ENDS)
        if self._next is not None:
            self._next[0].abort()
            await self._next[0].close()

    def _note_address(self, address: tuple[str, int]) -> None:
        self._address = address

    async def _wait(self, seconds: float) -> None:
        """Sleep, unless `skip_wait` is called.

        A full inbox keeps the link down, because a replay would only fill it further.
        """
        self._waiting = self._driver.loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._waiting
        except TimeoutError:
            pass
        finally:
            self._waiting = None
        session = self._driver.session
        if not session.reading.may_connect(session.inbound.inbox):
            await self._driver.room()

    def skip_wait(self) -> None:
        """Try again now."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _classified(error: Exception) -> Failure:
    if isinstance(error, TimeoutError) and not isinstance(error, BridgeError):
        return Failure.of("CONN_TIMEOUT", "no connection within the connect timeout", cause=error)
    return classify(error)
