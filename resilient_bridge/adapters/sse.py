"""EventSource: server-sent events over httpx or httpx2, resumed from the last id after a loss.

Rule: it does I/O only while the next event is requested. It has no task, and no generator that owns
a connection: a read that ends by a loss, by a cancellation or by the end of the `async with` closes
the response first. A wrong argument raises ConfigError with its name before anything is connected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from .. import events
from ..client import Health
from ..client.arguments import shown
from ..client.cancelled import ended
from ..client.one_reader import OneReader, second_reader
from ..failure import (
    Failure,
    classify,
    config_error,
    error_for,
    is_sensitive,
    mapping_of,
    redact,
    stays_here,
)
from ..failure.registry import applied
from ..failure.statuses import status_finding
from ..failure.teaching import taught
from ..protocol import Now
from ..protocol.event_stream import EventStream, refusal
from ..protocol.policies.reconnect import Reconnect
from ..protocol.server_sent import MAX_EVENT_BYTES
from ..telemetry import emit
from ..telemetry.event import sent_by
from ..telemetry.events import BridgeState
from ..transports.loop_guard import LoopGuard
from ..transports.references import Headers, as_headers
from ..values.fields import LONGEST_TIMEOUT, as_seconds, is_count, is_number, refuse
from ..world import current_world
from .arguments import learn_headers, secrets_in
from .http.bodies import LOOK, MOST_DECODED
from .http.decoding import decoded
from .http.request_checks import followed


if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager
    from typing import Protocol

    from ..presets.bridge_policy import BridgePolicy
    from ..protocol import Gap
    from ..protocol.server_sent import ServerSentEvent
    from ..values.fields import Seconds

    class AsyncClient(Protocol):
        """An httpx.AsyncClient or httpx2.AsyncClient, or an object with their `stream`."""

        @property
        def stream(self) -> Callable[..., AbstractAsyncContextManager[Any]]: ...


_GOODBYE: Final = 1.0  # seconds that closing a response may take
_BODY_SECONDS: Final = 2.0
_OVER: Final = frozenset({BridgeState.FAILED, BridgeState.CLOSED})


class EventSource:
    """The events of one URL, across every loss of the connection.

        async with rb.links.EventSource(client, "https://host/events") as events:
            async for event in events:
                print(event.type, event.data)      # message hello

    `client` is an httpx.AsyncClient or httpx2.AsyncClient; `url`, `method`, `headers`, `content`
    and `params` are passed to its `stream()` on every attempt, so a POST is sent again after each
    loss. A word `env:NAME` or `file:PATH` in a header's value is replaced by that secret on every
    attempt, and a 401 is then followed by one more. `reconnect` is a Reconnect, or a BridgePolicy
    with one; its schedule and the server's `retry:` are both waited for. `on_gap` is awaited with a
    Gap where events may be missing, before the first event after the gap. `last_event_id` resumes
    what another process read. `read_timeout` is how many seconds of silence end a connection, None for no limit (a stream may
    be quiet for long). An event of more than `max_event_bytes` is a ProtocolError.

    Use it as `async with`, then `async for`, with one reader at a time. 204 ends the iteration for
    good. A permanent answer (401, 404, no event stream …) and exhausted attempts raise a
    BridgeError, on every later request too. Cancelling the reader closes the response; the next
    request continues after the last event. Raises ConfigError for wrong arguments, and in another
    process, thread or event loop than the one that entered it.
    """

    @taught
    def __init__(
        self,
        client: AsyncClient,
        url: Any,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        content: str | bytes | None = None,
        params: Any = None,
        reconnect: Reconnect | BridgePolicy | None = None,
        on_gap: Callable[[Gap], Awaitable[None] | None] | None = None,
        last_event_id: str | None = None,
        read_timeout: Seconds | None = None,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        policy = checked_policy(reconnect)
        check_arguments(client, content, on_gap, last_event_id, max_event_bytes)
        self._client, self._url, self._method = client, url, method
        named = as_headers(headers)
        is_read = isinstance(named, Headers)
        self._read_headers: Callable[[], Mapping[str, str]] = (
            named if is_read else partial(dict, headers or {})
        )
        checked_headers(headers)
        self._connect_timeout = policy.connect_timeout
        self._options: dict[str, Any] = {"timeout": timeouts(client, policy, read_timeout)}
        self._options |= {
            k: v for k, v in (("content", content), ("params", params)) if v is not None
        }
        self._on_gap = on_gap
        self._one_reader = OneReader("EventSource.__aiter__")
        self._name = shown(str(url), ("http", "https"))
        self._secrets = secrets_in(client, str(url), headers or {})
        world = current_world()
        self._wall = world.loop_wall
        self._stream = EventStream(
            policy, world.new_rng(), last_event_id=last_event_id, max_event_bytes=max_event_bytes,
            can_refresh=is_read,
        )  # fmt: skip
        self._stream.reconnection.sends_in_clear = sends_in_clear(
            client, str(url), headers or {}, params
        )
        self._state = BridgeState.IDLE
        self._reason = ""
        self._failure: Failure | None = None
        self._guard = LoopGuard("EventSource")
        self._identity = object()  # distinguishes it from other sources in metrics
        self._answer: _OpenAnswer | None = None
        self._due = 0.0  # when the next attempt may start, by the loop's clock
        self._is_suspended_reported = False
        self._reading: tuple[asyncio.Task[Any] | None, asyncio.Timeout] | None = None
        self._reader_gone: asyncio.Future[None] | None = None  # done when that reader has ended

    __reduce__ = stays_here

    def __repr__(self) -> str:
        """A status line, e.g. `<EventSource https://host/events READY last_event_id='41'>`."""
        position = redact(self.last_event_id, limit=80)
        return f"<EventSource {self._name} {self._state.value} last_event_id={position!r}>"

    @property
    def state(self) -> BridgeState:
        """IDLE, CONNECTING, READY, BACKOFF, SUSPENDED (BACKOFF for long), FAILED or CLOSED.

        It changes only during a read.
        """
        return self._state

    @property
    def last_event_id(self) -> str:
        """The id to resume from: that of the last event with an id; "" without any."""
        return self._stream.position.last_event_id

    def health(self) -> Health:
        """Return a snapshot for a health endpoint.

        `duplicates` counts events that came again after a loss and were dropped.
        """
        self._guard.check_process()
        stream, state = self._stream, self._state
        return Health(
            ready=state is BridgeState.READY, state=state, reason=self._reason, session_id="", queued=0, unconfirmed=0,
            unread=int(stream.held is not None), attempt=stream.reconnection.attempt, failure=self._failure,
            duplicates=stream.position.duplicates,
        )  # fmt: skip

    async def __aenter__(self) -> Self:
        """Return at once; the first request for an event connects."""
        if self._guard.loop is not None:
            raise config_error(
                "EventSource", "one that has not been entered", f"one that is {self._state}"
            )
        self._guard.check()
        self._guard.loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the response, within about a second.

        Then the state is CLOSED (or stays FAILED) and a reader's iteration ends.
        """
        self._guard.check()
        if self._state not in _OVER:
            self._move(BridgeState.CLOSED, "user")
            self._emit(events.Closed(at=self._now().at, reason="user"))
        if self._reading is None:
            await self._drop()
            return
        task, scope = self._reading
        # `on_gap` may close in the reader's task: then the reader ends after `on_gap` returns
        if task is not asyncio.current_task():
            self._reader_gone = self._reader_gone or asyncio.get_running_loop().create_future()
            scope.reschedule(self._now().mono)
            await asyncio.wait([self._reader_gone], timeout=2 * _GOODBYE)

    def __aiter__(self) -> AsyncIterator[ServerSentEvent]:
        """Iterate over events in the server's order, across reconnects, without repeated ones.

        ConfigError in a second task, while the first one reads on.
        """
        return self._one_reader.begins(self.__anext__)

    async def __anext__(self) -> ServerSentEvent:
        """Return the next event; connect and wait as needed.

        Raises the final failure, or ConfigError for a second reader.
        """
        if self._guard.loop is None:
            raise config_error(
                "EventSource", "one entered with `async with`", "one that was never entered"
            )
        self._guard.check()
        if self._reading is not None:
            raise second_reader("EventSource.__anext__")
        self._one_reader.check()
        event = self._take()
        return await self._wait() if event is None else event

    async def _wait(self) -> ServerSentEvent:
        scope = asyncio.timeout(None)  # `aclose` may let it expire
        self._reading = asyncio.current_task(), scope
        try:
            async with scope:
                return await self._next()
        except TimeoutError:
            if not scope.expired():
                raise
            await self._drop()
            raise StopAsyncIteration from None
        finally:
            self._reading = None
            if self._reader_gone is not None and not self._reader_gone.done():
                self._reader_gone.set_result(None)

    async def _next(self) -> ServerSentEvent:
        while True:
            event = self._take()
            if event is not None:
                return event
            if self._state in _OVER:
                await self._drop()
                if self._failure is None:
                    raise StopAsyncIteration
                raise error_for(self._failure) from self._failure.cause
            if self._answer is None:
                await asyncio.sleep(max(0.0, self._due - self._now().mono))
                await self._step(self._connect)
            elif self._stream.gap is not None:
                await self._tell(self._stream.gap)
            else:
                await self._step(self._read)

    def _take(self) -> ServerSentEvent | None:
        """Return the next received event; None if it must connect, read or report a gap first."""
        if self._state in _OVER:
            return None
        try:
            return self._stream.take()
        except Exception as error:  # noqa: BLE001 -- an event too big: the server would send it again
            self._fail(classify(error), "protocol_error")
            return None

    async def _tell(self, gap: Gap) -> None:
        answer = None if self._on_gap is None else self._on_gap(gap)
        if answer is not None:
            await answer
        # after `on_gap`: a gap whose report was cancelled or raised is reported again
        self._stream.gap_reported()

    async def _step(self, step: Callable[[], Awaitable[Failure | None]]) -> None:
        """Run `_connect` or `_read`.

        An error is a loss, and so is a cancellation: the rest of that response is never read.
        """
        try:
            failure = await step()
        except Exception as error:  # noqa: BLE001 -- whatever the client raises is the loss; classify() reads it
            failure = classify(error)
        except asyncio.CancelledError:
            if self._state not in _OVER:
                self._lose(Failure.of("CONN_RESET", "the reader was cancelled"), is_ours=True)
            await self._drop()
            raise
        if failure is not None:
            self._lose(failure)  # first: closing may be cancelled
            await self._drop()

    async def _connect(self) -> Failure | None:
        self._move(BridgeState.CONNECTING, "retry" if self._due else "user")
        own = self._read_headers()
        learn_headers(self._secrets, own)
        headers: dict[str, Any] = checked_headers(own)
        if (position := self._stream.position.header) is not None:
            headers["Last-Event-ID"] = position
        timer = asyncio.timeout(self._connect_timeout)
        try:
            async with timer:
                # Redirects are followed here: the client would send all headers to another origin.
                follows: bool = getattr(self._client, "follow_redirects", None) is True
                options = {**self._options, "follow_redirects": False} if follows else self._options
                entered = self._client.stream(self._method, self._url, headers=headers, **options)
                if not hasattr(entered, "__aenter__"):
                    raise config_error(
                        "EventSource.client", "an async client", type(self._client).__name__
                    )
                response = await entered.__aenter__()
                if follows:
                    entered, response = await followed(self._client, entered, response)
        except TimeoutError as error:
            if not timer.expired():
                raise
            return Failure.of("CONN_TIMEOUT", "no answer within the connect timeout", cause=error)
        self._answer = _OpenAnswer(entered, response)
        return await self._admit(self._answer)

    async def _admit(self, answer: _OpenAnswer) -> Failure | None:
        """Return the failure of an answer that is no event stream, else None.

        204 closes the source for good.
        """
        status: int = answer.response.status_code
        headers: Mapping[str, str] = answer.response.headers
        if status == 204:
            self._move(BridgeState.CLOSED, "no_content")
            self._emit(events.Closed(at=self._now().at, reason="no_content"))
            return None
        if status >= 400:
            finding = status_finding(
                status, headers, await answer.body(), now_wall=self._now().wall
            )
            return applied(finding.failure())
        if (failure := refusal(status, headers.get("content-type", ""))) is not None:
            return failure
        now = self._now()
        self._stream.opened(now)
        self._is_suspended_reported = False
        self._emit(events.Connected(at=now.at))
        self._move(BridgeState.READY, "connected")
        return None

    async def _read(self) -> Failure | None:
        assert self._answer is not None  # noqa: S101 -- called only with an open response
        data = await self._answer.read()
        if data is None:
            return Failure.of("CONN_RESET", "the server ended the event stream")
        self._stream.receive(data)
        return None

    async def _drop(self) -> None:
        """Close the response, if there is one, in a task that a cancellation does not end."""
        answer, self._answer = self._answer, None
        if answer is not None:
            await ended(asyncio.create_task(answer.close(), name="resilient_bridge response"))

    def _lose(self, failure: Failure, *, is_ours: bool = False) -> None:
        now, failure = self._now(), self._secrets.mask(failure)
        decision = self._stream.lost(failure, now, is_ours=is_ours)
        fields: Any = {"at": now.at, "reason": decision.reason, "failure": failure}
        if self._state is BridgeState.READY:
            self._emit(events.Disconnected(**fields))
        if not decision.retry:
            self._fail(decision.failure, decision.reason)
            return
        self._due = now.mono + decision.wait
        self._move(
            BridgeState.SUSPENDED if decision.suspended else BridgeState.BACKOFF, decision.reason
        )
        if decision.suspended and not self._is_suspended_reported:
            self._is_suspended_reported = True
            self._emit(events.Suspended(**fields, attempts=self._stream.reconnection.failed))
        fields["reason"] = "rate_capped" if decision.is_capped else decision.reason
        self._emit(
            events.ReconnectScheduled(**fields, attempt=decision.attempt, wait=decision.wait)
        )

    def _fail(self, failure: Failure, reason: str) -> None:
        self._failure = failure
        self._move(BridgeState.FAILED, reason)
        self._emit(
            events.GaveUp(at=self._now().at, name=f"event source {self._name}", failure=failure)
        )

    def _move(self, state: BridgeState, reason: str) -> None:
        previous, self._state, self._reason = self._state, state, reason
        self._emit(
            events.StateChanged(at=self._now().at, previous=previous, state=state, reason=reason)
        )

    def _emit(self, event: events.Event) -> None:
        emit(sent_by(event, self._identity))

    def _now(self) -> Now:
        return Now(asyncio.get_running_loop().time(), self._wall())


