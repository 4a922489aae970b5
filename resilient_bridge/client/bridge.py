"""BridgeClient: the public interface of a session, which checks, waits and reports."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, overload

from ..failure import AttemptTimeoutError, Failure, config_error, stays_here
from ..failure.teaching import RefusedUse, TeachesNames, refuse_use, taught
from ..presets import default as default_policy
from ..protocol import Session
from ..stores.arguments import store_of
from ..telemetry.events import BridgeState
from ..telemetry.hub import opened
from ..transports.references import as_headers, as_source
from ..values.fields import Seconds, optional_seconds
from ..world import current_world
from .arguments import (
    check_callable,
    check_dialect,
    check_headers,
    check_health_check,
    check_pin,
    check_request,
    check_session,
    check_ssl,
    check_url,
    checked_name,
    checked_policy,
    from_settings,
    message_of,
    shown,
)
from .beginning import open_store
from .dialing import FactoryDialer, URLDialer
from .doubts import Doubts
from .driver import Driver
from .ending import drain as drain_client
from .ending import shut
from .health import Health, health_of, not_ready
from .health_check import HealthCheck
from .reading import Messages
from .receipt import Receipt
from .sending import Sender
from .streams import EventStream
from .supervisor import Supervisor


if TYPE_CHECKING:
    import ssl as ssl_module
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from ..calls import Policy
    from ..calls.ports import EnvironmentSource, SettingsSource
    from ..presets.bridge_policy import BridgePolicy
    from ..protocol import Message
    from ..protocol.policies import Dialect
    from ..telemetry.event import Event
    from ..values.fields import Seconds
    from .backfilling import Backfill
    from .dialing import Dialer
    from .pump import OnConnect
    from .signature import (
        CertificatePin,
        CheckFunction,
        Headers,
        OnDoubt,
        OnGap,
        Storage,
        TextSource,
    )


class BridgeClient(TeachesNames):
    """A connection to a WebSocket bridge that survives losses and reports what it cannot recover.

        async with rb.BridgeClient("wss://host/ws", store="bridge.db") as bridge:
            receipt = await bridge.send("tool_result", {"content": "ok"})
            print(await receipt.confirmed(timeout=30))      # applied
            async for message in bridge:
                print(message.type, message.payload)

    `url`, `token` and `headers` are values or (async) callables, evaluated on each attempt. A text
    `env:NAME` or `file:PATH` (in headers: such a word) is read on each attempt, so once more after
    a refusal (401): a rotated secret takes effect.

    `session_id` names the session to join (default: that of the store, or a new one). `store` saves
    positions and unsettled sends: a path (SQLite, survives `kill -9`), a redis:// URL, or a store
    object (default: memory). `dialect` overrides the policy's. `on_connect`, an async function of
    the connection, runs after each auth, before READY: subscribe there. `backfill`, an async
    iterator of frames after a position (`rb.dialects.Record`), fetches missed ones elsewhere.

    `on_gap` is awaited at a gap's position in the stream. `on_doubt` is called with an
    `events.OutboundInDoubt` after each loss (and at the end) that leaves sends in doubt, beside all
    else; what it raises is logged. With `receive=False` messages are counted and dropped. `pin` is
    the SHA-256 of the server's certificate (`sha256:...`), or a list that also has the next one's;
    `ssl` your SSL context, `name` that of events, metrics and health. `health_check`, async or
    quick, is called every `Heartbeat.every` seconds while READY: False, an exception or no answer
    within `Heartbeat.timeout` sends a probe, as `reconnect_now()` does.

    Use it as `async with`: it starts and returns at once, also offline; leaving drains (5 s at
    most). The next operation and `wait_ready` raise a fatal error. Raises ConfigError for wrong
    arguments, and from every method in another process, thread or event loop; any thread may read
    `state` and `health()`.
    """

    @taught
    def __init__(
        self,
        url: TextSource,
        /,
        *,
        token: TextSource | None = None,
        headers: Headers | None = None,
        session_id: str | None = None,
        policy: BridgePolicy | Policy = default_policy,
        dialect: Dialect | None = None,
        on_connect: OnConnect | None = None,
        backfill: Backfill | None = None,
        store: Storage | None = None,
        on_gap: OnGap | None = None,
        on_doubt: OnDoubt | None = None,
        receive: bool = True,
        pin: CertificatePin | None = None,
        ssl: ssl_module.SSLContext | None = None,
        health_check: CheckFunction | None = None,
        name: str = "",
    ) -> None:
        chosen = checked_policy(policy, dialect)
        url, token, headers = as_source(url), as_source(token), as_headers(headers)
        check_url(url)
        if headers is not None and not callable(headers):
            check_headers("BridgeClient.headers", headers)
        check_dialect(chosen.dialect, on_connect, token, backfill)
        check_pin(pin)
        check_ssl(ssl)
        if pin is not None:  # a pin names the only certificates that there can be
            reconnect = chosen.reconnect.evolve(retry_certificates=False)
            chosen = chosen.evolve(reconnect=reconnect)
        self._name = shown(url) if isinstance(url, str) else "<url from a callable>"
        dial = URLDialer(
            url, token=token, headers=headers, pin=pin, ssl=ssl, reconnect=chosen.reconnect, dialect=chosen.dialect
        )  # fmt: skip
        self._build(
            dial, chosen, session_id, store, on_gap, on_doubt=on_doubt, receive=receive,
            health_check=health_check, name=name, on_connect=on_connect, backfill=backfill, can_refresh=any(map(callable, (url, token, headers))),
        )  # fmt: skip

    @classmethod
    @taught
    def over(
        cls,
        factory: Callable[[], AbstractAsyncContextManager[Any]],
        /,
        *,
        token: TextSource | None = None,
        session_id: str | None = None,
        policy: BridgePolicy | Policy = default_policy,
        dialect: Dialect | None = None,
        on_connect: OnConnect | None = None,
        backfill: Backfill | None = None,
        store: Storage | None = None,
        on_gap: OnGap | None = None,
        on_doubt: OnDoubt | None = None,
        receive: bool = True,
        health_check: CheckFunction | None = None,
        name: str = "",
    ) -> Self:
        """Return a client over your websockets; `factory` makes a context manager for each."""
        check_callable("over.factory", "a callable that returns an async context manager", factory)
        self = cls.__new__(cls)
        chosen, token = checked_policy(policy, dialect), as_source(token)
        check_dialect(chosen.dialect, on_connect, token, backfill)
        self._name = "<own websocket>"
        self._build(
            FactoryDialer(factory, token, keeps_bytes=chosen.dialect.decode is not None), chosen, session_id, store, on_gap,
            on_doubt=on_doubt, receive=receive, health_check=health_check, on_connect=on_connect, backfill=backfill,
            name=name, can_refresh=callable(token),
        )  # fmt: skip
        return self

    def _observed(self, dial: Dialer) -> Dialer:
        return dial  # a client that monitors its own connections wraps it

    @classmethod
    @taught
    def from_config(
        cls, source: SettingsSource, /, *, names: Mapping[str, Any] | None = None, env: EnvironmentSource = False, **overrides: Any
    ) -> Self:  # fmt: skip
        """Return the client that settings describe; `overrides` are arguments of the constructor.

        Raises ConfigError with every problem of the source, and if no `url` is set.
        """
        url, options = from_settings(source, names, env, overrides)
        return cls(url, **options)

    def _build(
        self,
        dial: Dialer,
        policy: BridgePolicy,
        session_id: str | None,
        store: Storage | None,
        on_gap: OnGap | None,
        *,
        on_doubt: OnDoubt | None,
        receive: bool,
        health_check: CheckFunction | None,
        on_connect: OnConnect | None,
        backfill: Backfill | None,
        name: str,
        can_refresh: bool,
    ) -> None:
        check_session(session_id, on_gap, on_doubt)
        check_health_check(health_check, policy.dialect)
        world, dial = current_world(), self._observed(dial)
        used_store = store_of(store)
        self._is_recorded = store is not None
        session = Session(
            reconnect=policy.reconnect,
            heartbeat=policy.heartbeat,
            outbox=policy.outbox,
            inbox=policy.inbox,
            replay=policy.replay,
            dialect=policy.dialect,
            store=used_store,
            session_id=session_id,
            rng=world.new_rng(),
            can_refresh=can_refresh,
            receives=receive,
            mask=dial.secrets.mask,
            greets=on_connect is not None,
            is_backfilled=backfill is not None,
        )
        self._policy = policy
        self._session = session
        self._driver = Driver(session, used_store, world.loop_wall, checked_name(name))
        self._supervisor = Supervisor(
            self._driver, dial, policy.reconnect.connect_timeout, on_connect, backfill
        )
        self._task: asyncio.Task[None] | None = None
        self._on_gap = on_gap
        self._doubts = None if on_doubt is None else Doubts(self._driver, on_doubt)
        self._driver.on_doubt = None if self._doubts is None else self._doubts.put
        self._sender = Sender(self._driver, policy.outbox)
        self._check = health_check and HealthCheck(self._driver, health_check, policy.heartbeat)
        self._checking: asyncio.Task[None] | None = None

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """Return a status line: `<BridgeClient wss://host/ws READY session=s1 queued=0 …>`."""
        outbox = self._session.outbound.outbox
        return (
            f"<BridgeClient {self._name} {self.state.value} session={self._session.session_id} "
            f"queued={len(outbox.queued)} unconfirmed={len(outbox.unconfirmed)}>"
        )

    # ---- start and end
    # ----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the store and start connecting; return at once. Raises StoreError."""
        self._driver.guard.check()
        if self._task is not None:
            raise config_error(
                "BridgeClient",
                "a client that has not been started",
                f"one that is {self.state.value}",
            )
        loop = self._driver.loop
        if self._is_recorded:
            await open_store(self._driver)
        opened(self, self._driver.name)
        self._task = loop.create_task(self._supervisor.run(), name="resilient_bridge supervisor")
        if self._check is not None:
            self._checking = loop.create_task(
                self._check.run(), name="resilient_bridge health check"
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Drain (not when the task is being cancelled), then close."""
        await self.aclose(drain=0 if isinstance(error, asyncio.CancelledError) else 5)

    @taught
    async def aclose(self, *, drain: Seconds | None = 5) -> list[Receipt]:
        """Close in any state, within `drain` seconds (None: no limit) plus a bounded goodbye.

        Raises no network error. Returns the receipts of unsettled sends. Afterwards the client is
        CLOSED, owns no task and no socket, and no call waits. A callable of yours that ignores its
        cancellation is abandoned after 5 s.
        """
        self._driver.guard.check()
        seconds = optional_seconds("aclose.drain", drain)
        try:
            if self._task is not None and not self._task.done():
                await drain_client(self._driver, seconds)
        finally:
            remaining = await shut(self._driver, self._supervisor.pump, self._task, self._checking)
            if self._doubts is not None:
                await self._doubts.aclose()
        return [Receipt(entry, self._driver) for entry in remaining]

    if not TYPE_CHECKING:
        __enter__ = __exit__ = RefusedUse(
            "BridgeClient", "async with", "with", "async with rb.BridgeClient(url) as bridge: ..."
        )
        __iter__ = __next__ = refuse_use(
            "BridgeClient",
            "async for",
            "a loop or next() that is not async",
            "async for message in bridge: ...",
        )

    # ---- sending ----------------------------------------------------------------------------------------------

    @overload
    async def send(
        self,
        type: str,
        payload: Mapping[str, Any] | bytes,
        /,
        *,
        idempotency_key: str | None = ...,
        ttl: Seconds | None = ...,
        coalesce: str | None = ...,
        volatile: bool = ...,
    ) -> Receipt: ...
    @overload
    async def send(
        self,
        frame: Mapping[str, Any] | bytes,
        /,
        *,
        idempotency_key: str | None = ...,
        ttl: Seconds | None = ...,
        coalesce: str | None = ...,
        volatile: bool = ...,
    ) -> Receipt: ...
    @taught
    async def send(
        self,
        type: str | Mapping[str, Any] | bytes,
        payload: Mapping[str, Any] | bytes | None = None,
        /,
        *,
        idempotency_key: str | None = None,
        ttl: Seconds | None = None,
        coalesce: str | None = None,
        volatile: bool = False,
    ) -> Receipt:
        """Accept a message for delivery, in order; it is queued while the link is down.

        `send(type, payload)`; in a dialect of frames without types, `send({…})` and `send(b"…")`
        send your frame.

        `idempotency_key`: yours (if it is pending or confirmed, its receipt is returned) or a
        generated one. `ttl`: seconds after which it is no longer sent. `coalesce`: of the unsent
        messages with this name only the latest is sent. `volatile`: dropped if it cannot be sent
        now. Raises ProtocolError (all violations at once), ConfigError (before `async with`, or for
        a type that the client uses), OutboxFullError, the fatal error, NotConnectedError when
        closing or closed. A cancelled `send` was not accepted.
        """
        self._check_entered()
        named, payload = message_of(self._policy.dialect, type, payload)
        return await self._sender.send(
            named, payload, key=idempotency_key, ttl=ttl, coalesce=coalesce, volatile=volatile
        )

    @taught
    async def request(
        self,
        type: str,
        payload: Mapping[str, Any],
        /,
        *,
        timeout: Seconds | None = 30,  # noqa: ASYNC109 -- part of the operation: it decides what is known afterwards
        idempotent: bool = False,
    ) -> Message:
        """Send a request and return its answer.

        It waits for READY inside its timeout (None: no limit), and fails if the link is lost; with `idempotent=True`
        it is repeated after the join, same id and key. Raises OutcomeUnknownError (sent, link lost),
        NotConnectedError (never sent), AttemptTimeoutError (`failure.executed` says whether it was
        sent), the server's own error, the fatal error.
        """
        self._check_entered()
        check_request(self._policy.dialect)
        return await self._sender.request(type, payload, timeout=timeout, idempotent=idempotent)

    @taught
    def receipt(self, idempotency_key: str, /) -> Receipt:
        """Return the receipt of the send with this key. Raises SessionError if unknown."""
        self._driver.guard.check()
        entry = self._session.outbound.known.find(idempotency_key)
        if entry is None or entry.is_request:
            text = f"no send with the idempotency key {idempotency_key}"
            raise self._driver.error(Failure.of("SESS_NOT_FOUND", text))
        return Receipt(entry, self._driver)

    def pending(self) -> list[Receipt]:
        """The receipts of unsettled sends, in order; of earlier processes too, if durable."""
        self._driver.guard.check()
        return [Receipt(entry, self._driver) for entry in self._session.outbound.outbox.unsettled()]

    # ---- receiving --------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Message]:
        """Iterate over messages in the server's order, each once.

        One reader at a time: ConfigError in a second task, while the first one reads on.
        """
        self._check_entered(closed_is_fine=True)
        return Messages(self._driver, self._on_gap)

    @taught
    def events(self) -> AsyncIterator[Event]:
        """Return this client's events from now on, in order; ends when the client has ended.

        One task reads them; another one calls `events()` for a stream of its own.
        """
        self._driver.guard.check()
        return EventStream(self._driver, self._driver.guard)

    # ---- state ------------------------------------------------------------------------------------------------

    @property
    def state(self) -> BridgeState:
        """The state of the client."""
        return self._session.state

    @property
    def session_id(self) -> str:
        """The id of the current session, or of the one to join."""
        return self._session.session_id

    def health(self) -> Health:
        """Return a snapshot for a health endpoint; any thread of this process may ask."""
        self._driver.guard.check_process()
        driver = self._driver
        return health_of(
            driver, self._check, driver.now() if driver.guard.loop is not None else None
        )

    @taught
    async def wait_ready(self, timeout: Seconds | None = None) -> None:  # noqa: ASYNC109 -- the wait itself is the operation
        """Return when READY, without a limit if `timeout` is None. Raises the fatal error, NotConnectedError, AttemptTimeoutError."""
        self._driver.guard.check()
        try:
            async with asyncio.timeout(optional_seconds("wait_ready.timeout", timeout)):
                while self.state is not BridgeState.READY:
                    self._check_entered()
                    await self._driver.changed()
        except TimeoutError as error:
            if isinstance(error, AttemptTimeoutError):
                raise
            late = not_ready(self._driver, timeout)
            raise late from late.failure.cause

    def _check_entered(self, *, closed_is_fine: bool = False) -> None:
        self._driver.guard.check()
        if self._task is None and self.state is BridgeState.IDLE:
            raise config_error(
                "BridgeClient", "a client entered with `async with`", "one that was never entered"
            )
        if not closed_is_fine and self._session.state is not BridgeState.READY:
            self._driver.check_usable()

    @taught
    def reconnect_now(self) -> None:
        """Try again or probe at once: the network has changed, or the server is back.

        While disconnected, the next attempt starts at once. Else a ping is sent; without its pong in
        `Heartbeat.probe_timeout` the link is replaced, and what is unconfirmed is sent again.
        """
        self._driver.guard.check()
        self._supervisor.skip_wait()
        self._driver.probe("probe_unanswered")
