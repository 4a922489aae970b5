"""One connection, from its first byte to its last: which frame goes where, what time asks for, what to write next.

A link is made when a transport is connected and thrown away when it is lost; nothing of it (pings, evidence, deadlines)
survives, so nothing can leak into the next one. What survives is in Inbound and Outbound. Rule: a link never closes
itself; it names its `death`, and the driver aborts the transport.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ..classification import classify_error_payload
from ..errors import Failure
from ..telemetry.events import BridgeState, Event, MessageRejected
from .expectations import Expectations, Held
from .features import is_unknown_type, refers_to
from .frames import Body, Encoder, InvalidFrameError, decode, fields_of, raw_of
from .joining import SESSION_CODES, Joining
from .outbox import BATCH_BYTES, BATCH_FRAMES
from .transitions import EXPECTED
from .wire import Wire


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .clock import Identifiers, Now
    from .facts import Fact
    from .features import Features
    from .inbound import Inbound
    from .outbound import Outbound
    from .policies import Dialect, Heartbeat, Replay


_MAY_BE_ACKED: Final = 64  # entries that wait for a first ack, of a server without pings
#: What servers call a refusal of credentials, besides the dialect's own name; read while authenticating only.
_AUTH_REFUSAL: Final = re.compile(
    r"(?:auth|authentication|login|connection)[_.-](?:error|failed|failure|rejected|refused|denied|required)"
    r"|unauthori[sz]ed|unauthenticated|access[_.-]denied|forbidden",
    re.IGNORECASE,
)


class Link:
    """The protocol on one connection. `move(trigger, reason, now)` is the session's; `death` says why it must end."""

    def __init__(
        self,
        inbound: Inbound,
        outbound: Outbound,
        *,
        dialect: Dialect,
        heartbeat: Heartbeat,
        replay: Replay,
        features: Features,
        handshake_timeout: float,
        ids: Identifiers,
        emit: Callable[[Event], None],
        move: Callable[[str, str, Now], None],
        pong: Callable[[], None],
        mask: Callable[[Failure], Failure],
        generation: int,
        greets: bool = False,
    ) -> None:
        self.death: Failure | None = None
        self.generation = generation
        self.greeting = Expectations(replay) if greets else None
        self.wire = Wire(ids, heartbeat, dialect.ping)
        self._max_seconds, self._asking = replay.max_seconds, features.asking
        self._in, self._out = inbound, outbound
        self._dialect, self._features, self._read = dialect, features, dialect.decode
        self._emit, self._ponged, self._mask = emit, pong, mask
        self.joining = Joining(
            inbound,
            outbound,
            self.wire,
            dialect=dialect,
            replay=replay,
            features=features,
            timeout=handshake_timeout,
            ids=ids,
            emit=emit,
            move=move,
            die=self.die,
            is_content=self._is_content,
            counts=self._counts,
            greeting=self.greeting,
        )
        fields = ("auth_ack", "auth_error", "joined", "replay", "pong", "ack", "error")
        names = ((field, getattr(dialect, field)) for field in fields)
        self._fields: dict[str, str] = {name: field for field, name in names if name is not None}
        self._handlers: dict[str, Callable[[dict[str, Any], Now], None]] = {
            "auth_ack": self._on_auth_ack,
            "auth_error": self._on_auth_error,
            "joined": self._on_joined,
            "replay": self.joining.on_replay,
            "pong": self._on_pong,
            "ack": self._on_ack,
            "error": self._on_error,
        }

    @property
    def state(self) -> BridgeState:
        """The state this link is in; the session sets it."""
        return self.joining.state

    @state.setter
    def state(self, state: BridgeState) -> None:
        self.joining.state = state

    @property
    def awaits_greeting(self) -> bool:
        """Has the user to say what is said at each connection?"""
        return self.greeting is not None and self.greeting.is_open

    def greeted(self, now: Now) -> None:
        """The user has said it: what nobody waited for goes to the reader, and the join begins."""
        if self.greeting is not None and self.greeting.is_open:
            for held in self.greeting.close():
                self._content(*held, now)
            self.joining.join(now)

    # ---- the driver's verbs -----------------------------------------------------------------------------------

    def receive(self, frame: str | bytes, now: Now) -> None:
        """One frame of the other side; whatever it holds, nothing is raised."""
        if self._read is not None:
            self._receive_facts(self._read, frame, now)
            return
        try:
            body = decode(frame)
        except InvalidFrameError as error:
            self._reject(error.failure, now)
            return
        type_ = body["type"]
        field = self._fields.get(type_)
        if (
            field is None
            and self.state is BridgeState.AUTHENTICATING
            and _AUTH_REFUSAL.fullmatch(type_) is not None
        ):
            self._on_auth_error(body, now)
        elif field is None:
            self._content(type_, body, frame if isinstance(frame, str) else frame.decode(), now)
        elif field in EXPECTED[self.state]:
            self._handlers[field](body, now)
        else:
            self._reject(self._out_of_sequence(type_), now)

    def _receive_facts(
        self, read: Callable[[str | bytes], tuple[Fact, ...]], frame: str | bytes, now: Now
    ) -> None:
        """One frame of a dialect with frames of its own. A frame that its `decode` cannot read is rejected, and the link goes on."""
        text = frame if isinstance(frame, str) else frame.decode("latin-1")
        try:
            facts = tuple(read(frame))
        except Exception as error:  # noqa: BLE001 -- a function of the user's, on what a server of anybody's has sent
            reason = (
                f"expected a frame of this dialect, got one that its decode refused: {type(error).__name__}"
            )
            self._reject(Failure.of("PROTO_INVALID_FRAME", reason, cause=error), now)
            return
        for fact in facts:
            self._content(fact.type, Body(fact), text, now)

    def frames_to_send(self, now: Now, *, sending: bool) -> list[str]:
        """What goes on the wire now, control frames first. Entries count as WRITTEN once this has returned them."""
        frames = list(self.wire.control)
        self.wire.control.clear()
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
        if self.state is BridgeState.FLUSHING:
            self.joining.flushed(now)
        return frames

    def sent(self) -> bool:
        """The transport has written what it was given. True if that settles something: where nothing can ever confirm it."""
        if self.wire.heartbeat is not None or self.wire.acks_seen:
            return False
        return self._out.outbox.let_go(self.generation, 0 if self._dialect.ack is None else _MAY_BE_ACKED)

    def next_timer(self) -> float | None:
        """When `handle_timer` wants to be called (monotonic)."""
        timers = [self.joining.deadline, self.wire.barrier_due, self.joining.replay_deadline]
        if self.wire.heartbeat is not None:
            timers.append(self.wire.heartbeat.next_timer())
        return min((timer for timer in timers if timer is not None), default=None)

    def handle_timer(self, now: Now) -> None:
        """Time passed: deadlines, barriers, pings, verdicts."""
        joining, wire = self.joining, self.wire
        if joining.deadline is not None and now.mono >= joining.deadline:
            missing = joining.missing(now)
            if missing is not None:
                self.die(missing)
            return
        if joining.replay_deadline is not None and now.mono >= joining.replay_deadline:
            joining.timed_out(now)
        if wire.barrier_due is not None and now.mono >= wire.barrier_due:
            wire.barrier_due = None
            if self._out.outbox.unconfirmed:
                wire.ping("barrier", now)
        if wire.heartbeat is not None:
            due = wire.heartbeat.check(now.mono)
            if due == "ping":
                wire.ping("beat", now)
            elif wire.heartbeat.verdict is not None:
                self.die(wire.heartbeat.verdict)

    def lost(self, failure: Failure, now: Now) -> Failure:
        """This link ended, perhaps of what was asked for on it. Returns its failure, or the one that ends the client."""
        joining = self.joining
        return self._asking.lost(
            failure,
            now,
            awaits=joining.awaited.is_open,
            is_joining=joining.rejoin is not None,
            is_receiving=joining.awaited.is_receiving(now),
        )

    def receiving(self, since: float, now: Now) -> None:
        """Bytes of a data frame came, which began at `since` (monotonic): they are life, for as long as one answer may take."""
        if now.mono - since <= self._max_seconds:
            if self.wire.heartbeat is not None:
                self.wire.heartbeat.alive(now.mono)
            self.joining.receiving(since, now)

    def probe(self, doubt: str, now: Now) -> None:
        """Somebody doubts that this link lives: ask for a sign of life with a short timeout; `doubt` is why, if none comes."""
        self.wire.ping("probe", now, doubt)

    def die(self, failure: Failure) -> None:
        """This link must end; the first reason stands."""
        if self.death is None:
            self.death = failure

    # ---- frames of the other side -----------------------------------------------------------------------------

    def _content(self, type_: str, body: dict[str, Any], text: str, now: Now) -> None:
        if self.greeting is not None and self.greeting.is_open:
            self.greeting.hold(Held(type_, body, text))
            if self.greeting.overflowed:
                more = "more arrived during on_connect than the side buffer may hold"
                self.die(Failure.of("SYS_INBOX_FULL", more))
            return
        if self._out.may_concern(body) and self._is_answer(type_, body, now):
            return
        rejoin = self.joining.rejoin
        if type_.startswith(self._dialect.unreplayed):
            self._in.transient(type_, body, text)
        elif rejoin is not None:
            rejoin.hold(self._in.hold(type_, body, text, counts=self._counts(type_, body)))
            if rejoin.overflowed:
                self.joining.advance(now)
        elif self._counts(type_, body):
            self._in.live(type_, body, text, now)
        else:
            self._in.transient(type_, body, text)

    def _counts(self, type_: str, body: dict[str, Any]) -> bool:
        """Is this message part of the position? Errors and replies to our sends are not: servers differ in replaying them."""
        return type_ != self._dialect.error and not self._out.replies_to_send(body.get("id"))

    def _is_content(self, body: dict[str, Any], now: Now) -> bool:
        """Does a replayed frame belong into the stream? Acks and answers in it settle what they are about (reconcile)."""
        type_ = body["type"]
        field = self._fields.get(type_)
        if field == "ack":
            self._out.ack(fields_of(body))
        elif field == "error":
            self._is_answer(type_, body, now)
        elif field is None and not type_.startswith(self._dialect.unreplayed):
            identity = body.get("id")
            if identity is None or not self._in.watermark.is_used_up((type_, identity)):
                return not self._is_answer(type_, body, now)
        return False

    def _is_answer(self, type_: str, body: dict[str, Any], now: Now) -> bool:
        """Settle what `body` answers; an answer to a request is remembered with the position, for replays to come."""
        if not self._out.match(type_, body, now):
            return False
        if body.get("id") is not None:
            self._in.watermark.use_up((type_, body["id"]))
        return True

    def _on_auth_ack(self, body: dict[str, Any], now: Now) -> None:
        self.joining.server_stamp = body.get("timestamp")
        self.joining.authenticated(fields_of(body), now)

    def _on_auth_error(self, body: dict[str, Any], now: Now) -> None:
        # While authenticating it is an answer about the credentials, whatever code the server gives it or leaves out.
        failure = self._mask(classify_error_payload(fields_of(body)))
        if self.state is not BridgeState.AUTHENTICATING:
            self.die(failure)
            return
        is_passing = failure.retryable or failure.retry_after is not None
        if failure.code == "SYS_UPSTREAM_REJECTED" and not is_passing and not is_unknown_type(failure):
            failure = self._mask(classify_error_payload(fields_of(body), unknown="AUTH_INVALID_TOKEN"))
        self.joining.auth_refused(failure, now)

    def _on_joined(self, body: dict[str, Any], now: Now) -> None:
        self.joining.on_joined(fields_of(body), now)

    def _on_pong(self, body: dict[str, Any], now: Now) -> None:
        self.joining.server_stamp = body.get("timestamp") or self.joining.server_stamp
        answered = self.wire.pong(body.get("id"))
        if not answered:
            self._out.stray_pongs += 1
        for ping in answered:
            self._ponged()
            if ping.seq and (body.get("id") is not None or not self._out.stray_pongs):
                self._out.outbox.confirm_through(ping.seq, self.generation)
            self.joining.on_pong(ping.id, now)

    def _on_ack(self, body: dict[str, Any], now: Now) -> None:
        del now
        self.wire.acks_seen |= bool(self._out.ack(fields_of(body)))

    def _on_error(self, body: dict[str, Any], now: Now) -> None:
        payload, joining, dialect = fields_of(body), self.joining, self._dialect
        if self.state is BridgeState.AUTHENTICATING:  # nothing else was said that it could be about
            self._on_auth_error(body, now)
            return
        failure = self._mask(classify_error_payload(payload))
        pings = self.wire.heartbeat
        if refers_to(dialect.join, (joining.join_id,), body, payload):
            joining.refused(failure, now)
        elif refers_to(dialect.request_replay, joining.asks, body, payload):
            joining.replay_refused(failure, now)
        elif pings is not None and refers_to(dialect.ping, pings, body, payload):
            joining.ping_refused(failure, now)
        elif self._is_answer(body["type"], body, now) or self._out.refused(
            payload.get("request_type"), failure, self.generation, now
        ):
            if failure.code in SESSION_CODES and self._is_about_session(payload):
                joining.session_lost(failure, now)
        elif failure.code in SESSION_CODES and self._is_about_session(payload):
            joining.session_lost(failure, now)
        elif failure.code.startswith("AUTH_") and (
            failure.code != "AUTH_FORBIDDEN" or "request_type" not in payload
        ):
            self.die(failure)
        else:  # an error about nothing we sent is news for the consumer, in its place in the stream
            self._content(body["type"], body, Encoder.text(raw_of(body)), now)

    def _is_about_session(self, payload: Mapping[str, Any]) -> bool:
        """Is an error of the session's codes about the session that this client has joined?

        Where there are none to join, or where it names another one, it is about something of the user's.
        """
        named = payload.get("session_id")
        return self._features.join is not None and named in (None, self._in.watermark.session_id)

    # ---- small steps ------------------------------------------------------------------------------------------

    def _reject(self, failure: Failure, now: Now) -> None:
        self._in.rejected += 1
        self._emit(MessageRejected(at=now.at, failure=failure))

    def _out_of_sequence(self, type_: str) -> Failure:
        names = tuple(name for name, field in self._fields.items() if field in EXPECTED[self.state])
        return Failure.of(
            "PROTO_SEQUENCE_ERROR",
            f"expected one of {', '.join(names)}, got {type_} while {self.state.value}",
            details={"expected": names, "received": type_, "phase": self.state.value},
        )
