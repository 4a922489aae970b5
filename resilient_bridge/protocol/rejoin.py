"""One join, from the first byte of a connection to its verdict.

Evidence is collected, then merged exactly once.

While a join runs, replayable frames wait in the side buffer and replay answers are *evidence*:
nothing of either reaches the consumer until `resolve` has compared them with what was delivered
before the loss. Rule: one join, one verdict, one merge; whatever arrives later on the same
connection is counted and dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ..telemetry.events import Verdict
from .frames import canonical
from .merge import Item, cut, join_live, without_repeats
from .messages import parse_timestamp
from .order import order_of, stamps_of, surplus, unshown


if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from .facts import Frame
    from .merge import Cut, Join
    from .order import Order
    from .policies.replay import Replay
    from .watermark import Key, Memory, Watermark


class Answer(NamedTuple):
    """A replay answer: its messages without repeats, and how many side items had arrived before it.

    `in_order`: no pong has overtaken it, so what had arrived before it is in it.
    """

    items: list[Item]
    side_mark: int
    in_order: bool


class News(NamedTuple):
    """A message to deliver.

    `doubtful`: it may repeat one; `floating`: its position in the server's log is not known.
    """

    item: Item
    doubtful: bool
    floating: bool = False


class Outcome(NamedTuple):
    """How a join ended.

    `verdict` is None for the first join of a session; `items` are to be delivered in this order.

    `replayed` of them come from an answer. `repeats`: how many messages came again and were
    dropped. `run_from`: from this item on the tail is a run of the server's log again; None: it
    goes on without a hole.
    """

    verdict: Verdict | None
    reason: str
    items: list[News]
    replayed: int
    repeats: int = 0
    run_from: int | None = None


_NO_ANSWER: Final = Answer([], 0, True)


class Rejoin:
    """The evidence of one connection.

    `side` is bounded; `overflowed` ends the join as UNKNOWN(side_buffer_full).
    """

    def __init__(self, watermark: Watermark, policy: Replay) -> None:
        self._watermark = watermark
        self._policy = policy
        # The first join ever of this session, and one that takes the place of a lost session, are judged differently.
        self.first = not watermark.asked_to_join and not watermark.replaces
        self.new_session = watermark.replaces
        self.no_replay = False
        self.too_large = False  # the replay is not requested, because it does not fit
        self.timed_out = False
        self.overflowed = False
        self.asked_everything = False
        self.side: list[Item] = []
        self._side_bytes = 0
        self._side_keys: set[Key] = set()
        self._repeats = 0
        # the latest requested `since`; after a request without one, the value before
        self._since: datetime | None = None
        self._answers: list[Answer] = []
        self._asks: dict[str, bool] = {}  # id of our request -> answered, by id
        self._uncorrelated = 0
        self._overtaken: set[str] = set()  # requests whose ping was answered
        self.pings = True  # are there pings to tell order by?
        self.join_answered = False  # did the pong to the ping behind the join come?
        self.deadline: float | None = None

    # ---- evidence ---------------------------------------------------------------------------------------------

    def hold(self, item: Item) -> None:
        """A live frame arrived while the join runs; a second one with the same key is dropped."""
        if item.key is not None:
            if item.key in self._side_keys:
                self._repeats += 1
                return
            self._side_keys.add(item.key)
        self._side_bytes += len(item.text)
        if len(self.side) >= self._policy.max_messages or self._side_bytes > self._policy.max_bytes:
            self.overflowed = True
        self.side.append(item)

    def ask(self, identity: str, since: str | None) -> None:
        """We sent request_replay with this id; `since` None asks for everything."""
        self._asks[identity] = False
        self.asked_everything |= since is None
        self._since = parse_timestamp(since) or self._since

    def answer(self, items: Sequence[Item], identity: str | None) -> None:
        if identity is not None and identity in self._asks:
            self._asks[identity] = True
            in_order = identity not in self._overtaken
        else:
            self._uncorrelated += 1
            in_order = not self.join_answered or len(self._overtaken) < len(self._asks)
        self._answers.append(
            Answer(without_repeats(items), len(self.side), in_order and self.pings)
        )

    def barrier(self, identity: str) -> None:
        """The pong to the ping behind this request came: a server that works in order has answered
        the request before.
        """
        self._overtaken.add(identity)

    # ---- decisions --------------------------------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        return bool(self._asks)

    @property
    def is_ignored(self) -> bool:
        """Return whether the server has read our requests, by the pongs behind them, and answered
        none.
        """
        return (
            self.asked
            and not self._answers
            and (not self.pings or len(self._overtaken) >= len(self._asks))
        )

    @property
    def anchored(self) -> bool:
        """Return whether an answer holds the anchor (whatever follows it)."""
        return any(cut(answer.items, self._watermark).found != "absent" for answer in self._answers)

    @property
    def wants_everything(self) -> bool:
        """Return whether all requested answers came, none holds the anchor, and asking without
        `since` could still help.
        """
        if self.asked_everything or not self._all_came():
            return False
        lacking = self._watermark.anchor()[0] is not None and not self.anchored
        return lacking or not any(answer.items for answer in self._answers)

    @property
    def complete(self) -> bool:
        """Return whether there is nothing more to wait for."""
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
        """The verdict of delivery.md §3.6, first match wins, and what to deliver.

        Call once, when `complete`.
        """
        if self.new_session:
            return self._outcome(Verdict.GAP, "new_session", self._best(), is_doubtful=True)
        if self.first:
            return self._outcome(None, "joined", self._best())
        proofs: list[tuple[Answer, Cut, Order, Join]] = []
        for answer in self._answers:
            found = cut(answer.items, self._watermark)
            if found.found != "absent":
                order = order_of(
                    answer.items, found, self._watermark, self._memory, self._since,
                    earliest=self._earliest,
                )  # fmt: skip
                proofs.append((answer, found, order, self._join(answer, proven=True)))
        for answer, found, order, join in proofs:
            if not order.is_live or (
                found.found == "anchor" and self._is_at_odds(answer, found, join)
            ):
                return self._out_of_order(answer, found, order)
        for answer, found, _, _ in proofs:
            if found.found == "anchor":
                outcome = self._outcome(
                    Verdict.RECOVERED, "anchor", answer, start=found.at, sure=found.sure
                )
                # What may be history stays out: it may have been acted on before we came.
                is_sure = all(order.is_sure for _, _, order, _ in proofs)
                return (
                    outcome
                    if is_sure
                    else outcome._replace(verdict=Verdict.UNKNOWN, reason="order")
                )
        verdict, reason = self._unproven()
        return self._outcome(
            verdict, reason, self._best(), is_doubtful=self._watermark.accepted > 0
        )

    def _unproven(self) -> tuple[Verdict, str]:
        if self.anchored:
            return Verdict.GAP, "mismatch"
        has_anchor = self._watermark.anchor()[0] is not None
        if has_anchor and any(answer.items for answer in self._answers):
            return Verdict.GAP, "truncated"
        if self.overflowed:
            return Verdict.UNKNOWN, "side_buffer_full"
        if self.no_replay:
            return Verdict.UNKNOWN, "too_large" if self.too_large else "no_replay"
        if self.timed_out and not self._all_came():
            return Verdict.UNKNOWN, "timeout"
        if not has_anchor:
            return Verdict.UNKNOWN, "no_anchor"
        return Verdict.UNKNOWN, "empty"

    def _best(self) -> Answer:
        """Without proof, return the answer that shows most; of equal ones the later."""
        return max(
            reversed(self._answers), key=lambda answer: len(answer.items), default=_NO_ANSWER
        )

    def _join(self, answer: Answer, *, proven: bool) -> Join:
        counted = [item for item in answer.items if item.counts]
        live = [item for item in self.side if item.counts]
        before = sum(item.counts for item in self.side[: answer.side_mark])
        return join_live(counted, live, before if answer.in_order else None, proven=proven)

    def _is_at_odds(self, answer: Answer, found: Cut, join: Join) -> bool:
        """Return whether the side buffer shows that the answer is not in live order, so that one of
        the two may repeat or overtake the other.
        """
        if not join.disagrees:
            return False
        keys = {item.key for item in answer.items}
        early = self.side[: answer.side_mark]
        has_news = any(self._is_new(item) for item in answer.items[found.at :])
        if has_news and any(
            item.counts and item.key not in keys and self._is_new(item)
            for item in early
            if item.key
        ):
            return True
        texts = {item.canonical for item in answer.items if item.key is None}
        return any(
            item.counts and item.key is None and item.canonical in texts for item in self.side
        )

    def _out_of_order(self, answer: Answer, found: Cut, order: Order) -> Outcome:
        """The answer is not in the order of the live stream: deliver what we never had, wherever it
        stands, without proof.
        """
        # What is new before the anchor may also have been lost under an earlier gap, and be found again.
        has_gap = self._watermark.seam or self._watermark.is_behind_gap
        is_explained = has_gap and (bool(order.new) or order.has_more)
        self._watermark.is_shuffled |= not is_explained
        more = surplus(answer.items, self._watermark, self._memory)
        new = set(order.new)
        stamps = stamps_of(answer.items)
        news: list[News] = []
        for at, item in enumerate(answer.items):
            if item.key is None:
                if at in more:
                    news.append(News(item, doubtful=True, floating=at < found.anchor))
            elif at in new or (at > found.anchor and self._is_new(item)):
                doubtful = self._memory.may_have_had(stamps[at])
                news.append(News(item, doubtful=doubtful, floating=at in new))
        return self._with_side(
            Verdict.UNKNOWN, "order", answer, news, self._join(answer, proven=False)
        )

    def _outcome(
        self,
        verdict: Verdict | None,
        reason: str,
        answer: Answer,
        *,
        start: int = 0,
        sure: int = 0,
        is_doubtful: bool = False,
    ) -> Outcome:
        """Deliver `answer` from `start` on, and what is new in the side buffer.

        Before `sure`, items without an id may repeat.

        `is_doubtful`: nothing is proven, so all id-less items may repeat, and so may those with an
        id that are older than our memory.
        """
        proven = verdict is Verdict.RECOVERED
        join = self._join(answer, proven=proven)
        moved: Counter[Frame] = (
            unshown(answer.items[:start], self._watermark) if proven else Counter()
        )
        news: list[News] = []
        live = self._only_in_live(answer, join, proven=proven)
        if not join.subsumed:
            for at, (item, stamp) in enumerate(
                zip(answer.items, stamps_of(answer.items), strict=True)
            ):
                if at < start or not self._is_new(item):
                    continue
                if live[item.key or item.canonical] > 0:
                    live[item.key or item.canonical] -= 1
                    continue
                if item.key is None:
                    news.append(News(item, is_doubtful or at < sure or moved[item.canonical] > 0))
                else:
                    news.append(News(item, is_doubtful and self._memory.may_have_had(stamp)))
        outcome = self._with_side(verdict, reason, answer, news, join, live=live)
        return outcome._replace(
            repeats=outcome.repeats - (len(answer.items) if join.subsumed else 0)
        )

    def _only_in_live(self, answer: Answer, join: Join, *, proven: bool) -> Counter[Key | Frame]:
        """What the answer holds, and the side buffer too, where nothing shows how the two fit: it
        is delivered only once, in the live order.

        Delivered from the answer it would come twice, or before an earlier message; a gap is
        reported in any case.
        """
        is_known = (
            proven or join.subsumed or join.skip > 0 or (answer.in_order and not join.disagrees)
        )
        return (
            Counter()
            if is_known
            else Counter(item.key or item.canonical for item in self.side if item.counts)
        )

    def _with_side(
        self,
        verdict: Verdict | None,
        reason: str,
        answer: Answer,
        news: list[News],
        join: Join,
        *,
        live: Mapping[Key | Frame, int] = MappingProxyType({}),
    ) -> Outcome:
        """Put what is new in the side buffer behind what is new in the answer, where what was left
        to `live` belongs too.
        """
        seen = {
            item.key
            for item in answer.items
            if item.key is not None and not join.subsumed and item.key not in live
        }
        texts = (
            {item.canonical for item in answer.items if item.key is None}
            if join.disagrees
            else set[str]()
        )
        replayed, index_in_side = len(news), 0
        for item in self.side:
            if item.counts:
                index_in_side += 1
                if index_in_side <= join.skip:
                    continue
            if not self._is_new(item) or item.key in seen:
                continue
            if item.key is None:
                may_repeat = index_in_side <= join.skip + join.doubtful or item.canonical in texts
                if not may_repeat and not self.first and verdict is not Verdict.RECOVERED:
                    may_repeat = self._is_old(item) or item.canonical in self._delivered
                news.append(News(item, item.counts and may_repeat))
            else:
                is_old = not self.first and verdict is not Verdict.RECOVERED and self._is_old(item)
                news.append(News(item, is_old))
        repeats = len(answer.items) + len(self.side) - len(news) + self._repeats
        is_run = verdict in {None, Verdict.RECOVERED} and not join.disagrees and not join.doubtful
        # Live frames are a run of their own, whatever stands before them.
        run_from = None if is_run else replayed
        return Outcome(verdict, reason, news, replayed, repeats, run_from)

    def _is_old(self, item: Item) -> bool:
        """Return whether this live frame is older than what we remember.

        Some servers push stored messages as if they were live.
        """
        stamp = item.message.timestamp
        return stamp is not None and self._memory.may_have_had(stamp)

    @cached_property
    def _delivered(self) -> set[Frame]:
        return {canonical(mark.text) for mark in self._watermark.tail if mark.key is None}

    @cached_property
    def _memory(self) -> Memory:
        return self._watermark.memory()

    @property
    def _earliest(self) -> datetime | None:
        """The smallest timestamp that a new message can have, if the server's clock was not set
        back by more than the overlap; None if there is no believable one.
        """
        if self._asks and self._since is None:
            return None
        return parse_timestamp(self._watermark.since(self._policy.overlap, None))

    def _is_new(self, item: Item) -> bool:
        key = item.key
        if key is None:
            return True
        return not (
            key in self._watermark or self._watermark.is_used_up(key) or key in self._memory.edge
        )
