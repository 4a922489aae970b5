"""A link whose frames are envelopes with the names of a dialect: dispatches each frame, and finds
what an error is about.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ..failure import Failure, classify_error_payload
from ..telemetry.events import BridgeState
from .expectations import Held
from .features import is_unknown_type, refers_to
from .frames import Encoder, InvalidFrameError, decode, fields_of, message_from, raw_of
from .joining import SESSION_CODES, Joining
from .link import Link
from .merge import Item
from .transitions import EXPECTED


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .clock import Now
    from .facts import Frame
    from .join import LinkParts


#: What servers call a refusal of credentials, besides the dialect's own name; read while authenticating only.
_AUTH_REFUSAL: Final = re.compile(
    r"(?:auth|authentication|login|connection)[_.-](?:error|failed|failure|rejected|refused|denied|required)"
    r"|unauthori[sz]ed|unauthenticated|access[_.-]denied|forbidden",
    re.IGNORECASE,
)


class EnvelopeLink(Link[Joining]):
    """The protocol on one connection with a server that speaks envelopes."""

    def __init__(self, parts: LinkParts) -> None:
        super().__init__(parts)
        self.joining = Joining(
            parts,
            self.wire,
            self.die,
            self.greeting,
            is_content=self._is_content,
            counts=self._counts,
        )
        self._handlers: dict[str, Callable[[dict[str, Any], Now], None]] = {
            "auth_ack": self._on_auth_ack,
            "auth_error": self._on_auth_error,
            "joined": self._on_joined,
            "replay": self.joining.on_replay,
            "pong": self._on_pong,
            "ack": self._on_ack,
            "error": self._on_error,
        }
        names = ((field, getattr(parts.dialect, field)) for field in self._handlers)
        self._fields: dict[str, str] = {name: field for field, name in names if name is not None}

    def receive(self, frame: str | bytes, now: Now) -> None:
        try:
            body = decode(frame)
        except InvalidFrameError as error:
            self._reject(error.failure, now)
            return
        type_ = body["type"]
        field = self._fields.get(type_)
        if (
            field is None
            and self.joining.state is BridgeState.AUTHENTICATING
            and _AUTH_REFUSAL.fullmatch(type_) is not None
        ):
            self._on_auth_error(body, now)
        elif field is None:
            self._message(type_, body, frame if isinstance(frame, str) else frame.decode(), now)
        elif field in EXPECTED[self.joining.state]:
            self._handlers[field](body, now)
        else:
            self._reject(self._out_of_sequence(type_), now)

    def _content(self, held: Held, now: Now) -> None:
        self._message(*held, now)

    def _message(self, type_: str, body: dict[str, Any], text: Frame, now: Now) -> None:
        if self.greeting is not None and self.greeting.is_open:
            self._hold(Held(type_, body, text))
            return
        concerns_us = self._out.may_concern(body)
        if concerns_us and self._is_answer(type_, body, now):
            return
        rejoin = self.joining.rejoin
        if type_.startswith(self._dialect.unreplayed):
            self._in.transient(type_, body, text)
        elif rejoin is not None:
            rejoin.hold(Item(message_from(type_, body), text, counts=self._counts(type_, body)))
            if rejoin.overflowed:
                self.joining.advance(now)
        elif self._counts(type_, body) if concerns_us else type_ != self._dialect.error:
            self._in.live(type_, body, text, now)
        else:
            self._in.transient(type_, body, text)

    def _counts(self, type_: str, body: dict[str, Any]) -> bool:
        """Return whether this message is part of the position.

        Errors and replies to our sends are not: servers differ in replaying them.
        """
        return type_ != self._dialect.error and not self._out.replies_to_send(body.get("id"))

    def _is_content(self, body: dict[str, Any], now: Now) -> bool:
        """Return whether a replayed frame belongs in the stream.

        Acks and answers in it settle what they are about (reconcile).
        """
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
        """Settle what `body` answers; an answer to a request is remembered with the position, for
        later replays.
        """
        if not self._out.match(type_, body, now):
            return False
        if body.get("id") is not None:
            self._in.watermark.use_up((type_, body["id"]))
        return True

    def _on_auth_ack(self, body: dict[str, Any], now: Now) -> None:
        self.joining.server_stamp = body.get("timestamp")
        self.joining.authenticated(fields_of(body), now)

    def _on_auth_error(self, body: dict[str, Any], now: Now) -> None:
        # While authenticating it is an answer about the credentials, whatever code it has, or
        # without a code.
        failure = self._mask(classify_error_payload(fields_of(body)))
        if self.joining.state is not BridgeState.AUTHENTICATING:
            self.die(failure)
            return
        is_passing = failure.retryable or failure.retry_after is not None
        if (
            failure.code == "SYS_UPSTREAM_REJECTED"
            and not is_passing
            and not is_unknown_type(failure)
        ):
            failure = self._mask(
                classify_error_payload(fields_of(body), unknown="AUTH_INVALID_TOKEN")
            )
        self.joining.auth_refused(failure, now)

    def _on_joined(self, body: dict[str, Any], now: Now) -> None:
        self.joining.on_joined(fields_of(body), now)

    def _on_pong(self, body: dict[str, Any], now: Now) -> None:
        self.joining.server_stamp = body.get("timestamp") or self.joining.server_stamp
        self._answered_pings(body.get("id"), now)

    def _on_ack(self, body: dict[str, Any], _now: Now) -> None:
        self.wire.acks_seen |= bool(self._out.ack(fields_of(body)))

    def _on_error(self, body: dict[str, Any], now: Now) -> None:
        payload = fields_of(body)
        # no other frame was sent that it could be about
        if self.joining.state is BridgeState.AUTHENTICATING:
            self._on_auth_error(body, now)
            return
        failure = self._mask(classify_error_payload(payload))
        self._settle(failure, body, payload, now)
        self.die_if_fatal(failure)

    def _settle(
        self, failure: Failure, body: dict[str, Any], payload: Mapping[str, Any], now: Now
    ) -> None:
        """End what an error is about, or pass it to the consumer."""
        joining, dialect, pings = self.joining, self._dialect, self.wire.heartbeat
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
        # an error about nothing we sent is a message for the consumer, at its position in the
        # stream
        else:
            self._message(body["type"], body, Encoder.text(raw_of(body)), now)

    def _is_about_session(self, payload: Mapping[str, Any]) -> bool:
        """Return whether an error with a session code is about the session that this client has
        joined.

        Where the dialect has no join, or the error names another session, it is about something of
        the user's.
        """
        named = payload.get("session_id")
        return self._features.name("join") is not None and named in (
            None,
            self._in.watermark.session_id,
        )

    def _out_of_sequence(self, type_: str) -> Failure:
        names = tuple(
            name for name, field in self._fields.items() if field in EXPECTED[self.joining.state]
        )
        return Failure.of(
            "PROTO_SEQUENCE_ERROR",
            f"expected one of {', '.join(names)}, got {type_} while {self.joining.state.value}",
            details={"expected": names, "received": type_, "phase": self.joining.state.value},
        )
