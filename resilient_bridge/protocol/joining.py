"""The join of a session on one connection.

Authenticate, join, request what was missed, and end in exactly one verdict.

The join is confirmed by the dialect's answer or by the pong to the ping sent in the same burst: the
seed defines no answer, and a server that works in order has read the join when it answers the ping
behind it. Rule: nothing reaches the consumer before `_resolve`, and `_resolve` runs once per
connection.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ..failure import Failure
from ..telemetry.events import BridgeState, MessageRejected, ReplayIgnored
from .asking import Extent
from .features import is_unknown_type
from .frames import InvalidFrameError, decode, envelope, fields_of, message_from, raw_of
from .join import Join
from .merge import Item
from .messages import as_sent, parse_timestamp
from .rejoin import Rejoin


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .clock import Now
    from .expectations import Expectations
    from .join import LinkParts
    from .wire import Wire


_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_SESSION_ID_LENGTH: Final = 256
_BAD_SESSION_ID: Final = "expected a printable session id in the answer to the join"
SESSION_CODES: Final = frozenset({"SESS_NOT_FOUND", "SESS_CLOSED"})
#: joins in a row that may end because the replay is refused; the next one omits it
_REPLAY_REFUSALS: Final = 2


class Joining(Join):
    """`rejoin` is the evidence while the join runs, None afterwards."""

    def __init__(
        self,
        parts: LinkParts,
        wire: Wire,
        die: Callable[[Failure], None],
        greeting: Expectations | None,
        *,
        is_content: Callable[[dict[str, Any], Now], bool],
        counts: Callable[[str, dict[str, Any]], bool],
    ) -> None:
        super().__init__(parts, die, greeting)
        self.rejoin: Rejoin | None = Rejoin(parts.inbound.watermark, parts.replay)
        self.server_stamp: str | None = None
        self.auth_id = ""
        self.join_id = ""
        self.asks: set[str] = set()
        self._join_ping: str | None = None
        self._ask_pings: dict[str, str] = {}  # ping -> the replay request it was sent behind
        self._remembers = False  # has the server shown that it knows the session?
        self._wire, self._features, self._ids = wire, parts.features, parts.ids
        self._is_content, self._counts = is_content, counts
        self._has_token = False
        self._epoch: str | None = None
        self._forgotten = False
        self._joins_by_auth = False

    # ---- authenticate and join --------------------------------------------------------------------------------

    def open(self, token: str | None, now: Now) -> None:
        """The transport is connected: authenticate first, always."""
        if self._features.name("join") is None and not self._in.watermark.asked_to_join:
            # For such a server acceptance is the join: from here on it may have sent something,
            # even if we receive none of it.
            self._in.watermark.asked_to_join = self._joins_by_auth = True
            self._in.watermark.is_own = False
        self._features.asking.begin(now)
        self._wait_from(now)
        self._has_token = token is not None
        name, answer = self._features.name("auth"), self._features.name("auth_ack")
        # Without a token there is nothing to send, unless the server waits for a greeting before it
        # answers.
        if name is not None and (token is not None or answer is not None):
            self.auth_id = self._wire.say(name, {} if token is None else {"token": token}, now)
        if answer is None:
            self.authenticated({}, now)

    def authenticated(self, payload: Mapping[str, Any], now: Now) -> None:
        stated = payload.get(self._dialect.epoch) if self._dialect.epoch else None
        self._epoch = stated if isinstance(stated, str) else None
        self._features.meet(self._epoch)
        self._out.dedupe.hello(
            payload, is_same_server=self._in.watermark.epoch in (None, self._epoch)
        )
        if self._features.name("ping") is not None:
            self._wire.start_heartbeat(now)
        self._accepted(now)

    def join(self, now: Now) -> None:
        self._join(now, resume=self._in.watermark.joined)

    def _join(self, now: Now, *, resume: bool) -> None:
        self._wait_from(now)
        name = self._features.name("join")
        if name is not None:
            payload: dict[str, str | bool] = {
                "session_id": self._in.watermark.session_id,
                "resume": resume,
            }
            self._in.watermark.asked_to_join = True
            self.join_id = self._wire.say(name, payload, now)
        if self._wire.heartbeat is not None:
            self._join_ping = self._wire.ping("join", now)
        elif not self._features.awaits_joined:
            self.confirmed(now)

    def _lacks(self, now: Now) -> Failure:
        pings = self._wire.heartbeat is not None
        return self._features.missing(
            self.state, self.waits(now), greeted=self.auth_id != "", pings=pings
        )

    def on_joined(self, payload: Mapping[str, Any], now: Now) -> None:
        self._remembers = True
        self._out.dedupe.hello(payload)
        if self.state is not BridgeState.JOINING or self.rejoin is None:
            return
        stated = payload.get("session_id")
        if self._dialect.session_from_join and isinstance(stated, str):
            if not (stated.isprintable() and 0 < len(stated) <= _SESSION_ID_LENGTH):
                self._die(Failure.of("PROTO_INVALID_MESSAGE", _BAD_SESSION_ID))
                return
            if stated != self._in.watermark.session_id:
                self._in.watermark.is_own = False
            self._in.watermark.session_id = stated
        # A first join waits for its pong as well: what the server pushes on joining comes before it.
        if self._wire.heartbeat is None or not (self.rejoin.first or self.rejoin.new_session):
            self.confirmed(now)

    def confirmed(self, now: Now) -> None:
        """The server has read the join and did not refuse it."""
        rejoin = self.rejoin
        if rejoin is None:
            return
        self.deadline = None
        if rejoin.first or rejoin.new_session:
            self._resolve(now)
            return
        self._move("joined", "joined", now)
        rejoin.deadline = now.mono + self._policy.timeout
        # A replay that a server pushes comes before the pong behind the join: wait for that pong,
        # if there is one.
        extent, has_replay = (
            self._features.asking.extent,
            self._features.name("request_replay") is not None,
        )
        rejoin.too_large = extent >= Extent.NOTHING and has_replay
        asks = has_replay and not rejoin.too_large
        rejoin.no_replay = not asks and (self._join_ping is None or rejoin.join_answered)
        rejoin.pings = self._wire.heartbeat is not None
        rejoin.asked_everything |= extent > Extent.ALL  # not to be requested any more
        if not rejoin.complete and asks:
            self._ask(now, everything=False)
        self.advance(now)

    def refused(self, failure: Failure, now: Now) -> None:
        if is_unknown_type(failure):  # a bridge without sessions is no error: its joins end UNKNOWN
            self._go_without("join", failure, now)
            self._in.watermark.is_own = False  # it has one log for everybody
            self._confirm_without_answer(now)
        elif failure.code in SESSION_CODES:
            self.session_lost(failure, now)
        else:
            self._die(failure)

    def ping_refused(self, failure: Failure, now: Now) -> None:
        if not is_unknown_type(failure):
            self._die(failure)
            return
        self._go_without("ping", failure, now)
        self._wire.heartbeat = self._join_ping = None
        if self.rejoin is not None:
            self.rejoin.pings = False
        self._confirm_without_answer(now)

    def auth_refused(self, failure: Failure, now: Now) -> None:
        """The server answered `auth` with an error.

        Without a token a server that knows no `auth` is no error.
        """
        if is_unknown_type(failure) and not self._has_token:
            self._go_without("auth", failure, now)
            self.authenticated({}, now)
            return
        if self._joins_by_auth:  # the server has sent us nothing, so this was no join
            self._in.watermark.asked_to_join = False
        self._die(self._features.without_auth(failure) if is_unknown_type(failure) else failure)

    def _go_without(self, field: str, failure: Failure, now: Now) -> None:
        news = self._features.refuse(field, failure, now)
        if news is not None:
            self._emit(news)

    def _confirm_without_answer(self, now: Now) -> None:
        """Continue if neither an answer to the join nor a pong behind it can come any more."""
        has_sign = self._wire.heartbeat is not None or self._features.awaits_joined
        if self.state is BridgeState.JOINING and not has_sign:
            self.confirmed(now)

    def session_lost(self, failure: Failure, now: Now) -> None:
        """Join a new session, because ours is unknown or closed.

        This happens once per connection; the second time the connection ends.
        """
        if self.rejoin is None or self._forgotten:
            self._die(failure)
            return
        self.forget_session()
        if self.state is BridgeState.REPLAYING:
            self._move("session_lost", "session_lost", now)
        self._join(now, resume=False)

    def forget_session(self) -> None:
        """Forget our session, which the server no longer has.

        The next join requests a new one, and ends in a gap if we had joined.
        """
        self._forgotten = True
        self._join_ping = None
        self._ask_pings.clear()
        self._in.forget_session(self._ids())
        self.rejoin = Rejoin(self._in.watermark, self._policy)

    # ---- replay -----------------------------------------------------------------------------------------------

    def _ask(self, now: Now, *, everything: bool) -> None:
        name = self._features.name("request_replay")
        if self.rejoin is None or name is None:
            return
        since = None
        if not everything:
            overlap = self._features.asking.overlap(self._policy)
            since = self._in.watermark.since(overlap, parse_timestamp(self.server_stamp))
        identity = self._wire.say(name, {} if since is None else {"since": as_sent(since)}, now)
        self.asks.add(identity)
        self.awaited.ask(identity, now)
        self.rejoin.ask(identity, since)
        ping = self._wire.ping("ask", now)
        if ping is not None:
            self._ask_pings[ping] = identity

    def on_replay(self, body: dict[str, Any], now: Now) -> None:
        """Handle a replay, requested or pushed.

        It is evidence while the join runs; later it is counted and dropped.
        """
        items, rejected = read_replay(body, self._is_content, self._counts, now)
        self.awaited.answer(body.get("id"))
        self._features.ignored.discard("request_replay")
        if self.rejoin is None:
            self._emit(ReplayIgnored(at=now.at, messages=len(items)))
            return
        self._in.rejected += len(rejected)
        for failure in rejected:
            self._emit(MessageRejected(at=now.at, failure=failure))
        self._remembers = True
        self.rejoin.answer(items, body.get("id"))
        self.advance(now)

    def receiving(self, since: float, now: Now) -> None:
        self.awaited.received = now
        until = self.awaited.until(since, now)
        if self.rejoin is not None and self.rejoin.deadline is not None:
            self.rejoin.deadline = max(self.rejoin.deadline, until)
        self.deadline = None if self.deadline is None else max(self.deadline, until)

    def replay_refused(self, failure: Failure, now: Now) -> None:
        """Handle an error as the answer to request_replay.

        The server has no replay, or cannot send it now, which is a failed join.

        A server that never can would be asked for ever: after two such joins in a row the next one
        does not wait for the answer.
        """
        features = self._features
        self.awaited.end()
        if is_unknown_type(failure):
            self._go_without("request_replay", failure, now)
        elif self.rejoin is None:
            return
        elif failure.code in SESSION_CODES:
            self.session_lost(failure, now)
        elif failure.retryable or features.replay_refusals < _REPLAY_REFUSALS:
            features.replay_refusals += not failure.retryable
            self._die(failure)
            return
        if self.rejoin is not None:
            self.rejoin.no_replay = True
            self.advance(now)

    def on_pong(self, ping: str, now: Now) -> None:
        """Handle the answer to a ping of ours.

        The ping after the latest join confirms that join; the one after a request is a barrier.
        """
        if self.rejoin is None:
            return
        if ping == self._join_ping:
            self.rejoin.join_answered = True
            if self.state is BridgeState.JOINING:
                self.confirmed(now)
            elif self._features.name("request_replay") is None or self.rejoin.too_large:
                self.rejoin.no_replay = True
                self.advance(now)
        elif ping in self._ask_pings:
            self.rejoin.barrier(self._ask_pings[ping])
            self.advance(now)

    def timed_out(self, now: Now) -> None:
        """The replay took too long: what has come by now decides."""
        if self.rejoin is None:
            return
        if self.awaited.is_receiving(now):
            text = f"a replay that took longer than {self._policy.max_seconds:g} s"
            details = {"phase": "REPLAYING", "reason": "replay"}
            self._die(Failure.of("CONN_TIMEOUT", text, details=details))
            return
        if self.rejoin.is_ignored:
            self._features.ignored.add("request_replay")
            self.awaited.end()
        self.rejoin.timed_out = True
        self.advance(now)

    @property
    def replay_deadline(self) -> float | None:
        return self.rejoin.deadline if self.rejoin is not None else None

    def advance(self, now: Now) -> None:
        """New evidence arrived: resolve, ask once more without `since`, or keep waiting."""
        rejoin = self.rejoin
        if rejoin is None:
            return
        if self.state is not BridgeState.REPLAYING:
            if rejoin.overflowed:
                text = "more arrived before the join than the side buffer may hold"
                self._die(Failure.of("SYS_INBOX_FULL", text))
        elif rejoin.complete:
            self._resolve(now)
        elif rejoin.wants_everything:
            self._ask(now, everything=True)

    # ---- the verdict ------------------------------------------------------------------------------------------

    def _resolve(self, now: Now) -> None:
        rejoin = self.rejoin
        if rejoin is None:
            return
        self.rejoin, self.is_open = None, False
        self.deadline = None
        self._features.replay_refusals = 0
        overlap = self._features.asking.overlap(self._policy)
        self._features.asking.joined()
        outcome = rejoin.resolve()
        watermark = self._in.watermark
        # A server that shows no sign of the session is another one: what it may have received must not be repeated.
        new_session = rejoin.new_session
        same_epoch = self._remembers and not new_session and watermark.epoch == self._epoch
        since = self._in.last_timestamp
        gap = self._in.merge(outcome, now, overlap=overlap)
        watermark.joined, watermark.replaces, watermark.epoch = True, False, self._epoch
        self._report(outcome, gap.since if gap else since, now, gap.until if gap else None)
        reason = "replay_timeout" if outcome.reason == "timeout" else "merged"
        self._flush(now, reason, same_epoch=same_epoch, new_session=new_session)


def read_replay(
    body: dict[str, Any],
    is_content: Callable[[dict[str, Any], Now], bool],
    counts: Callable[[str, dict[str, Any]], bool],
    now: Now,
) -> tuple[list[Item], list[Failure]]:
    """Return the replayable messages of an answer, and a failure for each entry that is none.

    The messages are in the server's order.

    They are objects or JSON strings (the seed stores strings). `is_content` decides what belongs
    into the stream, `counts` what of it is part of the position. An answer without a list of
    messages is an answer without messages.
    """
    payload = fields_of(body)
    entries: list[Any] | None = payload.get("messages")
    if type(entries) is not list:
        return [], [
            Failure.of(
                "PROTO_INVALID_MESSAGE", "expected payload.messages to be a list in a replay answer"
            )
        ]
    items: list[Item] = []
    rejected: list[Failure] = []
    for entry in entries:
        try:
            found = decode(entry) if isinstance(entry, str) else envelope(entry)
        except InvalidFrameError as error:
            rejected.append(error.failure)
            continue
        if is_content(found, now):
            text = entry if isinstance(entry, str) else _encode(raw_of(found))
            type_ = found["type"]
            items.append(Item(message_from(type_, found), text, counts=counts(type_, found)))
    return items, rejected