class _OpenAnswer:
    """A response that is being read, and its context manager."""

    def __init__(self, entered: AbstractAsyncContextManager[Any], response: Any) -> None:
        self.response = response
        self._entered = entered
        self._chunks: AsyncGenerator[bytes, None] = response.aiter_bytes()

    async def read(self) -> bytes | None:
        """Return the next piece of the body, None at its end."""
        return await anext(self._chunks, None)

    async def body(self) -> bytes:
        """Return the beginning of the body of an answer that is no stream.

        It has the part that arrives within 2 seconds; empty if that grows too large when decoded.
        """
        body, self._chunks = b"", self.response.aiter_raw()
        with suppress(Exception):
            async with asyncio.timeout(_BODY_SECONDS):
                while len(body) < LOOK and (piece := await self.read()) is not None:
                    body += piece
        return decoded(self.response.headers.get("content-encoding", ""), body, MOST_DECODED) or b""

    async def close(self) -> None:
        """Close the response within a second, and raise no error of the client."""
        with suppress(Exception):
            async with asyncio.timeout(_GOODBYE):
                try:
                    await self._chunks.aclose()
                finally:
                    await self._entered.__aexit__(None, None, None)


# ---- arguments, and the secrets in them --------------------------------------------------------------------------


def _wanted(is_right: object, field: str, wanted: str, received: object) -> None:
    if not is_right:
        refuse(f"EventSource.{field}", wanted, received)


