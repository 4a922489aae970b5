"""The session: the state from the first connection to the last, and the methods a driver calls.

    connecting -> connection_made -> receive / frames_to_send / handle_timer ... -> connection_lost -> Decision

A driver calls a method with `now`, then does what the session requests: send `frames_to_send`, call
`handle_timer` at `next_timer`, abort when `death` is set, pass events to the listeners, wake those
who wait for an entry of `take_settled`. There is no I/O, no clock and no randomness in here; a run
can be replayed from its inputs. Rule: state changes go through `_move`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from ..failure import Failure
from ..telemetry.event import Event
from ..telemetry.events import (
    BridgeState,
    ClockJumped,
    Closed,
    Disconnected,
    GaveUp,
    ReconnectScheduled,
    StateChanged,
    Suspended,
)
from .clock import Identifiers
from .features import Features
from .inbound import Inbound
from .join import LinkParts
from .link import AnyLink
from .outbound import Outbound
from .policies.ends import by_rules
from .reading import Reading
from .reconnection import Decision, Reconnection
from .transitions import LINKED, PROBED, SENDING, TRANSITIONS


if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from .clock import Now
    from .entries import Entry
    from .facts import Frame, Record, Resume
    from .policies import Dialect, Heartbeat, Inbox, Outbox, Reconnect, Replay
    from .ports import Store


_JUMP: Final = 5.0  # seconds the clocks may drift apart between two looks
_LOOK: Final = 1.0  # seconds between two looks at the clocks while linked


class Session:
    """One session with one bridge, over any number of connections."""

    def __init__(
        self,
        *,
        reconnect: Reconnect,
        heartbeat: Heartbeat,
        outbox: Outbox,
        inbox: Inbox,
        replay: Replay,
        dialect: Dialect,
        store: Store,
        session_id: str | None,
        rng: random.Random,
        can_refresh: bool = False,
        receives: bool = True,
        mask: Callable[[Failure], Failure] = lambda failure: failure,
        greets: bool = False,
        is_backfilled: bool = False,
    ) -> None:
        self._mask, self._greets, self._is_backfilled = mask, greets, is_backfilled
        self.state = BridgeState.IDLE
        self.reason = ""
        self.failure: Failure | None = None
        # entries that could not be settled when the session failed
        self.undelivered: list[Entry] = []
        self.link: AnyLink | None = None
        self.events: list[Event] = []
        self.ids = Identifiers(rng)
        self._store, self.named = store, session_id
        # the session's name, should neither the caller nor the store know one
        self._fresh = self.ids()
        self._receives = receives
        self.outbound = Outbound(outbox, dialect, self.ids, self.events.append, mask)
        self.reconnection = Reconnection(
            reconnect,
            rng,
            superseded=dialect.superseded,
            can_refresh=can_refresh,
            has_pings=dialect.ping is not None or bool(dialect.pings),
        )
        self._reconnect, self._heartbeat, self._inbox = reconnect, heartbeat, inbox
        self._replay, self.dialect = replay, dialect
        self._generation = 0
        self._drift: float | None = None
        self._slept = 0  # the last connection during which this machine slept
        self._new_session = self._is_suspended_reported = False
        self.reading = Reading(inbox)
        self._features = Features(dialect)
        self._ghost: Now | None = (
            None  # when a connection was last lost without the server's knowledge
        )
        self.take_over()

    def __repr__(self) -> str:
        return f"<Session {self.session_id} {self.state.value} {self.reason}>"

    def record(self) -> Record:
        return self.inbound.watermark.record(self.dialect.positions)

    def resume(self) -> Resume | None:
        """Return how the next connection requests what was missed.

        Raises ConfigError for a function of the dialect that cannot say it.
        """
        resume = self.dialect.resume
        if resume is not None:
            from .border import resume_of  # here: most clients have no such function (P9)

            asked = resume_of(resume, self.record())
        else:
            asked = None
        asks = asked is not None and bool(asked.query or asked.headers or asked.url)
        self.inbound.watermark.asks_in_url = asks
        return asked

    @property
    def keepalive(self) -> Heartbeat | None:
        """Return how often to probe the connection itself; None where the dialect has pings."""
        lacks_pings = self.link is not None and self.link.wire.lacks_pings
        has_pings = self.dialect.ping is not None or (bool(self.dialect.pings) and not lacks_pings)
        return None if has_pings else self._heartbeat

    def take_over(self, *, anew: bool = False) -> None:
        """Continue where the last client of the store ended, or in a new session.

        Before the first connection, with an open store.
        """
        store = self._store
        session_id = self.named or (None if anew else store.last_session()) or self._fresh
        self.inbound = Inbound(
            store, session_id, self._inbox, self.events.append, receives=self._receives
        )
        if self.named is None and not self.inbound.watermark.asked_to_join:
            self.inbound.watermark.is_own |= session_id == self._fresh
        if anew:
            return  # what was to be sent is here already
        self.outbound.restore(store.entries(), store.outcomes(), store.last_seq())
        if store.is_durable:
            outbox = self.outbound.outbox
            outbox.cleared = max((entry.seq for entry in outbox.unconfirmed), default=0)

    @property
    def session_id(self) -> str:
        return self.inbound.watermark.session_id

    @property
    def death(self) -> Failure | None:
        """Why the connection must be aborted now; None while it may live."""
        return self.link.death if self.link is not None else None

    # ---- connections ------------------------------------------------------------------------------------------

    def connecting(self, now: Now) -> None:
        self._look_at_clocks(now)
        first = self.state is BridgeState.IDLE
        if first and self.inbound.watermark.asked_to_join:
            self._ghost = now  # a process before this one may have left one
        self._move("open" if first else "retry", "user" if first else "retry", now)

    def connection_made(self, token: str | None, now: Now) -> None:
        self.reconnection.connected()
        self._generation += 1
        self.reading.is_paused = False
        self.link = _link_of(
            LinkParts(
                self.inbound,
                self.outbound,
                dialect=self.dialect,
                heartbeat=self._heartbeat,
                replay=self._replay,
                features=self._features,
                timeout=self._reconnect.connect_timeout,
                ids=self.ids,
                emit=self.events.append,
                move=self._move,
                pong=self.reconnection.pong,
                mask=self._mask,
                generation=self._generation,
                greets=self._greets,
                is_backfilled=self._is_backfilled,
            )
        )
        if self._new_session:
            self._new_session = False
            self.link.joining.forget_session()
        self._move("connected", "connected", now)
        self.link.joining.open(token, now)

    def connection_lost(self, failure: Failure, now: Now) -> Decision:
        """Handle the end of a connection; the decision says whether and when to try again."""
        self._look_at_clocks(now)
        failure, means = by_rules(failure, self.dialect.ends)
        if self.link is None:
            failure = self.inbound.not_reached(failure, self.dialect)
        generation = self._generation if self.link is not None else 0
        ghost = self._ghost is not None and now.since(self._ghost) <= self._reconnect.grace
        failure, self.link = (
            self.link.lost(failure, now) if self.link is not None else failure,
            None,
        )
        has_slept = generation > 0 and self._slept == generation
        poison = self.outbound.link_lost(failure, now, generation, has_slept=has_slept)
        if self.state in {
            BridgeState.CLOSING,
            BridgeState.CLOSED,
            BridgeState.FAILED,
            BridgeState.DRAINING,
        }:
            return Decision(False, 0.0, 0, self.reason, failure)
        decision = self.reconnection.lost(failure, now, poison=poison, ghost=ghost)
        if generation:
            # A connection that the server itself ended leaves no ghost: nothing of it can arrive there any more.
            self._ghost = None if failure.details.get("close_by") == "peer" else now
            self.events.append(Disconnected(at=now.at, reason=decision.reason, failure=failure))
        if not decision.retry:
            self.fail(decision.failure, decision.reason, now)
            return decision
        self._new_session |= decision.new_session or self._features.wants_new_session
        if decision.new_session or means == "position_gone":
            self.inbound.forget_positions(
                "new_session" if decision.new_session else "position_gone"
            )
        self._move("suspended" if decision.suspended else "lost", decision.reason, now)
        if decision.suspended:
            self._tell_suspended(decision.failure, decision.reason, now)
        self.events.append(
            ReconnectScheduled(
                at=now.at,
                attempt=decision.attempt,
                wait=decision.wait,
                reason="rate_capped" if decision.is_capped else decision.reason,
                failure=failure,
            )
        )
        return decision

    def _tell_suspended(self, failure: Failure | None, reason: str, now: Now) -> None:
        if not self._is_suspended_reported:
            self._is_suspended_reported = True
            self.events.append(
                Suspended(
                    at=now.at, reason=reason, failure=failure, attempts=self.reconnection.failed
                )
            )

    def fail(self, failure: Failure, reason: str, now: Now) -> None:
        """End without the user's request: all waiters get the reason.

        No effect once the end has started.
        """
        if (self.state, "fatal") not in TRANSITIONS:
            return
        self.failure = failure
        self.link = None
        self._move("fatal", reason, now)
        self.events.append(GaveUp(at=now.at, name="bridge", failure=failure))
        self.undelivered += self.outbound.end_all(
            failure, now, is_stored=self._store.is_durable, is_loss=True
        )

    # ---- a running connection ---------------------------------------------------------------------------------

    def receive(self, frame: str | bytes, now: Now) -> None:
        """A frame arrived. Never raises for what it contains; while closing it is ignored."""
        link = self.link
        if link is not None and self.state in LINKED:
            if link.first is not None:
                link.first.came(frame)
            link.receive(frame, now)

    def frames_to_send(self, now: Now) -> list[Frame]:
        """What to write now; [] when there is nothing. What it returns counts as handed out."""
        if self.link is None or self.link.death is not None or self.state not in LINKED:
            return []
        self.outbound.expire(now)
        return self.link.frames_to_send(now, sending=self.state in SENDING)

    @property
    def wants_to_send(self) -> bool:
        """Return whether `frames_to_send` would return something."""
        link = self.link
        if link is None or self.state not in LINKED:
            return False
        if link.wire.control or link.wire.ping_due or self.inbound.acknowledgements.ready:
            return True
        outbound = self.outbound
        if self.state not in SENDING or not (outbound.requests or outbound.outbox.queued):
            return False
        return (outbound.next_entry() or outbound.outbox.to_mark()) is not None

    def to_mark(self) -> int | None:
        """Return the number to mark in the store before the next send; None: nothing waits."""
        if self.link is None or self.link.death is not None or self.state not in SENDING:
            return None
        return self.outbound.outbox.to_mark()

    def next_timer(self) -> float | None:
        """When `handle_timer` must be called next (monotonic), None if nothing is due."""
        timers = [self.outbound.outbox.deadlines.next()]
        if self.link is not None:
            # While a link is being closed nothing is due any more, so nothing may be requested.
            timers.append(self.link.next_timer() if self.state in LINKED else None)
        elif self.state is BridgeState.BACKOFF:
            timers.append(self.reconnection.suspends_at())
        return min((timer for timer in timers if timer is not None), default=None)

    @property
    def look_every(self) -> float | None:
        """Return the most seconds between calls of `handle_timer`; None when not linked."""
        has_heartbeat = self.link is not None and self.link.wire.heartbeat is not None
        return _LOOK if has_heartbeat and self.state in LINKED else None

    def handle_timer(self, now: Now) -> None:
        self._look_at_clocks(now)
        self.outbound.expire(now)
        if self.link is not None:
            if self.state in LINKED:
                self.link.handle_timer(now)
            return
        suspends_at = self.reconnection.suspends_at()
        if (
            self.state is BridgeState.BACKOFF
            and suspends_at is not None
            and now.mono >= suspends_at
        ):
            self._move("suspended", "grace_passed", now)
            self._tell_suspended(None, "grace_passed", now)

    def probe(self, doubt: Literal["probe_unanswered", "health_check_failed"], now: Now) -> None:
        """Send a probe, one at a time: the link may be dead.

        `doubt` is the reason if it does not answer.

        Before authentication is over a ping is not legal, and the handshake has a deadline of its
        own; while draining or closing no other link would follow. Then, and without a ping in the
        dialect, nothing happens.
        """
        heartbeat = self.link.wire.heartbeat if self.link is not None else None
        if (
            self.link is None
            or heartbeat is None
            or self.state not in PROBED
            or heartbeat.is_probing
        ):
            return
        self.link.wire.ping("probe", now, doubt)

    def may_read(self, now: Now, *, iterating: bool) -> bool:
        """Return whether the driver may read the next frame.

        Check before each; when refused, check again after the consumer took a message.
        """
        if self.link is None or self.link.death is not None:
            return False
        return self.reading.may_read(
            self.link, self.inbound.inbox, self.outbound, now, is_iterating=iterating
        )

    # ---- the end ----------------------------------------------------------------------------------------------

    def drain(self, now: Now) -> None:
        """Accept no new sends; what is queued still goes. From FLUSHING or READY.

        What was handed out is asked about at once.
        """
        self._move("drain", "user", now)
        if self.link is not None:
            self.link.wire.barrier_due = now.mono

    def close(self, now: Now) -> list[Entry]:
        """Begin the end. Returns the sends whose outcome could not be settled."""
        if self.state in {BridgeState.CLOSING, BridgeState.CLOSED}:
            return []
        self._move("close", "user", now)
        closed = Failure.of("CONN_NOT_CONNECTED", "the bridge client was closed")
        ended = self.outbound.end_all(
            self.failure or closed, now, is_stored=self._store.is_durable, is_loss=False
        )
        return [*self.undelivered, *ended]

    def closed(self, now: Now) -> None:
        if self.state is BridgeState.CLOSING:
            self.link = None
            self._move("closed", "closed", now)
            self.events.append(Closed(at=now.at, reason="user"))

    # ---- small steps ------------------------------------------------------------------------------------------

    def _move(self, trigger: str, reason: str, now: Now) -> None:
        previous, self.state = self.state, TRANSITIONS[self.state, trigger]
        self.reason = reason
        if self.link is not None and self.state in LINKED:
            self.link.joining.state = self.state
        self.events.append(
            StateChanged(at=now.at, previous=previous, state=self.state, reason=reason)
        )
        if trigger == "flushed" and self.link is not None:
            self.link.first = None
            self.reconnection.ready(now)
            self._is_suspended_reported = False

    def _look_at_clocks(self, now: Now) -> None:
        drift = now.wall - now.mono
        if self._drift is not None and abs(drift - self._drift) > _JUMP:
            self.events.append(ClockJumped(at=now.at, seconds=drift - self._drift))
            for entry in tuple(self.outbound.outbox.queued):
                if entry.is_expired(
                    now
                ):  # a machine that slept has aged, though its monotonic clock stood still
                    self.outbound.outbox.end_expired(entry)
            if self.link is not None:
                self._slept = self._generation
                # Even if a probe is out: its pong may have come before the jump.
                self.link.wire.ping("probe", now, "suspected_sleep")
        self._drift = drift


def _link_of(parts: LinkParts) -> AnyLink:
    if parts.dialect.decode is None:
        from .envelope_link import EnvelopeLink  # here, as below: most clients need one kind only

        return EnvelopeLink(parts)
    from .fact_link import FactLink

    return FactLink(parts)
