"""The evidence of one connection to a server with positions: what arrives until the replay ends,
and how its end is known.

Pure: it holds what arrived, decides when that is enough, and hands all of it to `recovery`. Rule:
what is held is bounded; what provably continues where we stopped need not be held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .matching import PROVES, Match
from .recovery import Evidence, Incoming


if TYPE_CHECKING:
    from .clock import Now
    from .facts import Channel, Hello, Position, Replayed
    from .policies.replay import Replay
    from .positioned import Positioned
    from .recovery import Over


class Replaying:
    """`others`: channels whose log is another one, and why.

    `lost_backfill`: why the user's function could not fetch everything.
    """

    def __init__(self, positioned: Positioned, bounds: Replay) -> None:
        self.backfilled: list[Incoming] = []
        self.lost_backfill = ""
        self.has_unreadable = False
        self.has_asked = False
        self.is_contradicted = False  # has this connection named another log than the one we asked?
        self.channels: tuple[Channel, ...] = ()  # the channels that were requested
        gone = positioned.bookmark.gone
        self.others: dict[Channel, str] = {None: gone} if gone else {}
        self.released = 0
        self.positioned, self.policy, self._bounds = positioned, positioned.policy, bounds
        self._heard: list[Incoming] = []
        self._bytes = 0
        self._seen: dict[Channel, set[Position | None]] = {}
        self._highest: dict[Channel, int] = {}
        # up to which position what arrived continues without a hole
        self._runs: dict[Channel, tuple[int, int]] = {}
        self._statements: dict[Channel, Replayed] = {}
        self._same_session = False
        self._same_logs: set[Channel] = set()

    def greet(self, hello: Hello, number: int) -> None:
        bookmark = self.positioned.bookmark
        if hello.epoch is not None and hello.epoch == bookmark.life.epoch:
            self._same_logs.add(None)
        self._same_session = hello.session is not None and hello.session == bookmark.life.session
        why = bookmark.contradicted(hello)
        if why:
            self.is_contradicted = True
            self.forget(why)
        bookmark.greet(hello, number)

    def forget(self, why: str) -> None:
        self.others[None] = why
        self.positioned.forget()
        self.positioned.bookmark.gone = why  # until it is reported, perhaps on another connection

    def hold(self, heard: Incoming) -> None:
        self._heard.append(heard)
        self._bytes += len(heard.text)
        event = heard.event
        self._seen.setdefault(event.channel, set()).add(event.position)
        if isinstance(event.position, int):
            self._highest[event.channel] = max(
                self._highest.get(event.channel, event.position), event.position
            )
        reached = self._positions.get(event.channel)
        if heard.is_marker and isinstance(event.position, int) and isinstance(reached, int):
            # What lies before a position that moved is not for us.
            self._runs[event.channel] = (
                reached,
                max(self._run(event.channel, reached), event.position),
            )

    def goes_on(self, heard: Incoming) -> bool:
        """Return whether this held event may belong to the replay.

        One behind a hole is as good as live, and so is one without the anchor, or with a number
        that was not asked for or that another event had.
        """
        event = heard.event
        position, channel = event.position, event.channel
        reached = self._positions.get(channel)
        if not (isinstance(position, int) and isinstance(reached, int)):
            return not self.policy.contiguous or position is not None
        if position <= reached:
            is_asked = self.policy.repeats or position >= reached - self.policy.overlap
            return is_asked and self.positioned.match(event, heard.text) is not Match.OTHER
        if not self.policy.contiguous or position < self._highest[channel]:
            return True
        is_anchored = not self.policy.shows_anchor or reached in self._seen[channel]
        return is_anchored and self._run(channel, reached) >= position

    @property
    def is_full(self) -> bool:
        return len(self._heard) > self._bounds.max_messages or self._bytes > self._bounds.max_bytes

    def state(self, fact: Replayed) -> None:
        """The server makes a statement about the replay; its last one counts, and a shorter
        statement does not take back more.
        """
        earlier = self._statements.get(fact.channel)
        if earlier is None or fact.complete is not None or earlier.complete is None:
            self._statements[fact.channel] = fact
        known = self.positioned.bookmark.epochs.get(fact.channel)
        if None not in {known, fact.epoch}:
            if known == fact.epoch:
                self._same_logs.add(fact.channel)
            else:
                self.others[fact.channel] = "new_epoch"

    @property
    def has_lost_start(self) -> bool:
        """Return whether the server lacks what a first request asked for."""
        return any(fact.complete is False for fact in self._statements.values())

    def evidence(self, over: Over) -> Evidence:
        bookmark = self.positioned.bookmark
        return Evidence(
            dict(bookmark.positions),
            [*self.backfilled, *self._heard],
            self._statements,
            self.positioned.match,
            over,
            unnamed=self.positioned.unnamed(),
            content=self.positioned.content_of,
            same_logs=self._same_logs,
            others=self.others,
            same_session=self._same_session,
            lost_backfill=self.lost_backfill,
            moved=frozenset(bookmark.moved),
            has_asked=self.has_asked,
            fetched=len(self.backfilled),
            has_forgotten=self.positioned.has_forgotten,
            has_unreadable=self.has_unreadable,
        )

    @property
    def epochs(self) -> dict[Channel, str]:
        return {
            name: fact.epoch for name, fact in self._statements.items() if fact.epoch is not None
        }

    def over(self) -> Over | None:
        """Return how the replay is known to have ended; None if it may continue."""
        policy = self.policy
        if policy.proof == "session" and (self._same_session or self.others.get(None)):
            return "stated"
        if self.others.get(None) and not self.has_asked:
            return "nothing"
        named = [name for name in self._positions if name is not None]
        asked: list[Channel] = [None]
        if policy.per_channel:
            asked = [*self.channels] or [*named] or list(self._statements) or [None]
        if all(self._is_settled(channel) for channel in asked):
            return "stated"
        if policy.ends == "anchor" and all(self._has_anchor(channel) for channel in asked):
            return "anchor"
        return None

    @property
    def _positions(self) -> dict[Channel, Position]:
        return self.positioned.bookmark.positions

    def _is_settled(self, channel: Channel) -> bool:
        stated = self._statements.get(channel) or self._statements.get(None)
        if stated is None:
            return False
        through, first = stated.through, stated.first
        if stated.complete is None and through is None:
            return self.policy.ends == "stated"
        if not isinstance(through, int) or (isinstance(first, int) and through < first):
            return True  # nothing to wait for
        reached = self._positions.get(channel)
        if first is None and isinstance(reached, int) and reached >= through:
            return True
        seen = self._seen.get(channel, set())
        if not self.policy.contiguous or not isinstance(reached, int):
            return self._highest.get(channel, through - 1) >= through
        return through in seen and self._run(channel, reached) >= through

    def _has_anchor(self, channel: Channel) -> bool:
        position = self._positions.get(channel)
        if position is None:
            return not self.others
        seen = self._seen.get(channel, set())
        if position not in seen:
            return False
        if not self.policy.contiguous or not isinstance(position, int):
            return True
        # A live event may have overtaken the replay: then there is a hole, and the rest is still
        # coming.
        return self._run(channel, position) >= self._highest[channel]

    def _run(self, channel: Channel, reached: int) -> int:
        """Return the last number up to which everything behind `reached` has arrived."""
        base, end = self._runs.get(channel, (reached, reached))
        if base != reached:
            end = reached
        seen = self._seen.get(channel, set())
        while end + 1 in seen:
            end += 1
        self._runs[channel] = reached, end
        return end

    @property
    def is_bridged(self) -> bool:
        """Return whether the backfill has reached the live events that came meanwhile, so that the
        rest would come twice.
        """
        policy = self.policy
        if policy.order != "number" or policy.per_channel or not self.backfilled:
            return False
        reached = self._positions.get(None)
        least = reached if isinstance(reached, int) else -1
        live = [
            at for each in self._heard if isinstance(at := each.event.position, int) and at > least
        ]
        last = self.backfilled[-1].event.position
        return bool(live) and isinstance(last, int) and last + policy.contiguous >= min(live)

    def release(self, now: Now) -> bool:
        """Deliver what provably continues where we stopped. Returns False if nothing does."""
        if not self.policy.contiguous or self.others:
            return False
        positioned, held = self.positioned, list[Incoming]()
        for heard in self._heard:
            event = heard.event
            reached = self._positions.get(event.channel)
            is_next = (
                isinstance(reached, int) and event.position == reached + 1 and not heard.is_marker
            )
            if is_next and self._is_same_log(event.channel):
                positioned.accept(event, heard.text, now, replayed=True)
                self.released += 1
            else:
                held.append(heard)
        is_less = len(held) < len(self._heard)
        self._heard, self._bytes = held, sum(len(heard.text) for heard in held)
        return is_less

    def _is_same_log(self, channel: Channel) -> bool:
        """Return whether the log is known to be the one that we read."""
        evidence = self.evidence("overflow")
        return evidence.is_named(channel, self.policy) or any(
            each.event.channel == channel
            and not each.is_marker
            and evidence.match(each.event, each.text) in PROVES
            for each in self._heard
        )