def check_arguments(
    client: object, content: object, on_gap: object, last_event_id: object, limit: object
) -> None:
    wanted = "an httpx.AsyncClient or httpx2.AsyncClient"
    _wanted(callable(getattr(client, "stream", None)), "client", wanted, type(client).__name__)
    wanted = "text or bytes, which can be sent again"
    _wanted(isinstance(content, str | bytes | None), "content", wanted, type(content).__name__)
    _wanted(on_gap is None or callable(on_gap), "on_gap", "a callable that takes a Gap", on_gap)
    is_id = isinstance(last_event_id, str | None) and set("\0\r\n").isdisjoint(last_event_id or "")
    _wanted(is_id, "last_event_id", "text in one line, or None", last_event_id)
    _wanted(is_count(limit), "max_event_bytes", "a count of at least 1", limit)


def checked_policy(reconnect: object) -> Reconnect:
    """Return the Reconnect, or that of a BridgePolicy, or the default."""
    chosen: object = (
        Reconnect() if reconnect is None else getattr(reconnect, "reconnect", reconnect)
    )
    if not isinstance(chosen, Reconnect):
        refuse("EventSource.reconnect", "a Reconnect, a BridgePolicy or None", reconnect)
    return chosen


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return the headers, with Accept and Cache-Control added where they are not set."""
    received = dict(headers or {})
    names = {name.lower() for name in received}
    _wanted(
        "last-event-id" not in names,
        "headers",
        "no Last-Event-ID (last_event_id= is its place)",
        "one",
    )
    ours = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
    return {
        **{name: value for name, value in ours.items() if name.lower() not in names},
        **received,
    }


def timeouts(client: object, policy: Reconnect, read_timeout: Any) -> tuple[float | None, ...]:
    """Return the timeouts of the request: connect, read, write, pool.

    They are the client's own, or `connect_timeout`. For reading it is `read_timeout`, because a
    stream may be quiet longer than any response.
    """
    read = None if read_timeout is None else as_seconds(read_timeout)
    is_limit = read is None or (is_number(read) and 0 < read <= LONGEST_TIMEOUT)
    _wanted(
        is_limit, "read_timeout", f"seconds above 0 to {LONGEST_TIMEOUT:.0f}, or None", read_timeout
    )
    own, limit = getattr(client, "timeout", None), policy.connect_timeout
    connect, write, pool = (getattr(own, name, limit) for name in ("connect", "write", "pool"))
    return connect, read, write, pool


def sends_in_clear(client: object, url: str, headers: Mapping[str, str], params: object) -> bool:
    """Return whether a request shows credentials to whatever answers it: by http, not https."""
    base = str(getattr(client, "base_url", "") or "")
    where = url if urlsplit(url).scheme else base
    if urlsplit(where).scheme.lower() != "http":
        return False
    names = [*headers, *getattr(client, "headers", ()), *_names_of(url, params)]
    has_login = any(getattr(client, name, None) for name in ("auth", "cookies"))
    return has_login or "@" in urlsplit(where).netloc or any(is_sensitive(name) for name in names)


def _names_of(url: str, params: Any) -> list[str]:
    """Return the names in the query of a request; `params` of other forms than a mapping have none."""
    own: Mapping[object, object] = mapping_of(params)
    return [str(name) for name in own] + [
        name for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)
    ]
