"""From a decoded frame to the inbox: known or new, counted, in order, once.

Rule: an accepted message is remembered.

A message enters the watermark and the inbox in the same step, so a link that dies between two
messages never has to guess which of them the consumer will see.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ..failure import Failure
from ..telemetry.event import Event
from ..telemetry.events import DuplicateConflict
from .frames import canonical, message_from, raw_of
from .inbox import Inbox
from .messages import Gap, Message


if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from .clock import Now
    from .facts import Frame
    from .policies.dialect import Dialect
    from .policies.inbox import Inbox as InboxPolicy
    from .ports import Store
    from .rejoin import Outcome
    from .watermark import Key, Memory, Watermark


_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


class Acknowledgements:
    """Acknowledgements of events that a server waits for, by type and id of the event, sent once
    the reader has taken it.

    A server that receives no acknowledgement sends the event again, under another name; the newest
    name is acknowledged. Rule: an accepted event is acknowledged whenever it comes again, and one
    that is not taken in time is reported, not acknowledged. `ready` holds the acknowledgements to
    send now.
    """

    def __init__(self) -> None:
        # what to acknowledge, and by when (monotonic)
        self.open: dict[Key, tuple[Any, float | None]] = {}
        self.ready: list[Any] = []

    def take(self, key: Key) -> None:
        if key in self.open:
            self.ready.append(self.open.pop(key)[0])

    def late(self, mono: float) -> list[Key]:
        """Return the events whose time is over; each is returned once."""
        late = [key for key, (_, due) in self.open.items() if due is not None and due <= mono]
        for key in late:
            self.open[key] = self.open[key][0], None
        return late

    def next_timer(self) -> float | None:
        return min((due for _, due in self.open.values() if due is not None), default=None)


class Inbound:
    """The receiving half of a session.

    `receives=False` counts messages and drops them (a send-only client).
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        policy: InboxPolicy,
        emit: Callable[[Event], None],
        *,
        receives: bool,
    ) -> None:
        self._store = store
        self.watermark: Watermark = store.session(session_id)
        self.inbox = Inbox(policy)
        self.receives = receives
        self.dropped = 0
        self.duplicates = 0
        self.rejected = 0  # frames, and messages in replays, that could not be taken
        self._emit = emit
        self.acknowledgements = Acknowledgements()
        self.watermark.rollback()
        self._in_hand: tuple[Message, Watermark] | None = None
        self._before: datetime | None = None  # the last timestamp of a session that is gone
        self._memory: Memory | None = (
            None  # while what comes live may be older than what we remember
        )

    def live(self, type_: str, body: dict[str, Any], text: Frame, now: Now) -> None:
        identity = body.get("id")
        raw = body if type(body) is dict else raw_of(body)
        message = Message(
            type_, identity, body.get("timestamp"), body.get("payload") or {}, raw=raw
        )
        if identity is None:
            self.accept(None, message, text, now.mono)
            return
        key = (type_, identity)
        known = self.watermark.by_key.get(key)
        if known is None:
            if self._memory is not None:
                self._look_back(message)
            # a message older than what we remember must not displace anything remembered
            if message.maybe_duplicate:
                if self.watermark.is_used_up(key):
                    self.duplicates += 1
                    return
                self.watermark.pass_by(key)
                self._put(message, len(text), None)
            else:
                self.accept(key, message, text, now.mono)
            return
        self.duplicates += 1
        if known.text != text and canonical(known.text) != canonical(text):
            self._emit(DuplicateConflict(at=now.at, type=type_, id=identity))

    def _look_back(self, message: Message) -> None:
        """Mark a message that may be a duplicate, after a join without proof.

        Some servers push their whole queue as if it were live, the oldest first.
        """
        stamp = message.timestamp
        if self._memory is not None and stamp is not None and self._memory.may_have_had(stamp):
            message.maybe_duplicate = True
        elif stamp is not None:
            self._memory = None

    def was_accepted(self, key: Key) -> bool:
        return key in self.watermark or self.watermark.is_used_up(key)

    def transient(self, type_: str, body: dict[str, Any], text: Frame) -> None:
        """Deliver a frame that is not part of the position: once, whatever a replay may hold."""
        identity = body.get("id")
        if identity is not None:
            if self.watermark.is_used_up((type_, identity)):
                self.duplicates += 1
                return
            self.watermark.use_up((type_, identity))
        self._put(message_from(type_, body), len(text), None)

    def _put(self, message: Message, size: int, watermark: Watermark | None) -> None:
        if self.receives:
            self.inbox.put(message, size, watermark)
        else:
            self.dropped += 1

    @property
    def received(self) -> int:
        """A number that grows with what is received."""
        watermark = self.watermark
        return watermark.accepted + watermark.answers_used + self.duplicates + self.rejected

    @property
    def last_timestamp(self) -> datetime | None:
        """The server's timestamp of the last accepted message, if need be of an earlier session."""
        return self.watermark.last_timestamp or self._before

    def merge(self, outcome: Outcome, now: Now, *, overlap: float = 0.0) -> Gap | None:
        """Deliver the result of a join: the gap at its position first, then the news in the
        server's order.

        `overlap`: seconds by which the time that was asked for lies before the last message.
        """
        since = self.last_timestamp
        gap: Gap | None = None
        if outcome.verdict is not None and outcome.verdict != "RECOVERED":
            start = since
            if since is not None and outcome.reason == "no_anchor":
                # the server's clock may have stepped back that far
                start = since - min(timedelta(seconds=overlap), since - _EARLIEST)
            gap = Gap(outcome.verdict, start, _until(outcome, since), outcome.reason)
            self.watermark.is_behind_gap |= not self.watermark.accepted
            if self.receives:
                self.inbox.put_gap(gap)
        is_new_session = outcome.reason == "new_session"
        for index, (item, doubtful, floating) in enumerate(outcome.items):
            if index == outcome.run_from:
                self.watermark.seam = self.watermark.accepted
            message = item.message
            message.replayed = index < outcome.replayed
            message.maybe_duplicate = doubtful or (
                is_new_session and _may_be_of(since, message.timestamp, replayed=message.replayed)
            )
            # Without proof, a server may have pushed it during the join as if it were live.
            may_come_again = message.replayed or gap is not None
            message.redelivered = may_come_again and self.watermark.was_in_hand(item.key, item.text)
            if item.counts:
                self.accept(item.key, message, item.text, now.mono, floating=floating)
            else:
                self._put(message, len(item.text), None)
                if item.key is not None:
                    self.watermark.use_up(item.key)
        self.watermark.is_sure()
        if outcome.run_from is not None and outcome.run_from >= len(outcome.items):
            self.watermark.seam = self.watermark.accepted
        self.duplicates += outcome.repeats
        # Without proof a server may still be pushing what it holds, as if it were live; see `live`.
        self._memory = (
            self.watermark.memory() if gap is not None and self.watermark.first > 1 else None
        )
        self.inbox.absorb()
        return gap

    def forget_positions(self, why: str) -> None:
        """The server has forgotten what we have read.

        Call it before the next connection, whose URL must no longer name that position.
        """
        bookmark = self.watermark.bookmark
        if bookmark is not None:
            bookmark.gone = why
            bookmark.forget(self.watermark.accepted)

    def not_reached(self, failure: Failure, dialect: Dialect) -> Failure:
        """An attempt to connect has failed.

        Returns why; a token that goes into a frame was not what was refused.
        """
        if self.watermark.bookmark is not None and self.watermark.bookmark.life.url is not None:
            # with its address its session is gone; the user's own URL comes next
            self.forget_positions("new_session")
        if dialect.login is None or failure.code != "AUTH_FORBIDDEN":
            return failure
        text = "the server refused the connection, before it was sent the token"
        hint = "look at the URL, and its query: the token is not in this request"
        return Failure.of(
            "CONN_UPGRADE_REJECTED",
            f"{text}: {failure.message}",
            cause=failure.cause,
            details=failure.details,
            suggestions=(hint,),
        )

    def forget_session(self, session_id: str) -> None:
        """The session is gone on the server: what follows belongs to another one, of this new id."""
        lost = self.watermark
        self._before = lost.last_timestamp or self._before
        self._store.drop_session(lost.session_id)
        self.watermark = self._store.session(session_id)
        self.watermark.replaces = lost.asked_to_join or lost.replaces
        self.watermark.is_own = True

    def accept(
        self,
        key: tuple[str, str] | None,
        message: Message,
        text: Frame,
        mono: float,
        *,
        floating: bool = False,
    ) -> None:
        watermark = self.watermark
        doubtful = key is None and message.maybe_duplicate
        watermark.accept(
            key, text, message.raw_timestamp, mono, doubtful=doubtful, floating=floating
        )
        if self.receives:
            self.inbox.put(message, len(text), watermark)
        else:
            self.dropped += 1
            watermark.hand()
            watermark.take()

    def take(self) -> Message | None:
        """The next message; asking for it commits the one before.

        None if there is none, or if a gap comes first.
        """
        if self._in_hand is not None:
            done, position = self._in_hand
            position.take()
            if self.acknowledgements.open and done.id is not None:
                self.acknowledgements.take((done.type, done.id))
            if done.redelivered:
                position.out_of_hand()
            self._in_hand = None
        taken = self.inbox.take()
        if taken is None:
            return None
        message, watermark = taken
        if watermark is not None:
            watermark.handed += 1
            self._in_hand = message, watermark
        return message


def _until(outcome: Outcome, since: datetime | None) -> datetime | None:
    """Return where the hole ends: the first timestamp behind it.

    A repeated message from before the hole says nothing about that.
    """
    for item, doubtful, _ in outcome.items:
        stamp = item.message.timestamp
        if stamp is not None and (
            since is None or stamp > since or (stamp == since and not doubtful)
        ):
            return stamp
    return None


def _may_be_of(before: datetime | None, stamp: datetime | None, *, replayed: bool) -> bool:
    """In a new session: return whether this may be a message of the session before, whose keys are
    forgotten.
    """
    if stamp is None or before is None:
        return replayed
    return stamp <= before
