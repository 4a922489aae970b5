"""Facts and intents: what a received frame means, and what a frame to send should mean.

They connect a dialect and the session. Pure values.

A dialect of its own has two functions: `decode(frame)` returns the facts of one frame,
`encode(intent)` the frame of one intent. The session knows nothing of a server beyond these facts.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from ..values.fields import optional, short_seconds


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


Frame: TypeAlias = str | bytes
"""A whole frame: text, or bytes in a binary frame."""
Position: TypeAlias = int | str
"""Where an event stands in the server's log: its number, or its id, or its time, as the server writes it."""
Channel: TypeAlias = str | None
"""Which log of the server; None where it has one for the session."""


# ---- what we know when we connect ------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Record:
    """What this client knows of its session when it connects.

    The dialect turns it into a request for what was missed.

    `positions` has the position of the last event of each channel, of the channel None where the
    session has one log; `epochs` the epochs of channels that have their own. `session`, `epoch`,
    `token` and `url` are what the server's `Hello` gave last. `joined`: a connection before this
    one was READY. `moved`: channels whose position was reached without an event (`Moved`).
    """

    session_id: str = ""
    session: str | None = None
    epoch: str | None = None
    token: str | None = attrs.field(default=None, repr=False)
    url: str | None = attrs.field(default=None, repr=False)
    positions: Mapping[Channel, Position] = attrs.field(factory=lambda: MappingProxyType({}))
    epochs: Mapping[Channel, str] = attrs.field(factory=lambda: MappingProxyType({}))
    joined: bool = False
    overlap: int = attrs.field(default=0, repr=False)
    moved: frozenset[Channel] = frozenset()

    @property
    def position(self) -> Position | None:
        """The position of the last event, where the session has one log."""
        return self.positions.get(None)

    def after(self, channel: Channel = None) -> Position | None:
        """Return the position to request events after.

        That is the last one less `Positions.overlap`, so that the answer begins with events we
        know.
        """
        position = self.positions.get(channel)
        is_event = isinstance(position, int) and channel not in self.moved
        return position - self.overlap if is_event and isinstance(position, int) else position


@attrs.frozen(kw_only=True)
class Resume:
    """How to request what was missed.

    Fields of the URL's query, headers, another URL, and frames (text or bytes) to send once the
    connection is accepted. An empty one asks for nothing: there is nothing to ask for yet. A
    dialect whose `Auth` asks (its record has session and positions) has no `resume`.

    `channels` are those that it asks for: the server has to answer for each (`Replayed`) before the
    client is READY.
    """

    query: Mapping[str, str | int] = attrs.field(factory=dict[str, "str | int"])
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    url: str | None = attrs.field(default=None, repr=False)
    frames: Sequence[Frame] = ()
    channels: Sequence[str] = ()


# ---- facts ---------------------------------------------------------------------------------------------------------


@attrs.define(
    kw_only=True
)  # not frozen: there is one for each message, and a frozen one takes twice as long to make
class Received:
    """A message of the server's, for the consumer.

    `raw` is the frame as it came, decoded as far as the dialect reads it: an object, an array, a
    text, bytes. `payload` is what a reader of messages finds in it. Two events with one `type` and
    `id` are one message; without an `id` nothing is taken for a repetition. `position` is where it
    stands in the log of `channel`; None: it is in no log and will not be replayed. `echo`: the text
    by which it is known as a message of ours that has come back (`Dialect.echo`). `ack`: what the
    server wants acknowledged.
    """

    raw: Any
    type: str = ""
    payload: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    id: str | None = None
    timestamp: str | None = None
    channel: Channel = None
    position: Position | None = None
    echo: str | None = None
    ack: Any = None


@attrs.frozen(kw_only=True)
class Hello:
    """The server has accepted this connection.

    `session` is the name of what it keeps for us, `epoch` that of its log: with another one,
    positions mean nothing. `token` and `url` are for the next connection. `silence`: after so many
    seconds without a frame the connection is dead. `ping_every`: the server wants a ping every so
    many seconds (above 0, at most an hour); it replaces `Heartbeat.every` on this connection.
    """

    session: str | None = None
    epoch: str | None = None
    token: str | None = attrs.field(default=None, repr=False)
    url: str | None = attrs.field(default=None, repr=False)
    silence: float | None = None
    ping_every: float | None = attrs.field(default=None, validator=optional(short_seconds))


@attrs.frozen
class Challenge:
    """The server requires authentication: the dialect's `Auth` is sent.

    `silence` and `ping_every` as in `Hello`.
    """

    silence: float | None = None
    ping_every: float | None = attrs.field(default=None, validator=optional(short_seconds))


@attrs.frozen(kw_only=True)
class Moved:
    """The position of a channel moves without an event.

    What is at that position is not for us, or has no content.
    """

    position: Position
    channel: Channel = None


