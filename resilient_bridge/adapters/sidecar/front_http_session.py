"""A client session over HTTP, for versions with sessions: the stream of each message, and what a client may resume.

Rule: a session is a client of the relay. Messages that belong to a request go into its stream, all
others into the one that the client opens with GET; both are bounded queues while they are not read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from .front_http_stream import MessageStream, SentEvent


if TYPE_CHECKING:
    from collections.abc import Callable

    from .front import Relayed
    from .front_http_limits import HttpLimits
    from .message import Key, Message


# clients of earlier versions take an event without data for a broken message
_PRIMING_SINCE: Final = "2025-11-25"


class HttpSession:
    """One client session. `id` is a secret: with it and the token, a program acts as the client."""

    def __init__(
        self, id: str, relay: Relayed, limits: HttpLimits, on_end: Callable[[HttpSession], None]
    ) -> None:
        """Begin; `on_end` is called once, when it ends for whatever reason."""
        self.id = id
        self.relay = relay
        self.is_refused = False  # whether the answer to `initialize` was an error
        self.is_ended = False
        self._limits = limits
        self._on_end = on_end
        self._version = ""
        self._in_flight: dict[Key, MessageStream] = {}
        self._opening: Key | None = None
        self._streams: dict[int, MessageStream] = {}  # what can be resumed
        self._replayable: deque[tuple[MessageStream, SentEvent]] = deque()  # the oldest first
        self._replay_size = 0
        self._number = 0  # of the last event
        self._stream_count = 0  # streams
        self.notices = self._new_stream()
        relay.connect(self)

    # ---- what the client sends -----------------------------------------------------------------------------------

    def post(self, message: Message) -> None:
        self.relay.receive(self, message)

    def ask(self, message: Message) -> MessageStream | None:
        """Pass on a request; return the stream of its answer.

        None, and nothing is passed on, while its id is in progress.
        """
        key = message.key
        if key is None or key in self._in_flight:
            return None
        if message.method == "initialize":
            version = message.params.get("protocolVersion")
            self._version = version if isinstance(version, str) else ""
            self._opening = key
        stream = self._in_flight[key] = self._new_stream()
        self.prime(stream)
        self.relay.receive(self, message)
        return stream

    def prime(self, stream: MessageStream) -> None:
        """Send an event id to resume from before there is any message, if the client's version supports that."""
        if self._version >= _PRIMING_SINCE:
            self._put(stream, "", is_answer=False)

    def resume(self, last_event_id: str) -> MessageStream | None:
        """Return the stream of an event, with everything after it queued again.

        None if it is unknown.
        """
        first, _, second = last_event_id.partition("-")
        if not (first.isdecimal() and second.isdecimal() and len(last_event_id) < 40):
            return None
        stream = self._streams.get(int(first))
        if stream is not None:
            replayable = [event for owner, event in self._replayable if owner is stream]
            stream.resume(int(second), replayable)
        return stream

    # ---- what the relay sends ------------------------------------------------------------------------------------

    def deliver(self, message: Message, request: Key | None) -> None:
        if self.is_ended:
            return
        stream = self._in_flight.get(request) if request is not None else None
        if not message.is_answer:
            self._put(stream or self.notices, message.text, is_answer=False)
        elif request is not None and stream is not None:
            if request == self._opening:
                self._opened(message)
            self._put(stream, message.text, is_answer=True)
            self.drop(request)

    def drop(self, request: Key) -> None:
        stream = self._in_flight.pop(request, None)
        if stream is not None:
            stream.end()
            self._forget_ended(stream)

    def end(self) -> None:
        """End the session: its streams end, its requests are cancelled, and its id becomes unknown."""
        if self.is_ended:
            return
        self.is_ended = True
        # those of requests in flight are among them, or have ended
        for stream in self._streams.values():
            stream.end()
        self._in_flight.clear()
        self._streams.clear()
        self._replayable.clear()
        self.relay.disconnect(self)
        self._on_end(self)

    # ---- streams -------------------------------------------------------------------------------------------------

    def _opened(self, message: Message) -> None:
        self._opening = None
        self.is_refused = message.is_refusal
        version = message.result.get("protocolVersion")
        if isinstance(version, str):
            self._version = version

    def _new_stream(self) -> MessageStream:
        stream = MessageStream(
            self._stream_count, queue_bytes=self._limits.queue_bytes, events=self._limits.events
        )
        self._stream_count += 1
        self._streams[stream.number] = stream
        return stream

    def _put(self, stream: MessageStream, text: str, *, is_answer: bool) -> None:
        self._number += 1
        retry = 0 if text else int(self._limits.retry_seconds * 1000)
        event = SentEvent(text, self._number, f"{stream.number}-{self._number}", is_answer, retry)
        if stream.put(event):
            self._keep(stream, event)
            return
        # The client does not read. Its relay is in the middle of a delivery, so the session ends a
        # moment later.
        stream.abandon()
        asyncio.get_running_loop().call_soon(self.end)

    def _keep(self, stream: MessageStream, event: SentEvent) -> None:
        self._replayable.append((stream, event))
        self._replay_size += len(event.text)
        stream.replayable += 1
        while len(self._replayable) > self._limits.events or (
            self._replay_size > self._limits.event_bytes and len(self._replayable) > 1
        ):
            oldest, event = self._replayable.popleft()
            self._replay_size -= len(event.text)
            oldest.replayable -= 1
            self._forget_ended(oldest)

    def _forget_ended(self, stream: MessageStream) -> None:
        """Forget streams that have ended and have no replayable events."""
        if stream.is_ended and not stream.replayable:
            self._streams.pop(stream.number, None)
