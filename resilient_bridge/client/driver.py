"""The synchronous middle of a client.

It passes the time to the session, and does what the session requests.

Every call of a session method is followed by `after(now)`: outcomes reach their waiters, events
their listeners, the reader and the writer wake up, a death verdict reaches the connection, the
timer is set. Rule: nothing in here awaits.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import evolve

from ..failure import BridgeError, Executed, Failure, StoreError, error_for
from ..protocol import Now
from ..telemetry.events import BridgeState, MessageRejected, OutboundInDoubt, StoreChanged
from ..telemetry.hub import say
from ..transports.loop_guard import LoopGuard
from .defects import defect_of
from .streams import EventStream, tell


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..protocol import Entry, Session, Store, Watermark


class Connection(Protocol):
    """What the driver needs from the pump of the current connection; `loss` is what ended it."""

    loss: Exception | Failure | None

    def wake_writer(self) -> None: ...
    def write_now(self, now: Now) -> None: ...
    def wake_reader(self) -> None: ...
    def end(self, cause: Failure) -> None: ...
    def greet(self) -> None: ...
    def fetch(self) -> None: ...
    def look(self, now: Now) -> None: ...
    async def ping(self) -> asyncio.Future[Any] | None: ...
    def keep_alive(self) -> None: ...


class Reader(Protocol):
    """What the driver and the readers need from another reader of this client."""

    @property
    def is_read_elsewhere(self) -> bool:
        """Return whether another task reads there."""
        ...


class Driver:
    """The driver of one client; `pump` is its connection, `listeners` are its event streams."""

    def __init__(
        self, session: Session, store: Store, wall: Callable[[], float], name: str = ""
    ) -> None:
        self.session, self.name = session, name
        self.store = store
        self.is_durable = store.is_durable
        store.on_failure = self._on_store
        self.has_failed_store = False
        # does the store have to be informed of what is about to be sent?
        self.is_stored = self.is_durable
        # The session whose record is active, and its name there.
        self._recorded: tuple[Watermark, str] | None = None
        self.pump: Connection | None = None
        self.streams: list[weakref.ref[EventStream]] = []
        self.identity = object()
        self.reader: Callable[[], Reader | None] = lambda: None  # a weak reference to the last one
        self.on_doubt: Callable[[OutboundInDoubt], None] | None = None
        # What must be reported of outcomes before the store records them as final.
        self.before_settling: Callable[[list[Entry]], None] | None = None
        self._warned: object = None  # the link of which it was logged that a frame was rejected
        self.on_closing: Callable[[], None] = lambda: None  # the server has announced the end
        self._wall = wall
        self.guard = LoopGuard("BridgeClient")
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0  # uvloop's handles have no `when` once they are due
        self._reader: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._watchers: list[asyncio.Future[None]] = []

    def is_iterated(self) -> bool:
        """Return whether somebody reads messages."""
        return self.reader() is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop this client runs on: the one that entered it."""
        if self.guard.loop is None:
            self.guard.loop = asyncio.get_running_loop()
        return self.guard.loop

    def now(self) -> Now:
        """Both clocks, read once per turn."""
        return Now((self.guard.loop or self.loop).time(), self._wall())

    # ---- after every verb -------------------------------------------------------------------------------------

    def after(self, now: Now) -> None:
        """Carry out what the session has decided."""
        session = self.session
        has_news = False
        if session.outbound.settled:
            has_news = True
            settled = session.outbound.take_settled(now)
            if self.before_settling is not None:
                self.before_settling([entry for entry in settled if entry.reason != "kept"])
            for entry in settled:
                if entry.reason != "kept":  # that is the next client's
                    self.store.settle(entry)
                if entry.waiters is not None:
                    _wake(entry.waiters)
        if session.events:
            has_news = True
            self._tell()
            self.arm(now)
        if self.is_durable:
            self.store.touch()
        if self._reader is not None and (len(session.inbound.inbox) or session.state in ENDED):
            _wake([self._reader])
            self._reader = None
        if self.pump is not None:
            self._move_pump(self.pump)
        if has_news and self._watchers:
            watchers, self._watchers = self._watchers, []
            _wake(watchers)

    def heard(self, now: Now) -> None:
        """Do what `after` does for a received frame: usually it only brings a message."""
        if self.is_durable:
            self.store.touch()
        session, link = self.session, self.session.link
        is_link_news = link is not None and (
            link.wire.control or link.death is not None or link.closing
        )
        if session.events or session.outbound.settled or is_link_news:
            self.after(now)
        elif self._reader is not None and len(session.inbound.inbox):
            _wake([self._reader])
            self._reader = None

    def _move_pump(self, pump: Connection) -> None:
        session = self.session
        link = session.link
        if link is None:
            return
        if link.death is not None:
            pump.end(link.death)
            return
        if session.state is not BridgeState.READY:  # both are over before that
            if link.greeting is not None and link.greeting.is_open:
                pump.greet()
            elif link.joining.awaits_backfill:
                pump.fetch()
        if link.wire.lacks_pings:
            pump.keep_alive()
        if link.closing:
            self.on_closing()
        if session.wants_to_send:
            pump.wake_writer()

    def _tell(self) -> None:
        events, self.session.events[:] = list(self.session.events), []
        for event in events:
            passed = tell(self, event, self.session)
            if self.on_doubt is not None and isinstance(passed, OutboundInDoubt):
                self.on_doubt(passed)
            if isinstance(event, MessageRejected):
                self._rejected(event)

    def _rejected(self, event: MessageRejected) -> None:
        """Log what a dialect of the user's cannot read, once on each connection: a server may send
        nothing else.
        """
        link = self.session.link
        if self.session.dialect.decode is not None and link is not self._warned:
            self._warned = link
            say(
                "warning",
                f"a frame was rejected, and the connection kept: {event.failure.message}",
                event,
            )

    def arm(self, now: Now) -> None:
        """Set the timer for what is due next."""
        due = self.session.next_timer()
        look = self.session.look_every
        if look is not None:
            due = now.mono + look if due is None else min(due, now.mono + look)
        if due is not None:
            self.arm_by(due)

    def arm_by(self, due: float) -> None:
        """Wake by this time (monotonic), perhaps sooner than the one timer was set for."""
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer, self._timer_due = self.loop.call_at(due, self._on_timer), due

    def _on_timer(self) -> None:
        self._timer = None
        now = self.now()
        try:
            if self.pump is not None:
                self.pump.look(now)
            self.session.handle_timer(now)
            self.after(now)
        except Exception as error:  # noqa: BLE001 -- the loop would only log it
            self.defect(error)
            return
        if self.pump is not None:
            self.pump.wake_reader()
        self.arm(now)

    def defect(self, error: Exception) -> None:
        """Fail the client with a defect of ours, so that every waiter gets an error."""
        now = self.now()
        failure = defect_of(error)
        self.session.fail(failure, "internal_error", now)
        if self.pump is not None:
            self.pump.end(failure)
        self.after(now)

    def wake(self) -> None:
        """Wake the writer: something was queued."""
        if self.pump is not None:
            self.pump.wake_writer()
        if self.session.outbound.settled:
            self.after(self.now())

    async def mark(self, through: int, now: Now) -> bool:
        """Mark entries up to this number in the store before they are sent; False if impossible."""
        try:
            writing = self.store.mark(through, now.wall)
            if writing is not None:
                await writing
        except StoreError as error:
            self.store_failed(error)
            return False
        self.session.outbound.outbox.cleared = through
        self.store_works()
        return True

    async def keep_position(self) -> None:
        """Save the position before a join is sent, for a later process. Raises StoreError."""
        while (
            watermark := self.session.inbound.watermark
        ).asked_to_join and not watermark.is_stored:
            try:
                writing = self.store.keep(watermark)
                if writing is not None:
                    await writing
                await self._move_record(watermark)
            except StoreError as error:
                self.store_failed(error)
                raise
            watermark.is_stored = True
            self.store_works()

    # ---- the session's record ---------------------------------------------------------------------------------

    async def enter(self) -> None:
        """Make the session's record active. Raises SessionError or StoreError."""
        from ..stores.session_record import on_enter  # here: a private store has no record

        watermark = self.session.inbound.watermark
        await on_enter(self.store, watermark.session_id, self.now())
        self.is_stored = True
        self._recorded = watermark, watermark.session_id

    async def _move_record(self, watermark: Watermark) -> None:
        if self._recorded is None:
            return
        from ..stores.session_record import on_lost, on_renamed

        known, session_id = self._recorded
        if watermark.session_id != session_id:
            moved = on_renamed if known is watermark else on_lost
            await moved(self.store, session_id, watermark.session_id, self.now())
        self._recorded = watermark, watermark.session_id

    async def leave(self) -> None:
        """Pause the session's record, at the current position. Raises StoreError."""
        if self._recorded is not None:
            from ..stores.session_record import on_exit

            watermark = self.session.inbound.watermark
            await self._move_record(watermark)
            self._recorded = None
            await on_exit(self.store, watermark, self.now())

    def _on_store(self, error: StoreError | None) -> None:
        if error is None:
            self.store_works()
        else:
            self.store_failed(error)

    def store_failed(self, error: StoreError) -> None:
        """Report once that the store refuses. If another client owns it now, this one ends."""
        now = self.now()
        if error.failure.code == "SESS_SUPERSEDED":
            self.session.fail(error.failure, "superseded", now)
            if self.pump is not None:
                self.pump.end(error.failure)
        elif not self.has_failed_store:
            self.has_failed_store = True
            self.session.events.append(
                StoreChanged(
                    at=now.at, store=repr(self.store), state="failed", failure=error.failure
                )
            )
        self.after(now)

    def store_works(self) -> None:
        """Note that the store works again."""
        if self.has_failed_store:
            self.has_failed_store = False
            now = self.now()
            self.session.events.append(
                StoreChanged(at=now.at, store=repr(self.store), state="working")
            )
            self.after(now)

    def probe(self, doubt: Literal["probe_unanswered", "health_check_failed"]) -> None:
        """Send a probe: the link may be dead."""
        if self.session.link is not None:
            now = self.now()
            self.session.probe(doubt, now)
            self.after(now)
            self.arm(now)

    def stop(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ---- waiting ----------------------------------------------------------------------------------------------

    async def changed(self) -> None:
        """Return when a state changed or an outcome became known."""
        watcher = self.loop.create_future()
        self._watchers.append(watcher)
        try:
            await watcher
        finally:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

    async def readable(self) -> None:
        """Return when the inbox holds something or the client has ended."""
        self._reader = self.loop.create_future()
        await self._reader

    def before_taking(self) -> Awaitable[None] | None:
        """Return what must be saved before a message is taken. Raises StoreError: none is taken."""
        inbox = self.session.inbound.inbox
        if not self.is_durable or not len(inbox) or inbox.peek_gap() is not None:
            return None
        try:
            return self.store.touch(1)
        except StoreError as error:
            raise self._refused(error) from None

    async def written(self, writing: Awaitable[None]) -> None:
        """Wait for that to its end, even if cancelled. Raises what `before_taking` does."""
        future = asyncio.ensure_future(writing)
        await asyncio.wait([future])
        try:
            future.result()
        except StoreError as error:
            raise self._refused(error) from None
        self.store_works()

    def _refused(self, error: StoreError) -> BridgeError:
        """Report that the store refuses; return the error for the reader."""
        self.store_failed(error)
        fatal = self.session.failure if self.session.state is BridgeState.FAILED else None
        return self.error(error.failure if fatal is None else fatal)

    def taken(self) -> None:
        """Note that the consumer took a message: senders that wait for room may continue."""
        if self.is_durable:
            self.store.touch()
        session = self.session
        if session.reading.is_paused and self.pump is not None:
            self.pump.wake_reader()
        if session.inbound.acknowledgements.ready and self.pump is not None:
            self.pump.wake_writer()
        if self._room is not None and self.session.inbound.inbox.has_room:
            _wake([self._room])

    async def room(self) -> None:
        """Return when the inbox has room again."""
        self._room = self.loop.create_future()
        try:
            await self._room
        finally:
            self._room = None

    async def settled(self, entry: Entry) -> None:
        """Return when the outcome of `entry` is known."""
        if entry.is_settled:
            # a store saves it within this turn of the loop; waiters are informed after that
            if self.is_durable:
                await asyncio.sleep(0)
            return
        waiter = self.loop.create_future()
        if entry.waiters is None:
            entry.waiters = []
        entry.waiters.append(waiter)
        try:
            await waiter
        finally:
            if entry.waiters is not None and waiter in entry.waiters:
                entry.waiters.remove(waiter)

    # ---- states that refuse -----------------------------------------------------------------------------------

    def check_usable(self) -> None:
        """Raise the fatal error of a failed client; NotConnectedError if closing or closed."""
        state = self.session.state
        if state is BridgeState.FAILED and self.session.failure is not None:
            raise self.error(self.session.failure)
        if state in _REFUSING:
            text = f"expected an open bridge client, it is {state.value}"
            raise self.error(Failure.of("CONN_NOT_CONNECTED", text, executed=Executed.NO))

    def error(self, failure: Failure) -> BridgeError:
        """Return the error for a failure of this client, with its session."""
        details = {"session_id": self.session.session_id, **failure.details}
        error = error_for(evolve(failure, details=details))
        error.__cause__ = failure.cause
        return error


ENDED = frozenset({BridgeState.FAILED, BridgeState.CLOSED, BridgeState.CLOSING})
_REFUSING = frozenset({BridgeState.DRAINING, BridgeState.CLOSING, BridgeState.CLOSED})


def _wake(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
