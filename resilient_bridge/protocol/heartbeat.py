"""Application pings on one connection.

They prove that the server is alive, and that it has read what was sent before them.

A fresh object per connection, because a ping of an old socket proves nothing about a new one. A
verdict of death needs three things: a pong is overdue, reading was not paused, and one more quiet
moment has passed in which everything that had already arrived could be read. A stalled event loop
or a machine that slept thus never kills a healthy link. Rule: only a pong proves anything. A
WebSocket-level pong may come from a proxy, other frames may be all that still flows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ..failure import Failure


if TYPE_CHECKING:
    from .policies.heartbeat import Heartbeat as HeartbeatPolicy


_LAST_LOOK: Final = 0.25  # seconds in which what has arrived is read before a verdict
Purpose = Literal["beat", "join", "ask", "barrier", "probe"]


class Ping(NamedTuple):
    """A ping without an answer so far: its reason, what was written before it (`seq`), and when its
    pong is due.

    `doubt` is the reason to give if a probe is not answered; "" for all others.
    """

    id: str
    purpose: Purpose
    seq: int
    due: float
    doubt: str = ""


class Heartbeat:
    """Pings sent and pongs received.

    Pongs without an id answer the oldest ping; once ids were echoed, only ids count.
    """

    def __init__(self, policy: HeartbeatPolicy, mono: float) -> None:
        self._policy = policy
        self._out: deque[Ping] = deque()
        self._next = mono + policy.every
        self._last_look: float | None = None
        self._echoes_ids = False
        self._paused = False
        self.verdict: Failure | None = None  # the verdict that the link is dead, and why

    def follow(self, policy: HeartbeatPolicy, mono: float) -> None:
        self._policy = policy
        self._next = mono + policy.every

    def sent(self, identity: str, purpose: Purpose, seq: int, mono: float, doubt: str = "") -> None:
        self._out.append(Ping(identity, purpose, seq, mono + self._wait_for(purpose), doubt))
        self._next = mono + self._policy.every

    def _wait_for(self, purpose: Purpose) -> float:
        return self._policy.probe_timeout if purpose == "probe" else self._policy.timeout

    def __contains__(self, identity: object) -> bool:
        """Return whether this is the id of an unanswered ping."""
        return any(ping.id == identity for ping in self._out)

    @property
    def is_probing(self) -> bool:
        return any(ping.purpose == "probe" for ping in self._out)

    def pong(self, identity: str | None) -> list[Ping]:
        """Return the pings this pong answers, oldest first; empty for a stray one."""
        known = identity is not None and identity in self
        if not self._out or (self._echoes_ids and not known):
            return []
        self._last_look = None
        answered = [self._out.popleft()]
        if known:
            self._echoes_ids = True
            while answered[-1].id != identity:
                answered.append(self._out.popleft())
        return answered

    def alive(self, mono: float) -> None:
        """Bytes of a data frame arrived: unanswered pings get their full time again, because their
        pongs can only come after that frame.
        """
        self._last_look = None
        self._out = deque(
            ping._replace(due=max(ping.due, mono + self._policy.timeout)) for ping in self._out
        )

    def pause(self) -> None:
        """Reading stops (the inbox is full): no verdict until it resumes."""
        self._paused = True
        self._last_look = None

    def resume(self, mono: float) -> None:
        """Reading resumes: unanswered pings get their full time again."""
        self._paused = False
        self.alive(mono)

    def next_timer(self) -> float:
        if self._paused:
            return self._next
        if self._last_look is not None:
            return self._last_look
        return min(self._next, min((ping.due for ping in self._out), default=self._next))

    def check(self, mono: float) -> Literal["ping", "dead"] | None:
        """Return what is due now: a ping, the verdict that the link is dead, or nothing."""
        overdue = (
            None if self._paused else next((ping for ping in self._out if ping.due <= mono), None)
        )
        if overdue is not None:
            if self._last_look is None or mono - self._last_look > _LAST_LOOK:
                # Just overdue, or the loop stalled during the last check: what has arrived may
                # still be unread.
                self._last_look = mono + _LAST_LOOK
            elif mono >= self._last_look:
                text = f"no pong within {self._wait_for(overdue.purpose):g} s"
                details = {"reason": overdue.doubt} if overdue.doubt else {}
                self.verdict = Failure.of("CONN_HEARTBEAT_TIMEOUT", text, details=details)
                return "dead"
        return "ping" if mono >= self._next else None


class Silence:
    """For a server that sends signs of life by itself: after `limit` seconds without any frame the
    connection is dead.

    As for pings, a verdict needs one last check in which what has arrived can be read, and none is
    given while reading is paused.
    """

    def __init__(self, limit: float, mono: float) -> None:
        self._limit = limit
        self._since = mono
        self._last_look: float | None = None
        self._paused = False

    def alive(self, mono: float) -> None:
        self._since, self._last_look = mono, None

    def pause(self) -> None:
        self._paused, self._last_look = True, None

    def resume(self, mono: float) -> None:
        self._paused = False
        self.alive(mono)

    def next_timer(self) -> float | None:
        if self._paused:
            return None
        return self._since + self._limit if self._last_look is None else self._last_look

    def check(self, mono: float) -> Failure | None:
        if self._paused or mono < self._since + self._limit:
            return None
        if self._last_look is None or mono - self._last_look > _LAST_LOOK:
            self._last_look = mono + _LAST_LOOK
        elif mono >= self._last_look:
            return Failure.of("CONN_HEARTBEAT_TIMEOUT", f"nothing was heard for {self._limit:g} s")
        return None
