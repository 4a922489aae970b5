"""What the two kinds of join share: their parts, what the handshake waits for, and READY at the end
of the flush.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from ..failure import Failure
from ..telemetry.event import Event
from ..telemetry.events import BridgeState, Connected, Joined, Resumed
from .asking import Awaited


if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from .clock import Identifiers, Now
    from .expectations import Expectations
    from .features import Features
    from .inbound import Inbound
    from .outbound import Outbound
    from .policies import Dialect, Heartbeat, Replay
    from .rejoin import Outcome


class LinkParts(NamedTuple):
    """What a link is made of.

    `move(trigger, reason, now)` is the session's; `greets`: the user has an `on_connect` for each
    connection; `is_backfilled`: the user's function fetches what was missed.
    """

    inbound: Inbound
    outbound: Outbound
    dialect: Dialect
    heartbeat: Heartbeat
    replay: Replay
    features: Features
    timeout: float
    ids: Identifiers
    emit: Callable[[Event], None]
    move: Callable[[str, str, Now], None]
    pong: Callable[[], None]
    mask: Callable[[Failure], Failure]
    generation: int
    greets: bool
    is_backfilled: bool


class Join(ABC):
    """The join of a session on one connection.

    Authenticate, join, request what was missed, and end in exactly one verdict.

    `die(failure)` is the link's; `awaited` is what was requested and has not arrived.
    """

    awaits_backfill = False  # has the user's own function to fetch what was missed?

    def __init__(
        self, parts: LinkParts, die: Callable[[Failure], None], greeting: Expectations | None
    ) -> None:
        self.state = BridgeState.AUTHENTICATING
        self.is_open = True  # until it has ended in its verdict
        self.deadline: float | None = None
        self.awaited = Awaited(parts.replay)
        self._in, self._out = parts.inbound, parts.outbound
        self._dialect, self._policy, self._timeout = parts.dialect, parts.replay, parts.timeout
        self._emit, self._move, self._die, self._greeting = parts.emit, parts.move, die, greeting
        self._since: Now | None = None  # when the pending question was sent
        self._flush_mark = 0

    @property
    @abstractmethod
    def replay_deadline(self) -> float | None: ...
    @abstractmethod
    def open(self, token: str | None, now: Now) -> None: ...
    @abstractmethod
    def join(self, now: Now) -> None: ...
    @abstractmethod
    def forget_session(self) -> None: ...
    @abstractmethod
    def timed_out(self, now: Now) -> None: ...
    @abstractmethod
    def receiving(self, since: float, now: Now) -> None: ...
    @abstractmethod
    def on_pong(self, ping: str, now: Now) -> None: ...
    @abstractmethod
    def _lacks(self, now: Now) -> Failure: ...

    def _wait_from(self, now: Now) -> None:
        self._since, self.deadline = now, now.mono + self._timeout

    def waits(self, now: Now) -> float:
        """Seconds for which the handshake has been waiting for an answer."""
        return 0.0 if self._since is None or self.deadline is None else now.mono - self._since.mono

    def missing(self, now: Now) -> Failure | None:
        """Return what the handshake is waiting for; None unless it waits."""
        if self._since is None or self.deadline is None:
            return None
        if self._greeting is not None and self._greeting.is_open:
            return Failure.of(
                "CONN_TIMEOUT", f"on_connect was not done within {self.waits(now):.3g} s"
            )
        return self._lacks(now)

    def _accepted(self, now: Now) -> None:
        """The server has accepted us: now the user may greet it, and then the join begins."""
        self._move("authenticated", "authenticated", now)
        self._emit(Connected(at=now.at, session_id=self._in.watermark.session_id))
        if self._greeting is not None:
            self._greeting.is_open = True
            self._wait_from(now)
        else:
            self.join(now)

    def _report(
        self, outcome: Outcome, since: datetime | None, now: Now, until: datetime | None = None
    ) -> None:
        session_id = self._in.watermark.session_id
        if outcome.verdict is None:
            self._emit(Joined(at=now.at, session_id=session_id))
            return
        self._emit(
            Resumed(
                at=now.at,
                session_id=session_id,
                verdict=outcome.verdict,
                reason=outcome.reason,
                replayed=outcome.replayed,
                since=since,
                until=until,
            )
        )

    def _flush(self, now: Now, reason: str, *, same_epoch: bool, new_session: bool) -> None:
        """The join has ended in its verdict: send what is queued."""
        self._out.requeue(now, same_epoch=same_epoch, new_session=new_session)
        queued = self._out.outbox.queued
        self._flush_mark = queued[-1].seq if queued else 0
        self._move("merged", reason, now)
        self.flushed(now)

    def flushed(self, now: Now) -> None:
        """Enter READY once everything that was queued when flushing started has been handed out."""
        queued = self._out.outbox.queued
        if not queued or queued[0].seq > self._flush_mark:
            self._move("flushed", "flushed", now)
