"""How far a session has been read: one bounded object, O(1) per message.

The tail holds what was accepted into the inbox, newest last; a suffix of it has not been taken by
the consumer yet. In a living process the whole tail counts, because the inbox outlives the link.
After a restart only what was taken counts: `rollback` drops the rest, and the server's replay
brings it again. Rule: nothing enters that a server would not replay, and a position is made only of
the server's own data (its keys, its timestamps), never of our clock.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from .bookmark import Bookmark
from .frames import canonical
from .messages import parse_timestamp, print_like


if TYPE_CHECKING:
    from collections.abc import Iterable

    from .facts import Channel, Frame, Record
    from .policies.positions import Positions


#: (type, id): ids alone are not unique, one id serves `tool_call` and then `approval_required`.
Key: TypeAlias = tuple[str, str]

_MAX_ENTRIES: Final = 2_048
_MAX_AGE: Final = 1_800.0
_MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_ANSWERS: Final = 8_192
_FORGOTTEN: Final = 4_096
_REGRESSION_WINDOW: Final = 64


class Mark(NamedTuple):
    """One accepted message: its unique key if it has one, its frame, the server's timestamp.

    `doubtful`: it had no id and may repeat an earlier one, so the server's log may hold it once or
    twice. `floating`: a replay brought it before the anchor, so it has another index in that log.
    """

    key: Key | None
    text: Frame
    stamp: str | None
    mono: float
    doubtful: bool
    floating: bool = False


class Memory(NamedTuple):
    """How far back a watermark can tell known from new: computed once per join.

    `smallest`: the smallest timestamp in the tail. `horizon`: the largest one that was forgotten.
    `edge`: the keys of forgotten messages whose timestamp is not below `smallest`. `has_forgotten`:
    was anything delivered that is not in the tail? `is_whole`: the tail holds all that the session
    has ever delivered to anybody, so nothing can be older. `forgotten`: the keys of the last
    messages that were forgotten.
    """

    smallest: datetime | None
    horizon: datetime | None
    edge: frozenset[Key]
    has_forgotten: bool
    is_whole: bool = False
    forgotten: frozenset[Key] = frozenset()

    def may_have_had(self, stamp: datetime | None) -> bool:
        """Return whether a message with this timestamp may be a delivered and forgotten one."""
        return self.has_forgotten and (
            stamp is None or self.horizon is None or stamp <= self.horizon
        )

    def is_older(self, stamp: datetime | None) -> bool:
        """Return whether this timestamp is below all that is remembered; without one, whether it
        could be.
        """
        if self.is_whole:  # the clock was set back: it is a new message
            return False
        if stamp is None or self.smallest is None:
            return self.has_forgotten
        return stamp < self.smallest

    def may_be_new(self, key: Key, stamp: datetime | None, earliest: datetime | None) -> bool:
        """Return whether an older message may be a new one, from after a step of the clock.

        `earliest`: the smallest timestamp that a message can have after a step that is no longer
        than the overlap.
        """
        if stamp is None or self.smallest is None or key in self.forgotten:
            return False
        return earliest is None or stamp >= earliest


class Watermark:
    """The position of one session.

    `asked_to_join` once a join was sent: it may have succeeded unknown to us, so the next one must
    end in a verdict. `joined` once one has succeeded: from then on the server should know the
    session. `replaces`: this session took the place of one that was lost, and the gap between them
    has not been reported yet; it outlives links and processes.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.asked_to_join = False
        # did the URL of this connection, or one of its headers, request what was missed?
        self.asks_in_url = False
        self.joined = False
        self.replaces = False
        # Was its id drawn here, for a server with sessions? Then it holds nothing from before.
        self.is_own = False
        # Was a gap reported before its first message? Then that is not the first one of the log.
        self.is_behind_gap = False
        self.epoch: str | None = None
        self.accepted = 0
        self.taken = 0
        self.handed = 0
        self._tail: deque[Mark] = deque()
        self._answers: OrderedDict[Key, None] = OrderedDict()
        self.passed_by: OrderedDict[Key, None] = OrderedDict()  # see pass_by
        self._in_hand: list[Mark] = []
        self.by_key: dict[Key, Mark] = {}  # of the tail
        self._bytes = 0
        self._stamp: str | None = None
        self.is_stored = False  # by a durable store, since it last had to be
        self.answers_used = 0
        # messages that an earlier process may have handed out; whether it did is unknown
        self._unsure = 0
        self._flagged: dict[Channel, int] = {}  # how many of those have come since, for each log
        self._forgotten: deque[tuple[Key | None, str | None]] = deque(maxlen=_FORGOTTEN)
        self._horizon: datetime | None = None  # of what an earlier process forgot
        # Through this number the tail need not be a run of the server's log: a join without proof, or a restart, lies between.
        self.seam = 0
        self.bookmark: Bookmark | None = None  # of a server that gives its events positions
        self.is_shuffled = (
            False  # has a replay of this session come in another order than the live stream?
        )

    def __repr__(self) -> str:
        return f"<Watermark {self.session_id} accepted={self.accepted} taken={self.taken} last={self._stamp}>"

    def __contains__(self, key: Key | None) -> bool:
        """Return whether a message with this key was accepted, as far as the tail reaches back."""
        return key in self.by_key

    @property
    def tail(self) -> tuple[Mark, ...]:
        return tuple(self._tail)

    @property
    def last_timestamp(self) -> datetime | None:
        return parse_timestamp(self._stamp)

    def accept(
        self,
        key: Key | None,
        text: Frame,
        stamp: str | None,
        mono: float,
        *,
        doubtful: bool = False,
        floating: bool = False,
    ) -> None:
        """A message entered the inbox. A missing timestamp inherits the previous one."""
        if stamp is None:
            stamp = self._stamp
        else:
            self._stamp = stamp
        mark = Mark(key, text, stamp, mono, doubtful, floating)
        tail = self._tail
        tail.append(mark)
        self._bytes += len(text)
        if key is not None:
            self.by_key[key] = mark
        self.accepted += 1
        # Age is counted back from the last delivery, not from now: the tail does not age while the link is down.
        while len(tail) > 1 and (
            len(tail) > _MAX_ENTRIES or tail[0].mono < mono - _MAX_AGE or self._bytes > _MAX_BYTES
        ):
            oldest = tail.popleft()
            self._forgotten.append((oldest.key, oldest.stamp))
            self._forget(oldest)

    def _forget(self, mark: Mark) -> None:
        self._bytes -= len(mark.text)
        if mark.key is not None and self.by_key.get(mark.key) is mark:
            del self.by_key[mark.key]

    def hand(self) -> None:
        """The consumer got one message; it is not taken until the next is requested."""
        self.handed += 1

    def take(self) -> None:
        """The consumer asked for the next message: every message handed out before is done."""
        self.taken = self.handed
        if self.bookmark is not None:
            self.bookmark.take(self.taken)

    def rollback(self) -> None:
        """The process is new: forget what was accepted and never taken, but not what the consumer
        had been handed.
        """
        popped = [self._tail.pop() for _ in range(min(self.accepted - self.taken, len(self._tail)))]
        for mark in popped:
            self._forget(mark)
        self._in_hand = [*self._in_hand, *popped[::-1][: self.handed - self.taken]][
            -_REGRESSION_WINDOW:
        ]
        self.accepted = self.handed = self.taken
        self.passed_by.clear()
        self._stamp = self._tail[-1].stamp if self._tail else None
        self.seam = min(self.seam, self.accepted)
        if self.bookmark is not None:
            self.bookmark.rollback(self.taken)

    def was_in_hand(self, key: Key | None, text: Frame | None, channel: Channel = None) -> bool:
        """Return whether the consumer of an earlier process got, or may have got, this message
        without asking for the next.

        Without `text` the key alone identifies the message. Logs that the earlier process had read
        may come again in any order, so each has its own count of messages in doubt; all other logs
        share one.
        """
        if self._unsure:
            log = channel if channel in self._flagged else None
            flagged = self._flagged.get(log, 0)
            if flagged < self._unsure:
                self._flagged[log] = flagged + 1
                return True
        # Live messages ask, too, and nearly always there is nothing to compare with.
        return bool(self._in_hand) and any(
            mark.key == key
            and (text is None or mark.text == text or canonical(mark.text) == canonical(text))
            for mark in self._in_hand
        )

    def out_of_hand(self) -> None:
        """The consumer of this process is done with a message that had been handed out by an
        earlier one: the last one taken.
        """
        index = self.taken - self.first
        if not 0 <= index < len(self._tail):
            return
        key = self._tail[index].key
        found = next((mark for mark in self._in_hand if mark.key == key), None)
        if found is not None:
            self._in_hand.remove(found)

    def use_up(self, key: Key) -> None:
        """Record the answer to a request: it is in no stream, no replay and no later process."""
        if key not in self._answers:
            self.answers_used += 1
        self._answers[key] = None
        if len(self._answers) > _MAX_ANSWERS:
            self._answers.popitem(last=False)

    def pass_by(self, key: Key) -> None:
        """Record a message that was delivered and may be one that was forgotten: in this process it
        does not come again.
        """
        self.passed_by[key] = None
        if len(self.passed_by) > _MAX_ANSWERS:
            self.passed_by.popitem(last=False)

    def is_used_up(self, key: Key) -> bool:
        return key in self._answers or key in self.passed_by

    def is_sure(self) -> None:
        """A join is over: messages from here on were not handed out before."""
        self._unsure = 0

    def record(self, positions: Positions | None) -> Record:
        # imported here: only a dialect with its own frames has events (P9)
        from .facts import Record

        bookmark = self.bookmark or Bookmark()
        return Record(
            session_id=self.session_id,
            **bookmark.life._asdict(),
            positions=MappingProxyType(dict(bookmark.positions)),
            epochs=MappingProxyType(dict(bookmark.epochs)),
            joined=self.joined,
            overlap=0 if positions is None else positions.overlap,
            moved=frozenset(bookmark.moved),
        )

    @property
    def bookmark_changes(self) -> int:
        """How often what a store has to write of the bookmark has changed."""
        return 0 if self.bookmark is None else self.bookmark.changes

    # ---- kept by a store --------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The number of the oldest message that is still held; the first ever accepted has 1."""
        return self.accepted - len(self._tail) + 1

    def marks(self, after: int) -> list[tuple[int, Mark]]:
        """The messages taken since the one with number `after`, each with its number."""
        start = max(after + 1, self.first)
        held = itertools.islice(self._tail, start - self.first, max(self.taken - self.first + 1, 0))
        return list(enumerate(held, start))

    def answers(self, after: int) -> list[tuple[int, Key]]:
        """The answers used up since the one with number `after`, each with its number."""
        start = max(after, self.answers_used - len(self._answers))
        skipped = len(self._answers) - (self.answers_used - start)
        return list(enumerate(itertools.islice(self._answers, skipped, None), start + 1))

    @property
    def in_hand(self) -> list[Mark]:
        """Return the messages that the consumer has, or had in an earlier process, without having
        asked for the next.
        """
        held = self._tail
        start = len(held) - (self.accepted - self.taken)
        handed = itertools.islice(held, max(start, 0), max(start + self.handed - self.taken, 0))
        return [*self._in_hand, *handed][-_REGRESSION_WINDOW:]

    def restore(
        self,
        marks: Iterable[Mark],
        *,
        taken: int,
        answers: Iterable[Key],
        answers_used: int,
        in_hand: Iterable[Mark],
        unsure: int,
        horizon: datetime | None = None,
        seam: int | None = None,
        bookmark: Bookmark | None = None,
    ) -> None:
        """Take over what a store kept of an earlier process.

        It may have handed out `unsure` messages more. `horizon`: the largest timestamp of what it
        had forgotten, where the store has kept that; release 0.1 has not, and then it is the
        smallest one in the tail. So it is with `seam`: then nothing of the tail is known to be a
        run.
        """
        for mark in marks:
            self._tail.append(mark)
            self._bytes += len(mark.text)
            if mark.key is not None:
                self.by_key[mark.key] = mark
        self._stamp = self._tail[-1].stamp if self._tail else None
        self.accepted = self.handed = self.taken = taken
        self._answers = OrderedDict.fromkeys(answers)
        self.answers_used = answers_used
        self._in_hand = list(in_hand)
        self._unsure = unsure
        self._flagged = {} if bookmark is None else dict.fromkeys(bookmark.positions, 0)
        self._horizon = horizon
        self.seam = taken if seam is None else seam
        self.bookmark = bookmark

    # ---- what a replay is held against ------------------------------------------------------------------------

    def memory(self) -> Memory:
        """Return how far back known and new messages can be distinguished."""
        stamps = (parse_timestamp(mark.stamp) for mark in self._tail)
        smallest = min((stamp for stamp in stamps if stamp is not None), default=None)
        has_forgotten = self.first > 1
        forgotten = [(key, parse_timestamp(stamp)) for key, stamp in self._forgotten]
        horizon = max((stamp for _, stamp in forgotten if stamp is not None), default=self._horizon)
        if self._horizon is not None and horizon is not None:
            horizon = max(horizon, self._horizon)
        if has_forgotten and horizon is None:
            horizon = smallest
        edge = (
            key
            for key, stamp in forgotten
            if key is not None and stamp is not None and (smallest is None or stamp >= smallest)
        )
        return Memory(
            smallest, horizon, frozenset(edge), has_forgotten,
            is_whole=self.is_own and not has_forgotten,
            forgotten=frozenset(key for key, _ in self._forgotten if key is not None),
        )  # fmt: skip

    @property
    def horizon_text(self) -> str | None:
        """The largest timestamp forgotten, for a store; None if nothing was. Cheap to ask."""
        newest = parse_timestamp(self._forgotten[-1][1]) if self._forgotten else None
        horizon = max(
            (moment for moment in (newest, self._horizon) if moment is not None), default=None
        )
        return horizon.isoformat() if horizon is not None else None

    def run_before_anchor(self) -> list[Mark]:
        """Return what was delivered before the anchor without a seam in between, newest first: a
        run of the server's log.
        """
        marks = list(itertools.islice(reversed(self._tail), max(self.accepted - self.seam, 0)))
        at = next(
            (i for i, mark in enumerate(marks) if mark.key is not None and not mark.floating),
            len(marks),
        )
        return marks[at + 1 :]

    def anchor(self) -> tuple[Mark | None, list[Mark]]:
        """Return the last accepted message with a unique key at its proper position, and the
        id-less ones accepted after it.
        """
        after: list[Mark] = []
        for mark in reversed(self._tail):
            if mark.floating:
                continue
            if mark.key is not None:
                return mark, after[::-1]
            after.append(mark)
        return None, []

    # ---- what to ask for --------------------------------------------------------------------------------------

    def since(self, overlap: float, server_time: datetime | None) -> str | None:
        """What to ask the server for, in its own format; None to ask for everything.

        The smallest timestamp of the last 64 messages (a clock that went back lowers it) minus the
        overlap. A timestamp beyond the server's own time plus the overlap is not believed.
        """
        margin = timedelta(seconds=overlap)
        best: tuple[datetime, str] | None = None
        recent: Iterable[Mark] = itertools.islice(reversed(self._tail), _REGRESSION_WINDOW)
        for mark in recent:
            moment = parse_timestamp(mark.stamp)
            if moment is None or mark.stamp is None:
                continue
            if server_time is not None and moment - server_time > margin:
                continue
            if best is None or moment < best[0]:
                best = moment, mark.stamp
        if best is None:
            return None
        try:
            return print_like(best[0] - margin, best[1])
        except OverflowError:
            return None
