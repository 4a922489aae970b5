"""`async for event in bridge.events()`: this client's events, in order, bounded.

A slow reader loses the oldest.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol

from ..telemetry import emit
from ..telemetry.event import sent_by
from ..telemetry.events import (
    Closed,
    Disconnected,
    GaveUp,
    OutboundInDoubt,
    ReconnectScheduled,
    StateChanged,
    Suspended,
)
from .one_reader import OneReader


if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ..protocol import Session
    from ..telemetry.event import Event
    from ..transports.loop_guard import LoopGuard


_MOST: Final = 1_000
_OF_A_SESSION: Final = (
    StateChanged, Disconnected, ReconnectScheduled, Suspended, GaveUp, OutboundInDoubt
)  # fmt: skip


class Source(Protocol):
    """A client or a link, as the source of events."""

    name: str
    streams: list[Any]  # weak references: a dropped event stream is forgotten
    identity: object  # what distinguishes it from others of its name

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of its tasks."""
        ...


class EventStream:
    """An event stream from the call of `events()` to `Closed` or `GaveUp`.

    `missed` counts events that were not read in time. One task reads it: ConfigError for a second.
    """

    def __init__(self, source: Source, guard: LoopGuard) -> None:
        self.missed = 0
        self._guard = guard
        self._source = source
        self._one_reader = OneReader("events")
        self._events: deque[Event] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        source.streams.append(weakref.ref(self))  # a dropped stream is forgotten

    def put(self, event: Event) -> None:
        """Add an event."""
        if len(self._events) >= _MOST:
            self._events.popleft()
            self.missed += 1
        self._events.append(event)
        if isinstance(event, (Closed, GaveUp)):
            self._ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> AsyncIterator[Event]:
        self._guard.check()
        return self._one_reader.begins(self.__anext__)

    async def __anext__(self) -> Event:
        self._guard.check()
        self._one_reader.check(is_waiting=self._waiter is not None)
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._waiter = self._source.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._events.popleft()


def tell(source: Source, event: Event, session: Session | None = None) -> Event:
    """Pass an event to the source's own streams and to every listener, and return it.

    It gets the source's name, its session, and for a new state its queue lengths.
    """
    more: dict[str, Any] = {"bridge": source.name} if source.name else {}
    if session is not None and isinstance(event, _OF_A_SESSION):
        more["session_id"] = session.session_id
        if isinstance(event, StateChanged):
            outbox = session.outbound.outbox
            more["queued"], more["unconfirmed"] = len(outbox.queued), len(outbox.unconfirmed)
            more["unread"] = len(session.inbound.inbox)
    if more:
        event = type(event)(**{**vars(event), **more})
    sent_by(event, source.identity)
    _deliver(source.streams, event)
    emit(event)
    return event


def _deliver(streams: list[weakref.ref[EventStream]], event: Event) -> None:
    """Put an event into every stream that is still referenced; forget the others."""
    for reference in tuple(streams):
        stream = reference()
        if stream is None:
            streams.remove(reference)
        else:
            stream.put(event)