@attrs.frozen
class Finished:
    """The log of this channel is complete.

    Nothing more will come, so nothing of it is requested again.
    """

    channel: Channel


@attrs.frozen(kw_only=True)
class Replayed:
    """What the server says about the replay of a channel; the channel None speaks for all.

    `complete`: True, it has sent all that was missed; False, it cannot; None, it does not say.
    `first` and `through` are the first and last position that it replays: with `through` the replay
    ends there. `epoch` as in `Hello`, where a channel has one.
    """

    complete: bool | None = None
    channel: Channel = None
    first: Position | None = None
    through: Position | None = None
    epoch: str | None = None


@attrs.frozen(kw_only=True)
class Reply:
    """The answer to a message of ours, found by its `Send.id`, `Send.key` or `Send.number`.

    `duplicate`: the server had it already.
    """

    to: str | int
    raw: Any = None
    type: str = ""
    payload: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    duplicate: bool = False


@attrs.frozen(kw_only=True)
class Acked:
    """The server has these messages of ours, by `Send.id`, `Send.key` or `Send.number`: whichever
    your `encode` wrote.

    `through`: all of this connection up to that number.

    `echo`: the oldest message for whose frame `Dialect.echo` returns this text, where a server
    names messages by an id of its own.
    """

    ids: Iterable[str | int] = ()
    through: int | None = None
    echo: str | None = None


@attrs.frozen(kw_only=True)
class Refused:
    """The server refuses something.

    `to` is the message of ours, as in `Reply`; `type` is its kind, if the server says so.

    `echo`: it is the oldest message for whose frame `Dialect.echo` returns this text, where a
    server names messages by an id of its own. `code`, `text`, `suggestions` (what the server says
    can be done) and `severity` (one of the five of `Severity`; a fatal refusal ends the session)
    are the server's. If nothing of ours fits, the reader gets it as a message of this type ("error"
    without one).
    """

    raw: Any = None
    to: str | int | None = None
    type: str | None = None
    code: str = ""
    text: str = ""
    retry_after: float | None = None
    echo: str | None = None
    suggestions: Sequence[str] = ()
    severity: str = ""


@attrs.frozen
class Unreadable:
    """A part of this frame cannot be read: the other facts are taken, and this is told.

    It is counted, and is the event MessageRejected. In a log whose numbers are not contiguous the
    reader gets a Gap("UNKNOWN", "unreadable") in its place; contiguous numbers show the hole.
    """

    why: str
    cause: Exception | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Closing:
    """The server will end this connection within so many seconds: the next one is made before that."""

    within: float | None = None


# ---- facts and intents ---------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Ping:
    """A request for a sign of life: the server's, as a fact (`body` is returned), or ours, as an
    intent (`id` is returned).
    """

    id: str = ""
    number: int = 0
    body: Any = None
    record: Record | None = None


@attrs.frozen(kw_only=True)
class Pong:
    """The answer to a ping.

    As a fact it is the server's (`id` where it repeats ours), as an intent it is ours: `body` is
    that of the ping, `number` is one that no other frame of this connection has, and `record` has
    the position, for a server that wants it in this answer.
    """

    id: str | None = None
    body: Any = None
    number: int = 0
    record: Record | None = None


CONTROL: Final = 1_000_000_000
"""The numbers of frames that are no messages of the user's (`Auth.number`, `Ping.number`) begin above this."""

Fact: TypeAlias = (
    Received
    | Hello
    | Challenge
    | Moved
    | Finished
    | Replayed
    | Reply
    | Acked
    | Refused
    | Unreadable
    | Closing
    | Ping
    | Pong
)
"""What `decode` returns a tuple of; an empty tuple for a frame without any fact."""


# ---- intents -------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Send:
    """A message of the user's that is to be sent.

    `key` is the same on every resend, and on another `send` with the same `idempotency_key`; `id`
    belongs to this one `send`. So write `key` where a server recognizes repetitions. `body` has the
    bytes of `send(b"…")` and `send(type, b"…")`, whose frame has to be bytes; else it is None.

    `number` counts the messages of the session from 1; `is_request`: a caller waits for the
    `Reply`.
    """

    type: str
    payload: Mapping[str, Any]
    id: str
    key: str
    timestamp: str
    number: int = 0
    is_request: bool = False
    body: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Auth:
    """The first frame on a connection, or the answer to a `Challenge`: our credentials, and the
    session that is ours.
    """

    token: str | None = attrs.field(default=None, repr=False)
    record: Record = attrs.field(factory=Record)
    id: str = ""
    number: int = 0


@attrs.frozen
class Acknowledge:
    """An event has been received, or read: `ack` is what the event asked for."""

    ack: Any


Intent: TypeAlias = Send | Auth | Ping | Pong | Acknowledge
"""What `encode` is given. It returns the frame as text or bytes, or None where this server has no frame for it."""
