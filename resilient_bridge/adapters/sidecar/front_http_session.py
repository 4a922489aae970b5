"""A client session over HTTP, for versions with sessions: its streams, and events to replay.

Rule: a session is a client of the relay. Messages that belong to a request go into the stream of
that request, all others into the stream that the client opens with GET. Streams are bounded queues.
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


# clients of earlier versions treat an event without data as a broken message
_PRIMING_SINCE: Final = "2025-11-25"


class HttpSession:
    """One client session. `id` is a secret: with it and the token, a program acts as the client."""

    def __init__(
        self, id: str, relay: Relayed, limits: HttpLimits, on_end: Callable[[HttpSession], None]
    ) -> None:
        """Connect to the relay; `on_end` is called once, when the session ends for any reason."""
        self.id = id
        self.relay = relay
        self.is_refused = False  # whether the answer to `initialize` was an error
        self.is_ended = False
        self._limits = limits
        self._on_end = on_end
        self._version = ""
        self._in_flight: dict[Key, MessageStream] = {}
        self._opening: Key | None = None
        self._streams: dict[int, MessageStream] = {}  # open, or with events to replay
        self._replayable: deque[tuple[MessageStream, SentEvent]] = deque()  # oldest first
        self._replay_size = 0
        self._number = 0  # of the last event
        self._stream_count = 0  # streams
        self.notices = self._new_stream()
        relay.connect(self)

    # ---- what the client sends -----------------------------------------------------------------------------------

    def post(self, message: Message) -> None:
        self.relay.receive(self, message)

    def ask(self, message: Message) -> MessageStream | None:
        """Send a request to the relay; return the stream of its answer.

        Returns None, and sends nothing, if its id is in use by a request in progress.
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
        """Put an event without data, which gives the client an id to resume from at once.

        Only for versions that support it.
        """
        if self._version >= _PRIMING_SINCE:
            self._put(stream, "", is_answer=False)

    def resume(self, last_event_id: str) -> MessageStream | None:
        """Return the stream of an event, with the kept events after it queued again.

        None if the stream is unknown. Kept are the newest: beyond the limits, progress and notices
        may be missing, but the answer, which comes last, is not.
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
        """End the session: end its streams, cancel its requests, and forget its id."""
        if self.is_ended:
            return
        self.is_ended = True
        # this includes the streams of requests in flight that have not ended
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
        # The client does not read. The relay is still delivering this message, so the session ends
        # in the next iteration of the loop.
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
        """Forget a stream if it has ended and has no events to replay."""
        if stream.is_ended and not stream.replayable:
            self._streams.pop(stream.number, None)
