"""The receiving half of a session whose server gives its events positions: what is new, what we
already have, where a hole is.

Rule: an event is recognized by its position and its content (`matching`). The same position with
another content means another log, and that is reported. What has no name is counted, never looked
up: a log may hold it several times.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Final

from ..failure import Failure
from ..telemetry.events import Verdict
from .bookmark import Bookmark
from .border import facts_of
from .facts import Received
from .frames import Body, canonical
from .matching import SAME, Match, content_of, match
from .messages import Gap, Message, parse_timestamp
from .recovery import Hole


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from .clock import Now
    from .facts import Channel, Fact, Frame, Hello, Moved, Position, Replayed
    from .inbound import Inbound
    from .policies.dialect import Dialect
    from .policies.positions import Positions
    from .recovery import Recovery
    from .watermark import Key, Mark


_LOG: Final = "@"  # start of the first half of a key that is a position
_COMPARED: Final = 16  # of the events before: an id that one of them has too is the name of neither


class Positioned:
    """Inbound, for events with positions; they move the bookmark of the session's watermark."""

    def __init__(self, inbound: Inbound, dialect: Dialect, policy: Positions) -> None:
        self._in = inbound
        # logs that are complete, whose events are still to be delivered
        self.finished: list[Channel] = []
        # a replay without a marked end may continue: a live event says nothing about those before
        # it
        self.is_frozen = False
        # events without a name that the replay, which goes on behind its verdict, may still repeat
        self.unshown: Mapping[Channel, Counter[str]] = {}
        self._replay_goes_on = False
        self.policy = policy
        self._is_time, self._is_number = policy.order == "time", policy.order == "number"
        self._decode: Callable[[str | bytes], Iterable[Fact]] | None = dialect.decode

    @property
    def bookmark(self) -> Bookmark:
        watermark = self._in.watermark
        if watermark.bookmark is None:
            watermark.bookmark = Bookmark()
        return watermark.bookmark

    def live(self, event: Received, text: Frame, now: Now) -> Failure | None:
        """An event of a link whose join is over.

        Returns why the link has to end: events are missing and will be requested again.
        """
        position = event.position
        if position is None:
            self._in.transient(event.type, Body(event), text)
            return None
        if not self._is_number:
            self._named(event, text, now)
            return None
        reached = self.bookmark.positions.get(event.channel)
        if not isinstance(position, int) or not isinstance(reached, int) or reached < position:
            return self._next(event, text, reached, now)
        if reached == position and event.channel in self.bookmark.moved:
            self.accept(event, text, now)  # the event at this position has come after all
        else:
            self._old(event, text, now)
        return None

    def _named(self, event: Received, text: Frame, now: Now) -> None:
        """A live event known by its id, or counted if it has none.

        It may belong to a replay that goes on behind its verdict. Whether one does that came too
        late for its verdict is unknown, so what it may repeat is flagged.
        """
        key = self.key_of(event)
        if key is None:
            is_owed = bool(self.unshown) and self._is_owed(event)
            if is_owed and self._replay_goes_on:
                self._in.duplicates += 1
            else:
                self.accept(event, text, now, may_repeat=is_owed)
        elif key in self._in.watermark and self.match(event, text) in SAME:
            self._in.duplicates += 1
        else:
            self.accept(event, text, now, may_repeat=key in self._in.watermark)

    def _is_owed(self, event: Received) -> bool:
        """Return whether the replay still owes this event, which was delivered before the cut."""
        remaining = self.unshown.get(event.channel)
        if remaining is None or remaining[content := self.content_of(event)] <= 0:
            return False
        remaining[content] -= 1
        return True

    def _next(
        self, event: Received, text: Frame, reached: Position | None, now: Now
    ) -> Failure | None:
        position, channel = event.position, event.channel
        is_exact = self.policy.contiguous and isinstance(position, int) and isinstance(reached, int)
        if (
            is_exact
            and isinstance(position, int)
            and isinstance(reached, int)
            and position > reached + 1
        ):
            if self.bookmark.holes.get(channel) != reached:
                self.bookmark.holes[channel] = reached
                where = "" if channel is None else f" of {channel}"
                return Failure.of(
                    "CONN_WEBSOCKET_CLOSED",
                    f"expected event {reached + 1}{where}, got {position}: what is missing is asked for once more",
                )
            self.report(Hole(Verdict.GAP, "hole", channel, (reached + 1, position - 1)))
        self.accept(event, text, now)
        return None

    def _old(self, event: Received, text: Frame, now: Now) -> None:
        found = self.match(event, text)
        if found in SAME:
            self._in.duplicates += 1
        elif found is Match.ALTERED or (found is Match.FORGOTTEN and self._may_have_had(event)):
            # It may be a repeat, or from before what we remember.
            self.accept(event, text, now, may_repeat=True, moves=False)
        else:
            self.report(Hole(Verdict.GAP, "restarted", event.channel))
            self.bookmark.forget_channel(event.channel)
            self.accept(event, text, now)

    def _may_have_had(self, event: Received) -> bool:
        """Return whether this event may be one that was delivered and forgotten."""
        watermark, log = self._in.watermark, _LOG + (event.channel or "")
        if watermark.first == 1 or not (self.policy.repeats or self.policy.shows_anchor):
            return False
        oldest = next(
            (mark.key[1] for mark in watermark.tail if mark.key is not None and mark.key[0] == log),
            None,
        )
        if (
            oldest is None or not oldest.lstrip("-").isdecimal()
        ):  # an earlier dialect may have written it
            return True
        return not isinstance(event.position, int) or event.position < int(oldest)

    def moved(self, fact: Moved) -> None:
        reached = self.bookmark.positions.get(fact.channel)
        if (
            not isinstance(reached, int)
            or not isinstance(fact.position, int)
            or fact.position > reached
        ):
            self.bookmark.reach(
                fact.channel, fact.position, self._in.watermark.accepted, is_moved=True
            )

    def greeted(self, hello: Hello) -> None:
        """The server identifies itself while no replay is running: a newer token, or another log."""
        why = self.bookmark.contradicted(hello)
        if why:
            self.report(Hole(Verdict.GAP, why))
            self.forget()
        self.bookmark.greet(hello, self._in.watermark.accepted)

    def was_asked_again(self) -> bool:
        """Return whether the events behind this position were requested before, and are incomplete
        for the second time.
        """
        reached = self.bookmark.positions.get(None)
        was = reached is not None and self.bookmark.holes.get(None) == reached
        if reached is not None:
            self.bookmark.holes[None] = reached
        return was or reached is None

    def stated(self, fact: Replayed) -> None:
        """The server makes a statement about its log while no replay is running: it has lost
        events, or begins another log.
        """
        self.is_frozen = False
        known = self.bookmark.epochs.get(fact.channel)
        is_other = None not in {known, fact.epoch} and known != fact.epoch
        if fact.complete is False or is_other:
            self.report(
                Hole(Verdict.GAP, "new_epoch" if is_other else "position_gone", fact.channel)
            )
            for channel in (
                [fact.channel] if fact.channel is not None else [*self.bookmark.positions]
            ):
                self.bookmark.forget_channel(channel)  # what comes next follows here
        if fact.epoch is not None:
            self.bookmark.epochs[fact.channel] = fact.epoch

    @property
    def has_forgotten(self) -> bool:
        return self._in.watermark.first > 1

    def deliver(self, recovery: Recovery, epochs: Mapping[Channel, str], now: Now) -> int:
        """Deliver what a join has found, holes at their position.

        Returns how many events it brought; `epochs` are those of the logs now.
        """
        had = dict(self.bookmark.positions)
        self.unshown, self._replay_goes_on = recovery.unshown, recovery.goes_on
        for channel, finding in recovery.findings.items():
            if finding.is_other or finding.reason == "position_gone":
                self.bookmark.forget_channel(channel)
        self.bookmark.epochs.update(epochs)  # before the positions that mean nothing without them
        brought = 0
        for each in recovery.deliveries:
            if isinstance(each, Hole):
                self.report(each, had.get(each.channel))
                continue
            heard, may_repeat = each
            if heard.is_marker:
                self._mark(heard.event)
            elif heard.event.position is None:
                self._in.transient(heard.event.type, Body(heard.event), heard.text)
            else:
                self.accept(heard.event, heard.text, now, replayed=True, may_repeat=may_repeat)
                brought += 1
        self._in.duplicates += recovery.repeats
        self._in.inbox.absorb()
        return brought

    def is_sure(self) -> None:
        """All missed events have come: no later event was handed out before."""
        self._in.watermark.is_sure()

    def finish(self) -> None:
        for channel in self.finished:
            self.bookmark.finish(channel, self._in.watermark.accepted)
        self.finished.clear()

    def forget(self) -> None:
        self.bookmark.forget(self._in.watermark.accepted)

    def report(self, hole: Hole, had: Position | None = None) -> None:
        """Put a gap at its position in the stream; `had` is the position of a log that has been
        forgotten since.
        """
        if self._in.receives:
            after = self.bookmark.positions.get(hole.channel, had)
            gap = Gap(
                hole.verdict,
                self._in.last_timestamp,
                None,
                hole.reason,
                hole.channel,
                hole.missing,
                after,
            )
            self._in.inbox.put_gap(gap)

    def _mark(self, event: Received) -> None:
        if event.position is not None:
            self.bookmark.reach(
                event.channel, event.position, self._in.watermark.accepted, is_moved=True
            )

    def accept(
        self,
        event: Received,
        text: Frame,
        now: Now,
        *,
        replayed: bool = False,
        may_repeat: bool = False,
        moves: bool = True,
    ) -> None:
        watermark, key = self._in.watermark, self.key_of(event)
        message = Message(event.type, event.id, event.timestamp, event.payload, raw=event.raw)
        message.replayed, message.maybe_duplicate = replayed, may_repeat
        # Also for live events: the end of a replay is not always known, and the rest of it comes
        # after the verdict.
        message.redelivered = watermark.was_in_hand(
            key, None if key is not None else text, event.channel
        )
        is_earlier = self._is_time and self._is_earlier(event)
        if moves and not (self.is_frozen or event.position is None or is_earlier):
            self.bookmark.reach(event.channel, event.position, watermark.accepted + 1)
        self._in.accept(key, message, text, now.mono)

    def _is_earlier(self, event: Received) -> bool:
        """Of two times the later one counts."""
        reached = self.bookmark.positions.get(event.channel)
        if reached is None:
            return False
        here, there = parse_timestamp(str(event.position)), parse_timestamp(str(reached))
        return here is not None and there is not None and here < there

    def key_of(self, event: Received) -> Key | None:
        """Return the key by which an event is recognized: its position, or where several share one
        its id.
        """
        if self._is_time:
            return None if event.id is None else (event.type, event.id)
        return (_LOG if event.channel is None else _LOG + event.channel, str(event.position))

    def match(self, event: Received, text: Frame) -> Match:
        """Compare this event with the one of its name that was delivered.

        An event without a name is FORGOTTEN: it is counted, not looked up (`unnamed`).
        """
        key = self.key_of(event)
        mark = None if key is None else self._in.watermark.by_key.get(key)
        if mark is None:
            return Match.FORGOTTEN
        had = event if mark.text == text else self._event_of(mark, event)
        if had is None:
            is_same = canonical(mark.text) == canonical(text)
            return Match.CONTENT if is_same else Match.OTHER
        found = match(
            had, event, volatile=self.policy.volatile, is_opaque=self.policy.order == "opaque"
        )
        if found is Match.ID and self._is_number and self._is_shared(event):
            return Match.CONTENT
        return found

    def _is_shared(self, event: Received) -> bool:
        """Return whether an event before this one has its id too: then it is no event's name."""
        marks = islice(reversed(self._in.watermark.tail), _COMPARED)
        others = (
            other for mark in marks if mark.key is not None for other in self._events_of(mark.text)
        )
        return any(
            other.id == event.id
            and other.channel == event.channel
            and other.position != event.position
            for other in others
        )

    def _event_of(self, mark: Mark, event: Received) -> Received | None:
        """Return the event of this name in a frame that was delivered."""
        for had in self._events_of(mark.text):
            if had.channel == event.channel and self.key_of(had) == mark.key:
                return had
        return None

    def unnamed(self) -> dict[Channel, Counter[str]]:
        """Count the events without a name that were delivered and may come again: by their frames,
        for each channel those at its position or later.
        """
        found: dict[Channel, Counter[str]] = {}
        if not self._is_time:
            return found
        for mark in self._in.watermark.tail:
            if mark.key is None:
                for event in self._events_of(mark.text):
                    if (
                        event.position is not None
                        and event.id is None
                        and not self._is_earlier(event)
                    ):
                        found.setdefault(event.channel, Counter())[self.content_of(event)] += 1
        return found

    def content_of(self, event: Received) -> str:
        return content_of(event, self.policy.volatile)

    def _events_of(self, text: Frame) -> list[Received]:
        if self._decode is None:
            return []
        facts = facts_of(self._decode, text, self.policy)
        return [fact for fact in facts if isinstance(fact, Received)]
