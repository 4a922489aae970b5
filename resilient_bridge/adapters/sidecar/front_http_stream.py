"""One stream of messages to a client, as server-sent events, with at most one reader.

Rule: putting never blocks. If a reader is too slow, `put` returns False, and the owner of the
stream ends it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

import attrs


_CHUNK: Final = 64 << 10  # bytes after which `take` adds no further event


@attrs.frozen
class SentEvent:
    """One event of a stream.

    `id` is the SSE id, empty if the stream cannot be resumed. An event with empty `text` only gives
    the client an id to resume from.
    """

    text: str
    number: int = 0
    id: str = ""
    is_answer: bool = False
    retry: int = 0  # milliseconds; 0: not sent

    def encode(self) -> bytes:
        position = f"id: {self.id}\r\n" if self.id else ""
        retry = f"retry: {self.retry}\r\n" if self.retry else ""
        name = "event: message\r\n" if self.text else ""
        return f"{name}{position}{retry}data: {self.text}\r\n\r\n".encode("utf-8", "replace")


class Reader(Protocol):
    """The HTTP response that sends a stream to a client."""

    def abort(self) -> None:
        """Abort the connection."""


class MessageStream:
    """A bounded queue of events for a reader.

    At most one reader at a time: a new one replaces the old.
    """

    def __init__(self, number: int, *, queue_bytes: int, events: int) -> None:
        self.number = number
        self.is_ended = False
        self.replayable = 0  # how many of its events its owner keeps
        self.wake = asyncio.Event()
        self._queue_bytes, self._events = queue_bytes, events
        self._waiting: deque[SentEvent] = deque()
        self._size = 0
        self.reader: Reader | None = None
        self._was_read = False

    @property
    def has_messages(self) -> bool:
        """Whether a message is queued, and not only a priming event."""
        return any(event.text for event in self._waiting)

    @property
    def only_answer(self) -> SentEvent | None:
        """The answer, if it is the only queued message; else None."""
        waiting = [event for event in self._waiting if event.text]
        return waiting[0] if len(waiting) == 1 and waiting[0].is_answer else None

    def put(self, event: SentEvent) -> bool:
        """Add an event.

        Returns False, and adds nothing, if the reader is too slow. Without a reader the oldest
        events are dropped. An ended stream ignores the event and returns True.
        """
        if self.is_ended:
            return True
        if self.reader is not None and self._size > self._queue_bytes:
            return False
        while self.reader is None and (
            self._size > self._queue_bytes or len(self._waiting) >= self._events
        ):
            self._size -= len(self._waiting.popleft().text)
        self._waiting.append(event)
        self._size += len(event.text)
        self.wake.set()
        return True

    def resume(self, after: int, replayable: list[SentEvent]) -> None:
        """Queue all events after the number `after`: the kept ones, and those not sent yet."""
        events = {
            event.number: event for event in (*replayable, *self._waiting) if event.number > after
        }
        self._let_wait([events[number] for number in sorted(events)])

    def _let_wait(self, events: list[SentEvent]) -> None:
        self._waiting = deque(events)
        self._size = sum(len(event.text) for event in events)
        self.wake.set()

    def take(self) -> bytes:
        """Return the next bytes to send; empty if nothing is queued."""
        parts: list[bytes] = []
        size = 0
        while self._waiting and size < _CHUNK:
            event = self._waiting.popleft()
            self._size -= len(event.text)
            parts.append(event.encode())
            size += len(parts[-1])
        return b"".join(parts)

    def end(self) -> None:
        """End the stream; a reader still gets the queued events.

        A stream that was read and has no reader drops its queue: if it is resumed, the client gets
        the kept events.
        """
        self.is_ended = True
        if self.reader is None and self._was_read:
            self._let_wait([])
        self.wake.set()

    def abandon(self) -> None:
        """End at once: drop the queue, and abort the reader's connection, which may be stuck."""
        self._let_wait([])
        self.end()
        if self.reader is not None:
            self.reader.abort()

    def attach(self, reader: Reader) -> None:
        """Set the reader, and abort the connection of an earlier one."""
        before, self.reader = self.reader, reader
        self._was_read = True
        if before is not None:
            before.abort()

    def detach(self, reader: Reader) -> None:
        """Remove the reader, unless another one has replaced it."""
        if self.reader is not reader:
            return
        self.reader = None
        if self.is_ended:
            self._let_wait([])
