"""The supervisor behind `reconnecting`: it creates the client again after each loss.

It returns the connections that calls and readers may use. Rule: a lost client is never used again;
the factory makes the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from ... import events
from ...client.streams import tell
from ...failure import BridgeError, Failure, NotConnectedError, config_error, error_for
from ...presets.bridge_policy import BridgePolicy
from ...protocol.clock import Now
from ...protocol.policies.losses import reason_of
from ...telemetry.events import BridgeState
from ...telemetry.hub import opened
from ...transports.loop_guard import LoopGuard
from ...world import current_world
from ..sdk_errors import with_class_of
from .connection import Connection, failure_that_ended, is_readable
from .loss_rules import Losses


if TYPE_CHECKING:
    import weakref

    from ...client.streams import EventStream
    from ...telemetry.event import Event


_MOST_UNREAD: Final = 16


@attrs.frozen(kw_only=True)
class LinkHealth:
    """The health of a link at one moment. `ready` is True while there is a client to call.

        async with link as client:
            print(link.health().ready, link.health().reconnects)      # True 0

    `attempt` counts the attempts since the last stable connection, `reconnects` all reconnects, and
    `in_flight` the calls in progress. `retry_in` is seconds until the next attempt, None while none
    is planned. `failure` is the last loss, and in FAILED the final one.
    """

    ready: bool
    state: BridgeState
    reason: str
    attempt: int
    reconnects: int
    in_flight: int
    retry_in: float | None = None
    failure: Failure | None = None


class LinkSupervisor:
    """The owner of a link's connections, behind the `Reconnecting` that users have."""

    shown_as: ClassVar = "Reconnecting"  # in the health of the process

    def __init__(
        self,
        factory: Callable[[], AbstractAsyncContextManager[Any]],
        policy: BridgePolicy,
        name: str,
    ) -> None:
        world = current_world()
        self.name = name
        self.state = BridgeState.IDLE
        self.streams: list[weakref.ref[EventStream]] = []
        self.identity = object()
        self._factory = factory
        self._policy = policy
        self._wall = world.loop_wall
        self._losses = Losses(policy.reconnect, world.new_rng())
        self.guard = LoopGuard("Reconnecting")
        self.on_ready_again: Callable[[], None] | None = None
        self._owner: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._client: Any = None
        self._changed: asyncio.Future[None] | None = None
        self._cut_wait: asyncio.Future[None] | None = None
        self._failure: Failure | None = None  # the last loss; final in FAILED
        self._reason = "user"
        self._reconnects = -1
        self._is_suspended = False
        # Messages received before a loss are read before later ones. If the program never reads,
        # only the last lost clients are kept.
        self._unread: deque[Connection] = deque(maxlen=_MOST_UNREAD)
        self._retry_at: float | None = None

    # ---- entering and closing ---------------------------------------------------------------------------------

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that entered the link."""
        return self.guard.loop or asyncio.get_running_loop()

    async def enter(self) -> None:
        """Start, and wait for the first client or its failure."""
        self.check_loop()
        if self._owner is not None or self.state is not BridgeState.IDLE:
            raise config_error(
                "Reconnecting",
                "to be entered once: make another one",
                f"a second time ({self.state.value})",
            )
        loop = self.guard.loop = asyncio.get_running_loop()
        self._changed = loop.create_future()
        opened(self, self.name)
        self._owner = loop.create_task(self._own(), name="resilient_bridge link")
        try:
            await self._first_attempt(self._changed)
        except BaseException:
            await self.aclose()
            raise

    async def _first_attempt(self, changed: asyncio.Future[None]) -> None:
        """Wait for the first attempt. Raise a failure that ends the link; else it tries again."""
        while self._reconnects < 0 and self._failure is None and not self.is_over:
            await asyncio.wait([changed])
            changed = self._changed or changed
        self._check_not_failed()

    async def aclose(self) -> None:
        if self.is_over or self._owner is None:
            self._end()
            return
        self.check_loop()
        self._owner.cancel()
        connection = self._connection
        if connection is not None:
            connection.end(None)
        try:
            await asyncio.wait([self._owner])
            if connection is not None:
                await connection.closed()
        finally:
            self._end()

    def _end(self) -> None:
        if self.is_over:
            return
        self._become(BridgeState.CLOSED, "user")
        self._tell(events.Closed(at=self._now().at, reason="user"))

    # ---- for the user -----------------------------------------------------------------------------------------

    def health(self) -> LinkHealth:
        self.guard.check_process()
        connection, retry_at = self._connection, self._retry_at
        return LinkHealth(
            ready=self.state is BridgeState.READY,
            state=self.state,
            reason=self._reason,
            attempt=self._losses.reconnection.attempt,
            reconnects=max(0, self._reconnects),
            in_flight=0 if connection is None else connection.calls,
            retry_in=None if retry_at is None else max(0.0, retry_at - self.loop.time()),
            failure=self._failure,
        )

    def late(self, seconds: float, error: NotConnectedError) -> BridgeError:
        """Return the error of `wait_ready` when its timeout has passed."""
        return error_for(
            Failure.of("SYS_TIMEOUT", f"not ready after {seconds:g} s{self._last}", cause=error)
        )

    def reconnect_now(self) -> None:
        self.check_loop()
        if self._cut_wait is not None and not self._cut_wait.done():
            self._cut_wait.set_result(None)

    def __repr__(self) -> str:
        connection = self._connection
        return f"<Reconnecting {self.state.value} in_flight={0 if connection is None else connection.calls} reconnects={max(0, self._reconnects)}>"

    # ---- for calls --------------------------------------------------------------------------------------------

    def check_loop(self) -> None:
        """Raise ConfigError in another process or on another loop than the link's (threat 32)."""
        self.guard.check()

    @property
    def is_over(self) -> bool:
        """Whether no further client will be made."""
        return self.state in (BridgeState.FAILED, BridgeState.CLOSED)

    @property
    def current(self) -> Any:
        """The client in use, or the last one; None before the first."""
        return self._client

    async def connection(self, seconds: float | None) -> Connection:
        """Return the connection in use, waiting for it.

        Raises NotConnectedError after `seconds`, or the final error.
        """
        return await self._waited(self.usable, seconds)

    async def to_read(self, seconds: float | None) -> Connection:
        """Return the first connection that may have something to read, waiting for one.

        It may be lost already.
        """
        return await self._waited(lambda: self._unread[0] if self._unread else None, seconds)

    def drained(self, connection: Connection) -> None:
        """Remove a connection that has nothing more to read."""
        with suppress(ValueError):
            self._unread.remove(connection)

    def usable(self) -> Connection | None:
        """Return the connection in use, None while there is none."""
        connection = self._connection
        is_usable = (
            connection is not None and connection.is_usable and self.state is BridgeState.READY
        )
        return connection if is_usable else None

    async def _waited(
        self, find: Callable[[], Connection | None], seconds: float | None
    ) -> Connection:
        until = None if seconds is None else self.loop.time() + seconds
        while True:
            if (connection := find()) is not None:
                return connection
            self._check_not_failed()
            remaining = None if until is None else until - self.loop.time()
            if (
                self.state is BridgeState.CLOSED
                or (remaining is not None and remaining <= 0)
                or self._changed is None
            ):
                raise self._away()
            doubt = None if self._connection is None else self._connection.doubt
            changes: list[asyncio.Future[Any]] = (
                [self._changed] if doubt is None else [self._changed, doubt]
            )
            await asyncio.wait(changes, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)

    @property
    def _last(self) -> str:
        return "" if self._failure is None else f"; the last attempt: {self._failure}"

    def _away(self) -> BridgeError:
        cause = None if self._failure is None else self._failure.cause
        text = f"not connected ({self.state.value.lower()}){self._last}"
        error = error_for(Failure.of("CONN_NOT_CONNECTED", text, cause=cause))
        error.__cause__ = cause
        return error

    def _check_not_failed(self) -> None:
        if self.state is BridgeState.FAILED and self._failure is not None:
            error = error_for(self._failure)
            error.__cause__ = self._failure.cause
            raise with_class_of(error, self._failure.cause)

    # ---- the task ---------------------------------------------------------------------------------------------

    async def _own(self) -> None:
        """Connect, wait for the loss, decide, wait, until the link ends."""
        reason = "user"
        while True:
            self._become(BridgeState.CONNECTING, reason)
            connection, failure = await self._one_connection()
            now = self._now()
            decision = self._losses.lost(connection, failure, now)
            self._failure, self._reason, reason = decision.failure, decision.reason, "retry"
            why: dict[str, Any] = {"at": now.at, "reason": decision.reason, "failure": failure}
            self._tell(events.Disconnected(**why))
            if not decision.retry:
                self._become(BridgeState.FAILED, decision.reason)
                self._tell(events.GaveUp(at=now.at, name="Reconnecting", failure=decision.failure))
                return
            if decision.suspended and not self._is_suspended:
                self._tell(events.Suspended(**why, attempts=self._losses.reconnection.failed))
            self._is_suspended = decision.suspended
            self._become(
                BridgeState.SUSPENDED if decision.suspended else BridgeState.BACKOFF,
                decision.reason,
            )
            why["reason"] = "rate_capped" if decision.is_capped else decision.reason
            self._tell(
                events.ReconnectScheduled(**why, attempt=decision.attempt, wait=decision.wait)
            )
            await self._wait(decision.wait)

    async def _one_connection(self) -> tuple[Connection, Failure]:
        """Make a connection, wait until it is lost, and return it with the cause."""
        timeout = self._policy.reconnect.connect_timeout
        connection = self._connection = Connection(self._factory, self._policy.heartbeat)
        await asyncio.wait(
            [connection.opened, connection.lost],
            timeout=timeout,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if connection.opened.done():
            self._client = connection.client
            if is_readable(connection.client):
                self._unread.append(connection)
            self._losses.opened()
            self._reconnects += 1
            if self._reconnects and self.on_ready_again is not None:
                self.on_ready_again()  # before the calls that wait for READY
            self._become(BridgeState.READY, "connected")
            self._tell(events.Connected(at=self._now().at))
            await asyncio.wait([connection.over])
            cause = connection.known_cause
            self._become(
                BridgeState.BACKOFF,
                "connection_lost" if cause is None else reason_of(failure_that_ended(cause)),
            )
        elif not connection.lost.done():
            connection.end(TimeoutError(f"no connection within {timeout:g} s"))
        await connection.closed()
        return connection, failure_that_ended(connection.cause)

    async def _wait(self, seconds: float) -> None:
        self._retry_at = self.loop.time() + seconds
        self._cut_wait = self.loop.create_future()
        try:
            await asyncio.wait([self._cut_wait], timeout=seconds)
        finally:
            self._cut_wait = self._retry_at = None

    def _become(self, state: BridgeState, reason: str) -> None:
        previous, self.state, self._reason = self.state, state, reason
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
            self._changed = self.loop.create_future()
        if previous is not state:
            self._tell(
                events.StateChanged(
                    at=self._now().at, previous=previous, state=state, reason=reason
                )
            )

    def _now(self) -> Now:
        return Now(self.loop.time(), self._wall())

    def _tell(self, event: Event) -> None:
        tell(self, event)
