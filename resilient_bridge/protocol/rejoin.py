"""One join, from the first byte of a connection to its verdict: evidence is collected, then merged exactly once.

While a join runs, replayable frames wait in the side buffer and replay answers are *evidence*: nothing of either reaches
the consumer until `resolve` has compared them with what was delivered before the loss. Rule: one join, one verdict, one
merge; whatever arrives later on the same connection is counted and dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ..telemetry.events import Verdict
from .merge import Item, cut, join_live, without_repeats


if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..policies import Replay
    from .watermark import Key, Watermark

__all__ = ["Outcome", "Rejoin"]


class Answer(NamedTuple):
    """A replay answer: its messages without repeats, and how many side items had arrived before it.

    `in_order`: no pong has overtaken it, so what had arrived before it is in it.
    """

    items: list[Item]
    side_mark: int
    in_order: bool


class Outcome(NamedTuple):
    """How a join ended. `verdict` is None for the first join of a session; `items` are to be delivered in this order."""

    verdict: Verdict | None
    reason: str
    items: list[tuple[Item, bool]]  # (item, may it repeat one already delivered?)
    replayed: int


_NO_ANSWER: Final = Answer([], 0, True)


class Rejoin:
    """The evidence of one connection. `side` is bounded; `overflowed` ends the join as UNKNOWN(side_buffer_full)."""

    def __init__(self, watermark: Watermark, policy: Replay) -> None:
        self._watermark = watermark
        self._policy = policy
        # The first join ever of this session, and one that takes the place of a lost session, are judged differently.
        self.first = not watermark.asked_to_join and not watermark.replaces
        self.new_session = watermark.replaces
        self.no_replay = False
        self.timed_out = False
        self.overflowed = False
        self.asked_everything = False
        self.side: list[Item] = []
        self._side_bytes = 0
        self._side_keys: set[Key] = set()
        self._answers: list[Answer] = []
        self._asks: dict[str, bool] = {}  # id of our request -> answered, by id
        self._uncorrelated = 0
        self._overtaken: set[str] = set()  # asks whose ping was answered
        self.pings = True  # are there pings to tell order by?
        self.join_answered = False  # did the pong to the ping behind the join come?
        self.deadline: float | None = None

    # ---- evidence ---------------------------------------------------------------------------------------------

    def hold(self, item: Item) -> None:
        """A live frame arrived while the join runs; a second one of the same key is not kept."""
        if item.key is not None:
            if item.key in self._side_keys:
                return
            self._side_keys.add(item.key)
        self._side_bytes += len(item.text)
        if len(self.side) >= self._policy.max_messages or self._side_bytes > self._policy.max_bytes:
            self.overflowed = True
        self.side.append(item)

    def ask(self, identity: str, *, everything: bool) -> None:
        """We sent request_replay with this id (`everything`: without `since`)."""
        self._asks[identity] = False
        self.asked_everything |= everything

    def answer(self, items: Sequence[Item], identity: str | None) -> None:
        """A replay answer arrived, asked for or pushed."""
        if identity is not None and identity in self._asks:
            self._asks[identity] = True
            in_order = identity not in self._overtaken
        else:
            self._uncorrelated += 1
            in_order = not self.join_answered or len(self._overtaken) < len(self._asks)
        self._answers.append(Answer(without_repeats(items), len(self.side), in_order and self.pings))

    def barrier(self, identity: str) -> None:
        """The pong to the ping behind this ask came: a server that works in order has answered it before."""
        self._overtaken.add(identity)

    # ---- decisions --------------------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Has the server been asked on this connection?"""
        return bool(self._asks)

    @property
    def anchored(self) -> bool:
        """Does an answer hold the anchor (whatever follows it)?"""
        return any(cut(answer.items, self._watermark).found != "absent" for answer in self._answers)

    @property
    def wants_everything(self) -> bool:
        """All asked-for answers came, none holds the anchor, and asking without `since` could still help."""
        if self.asked_everything or not self._all_came():
            return False
        lacking = self._watermark.anchor()[0] is not None and not self.anchored
        return lacking or not any(answer.items for answer in self._answers)

    @property
    def complete(self) -> bool:
        """Nothing more is to be waited for."""
        if self.new_session or self.no_replay or self.timed_out or self.overflowed or self.anchored:
            return True
        return self.asked and self._all_came() and not self.wants_everything

    def _all_came(self) -> bool:
        if all(self._asks.values()):
            return True
        # Answers without our id (the seed's own server): as many as we asked, and the server has read past the last ask.
        return self._uncorrelated >= len(self._asks) and len(self._overtaken) >= len(self._asks)

    # ---- the verdict ------------------------------------------------------------------------------------------

    def resolve(self) -> Outcome:
        """The verdict of delivery.md §3.6, first match wins, and what to deliver. Call once, when `complete`."""
        if self.new_session:
            return self._outcome(Verdict.GAP, "new_session", self._best())
        if self.first:
            return self._outcome(None, "joined", self._best())
        for answer in self._answers:
            found = cut(answer.items, self._watermark)
            if found.found == "anchor":
                return self._outcome(Verdict.RECOVERED, "anchor", answer, found.at, found.sure)
        verdict, reason = self._unproven()
        best = self._best()
        return self._outcome(verdict, reason, best, sure=len(best.items) if self._watermark.accepted else 0)

    def _unproven(self) -> tuple[Verdict, str]:
        if self.anchored:
            return Verdict.GAP, "mismatch"
        has_anchor = self._watermark.anchor()[0] is not None
        if has_anchor and any(answer.items for answer in self._answers):
            return Verdict.GAP, "truncated"
        if self.overflowed:
            return Verdict.UNKNOWN, "side_buffer_full"
        if self.no_replay:
            return Verdict.UNKNOWN, "no_replay"
        if self.timed_out and not self._all_came():
            return Verdict.UNKNOWN, "timeout"
        if not has_anchor:
            return Verdict.UNKNOWN, "no_anchor"
        return Verdict.UNKNOWN, "empty"

    def _best(self) -> Answer:
        """Without proof, the answer that says most; of equals the later one."""
        return max(reversed(self._answers), key=lambda answer: len(answer.items), default=_NO_ANSWER)

    def _outcome(
        self, verdict: Verdict | None, reason: str, answer: Answer, start: int = 0, sure: int = 0
    ) -> Outcome:
        """Deliver `answer` from `start` on and what is new in the side buffer; before `sure`, id-less items may repeat."""
        counted = [item for item in answer.items if item.counts]
        live = [item for item in self.side if item.counts]
        before = sum(item.counts for item in self.side[: answer.side_mark])
        proven = verdict is Verdict.RECOVERED
        join = join_live(counted, live, before if answer.in_order else None, proven=proven)
        replay = [] if join.subsumed else answer.items
        seen = {item.key for item in replay if item.key is not None}
        news = [
            (item, at < sure and item.key is None)
            for at, item in enumerate(replay)
            if at >= start and self._is_new(item)
        ]
        replayed, place = len(news), 0
        for item in self.side:
            if item.counts:
                place += 1
                if place <= join.skip:
                    continue
            if self._is_new(item) and item.key not in seen:
                news.append((item, item.key is None and item.counts and place <= join.skip + join.doubtful))
        return Outcome(verdict, reason, news, replayed)

    def _is_new(self, item: Item) -> bool:
        return item.key is None or not (item.key in self._watermark or self._watermark.is_used_up(item.key))
