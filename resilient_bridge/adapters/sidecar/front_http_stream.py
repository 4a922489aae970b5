"""One stream of messages on its way to a client, as server-sent events, and who reads it at the moment.

Rule: putting never blocks. A reader that is too slow is told by `put` returning False, and whoever owns the stream ends it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs


if TYPE_CHECKING:
    from collections.abc import Callable


_CHUNK: Final = 64 << 10  # bytes that are sent in one piece, or one event if it is larger


@attrs.frozen
class SentEvent:
    """One event of a stream. `id` is the session's own, empty where streams are not resumed; `text` is empty to prime a client."""

    text: str
    number: int = 0
    id: str = ""
    is_answer: bool = False
    retry: int = 0  # milliseconds; 0: nothing is said

    def encode(self) -> bytes:
        """Return the bytes of the event."""
        position = f"id: {self.id}\r\n" if self.id else ""
        retry = f"retry: {self.retry}\r\n" if self.retry else ""
        name = "event: message\r\n" if self.text else ""
        return f"{name}{position}{retry}data: {self.text}\r\n\r\n".encode("utf-8", "replace")


class MessageStream:
    """Events that wait for a reader, bounded. At most one reader at a time: a new one takes the place of the old."""

    def __init__(self, number: int, *, queue_bytes: int, events: int) -> None:
        """Begin empty, without a reader."""
        self.number = number
        self.is_ended = False
        self.replayable = 0  # how many of its events its owner keeps
        self.wake = asyncio.Event()
        self._queue_bytes, self._events = queue_bytes, events
        self._waiting: deque[SentEvent] = deque()
        self._size = 0
        self._abort: Callable[[], None] | None = None
        self._was_read = False

    @property
    def is_read(self) -> bool:
        """Whether somebody reads it."""
        return self._abort is not None

    @property
    def has_messages(self) -> bool:
        """Whether a message waits, and not only what primes a client."""
        return any(event.text for event in self._waiting)

    @property
    def only_answer(self) -> SentEvent | None:
        """The answer, where it is all that waits and nothing was sent before it."""
        waiting = [event for event in self._waiting if event.text]
        return waiting[0] if len(waiting) == 1 and waiting[0].is_answer else None

    def put(self, event: SentEvent) -> bool:
        """Add an event. Returns False, and adds nothing, if the reader is too slow; without a reader the oldest are left out."""
        if self.is_ended:
            return True
        if self._abort is not None and self._size > self._queue_bytes:
            return False
        while self._abort is None and (self._size > self._queue_bytes or len(self._waiting) >= self._events):
            self._size -= len(self._waiting.popleft().text)
        self._waiting.append(event)
        self._size += len(event.text)
        self.wake.set()
        return True

    def resume(self, after: int, replayable: list[SentEvent]) -> None:
        """Let all wait that came after an event: what was kept of it, and what was not sent yet."""
        events = {event.number: event for event in (*replayable, *self._waiting) if event.number > after}
        self._let_wait([events[number] for number in sorted(events)])

    def _let_wait(self, events: list[SentEvent]) -> None:
        self._waiting = deque(events)
        self._size = sum(len(event.text) for event in events)
        self.wake.set()

    def take(self) -> bytes:
        """Return the next bytes to send; empty if nothing waits."""
        parts: list[bytes] = []
        size = 0
        while self._waiting and size < _CHUNK:
            event = self._waiting.popleft()
            self._size -= len(event.text)
            parts.append(event.encode())
            size += len(parts[-1])
        return b"".join(parts)

    def end(self) -> None:
        """Nothing more will come; what waits is still sent, unless its reader is gone: who resumes gets what was stored."""
        self.is_ended = True
        if self._abort is None and self._was_read:
            self._let_wait([])
        self.wake.set()

    def abandon(self) -> None:
        """End at once: what waits is thrown away, and the reader's connection is cut, for it may be stuck in it."""
        self._let_wait([])
        self.end()
        if self._abort is not None:
            self._abort()

    def attach(self, abort: Callable[[], None]) -> None:
        """Begin to read. An earlier reader is cut off."""
        before, self._abort = self._abort, abort
        self._was_read = True
        if before is not None:
            before()

    def is_attached(self, abort: Callable[[], None]) -> bool:
        """Whether this reader is still the one."""
        return self._abort is abort

    def detach(self, abort: Callable[[], None]) -> None:
        """Stop to read, unless another has taken over."""
        if self._abort is not abort:
            return
        self._abort = None
        if self.is_ended:
            self._let_wait([])
