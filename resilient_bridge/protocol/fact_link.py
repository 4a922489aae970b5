"""A link whose frames are read and written by the functions of a dialect: how each fact is handled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from ..failure import Failure, ProtocolError, classify_error_payload
from ..telemetry.events import AcknowledgementLate, BridgeState, Verdict
from .border import facts_of, named_by, refusal_of
from .entries import EntryState
from .expectations import Held
from .fact_wire import FactWire
from .facts import (
    Acked,
    Acknowledge,
    Challenge,
    Closing,
    Finished,
    Hello,
    Moved,
    Ping,
    Pong,
    Received,
    Refused,
    Replayed,
    Reply,
    Unreadable,
)
from .frames import Body
from .heartbeat import Silence
from .link import Link
from .policies.ends import by_rules
from .positioned import Positioned
from .recovery import Hole, Incoming
from .resuming import Resuming


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .clock import Now
    from .entries import Entry
    from .facts import Fact, Frame, Record
    from .join import LinkParts


class FactLink(Link[Resuming]):
    """The protocol on one connection with a server of frames of its own.

    `closing`: the server has announced its end.
    """

    wire: FactWire

    def __init__(self, parts: LinkParts) -> None:
        super().__init__(parts)
        dialect = parts.dialect
        assert dialect.decode is not None  # noqa: S101 -- the session has looked
        self._decode: Callable[[Frame], Iterable[Fact]] = dialect.decode
        policy = dialect.positions
        self._positioned = None if policy is None else Positioned(parts.inbound, dialect, policy)
        self.wire = FactWire(parts.ids, parts.heartbeat, dialect, self._record, self.die)
        self.closing = False
        self._acknowledgements = parts.inbound.acknowledgements
        self._silence: Silence | None = None
        self._doubted_at = -1  # the number of the event after which the reader was told of a doubt
        self._is_torn = False  # could a part of the frame that is being read not be read?
        self.joining = Resuming(parts, self.wire, self._positioned, self.die, self.greeting)
        self._handlers: dict[type, Callable[[Any, Frame, Now], None]] = {
            Received: self._on_event,
            Hello: self._on_hello,
            Challenge: self._on_challenge,
            Moved: self._on_moved,
            Finished: self._on_finished,
            Replayed: self._on_replayed,
            Reply: self._on_reply,
            Acked: self._on_acked,
            Refused: self._on_refused,
            Unreadable: self._on_unreadable,
            Closing: self._on_closing,
            Ping: self._on_ping,
            Pong: self._on_pong,
        }

    def _record(self) -> Record:
        return self.joining.record()

    def receive(self, frame: str | bytes, now: Now) -> None:
        """Process one frame.

        What the dialect cannot read of it is rejected, and the link continues.
        """
        if self._silence is not None:
            self._silence.alive(now.mono)
        self._is_torn = False
        for fact in facts_of(self._decode, frame, self._dialect.positions):
            if self.death is not None:
                # the link has to end: later facts must not be taken for the next ones in order
                return
            self._handlers[type(fact)](fact, frame, now)

    def begin_backfill(self) -> Record:
        self.joining.begin_backfill()
        return self._record()

    def backfilled(self, frame: str | bytes, now: Now) -> bool:
        """The backfill has fetched a frame, which may hold several events.

        Returns whether that was the last that is needed.

        Raises ProtocolError for what the dialect cannot read.
        """
        is_bridged = False
        for fact in facts_of(self._decode, frame, self._dialect.positions):
            if isinstance(fact, Received):
                is_bridged = self.joining.backfilled(Incoming(fact, frame), now)
            elif isinstance(fact, Unreadable):
                raise ProtocolError(refusal_of(fact)) from fact.cause
        return is_bridged

    def refuse(self, failure: Failure, now: Now) -> None:
        """Tell that a value of the user's backfill was rejected, and why."""
        self._reject(failure, now)

    def _on_unreadable(self, part: Unreadable, _frame: Frame, now: Now) -> None:
        """A part of a frame, or all of it, is rejected.

        It may have been an event. Contiguous numbers show that; elsewhere the reader is told in its
        place that something may be missing.
        """
        self._is_torn = True
        self._reject(self._mask(refusal_of(part)), now)
        if self._positioned is None or self._positioned.policy.contiguous:
            return
        if self.joining.is_open:
            self.joining.unreadable()
        elif self._doubted_at != self._in.watermark.accepted:  # once between two events
            self._doubted_at = self._in.watermark.accepted
            self._positioned.report(Hole(Verdict.UNKNOWN, "unreadable"))

    def _on_event(self, event: Received, text: Frame, now: Now) -> None:
        if self.greeting is not None and self.greeting.is_open:
            self._hold(Held(event.type, Body(event), text))
            return
        # An event nearly always answers nothing; then no Reply is created.
        is_unknown = type(event.id) is str and event.id not in self._out.known.by_id
        if event.id is not None and not is_unknown and self._find(event.id) is not None:
            reply = Reply(to=event.id, raw=event.raw, type=event.type, payload=event.payload)
            if self._replied(reply, now):
                return
        if event.echo is not None:
            self._echoed(event.echo, now)
        if event.ack is not None and self._dialect.acknowledges is not None:
            self._require_ack(event, now)
        if self.joining.is_open:
            self.joining.hold(Incoming(event, text), now)
        elif self._positioned is None:
            self._in.live(event.type, Body(event), text, now)
        else:
            failure = self._positioned.live(event, text, now)
            if failure is not None:
                self.die(failure)

    def _content(self, held: Held, now: Now) -> None:
        body = held.body
        self._on_event(body.fact if isinstance(body, Body) else Received(raw=body), held.text, now)

    def _require_ack(self, event: Received, now: Now) -> None:
        """The server wants an acknowledgement of this event, each time that it sends it."""
        acknowledgements = self._acknowledgements
        if self._dialect.acknowledges != "taken" or event.id is None:
            self.wire.express(Acknowledge(event.ack))
            return
        key = (event.type, event.id)
        if key in acknowledgements.open or not self._in.was_accepted(key):
            within = self._dialect.acknowledge_within
            acknowledgements.open[key] = event.ack, None if within is None else now.mono + within
        else:
            acknowledgements.ready.append(event.ack)

    def _on_hello(self, hello: Hello, _text: Frame, now: Now) -> None:
        self._listen(hello, now)
        self.joining.on_hello(hello, now)

    def _on_challenge(self, challenge: Challenge, _text: Frame, now: Now) -> None:
        self._listen(challenge, now)
        self.joining.on_challenge(now)

    def _listen(self, greeting: Hello | Challenge, now: Now) -> None:
        silence = greeting.silence
        limit = silence if silence is not None else self._dialect.silence
        if limit is not None and (self._silence is None or silence is not None):
            self._silence = Silence(limit, now.mono)
        if greeting.ping_every is not None:
            self.wire.ping_every(greeting.ping_every, now)

    def _on_moved(self, fact: Moved, text: Frame, now: Now) -> None:
        if self._positioned is None or self._is_torn:
            return  # what it moves over may be what could not be read
        if self.joining.is_open:
            marker = Received(raw=None, position=fact.position, channel=fact.channel)
            self.joining.hold(Incoming(marker, text, is_marker=True), now)
        else:
            self._positioned.moved(fact)

    def _on_finished(self, fact: Finished, _text: Frame, _now: Now) -> None:
        if self._positioned is not None:
            self._positioned.finished.append(fact.channel)
            if not self.joining.is_open:
                self._positioned.finish()

    def _on_replayed(self, fact: Replayed, _text: Frame, now: Now) -> None:
        if self.joining.is_open:
            self.joining.on_replayed(fact, now)
        elif self._positioned is not None:
            self._positioned.stated(fact)

    def _on_reply(self, reply: Reply, text: Frame, now: Now) -> None:
        if not self._replied(reply, now):
            self._on_event(
                Received(raw=reply.raw, type=reply.type, payload=reply.payload), text, now
            )

    def _on_acked(self, fact: Acked, _text: Frame, now: Now) -> None:
        """An acknowledgement of none of our sends, or a repeated one, changes nothing."""
        found = False
        for name in fact.ids:
            entry = self._find(name)
            if entry is not None and not entry.is_request:
                self._confirm(entry, "applied")
                found = True
            else:
                self._out.stray_acks += 1
        if fact.echo is not None:
            is_ours = self._echoed(fact.echo, now)
            self._out.stray_acks += not is_ours
            found |= is_ours
        if fact.through is not None:
            found |= bool(self._out.outbox.unconfirmed)
            self._out.outbox.confirm_through(fact.through, self.generation)
        self.wire.acks_seen |= found

    def _replied(self, reply: Reply, now: Now) -> bool:
        """Return True if the reply is consumed.

        The answer to a request is; one that answers nothing of ours is not.
        """
        entry = self._find(reply.to)
        if entry is None:
            return False
        if reply.duplicate:
            self._out.dedupe.shown()
        if not entry.is_request:
            self._confirm(entry, "read" if reply.duplicate else "applied")
            return True
        body = Body(Received(raw=reply.raw, type=reply.type, payload=reply.payload))
        return self._out.answered_request(entry, reply.type, body, now, is_error=False)

    def _echoed(self, echo: str, now: Now) -> bool:
        """The oldest message of ours with this content has arrived.

        Returns False if there is none.
        """
        entry = self._named_by(echo, now)
        if entry is None:
            return False
        self._confirm(entry, "applied")
        return True

    def _named_by(self, echo: str, now: Now) -> Entry | None:
        """Return the oldest message of ours that the server knows by this text."""
        content = self._dialect.echo
        if content is None:
            return None
        for entry in self._out.outbox.written():
            named, failure = named_by(content, entry.frame)
            if failure is not None:
                self._reject(failure, now)
            elif named is not None and named == echo:
                return entry
        return None

    def _find(self, name: str | int) -> Entry | None:
        entry = self._out.known.by_name(name)
        return None if entry is None or entry.state is EntryState.QUEUED else entry

    def _confirm(self, entry: Entry, how: str) -> None:
        if not entry.is_settled:
            self._out.outbox.confirm(entry, how)

    def _on_refused(self, fact: Refused, text: Frame, now: Now) -> None:
        failure = self._mask(self._failure_of(fact))
        if (
            self.joining.state is BridgeState.AUTHENTICATING
            or by_rules(failure, self._dialect.ends)[1] is not None
        ):
            self.die(failure)
        elif not self._refused(fact, failure, now):
            payload = {"code": fact.code, "message": fact.text}
            self._on_event(
                Received(raw=fact.raw, type=fact.type or "error", payload=payload), text, now
            )
        self.die_if_fatal(failure)

    def _refused(self, fact: Refused, failure: Failure, now: Now) -> bool:
        """Refuse the message that it names, by `to` or `echo`, or the only waiting one of its type.

        Returns True if the fact is consumed by that.
        """
        if fact.to is None and fact.echo is None:
            return self._out.refused(fact.type, failure, self.generation, now)
        by_echo = None if fact.echo is None else self._named_by(fact.echo, now)
        entry = by_echo if fact.to is None else self._find(fact.to)
        if entry is None or entry.is_settled:
            return False
        if entry.is_request:
            self._out.end_request(entry, EntryState.DEAD, failure)
        else:
            self._out.outbox.kill(entry, failure)
            self._out.quarantined(entry, "refused", failure, now)
        return True

    def _failure_of(self, fact: Refused) -> Failure:
        payload: dict[str, Any] = {"code": fact.code, "message": fact.text or fact.code}
        if fact.retry_after is not None:
            payload["retry_after"] = fact.retry_after
        if fact.suggestions:
            payload["suggestions"] = list(fact.suggestions)
        if fact.severity:
            payload["severity"] = fact.severity
        # While authenticating it is an answer about the credentials, whatever code the server gives
        # it.
        is_about_us = (
            self.joining.state is BridgeState.AUTHENTICATING and self.joining.has_introduced
        )
        failure = classify_error_payload(
            payload, **({"unknown": "AUTH_INVALID_TOKEN"} if is_about_us else {})
        )
        return evolve(failure, details={**failure.details, "server_code": fact.code})

    def _on_closing(self, _fact: Closing, _text: Frame, _now: Now) -> None:
        self.closing = True

    def _on_ping(self, ping: Ping, _text: Frame, _now: Now) -> None:
        number, record = self.wire.number(), self._record()
        self.wire.express(Pong(id=ping.id or None, body=ping.body, number=number, record=record))

    def _on_pong(self, pong: Pong, _text: Frame, now: Now) -> None:
        self._answered_pings(pong.id, now)

    def frames_to_send(self, now: Now, *, sending: bool) -> list[Frame]:
        """Return the frames to send now; first the acknowledgements due for events that were read."""
        for ack in self._acknowledgements.ready:
            self.wire.express(Acknowledge(ack))
        self._acknowledgements.ready.clear()
        return super().frames_to_send(now, sending=sending)

    @property
    def _confirms(self) -> bool:
        return (self._pongs_confirm and not self.wire.lacks_pings) or self._dialect.confirms

    def pause(self) -> None:
        super().pause()
        if self._silence is not None:
            self._silence.pause()

    def resume(self, now: Now) -> None:
        super().resume(now)
        if self._silence is not None:
            self._silence.resume(now.mono)

    def next_timer(self) -> float | None:
        silence = None if self._silence is None else self._silence.next_timer()
        timers = (super().next_timer(), silence, self._acknowledgements.next_timer())
        return min((timer for timer in timers if timer is not None), default=None)

    def handle_timer(self, now: Now) -> None:
        super().handle_timer(now)
        dead = None if self._silence is None else self._silence.check(now.mono)
        if dead is not None:
            self.die(dead)
        for type_, identity in self._acknowledgements.late(now.mono):
            self._emit(AcknowledgementLate(at=now.at, type=type_, id=identity))
