"""The sending half of a session.

Sends are in the outbox, requests in their own lane, with one numbering for both.

A send is stored until its outcome is known; a request fails at the loss, unless it may be repeated.
What the server says about an entry (an ack, an answer with its id, an error) is matched here,
whether it arrives live or in a replay. Rule: matching settles; it never invents. An ack for
something we never handed out is counted and ignored.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, cast

from ..failure import Failure, classify_error_payload, config_error
from ..telemetry.event import Event
from ..telemetry.events import LateReply, MessageResent, MessageUndelivered
from .clock import Now, Stamps
from .dedupe import Dedupe, is_repeat
from .entries import Entry, EntryState, check_key, outcome_event
from .frames import Encoder, fields_of, message_from
from .known_entries import KnownEntries
from .outbox import NOT_SHOWN, Outbox
from .unanswered import lost_answer, no_answer, not_handed_out, unanswered


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .clock import Identifiers
    from .facts import Frame
    from .messages import Message
    from .policies.dialect import Dialect
    from .policies.outbox import Outbox as OutboxPolicy


class Outbound:
    """Everything we send besides control frames.

    `settled` is emptied by the driver, which wakes the waiters.
    """

    def __init__(
        self,
        policy: OutboxPolicy,
        dialect: Dialect,
        ids: Identifiers,
        emit: Callable[[Event], None],
        mask: Callable[[Failure], Failure],
    ) -> None:
        self._mask = mask
        self.settled: list[Entry] = []
        self.outbox = Outbox(policy, self.settled, emit)
        self.requests: deque[Entry] = deque()
        self.open_requests: dict[str, Entry] = {}
        self.stray_acks = 0
        self.stray_pongs = 0  # once there are any, pongs without an id prove nothing
        self._on_new_session = policy.on_new_session
        self._resends = policy.on_unknown == "resend"
        self.dedupe = Dedupe(dialect)
        self._dialect = dialect
        self._confirms = (
            {dialect.ping, dialect.ack} != {None} or dialect.confirms or dialect.pings == "in_order"
        )
        self._ids = ids
        self._emit = emit
        self._encoder = Encoder(dialect.codec)
        # Frames that only the client sends, and the server's answers to them: sent by a user, they
        # would end or join sessions without the client's knowledge.
        own = (dialect.auth, dialect.auth_ack, dialect.auth_error, dialect.join, dialect.joined)
        self._control = frozenset((*own, dialect.request_replay, dialect.replay, dialect.ping)) - {
            None
        }
        self._stamp = Stamps()
        self._seq = 0
        self.known = KnownEntries(has_numbers=dialect.encode is not None)
        self._by_id = self.known.by_id
        if dialect.encode is not None:
            # imported here: most clients have no such dialect (P9)
            from .border import own_frame
            from .facts import Send

            self._send, self._own_frame = Send, own_frame

    # ---- the user's side --------------------------------------------------------------------------------------

    def prepare(
        self,
        type_: str,
        payload: Mapping[str, Any] | bytes,
        now: Now,
        *,
        key: str | None = None,
        ttl: float | None = None,
        coalesce: str | None = None,
        volatile: bool = False,
    ) -> Entry:
        """Check and number a send, outside the outbox; a key that is known returns its entry."""
        if key is None and isinstance(payload, dict) and self._dialect.encode is None:
            # a payload that is no dict is refused below, with an explanation
            key = payload.get("idempotency_key")
        if key is not None:
            check_key(key)
            known = self.known.standing(key)
            if known is not None:
                return known
        entry = self._entry(type_, payload, now, key)
        entry.coalesce, entry.volatile = coalesce, volatile
        if ttl is not None:
            entry.expires = Now(now.mono + ttl, now.wall + ttl)
        return entry

    def admit(self, entry: Entry) -> bool:
        """Make room for a prepared send; False if it was dropped. Raises OutboxFullError."""
        added = self.outbox.make_room(entry)
        self.known.add(entry)
        return added

    def refuse(self, entry: Entry, reason: str) -> None:
        """Refuse a send that cannot go now and must not wait."""
        self.known.add(entry)
        entry.settle(EntryState.DROPPED, reason=reason)
        self.settled.append(entry)

    def leave(self, entry: Entry) -> None:
        """The store has accepted a send while the client ended: it belongs to the next client."""
        entry.settle(EntryState.QUEUED, reason="kept")
        self.settled.append(entry)

    def request(
        self,
        type_: str,
        payload: Mapping[str, Any] | bytes,
        now: Now,
        *,
        idempotent: bool,
        timeout: float = inf,
    ) -> Entry:
        """Queue a request in its lane; after `timeout` seconds it is withdrawn (inf: never)."""
        entry = self._entry(type_, payload, now, None, is_request=True)
        entry.is_request, entry.idempotent, entry.timeout = True, idempotent, timeout
        if timeout != inf:
            self.outbox.deadlines.add(now.mono + timeout, entry)
        self.known.add(entry)
        self.open_requests[entry.id] = entry
        self.requests.append(entry)
        return entry

    def _entry(
        self,
        type_: str,
        payload: Mapping[str, Any] | bytes,
        now: Now,
        key: str | None,
        *,
        is_request: bool = False,
    ) -> Entry:
        own = self._dialect.encode
        # raises for what is no message
        text = "" if own is not None else self._encoder.payload(type_, cast("Any", payload))
        if type_ in self._control:
            raise config_error(
                "type", "a type of message that the client does not use itself", type_
            )
        identity, stamp = self._ids(), self._stamp(now.wall)
        used = key or identity
        number = self._seq + 1
        frame: Frame
        if own is None:
            wire_key = None if "idempotency_key" in cast("Any", payload) else used
            frame = self._encoder.frame(type_, identity, stamp, text, wire_key)
        else:
            body = payload if isinstance(payload, bytes) else None
            message = self._send(
                type=type_,
                payload={} if isinstance(payload, bytes) else payload,
                id=identity,
                key=used,
                timestamp=stamp,
                number=number,
                is_request=is_request,
                body=body,
            )
            frame = self._own_frame(own, message)
        self._seq = number
        return Entry(number, identity, used, type_, frame)

    def restore(self, entries: Iterable[Entry], outcomes: Iterable[Entry], last_seq: int) -> None:
        """Take over what an earlier client left in the store, and what it knew."""
        stored = list(entries)
        self.known.restore(outcomes, stored)
        self._seq = max((self._seq, last_seq, *(entry.seq for entry in stored)))
        self.outbox.restore(stored)

    def expire(self, now: Now) -> None:
        """End entries whose ttl has ended, and give up requests that were not answered in time."""
        has_doubt = False
        for entry in self.outbox.deadlines.passed(now.mono):
            if entry.is_request:
                self.give_up(entry, no_answer(entry, f"no answer within {entry.timeout:g} s"))
            else:
                self.outbox.end_expired(entry)
                has_doubt |= entry.state is EntryState.UNKNOWN
        if has_doubt and not self.outbox.doubt.waits:
            self.outbox.doubt.report(now)

    def give_up(self, entry: Entry, failure: Failure) -> None:
        """Withdraw a request: its caller stopped waiting, or it can no longer be answered."""
        if entry.is_settled:
            return
        state = EntryState.WITHDRAWN if entry.state is EntryState.QUEUED else EntryState.UNKNOWN
        self.end_request(entry, state, failure)

    def end_request(
        self,
        entry: Entry,
        state: EntryState,
        failure: Failure | None,
        answer: Message | None = None,
    ) -> None:
        self.open_requests.pop(entry.id, None)
        if entry in self.requests:
            self.requests.remove(entry)
        entry.settle(
            state, reason="answered" if answer else "failed", failure=failure, answer=answer
        )
        self.settled.append(entry)

    # ---- the wire's side --------------------------------------------------------------------------------------

    def next_entry(self) -> Entry | None:
        """Return the entry to hand out next: the older head of the two lanes."""
        outbox = self.outbox
        request = self.requests[0] if self.requests else None
        if not outbox.queued:
            return request
        send = (
            outbox.queued[0]
            if outbox.may_hand_out and outbox.queued[0].seq <= outbox.cleared
            else None
        )
        if send is None or request is None:
            return send or request
        return send if send.seq < request.seq else request

    def hand_out(self, entry: Entry, now: Now, generation: int) -> None:
        """`entry` (from `next_entry`) is handed out; from here on it cannot be proved that it did
        not arrive.
        """
        if entry.is_request:
            self.requests.popleft()
            entry.write(now, generation)
        else:
            self.outbox.hand_out(now, generation)
        if entry.sends > 1:
            self._emit(MessageResent(at=now.at, type=entry.type, key=entry.key, sends=entry.sends))

    def ack(self, payload: Mapping[str, Any]) -> int:
        """Handle an ack frame; return how many entries it confirmed. The rest counts as stray."""
        names: list[Any] | None = payload.get("message_ids")
        if type(names) is not list:
            names = [payload.get("message_id"), payload.get("idempotency_key")]
        how = "read" if is_repeat(payload) else "applied"
        confirmed = 0
        for name in names:
            entry = self.known.find(name) if isinstance(name, str) else None
            if entry is not None and entry.state is EntryState.WRITTEN and not entry.is_request:
                if not entry.is_settled:
                    self.outbox.confirm(entry, how)
                confirmed += 1
        if not confirmed:
            self.stray_acks += 1
        elif how == "read":
            self.dedupe.shown()
        return confirmed

    def may_concern(self, body: dict[str, Any]) -> bool:
        """Return whether this frame can be about something of ours.

        Called for every frame, so it only checks.
        """
        if not self._by_id:
            return False
        payload = body.get("payload")
        return body.get("id") in self._by_id or "request_id" in (payload or body)

    def match(self, type_: str, body: dict[str, Any], now: Now) -> bool:
        """Settle the entry that `body` answers, if it answers one.

        Returns True if the frame is consumed by that.

        The answer to a request is consumed, and so is an error about a send. Another answer to a
        send is also a message for the consumer.
        """
        entry = self._by_id.get(body["id"]) if body.get("id") is not None else None
        if entry is None:
            named = (body.get("payload") or body).get("request_id")
            entry = self._by_id.get(named) if isinstance(named, str) else None
            if entry is None:
                return False
        if entry.state is EntryState.QUEUED:
            return False  # it cannot have been answered: it was never handed out
        is_error = type_ == self._dialect.error
        if entry.is_request:
            return self.answered_request(entry, type_, body, now, is_error=is_error)
        was_open = not entry.is_settled
        if is_error:
            failure = self._mask(classify_error_payload(fields_of(body)))
            if was_open:
                self.outbox.kill(entry, failure)
            self.quarantined(
                entry, "refused" if was_open else "refused after it was read", failure, now
            )
        elif was_open:
            self.outbox.confirm(entry, "applied")
        return is_error

    def refused(self, type_: object, failure: Failure, generation: int, now: Now) -> bool:
        """Handle an error that names a type and no id of ours.

        Returns True if exactly one message of that type waits: the error is its answer.

        Otherwise the requests that it may be about remember it: if they time out, their failure
        names it.
        """
        waiting = (
            unanswered(self._by_id.values(), type_, generation) if isinstance(type_, str) else []
        )
        only = waiting[0] if len(waiting) == 1 else None
        if only is not None and not only.is_settled:
            if only.is_request:
                self.end_request(only, EntryState.DEAD, failure)
            else:
                self.outbox.kill(only, failure)
                self.quarantined(only, "refused", failure, now)
            return True
        if only is not None and only.is_request:
            only.reason = "late"
            self._emit(LateReply(at=now.at, type=self._dialect.error or "", id=only.id))
            return True
        for entry in self.open_requests.values():
            if entry.state is EntryState.WRITTEN and type_ in (None, entry.type):
                entry.refusals = (*entry.refusals, failure)[-3:]
        return False

    def answered_request(
        self, entry: Entry, type_: str, body: dict[str, Any], now: Now, *, is_error: bool
    ) -> bool:
        """`body` answers this request.

        Returns False if it was answered already, and this is another message.
        """
        if not entry.is_settled:
            if is_error:
                failure = self._mask(classify_error_payload(fields_of(body)))
                self.end_request(entry, EntryState.DEAD, failure)
                return True
            self.end_request(entry, EntryState.CONFIRMED, None, message_from(type_, body))
            return True
        if entry.answer is not None:
            # the same answer once more; another type is a message
            return entry.answer.type == type_
        if entry.reason != "late":
            entry.reason = "late"
            self._emit(LateReply(at=now.at, type=type_, id=entry.id))
        return True

    def replies_to_send(self, identity: str | None) -> bool:
        """Return whether a frame with this id answers a send: it cannot be known beforehand whether
        a server replays its replies.
        """
        entry = self._by_id.get(identity) if identity is not None else None
        return entry is not None and not entry.is_request

    # ---- losses and joins -------------------------------------------------------------------------------------

    def link_lost(
        self, failure: Failure, now: Now, generation: int, *, has_slept: bool = False
    ) -> str | None:
        """Handle a loss: requests fail unless they may be repeated.

        What nothing can confirm any more ends as UNKNOWN, unless the server dedupes: then it is
        sent again. Returns the type of a message suspected as poison.
        """
        if generation and not self._can_settle_later:
            for entry in self.outbox.written():
                self.outbox.lose(entry, NOT_SHOWN)
        asked = [entry for entry in self.open_requests.values() if entry.generation == generation]
        suspect = self.outbox.link_lost(failure, generation, asked, has_slept=has_slept)
        if suspect is not None and suspect.is_poison:
            self.quarantined(suspect, "poison", failure, now)
            if suspect.is_request:
                self.end_request(suspect, EntryState.DEAD, failure)
        for entry in list(self.open_requests.values()):
            if entry.state is EntryState.WRITTEN:
                if not entry.idempotent:
                    self.end_request(entry, EntryState.UNKNOWN, lost_answer(entry, failure))
                elif entry not in self.requests:
                    self.requests.appendleft(entry)
            elif not entry.idempotent and generation:
                self.end_request(entry, EntryState.DROPPED, not_handed_out(failure))
        self.requests = deque(sorted(self.requests, key=lambda entry: entry.seq))
        if generation:
            doubt = self.outbox.doubt
            doubt.lost(now)
            doubt.waits = bool(self.outbox.written())  # the next join decides about it
            if not doubt.waits:
                doubt.report(now)
        return None if suspect is None else suspect.type

    @property
    def _can_settle_later(self) -> bool:
        """Return whether what was handed out before a loss may be confirmed or repeated after it."""
        return self._confirms or self._resends or self.dedupe.holds

    def requeue(self, now: Now, *, same_epoch: bool, new_session: bool) -> None:
        """A join is over: repeat what may be repeated, end the rest as UNKNOWN."""
        if new_session and self._on_new_session == "return":
            for entry in [e for e in self.outbox.queued if e.state is EntryState.QUEUED]:
                self.outbox.drop(entry, "new session")
        self.outbox.requeue(now, same_epoch=same_epoch, dedupes=self.dedupe.holds)
        self.outbox.doubt.report(now)

    def inbox_full(self, failure: Failure, now: Now) -> None:
        """The inbox is full and has no reader: end everything that waits for an answer, because
        none can be read.
        """
        for entry in list(self.open_requests.values()):
            self.end_request(entry, EntryState.UNKNOWN, failure)
        waiting = [entry for entry in self.outbox.unconfirmed if entry.holds_room]
        for entry in waiting:
            self.outbox.lose(entry, "inbox full")
            entry.failure = failure
        if waiting and not self.outbox.doubt.waits:
            self.outbox.doubt.report(now)

    def end_all(self, failure: Failure, now: Now, *, is_stored: bool, is_loss: bool) -> list[Entry]:
        """The client ends, and with `is_loss` its connection does so unasked.

        Returns the sends whose outcome could not be settled; with `is_stored` the next client
        continues them.
        """
        for entry in list(self.open_requests.values()):
            never = entry.state is EntryState.QUEUED
            state = EntryState.DROPPED if never else EntryState.UNKNOWN
            self.end_request(
                entry, state, not_handed_out(failure) if never else lost_answer(entry, failure)
            )
        outbox = self.outbox
        remaining = (
            outbox.keep_all(keeps_written=self._can_settle_later) if is_stored else outbox.end_all()
        )
        if is_loss or not outbox.doubt.is_empty:
            outbox.doubt.lost(now)
        outbox.doubt.forget_shown()
        outbox.doubt.report(now)
        return remaining

    # ---- the driver's side ------------------------------------------------------------------------------------

    def take_settled(self, now: Now) -> list[Entry]:
        """The entries settled since the last call, kept for a while; each drop is an event."""
        settled, self.settled[:] = list(self.settled), []
        for entry in settled:
            entry.frame = ""
            if entry.state is not EntryState.CONFIRMED:
                event = outcome_event(entry, now)
                if event is not None:
                    self._emit(event)
            self.known.settled(entry)
        return settled

    def quarantined(self, entry: Entry, reason: str, failure: Failure, now: Now) -> None:
        self._emit(
            MessageUndelivered(
                at=now.at,
                type=entry.type,
                key=entry.key,
                outcome="quarantined",
                reason=reason,
                failure=failure,
            )
        )
