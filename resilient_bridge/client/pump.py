"""One connection between a transport and the session.

A task that reads, a task that writes, and one end.

Whatever ends the connection (an exception of the transport, a death verdict, the user) calls `end`,
which aborts the transport, so that neither task waits for ever and no frame is cut by a
cancellation.
"""

from __future__ import annotations

import asyncio
from functools import partial
from inspect import isawaitable
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from ..failure import StoreError, config_error
from ..telemetry.events import BridgeState
from .cancelled import NotOursError, ended, is_ours
from .greeting import Greeting


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from ..failure import Failure
    from ..protocol import Now
    from ..protocol.fact_link import FactLink
    from ..protocol.link import AnyLink
    from ..transports.contract import Transport
    from .backfilling import Backfill
    from .driver import Driver

    OnConnect = Callable[[Greeting], Awaitable[None]]
    """Called with each new connection before READY: subscribe there."""


_GREETING_ENDS: Final = 5.0  # seconds for an `on_connect` that was cancelled
_STORE_PATIENCE: Final = 1.0  # seconds until a store that refused is asked again


class Pump:
    """Runs once. `loss` is what ended it: the native exception, or the session's verdict."""

    def __init__(
        self,
        driver: Driver,
        transport: Transport,
        on_connect: OnConnect | None = None,
        backfill: Backfill | None = None,
    ) -> None:
        self.loss: Exception | Failure | None = None
        self._driver = driver
        self._transport = transport
        self._idle_writer: asyncio.Future[None] | None = None
        self._idle_reader: asyncio.Future[None] | None = None
        self._handed_out: list[
            str | bytes
        ] = []  # by the session, and not taken at once by the transport
        self._mark_again_at = -inf
        self._half: int | None = None  # how much of a frame had arrived at the last check
        self._half_since = 0.0
        self._on_connect, self._backfill = on_connect, backfill
        self._greeting: asyncio.Task[None] | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._alive: asyncio.Task[None] | None = None

    async def run(self) -> Exception | Failure:
        """Carry frames both ways until the link is lost; returns why.

        Cancelled, it leaves no task and no socket.
        """
        driver = self._driver
        driver.pump = self
        self.keep_alive()
        try:
            async with asyncio.TaskGroup() as tasks:
                for what, part in (("reader", self._read), ("writer", self._write)):
                    tasks.create_task(self._carry(part), name=f"resilient_bridge {what}")
        finally:
            driver.pump = None
            self._transport.abort()
            for task in (self._greeting, self._fetching, self._alive):
                if task is not None:
                    task.cancel()
                    await ended(task, _GREETING_ENDS)
            await self._transport.close()
        assert self.loss is not None  # noqa: S101 -- both tasks end only through `end`
        return self.loss

    async def _carry(self, part: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run the reader or the writer; a function of the dialect's cannot end one of them alone."""
        try:
            await part()
        except asyncio.CancelledError:
            if is_ours():
                raise
            self.end(NotOursError("the dialect"))

    def keep_alive(self) -> None:
        """Ping the connection itself, where the dialect has no pings."""
        policy = self._driver.session.keepalive
        if policy is None or self._alive is not None:
            return
        from .keepalive import keep_alive  # imported here: most dialects have pings of their own

        asking = keep_alive(self._driver, self, policy)
        self._alive = self._driver.loop.create_task(asking, name="resilient_bridge keepalive")

    def end(self, cause: Exception | Failure) -> None:
        """End this connection; the first cause counts."""
        if self.loss is None:
            self.loss = cause
            self._transport.abort()
        self.wake_writer()
        self.wake_reader()

    async def close(self) -> None:
        """Close the connection politely; the caller bounds the time."""
        await self._transport.close(self._driver.session.dialect.close_code)

    def greet(self) -> None:
        """Run the user's `on_connect`, once, after the server has accepted the connection."""
        link = self._driver.session.link
        if self._greeting is None and self._on_connect is not None and link is not None:
            greeted = self._greet(self._on_connect, link)
            self._greeting = self._driver.loop.create_task(
                greeted, name="resilient_bridge on_connect"
            )

    def fetch(self) -> None:
        """Run the user's `backfill` for the join, once for each connection."""
        if self._fetching is None and self._backfill is not None:
            from .backfilling import fetch  # imported here: most clients have no such function

            link = cast("FactLink", self._driver.session.link)
            fetched = fetch(self._backfill, self._driver, link)
            self._fetching = self._driver.loop.create_task(
                fetched, name="resilient_bridge backfill"
            )

    async def _greet(self, on_connect: OnConnect, link: AnyLink) -> None:
        driver = self._driver
        try:
            await _awaitable(on_connect(Greeting(driver, link)))
        except Exception as error:  # noqa: BLE001 -- it ends this connection; the session decides what it means
            self.end(error)
            return
        except asyncio.CancelledError:
            if is_ours():
                raise
            self.end(NotOursError("on_connect"))
            return
        now = driver.now()
        link.greeted(now)
        driver.after(now)

    async def _read(self) -> None:
        driver, receive, receive_now = (
            self._driver,
            self._transport.receive,
            self._transport.receive_now,
        )
        session = driver.session
        inbox, reading, now = session.inbound.inbox, session.reading, driver.now()
        while self.loss is None:
            if (inbox.is_full or reading.is_paused) and not session.may_read(
                now, iterating=driver.is_iterated()
            ):
                driver.after(now)
                if self.loss is None:
                    self._idle_reader = driver.loop.create_future()
                    await self._idle_reader
                now = driver.now()
                continue
            # Mostly several have come at once: the time is read once for all of them (P11)
            frame = receive_now()
            if frame is None:
                try:
                    frame = await receive()
                except Exception as error:  # noqa: BLE001 -- whatever the transport raises is the loss; classify() reads it
                    self.end(error)
                    return
                now = driver.now()
            session.receive(frame, now)
            driver.heard(now)

    async def _write(self) -> None:
        driver, send = self._driver, self._transport.send
        session = driver.session
        while self.loss is None:
            frames: list[str | bytes] = []
            if (
                driver.is_stored
                or self._handed_out
                or session.state is not BridgeState.READY
                or session.wants_to_send
            ):
                now = driver.now()
                if driver.is_stored and not await self._may_write(now):
                    return
                frames = self._next_frames(now)
            link = session.link
            if not frames and (link is None or not link.wire.ping_due):
                self._idle_writer = driver.loop.create_future()
                await self._idle_writer
                continue
            try:
                if frames:
                    await send(*frames)
                    self._sent(link)
                if link is not None and link.wire.ping_due:
                    await self.ping()
            except Exception as error:  # noqa: BLE001 -- as above
                self.end(error)

    def _sent(self, link: AnyLink | None) -> None:
        """The transport has written what the session handed out."""
        if link is not None:
            link.sent()
            if self._driver.session.outbound.settled:
                self._driver.after(self._driver.now())

    async def ping(self) -> asyncio.Future[Any] | None:
        """Send a WebSocket ping behind what was written, and return its answer to come.

        None if this connection has no pings. Raises what the transport does.
        """
        driver, link = self._driver, self._driver.session.link
        ping = getattr(self._transport, "ping", None)
        if link is None:
            return None
        written = link.wire.pinging()
        answer = None if ping is None else await ping()
        if answer is None:
            link.cannot_ping()
            driver.after(driver.now())
            return None
        answered: asyncio.Future[Any] = asyncio.ensure_future(answer)
        answered.add_done_callback(partial(self._ponged, link, written))
        return answered

    def _ponged(self, link: AnyLink, written: int, answer: asyncio.Future[Any]) -> None:
        if (
            answer.cancelled()
            or answer.exception() is not None
            or self._driver.session.link is not link
        ):
            return
        now = self._driver.now()
        link.answered(written, now)
        self._driver.after(now)

    def _next_frames(self, now: Now) -> list[str | bytes]:
        """What to write next; it counts as handed out."""
        if self._handed_out:
            frames, self._handed_out = self._handed_out, []
            return frames
        driver, session = self._driver, self._driver.session
        frames = session.frames_to_send(now)
        driver.after(now)
        if frames and session.link is not None and session.link.wire.barrier_due is not None:
            driver.arm(now)
        return frames

    def write_now(self, now: Now) -> None:
        """Write what is queued in this turn of the loop, if the writer rests and need not wait."""
        writer, driver = self._idle_writer, self._driver
        if driver.is_stored or self._handed_out or writer is None or writer.done():
            self.wake_writer()
            return
        link = driver.session.link
        frames = self._next_frames(now)
        if not frames:
            return
        if not self._transport.send_now(*frames):
            self._handed_out = frames
            self.wake_writer()
        else:
            self._sent(link)
            if link is not None and link.wire.ping_due:
                self.wake_writer()

    async def _may_write(self, now: Now) -> bool:
        """Have the store note what is about to be sent.

        False if the connection cannot continue without that.
        """
        driver = self._driver
        through = driver.session.to_mark()
        if (
            through is not None
            and now.mono >= self._mark_again_at
            and not await driver.mark(through, now)
        ):
            # Nothing of it is sent. Control frames and requests are; the store is asked again after
            # a while.
            self._mark_again_at = now.mono + _STORE_PATIENCE
            driver.loop.call_later(_STORE_PATIENCE, self.wake_writer)
        try:
            await driver.keep_position()
        except StoreError as error:
            self.end(error)
        return self.loss is None

    def look(self, now: Now) -> None:
        """Check whether a large frame is still arriving.

        Its bytes count as activity, though it cannot be read yet.
        """
        half, link = self._transport.half_received, self._driver.session.link
        if self._half is None or (half is not None and half < self._half):
            self._half_since = now.mono  # another frame
        if half is not None and half != self._half and link is not None:
            link.receiving(self._half_since, now)
        self._half = half

    def wake_writer(self) -> None:
        """Wake the writer: there is something to send, or the connection has ended."""
        if self._idle_writer is not None and not self._idle_writer.done():
            self._idle_writer.set_result(None)

    def wake_reader(self) -> None:
        """Wake the reader: reading may continue, or the connection has ended."""
        if self._idle_reader is not None and not self._idle_reader.done():
            self._idle_reader.set_result(None)


def _awaitable(greeted: Any) -> Awaitable[None]:
    if not isawaitable(greeted):
        got = f"one that returned {type(greeted).__name__}"
        raise config_error("BridgeClient.on_connect", "an async function: async def", got)
    return greeted
