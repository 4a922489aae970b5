"""The control lane of a link: control frames, pings, and the barriers that prove how far the server
has read.

A barrier is a ping behind entries: its pong proves that they were read. One per 64 entries under
load, one within a second when idle, none while the server acknowledges. Where nothing confirms a
send, the barrier is a ping of the WebSocket: its pong shows that they left this machine, and a
missing pong shows nothing. Rule: control frames are
sent before everything else, so a full queue starves neither the handshake nor the heartbeat.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from .clock import Stamps
from .frames import Encoder
from .heartbeat import Heartbeat


if TYPE_CHECKING:
    from collections.abc import Mapping

    from .clock import Identifiers, Now
    from .facts import Frame
    from .heartbeat import Purpose
    from .policies.heartbeat import Heartbeat as HeartbeatPolicy


_BARRIER_EVERY: Final = 64  # entries
_BARRIER_WITHIN: Final = 0.9  # seconds
_MOST_UNANSWERED: Final = 64  # pings of the WebSocket, to a server that answers none


class Wire:
    """The control lane of one connection.

    `ping_type` None: this dialect has no application ping.
    """

    def __init__(self, ids: Identifiers, policy: HeartbeatPolicy, ping_type: str | None) -> None:
        self.control: deque[Frame] = deque()
        self.heartbeat: Heartbeat | None = None
        self.acks_seen = False
        self.barrier_due: float | None = None
        self.ping_due = False  # a ping of the WebSocket, behind what was written
        self.can_ping = True
        self._unanswered = 0
        self._written = 0  # the last entry that the transport has written
        self.policy = policy  # when pings are due
        self._ping_type = ping_type
        self.lacks_pings = False  # has the dialect no frame for the pings that it says it has?
        self.ids = ids
        self._encoder = Encoder("json")
        self._stamp = Stamps()
        self._last_seq = 0
        self._since_barrier = 0

    def start_heartbeat(self, now: Now) -> None:
        """Pings are legal from here on; a fresh object, so that no old ping counts."""
        if self._ping_type is not None:
            self.heartbeat = Heartbeat(self.policy, now.mono)

    def say(self, type_: str, payload: Mapping[str, str | bool | float], now: Now) -> str:
        """Queue a control frame; returns its id."""
        identity = self.ids()
        text = self._encoder.payload(type_, payload)
        self.control.append(self._encoder.frame(type_, identity, self._stamp(now.wall), text))
        return identity

    def ping(self, purpose: Purpose, now: Now, doubt: str = "") -> str | None:
        """Queue a ping and return its id; None, and no ping from then on, without a frame for it.

        Every ping is a barrier for what was handed out before it.
        """
        if self.heartbeat is None or self._ping_type is None:
            return None
        identity = self._say_ping(self._ping_type, now)
        if identity is None:
            self.heartbeat = self.barrier_due = None
            return None
        self.heartbeat.sent(identity, purpose, self._last_seq, now.mono, doubt)
        self._since_barrier = 0
        self.barrier_due = None
        return identity

    def _say_ping(self, type_: str, now: Now) -> str | None:
        return self.say(type_, {}, now)

    def handed_out(self, seq: int, now: Now) -> Frame | None:
        """An entry is handed out; return the barrier to write behind it, if one is due."""
        self._last_seq = seq
        self._since_barrier += 1
        if self.barrier_due is None:
            self.barrier_due = now.mono + _BARRIER_WITHIN
        if self._since_barrier < _BARRIER_EVERY or self.acks_seen or self.heartbeat is None:
            return None
        return None if self.ping("barrier", now) is None else self.control.pop()

    def written(self, *, is_last: bool) -> None:
        """The transport has written all that was handed out; `is_last`: nothing follows."""
        self._written = self._last_seq
        if is_last or self._since_barrier >= _BARRIER_EVERY:
            self.want_ping()

    def want_ping(self) -> None:
        """A ping of the WebSocket is due, unless the server does not answer them."""
        self.ping_due = self.can_ping and self._unanswered < _MOST_UNANSWERED

    def pinging(self) -> int:
        """A ping of the WebSocket is written now; return the last entry before it."""
        self._unanswered += 1
        self._since_barrier = 0
        self.ping_due, self.barrier_due = False, None
        return self._written

    def ponged(self) -> None:
        """A ping of the WebSocket was answered."""
        self._unanswered -= 1

    def cannot_ping(self) -> None:
        """The transport has no pings."""
        self.can_ping = self.ping_due = False
