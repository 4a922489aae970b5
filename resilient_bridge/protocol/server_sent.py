"""Server-sent events: the bytes of a `text/event-stream` in, events out. Pure.

The parser does what the HTML standard of the WHATWG says ("Server-sent events", parsing and
interpreting), to the letter: an event exists once its blank line has come. It is asked for one
event at a time, so its id is never ahead of what was handed out.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import attrs

from ..failure import Failure, error_for


MAX_EVENT_BYTES: Final = 8 * 2**20
DIGITS: Final = 15  # digits of a number that is accepted as one

_BOM: Final = b"\xef\xbb\xbf"
_LONGEST_RETRY: Final = 10**15  # milliseconds; a larger number says no more than "never"


@attrs.frozen(slots=True, kw_only=True, repr=False)
class ServerSentEvent:
    """One event of a stream, as the server sent it.

        async with rb.links.EventSource(client, "https://host/events") as events:
            async for event in events:
                print(event.id, event.data)      # 7 hello

    `type` is "message" where the server names none, `data` its lines joined by line feeds. `id` is
    the stream's last event id: this event's own if `has_id`, else the one an earlier event left
    behind, "" if there was none. `retry` is the reconnection time in milliseconds if this event set
    one.
    """

    type: str = "message"
    data: str = ""
    id: str = ""
    retry: int | None = None
    has_id: bool = False

    def __repr__(self) -> str:
        """Type, id and size; never the data, which may hold secrets."""
        return (
            f"<ServerSentEvent {self.type[:80]!r} id={self.id[:80]!r} {len(self.data)} characters>"
        )


class EventStreamParser:
    """An incremental parser: `receive` bytes as they come, then ask `next_event` until it has none.

    `last_event_id` belongs to the event handed out last, or to a block after it that had an id and
    no data: that is a `checkpoint`. `retry` is the server's reconnection time in milliseconds. Both
    outlive a stream (`restart`). A line, or the lines of one event together (comments aside), of
    more than `max_event_bytes` is a ProtocolError, at its position, and permanently. `errors` says
    how data is decoded that is not UTF-8, as in `bytes.decode`; the specification has "replace".
    """

    def __init__(
        self,
        *,
        last_event_id: str = "",
        max_event_bytes: int = MAX_EVENT_BYTES,
        errors: str = "replace",
    ) -> None:
        self.retry: int | None = None
        self._errors = errors
        self._limit = max_event_bytes
        self.restart(last_event_id)

    def restart(self, last_event_id: str) -> None:
        """Begin a new stream after the event with that id.

        What was incomplete of the last one is dropped.
        """
        self.last_event_id = self._id = last_event_id
        self.checkpoint: str | None = None
        self._head: bytes | None = (
            b""  # what may become a byte order mark; None once that is settled
        )
        self._skips_lf = False
        self._lines: deque[bytes] = deque()
        self._pending = bytearray()
        self._broken: Failure | None = None
        self._clear()

    def _clear(self) -> None:
        self._type = ""
        self._data: list[str] = []
        self._event_retry: int | None = None
        self._has_id = False
        self._size = 0

    def receive(self, data: bytes) -> None:
        """Take the next bytes of the stream, split anywhere."""
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return
            self._head, data = None, data.removeprefix(_BOM)
        if not data:
            return
        if self._skips_lf:
            data = data.removeprefix(b"\n")
        # A carriage return ends its line at once: the line feed that may follow it must not hold an event back.
        self._skips_lf = data.endswith(b"\r")
        pieces = data.splitlines(keepends=True)
        rest = b"" if data.endswith((b"\n", b"\r")) or not pieces else pieces.pop()
        if pieces and self._pending:
            pieces[0] = bytes(self._pending) + pieces[0]
            self._pending.clear()
        self._lines.extend(piece.rstrip(b"\r\n") for piece in pieces)
        self._pending += rest

    def next_event(self) -> ServerSentEvent | None:
        """Return the next complete event, None if more bytes are needed.

        Raises ProtocolError (PROTO_MESSAGE_TOO_BIG).
        """
        if self._broken is not None:
            raise error_for(self._broken)
        while self._lines:
            line = self._lines.popleft()
            if not line:
                event = self._dispatch()
                if event is not None:
                    return event
                continue
            self._check(line)
            self._field(line)
        self._check(self._pending)
        return None

    def _check(self, line: bytes | bytearray) -> None:
        before = 0 if line.startswith(b":") else self._size
        if before + len(line) > self._limit:
            self._broken = Failure.of(
                "PROTO_MESSAGE_TOO_BIG",
                f"event over the limit: wanted at most {self._limit} bytes, got more",
                suggestions=("raise max_event_bytes, or have the server send less in one event",),
            )
            raise error_for(self._broken)

    def _field(self, line: bytes) -> None:
        if line.startswith(b":"):
            return
        self._size += len(line) + 1
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode(errors=self._errors))
        elif name == b"event":
            self._type = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id, self._has_id = value.decode(errors="replace"), True
        elif name == b"retry" and value.isdigit():  # of bytes: ASCII digits, and at least one
            digits = value.lstrip(b"0")
            self.retry = self._event_retry = (
                int(digits or b"0") if len(digits) <= DIGITS else _LONGEST_RETRY
            )

    def _dispatch(self) -> ServerSentEvent | None:
        """The blank line: what was collected becomes an event.

        Without data it is none, but its id counts.
        """
        self.last_event_id = self._id
        event = None
        if self._data:
            event = ServerSentEvent(
                type=self._type or "message",
                data="\n".join(self._data),
                id=self._id,
                retry=self._event_retry,
                has_id=self._has_id and bool(self._id),
            )
            self.checkpoint = None
        elif self._has_id:
            self.checkpoint = self._id
        self._clear()
        return event
