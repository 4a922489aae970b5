"""One connection, from its first byte to its last: what to write next, what is due now, why it must
end.

A link is created when a transport is connected and discarded when it is lost; none of its state
(pings, evidence, deadlines) survives, so none can leak into the next one. What survives is in
Inbound and Outbound. Frames are read in two ways: `EnvelopeLink` by the names of a dialect,
`FactLink` by its functions. Rule: a link never closes itself; it sets its `death`, and the driver
aborts the transport.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from attrs import evolve

from ..failure import Failure, Severity
from ..telemetry.events import BridgeState, MessageRejected
from .expectations import Expectations, Held
from .join import Join
from .outbox import BATCH_BYTES, BATCH_FRAMES
from .recognition import FirstFrames
from .transitions import SENDING
from .wire import Wire


if TYPE_CHECKING:
    from .clock import Now
    from .facts import Frame
    from .join import LinkParts


_UNJOINED: Final = frozenset({BridgeState.AUTHENTICATING, BridgeState.JOINING})
_MAY_BE_ACKED: Final = 64  # entries that wait for a first ack of a server without pings


J = TypeVar("J", bound=Join)


class Link(ABC, Generic[J]):
    """The protocol on one connection; `death` says why it must end."""

    joining: J

    def __init__(self, parts: LinkParts) -> None:
        self.death: Failure | None = None
        self.generation = parts.generation
        # The first frames of a connection that was not accepted yet: the server may speak another
        # protocol.
        self.first = (
            None
            if parts.inbound.watermark.joined
            else FirstFrames(
                lambda text: parts.mask(Failure.of("PROTO_INVALID_FRAME", text)).message
            )
        )
        self.greeting = Expectations(parts.replay) if parts.greets else None
        self.wire = Wire(parts.ids, parts.heartbeat, parts.dialect.ping)
        self._in, self._out = parts.inbound, parts.outbound
        self._dialect, self._features, self._replay = parts.dialect, parts.features, parts.replay
        self._pongs_confirm = parts.dialect.decode is None or parts.dialect.pings == "in_order"
        self._emit, self._ponged, self._mask = parts.emit, parts.pong, parts.mask

    @abstractmethod
    def receive(self, frame: str | bytes, now: Now) -> None:
        """Process one frame of the server; whatever it contains, nothing is raised."""

    @abstractmethod
    def _content(self, held: Held, now: Now) -> None:
        """Pass a message to the reader, or to the `expect` that waits for it."""

    closing = False  # has the server announced the end of this connection?

    def greeted(self, now: Now) -> None:
        """The user's greeting is done: frames that no `expect` has matched go to the reader, and
        the join starts.
        """
        if self.greeting is not None and self.greeting.is_open:
            for held in self.greeting.close():
                self._content(held, now)
            self.joining.join(now)

    def frames_to_send(self, now: Now, *, sending: bool) -> list[Frame]:
        """Return the frames to send now, control frames first.

        Entries count as WRITTEN once this has returned them.
        """
        frames = list(self.wire.control)
        self.wire.control.clear()
        if self.first is not None:
            for frame in frames:
                self.first.went(frame)
        if not sending:
            return frames
        size = 0
        while len(frames) < BATCH_FRAMES and size < BATCH_BYTES:
            entry = self._out.next_entry()
            if entry is None:
                break
            self._out.hand_out(entry, now, self.generation)
            frames.append(entry.frame)
            size += entry.size
            if not entry.is_request:
                barrier = self.wire.handed_out(entry.seq, now)
                if barrier is not None:
                    frames.append(barrier)
        if self.joining.state is BridgeState.FLUSHING:
            self.joining.flushed(now)
        return frames

    @property
    def _confirms(self) -> bool:
        """Return whether something can confirm what is sent now."""
        return self.wire.heartbeat is not None or self.wire.acks_seen

    def sent(self) -> None:
        """The transport has written the frames.

        Where nothing can confirm them, `wire.ping_due` may ask for a WebSocket ping behind them.
        """
        if self._confirms or self.joining.state not in SENDING:
            return
        outbox = self._out.outbox
        outbox.release(0 if self._dialect.ack is None else _MAY_BE_ACKED)
        if not outbox.unshown:
            return
        is_last = self.joining.state is BridgeState.DRAINING and not outbox.queued
        self.wire.written(is_last=is_last)
        if not self.wire.can_ping:
            outbox.lose_unshown()

    def answered(self, seq: int, now: Now) -> None:
        """A WebSocket ping behind the entry `seq` was answered."""
        self.wire.ponged()
        self._out.outbox.shown_through(seq, self.generation, now)

    def cannot_ping(self) -> None:
        """The transport has no pings: nothing will show what left this machine."""
        self.wire.cannot_ping()
        self._out.outbox.lose_unshown()

    def next_timer(self) -> float | None:
        timers = [self.joining.deadline, self.wire.barrier_due, self.joining.replay_deadline]
        if self.wire.heartbeat is not None:
            timers.append(self.wire.heartbeat.next_timer())
        return min((timer for timer in timers if timer is not None), default=None)

    def handle_timer(self, now: Now) -> None:
        """Time has passed: handle deadlines, barriers, pings, verdicts."""
        joining, wire = self.joining, self.wire
        if joining.deadline is not None and now.mono >= joining.deadline:
            missing = self.missing(now)
            if missing is not None:
                self.die(missing)
            return
        if joining.replay_deadline is not None and now.mono >= joining.replay_deadline:
            joining.timed_out(now)
        if wire.barrier_due is not None and now.mono >= wire.barrier_due:
            wire.barrier_due = None
            if self._out.outbox.unshown:
                wire.want_ping()
            elif self._out.outbox.unconfirmed:
                wire.ping("barrier", now)
        if wire.heartbeat is not None:
            due = wire.heartbeat.check(now.mono)
            if due == "ping":
                wire.ping("beat", now)
            elif wire.heartbeat.verdict is not None:
                self.die(wire.heartbeat.verdict)

    def missing(self, now: Now) -> Failure | None:
        """Return what the handshake is waiting for and, on a first connection, its first frames;
        None unless it waits.
        """
        missing = self.joining.missing(now)
        if missing is None or self.first is None:
            return missing
        return evolve(missing, message=f"{missing.message}; {self.first}")

    def lost(self, failure: Failure, now: Now) -> Failure:
        """This link ended, perhaps because of what was requested on it.

        Returns its failure, or the one that ends the client.
        """
        joining = self.joining
        if self.first is not None and self.first.is_foreign and self.joining.state in _UNJOINED:
            failure = evolve(failure, suggestions=(str(self.first), *failure.suggestions))
        return self._features.asking.lost(failure, now, joining.awaited, is_joining=joining.is_open)

    def receiving(self, since: float, now: Now) -> None:
        """Bytes of a data frame arrived, which began at `since` (monotonic): a sign of life, for as
        long as one answer may take.
        """
        if now.mono - since <= self._replay.max_seconds:
            if self.wire.heartbeat is not None:
                self.wire.heartbeat.alive(now.mono)
            self.joining.receiving(since, now)

    def pause(self) -> None:
        """Reading stops (the inbox is full): no verdict until it resumes."""
        if self.wire.heartbeat is not None:
            self.wire.heartbeat.pause()

    def resume(self, now: Now) -> None:
        if self.wire.heartbeat is not None:
            self.wire.heartbeat.resume(now.mono)

    def die(self, failure: Failure) -> None:
        """This link must end; the first reason counts."""
        if self.death is None:
            self.death = failure

    def die_if_fatal(self, failure: Failure) -> None:
        """A failure that the server calls fatal ends the session, whatever its code is."""
        if failure.severity is Severity.FATAL:
            self.die(failure)

    def _hold(self, held: Held) -> None:
        """While the user greets the server, hold incoming frames for that function."""
        assert self.greeting is not None  # noqa: S101 -- its caller has checked
        self.greeting.hold(held)
        if self.greeting.overflowed:
            more = "more arrived during on_connect than the side buffer may hold"
            self.die(Failure.of("SYS_INBOX_FULL", more))

    def _answered_pings(self, identity: str | None, now: Now) -> None:
        """A pong arrived: what was written before its ping has been read."""
        answered = [] if self.wire.heartbeat is None else self.wire.heartbeat.pong(identity)
        if not answered:
            self._out.stray_pongs += 1
        for ping in answered:
            self._ponged()
            if ping.seq and (identity is not None or not self._out.stray_pongs):
                if self._pongs_confirm:
                    self._out.outbox.confirm_through(ping.seq, self.generation)
                else:
                    self._out.outbox.shown_through(ping.seq, self.generation, now)
            self.joining.on_pong(ping.id, now)

    def _reject(self, failure: Failure, now: Now) -> None:
        self._in.rejected += 1
        if self.first is not None:
            self.first.is_foreign = True
        self._emit(MessageRejected(at=now.at, failure=failure))


AnyLink: TypeAlias = Link[Any]
"""A link of any kind of message."""
