"""Connections over time: phases of each link, outages, gaps and queue lengths. Pure.

Rule: an outage begins when a READY link is lost, or when a link that is not READY schedules an
attempt. It ends when the link is READY again, or closed. A link that is closed on purpose has none.
"""

from __future__ import annotations

from array import array
from typing import Final

import attrs

from .lines import Fields, Record, count_in, failure_in, number_in, safe, seconds_of, text_in
from .series import Bins, First, Lane, Largest, Span, Tally, add


READY, CONNECTING, WAITING, DOWN, CLOSED = "ready", "connecting", "waiting", "down", "closed"
GROUPS: Final = (READY, CONNECTING, WAITING, DOWN, CLOSED)
"""The five phases that are shown; each of the 13 states of a bridge belongs to one."""
_GROUP_OF: Final = {
    "READY": READY, "DRAINING": READY,
    "CONNECTING": CONNECTING, "AUTHENTICATING": CONNECTING, "JOINING": CONNECTING, "REPLAYING": CONNECTING, "FLUSHING": CONNECTING,
    "BACKOFF": WAITING,
    "SUSPENDED": DOWN, "FAILED": DOWN,
    "IDLE": CLOSED, "CLOSING": CLOSED, "CLOSED": CLOSED,
}  # fmt: skip
_FINAL: Final = frozenset({"CLOSING", "CLOSED", "DRAINING"})
DEPTHS: Final = ("queued", "unconfirmed", "unread")
"""The queues of a link: not yet sent; sent and not yet confirmed; received and not yet read."""
_MOST_LINKS: Final = 5_000
_UNLISTED: Final = 8_192  # slots for hashes of links beyond the limit
_DETAILED: Final = 500  # the first links are drawn in up to 200 spans, later ones in 8
_MOST_WAITS: Final = 12


@attrs.define(eq=False)
class Outage:
    """One outage of a link; `end` is None as long as the link is neither READY again nor closed."""

    link: str
    start: float
    code: str = ""
    message: str = ""
    attempts: int = 0
    waits: list[float] = attrs.field(factory=list[float])
    end: float | None = None
    verdict: str = ""
    replayed: int = 0
    final: str = ""

    def seconds(self, until: float) -> float:
        """Return the duration in seconds, up to `until` if it has not ended."""
        return max(0.0, (until if self.end is None else self.end) - self.start)


@attrs.frozen
class Gap:
    """A re-join that is not known to be complete."""

    at: float
    link: str
    verdict: str
    reason: str
    since: float | None
    until: float | None


@attrs.define(eq=False)
class Link:
    """One connection: its lane of phases, its current outage, and counts."""

    key: tuple[str, str]
    name: str
    lane: Lane
    state: str = ""
    losses: int = 0
    down: float = 0.0
    gaps: int = 0
    outage: Outage | None = None
    depth: tuple[int, int, int] = (0, 0, 0)


class Links:
    """All links of a log."""

    def __init__(self) -> None:
        self.links: dict[tuple[str, str], Link] = {}
        # the last link of each bridge, by the bridge's name
        self._last_of: dict[str, tuple[str, str]] = {}
        self._ended: dict[tuple[str, str], None] = {}  # in the order in which they ended
        # hashes of the keys of links beyond the limit
        self._unlisted = array("q", bytes(8 * _UNLISTED))
        self.seen = 0
        self.folded = 0
        self.outages: Largest[Outage] = Largest(100)
        self.gaps: First[Gap] = First(200)
        self.verdicts = Tally(10)
        self.losses = 0
        self.down = 0.0
        self.in_group = {group: Bins(add) for group in GROUPS}
        self.depth = {name: Bins(max) for name in DEPTHS}
        self.peak: dict[str, tuple[int, float]] = dict.fromkeys(DEPTHS, (0, 0.0))
        self._depths = [0, 0, 0]
        self._passing: list[Link] = []  # READY when they were measured last
        self._measured_at: float | None = None
        self.begin: float | None = None

    def take(self, record: Record) -> None:
        """Take an event; an event that is not about a link changes nothing."""
        if self.begin is None:
            self.begin = record.at
        event, fields = record.event, record.fields
        if event == "StateChanged":
            self._changed(record.at, fields)
        elif event == "Disconnected":
            self._lost(self._link(fields), record.at, fields)
        elif event == "ReconnectScheduled":
            self._scheduled(self._link(fields), record.at, fields)
        elif event == "Resumed":
            self._resumed(self._link(fields), record.at, fields)
        elif event in ("Suspended", "GaveUp"):
            self._marked(
                self._link(fields) if event == "Suspended" else self._known(fields), event, fields
            )

    def finish(self, end: float) -> None:
        """Count what is still in progress at the end of the log."""
        for link in self.links.values():
            if link.lane.state:
                self._spread(Span(link.lane.since, end, link.lane.state))
            if link.outage is not None:
                self._over(link, link.outage, end, is_ready=False)
                link.outage = None

    # ---- events --------------------------------------------------------------------------------------------------

    def _changed(self, at: float, fields: Fields) -> None:
        previous, state = text_in(fields, "previous"), text_in(fields, "state")
        link = self._link(fields, previous)
        if link.key not in self.links:
            return  # counted, but not stored: its state cannot be known without the earlier events
        group = _GROUP_OF.get(state, CONNECTING)
        if (
            not link.lane.state
            and previous
            and previous != "IDLE"
            and self.begin is not None
            and self.begin < at
        ):
            # the log begins after the link's first event
            link.lane.enter(self.begin, _GROUP_OF.get(previous, CONNECTING))
        if link.outage is not None and (state == "READY" or state in _FINAL):
            link.outage.end = at
            self._over(link, link.outage, at, is_ready=state == "READY")
            link.outage = None
        elif previous == "READY" and group in (WAITING, CONNECTING, DOWN):
            self._lost(link, at, fields)
        link.state = state
        if state in ("CLOSED", "FAILED"):
            self._ended[link.key] = None
        ended = link.lane.enter(at, group)
        if ended is not None:
            self._spread(ended)
        self._measure(link, at, fields)

    def _lost(self, link: Link, at: float, fields: Fields) -> None:
        failure = failure_in(fields)
        is_expected = not failure and text_in(fields, "reason") in ("user", "closed", "")
        if link.outage is not None:
            if not link.outage.code:
                link.outage.code = text_in(failure, "code")
                link.outage.message = text_in(failure, "message") or link.outage.message
        elif not is_expected and link.state in ("READY", ""):
            code, message = text_in(failure, "code"), text_in(failure, "message")
            link.outage = Outage(link.name, at, code, message or text_in(fields, "reason"))
            link.losses += 1
            self.losses += 1

    def _scheduled(self, link: Link, at: float, fields: Fields) -> None:
        if link.outage is None and link.state != "READY":  # as before it was ever ready
            failure = failure_in(fields)
            link.outage = Outage(
                link.name, at, text_in(failure, "code"), text_in(failure, "message")
            )
        if link.outage is not None:
            link.outage.attempts += 1
            if len(link.outage.waits) < _MOST_WAITS:
                link.outage.waits.append(number_in(fields, "wait"))

    def _resumed(self, link: Link, at: float, fields: Fields) -> None:
        verdict = text_in(fields, "verdict") or "UNKNOWN"
        self.verdicts.count(verdict)
        if link.outage is not None:
            link.outage.verdict, link.outage.replayed = verdict, count_in(fields, "replayed")
        if verdict != "RECOVERED":
            link.gaps += 1
            since, until = seconds_of(fields.get("since")), seconds_of(fields.get("until"))
            self.gaps.add(Gap(at, link.name, verdict, text_in(fields, "reason"), since, until))

    def _marked(self, link: Link | None, event: str, fields: Fields) -> None:
        if link is not None and link.outage is not None:
            link.outage.final = "suspended" if event == "Suspended" else "gave up"
            link.outage.message = link.outage.message or text_in(failure_in(fields), "message")

    def _over(self, link: Link, outage: Outage, at: float, *, is_ready: bool) -> None:
        if not is_ready:
            outage.final = outage.final or (
                "closed meanwhile" if outage.end is not None else "still out at the end of the log"
            )
        seconds = outage.seconds(at)
        link.down += seconds
        self.down += seconds
        self.outages.add(seconds, outage)

    # ---- links, and the depths of their queues ---------------------------------------------------------------------

    def _known(self, fields: Fields) -> Link | None:
        key = (text_in(fields, "bridge"), text_in(fields, "session_id"))
        return self.links.get(key) or self.links.get(self._last_of.get(key[0], key))

    def _link(self, fields: Fields, previous: str = "") -> Link:
        """Return the link of an event. A client that gets a new session stays the same link."""
        bridge, session = text_in(fields, "bridge"), text_in(fields, "session_id")
        key = (bridge, session)
        link = self.links.get(key)
        last = self._last_of.get(bridge)
        if (
            link is None
            and last is not None
            and (not session or (previous and self._continues(last, previous)))
        ):
            link = self.links[last]
        if link is None:
            link = self._new(key)
        if link.key in self.links:
            self._last_of[bridge] = link.key
        return link

    def _continues(self, key: tuple[str, str], previous: str) -> bool:
        link = self.links[key]
        return previous != "IDLE" and link.state == previous and key not in self._ended

    def _new(self, key: tuple[str, str]) -> Link:
        bridge, session = key
        name = (
            f"{bridge} · {session[:8]}" if bridge and session else bridge or session or "the link"
        )
        link = Link(key, safe(name), Lane(200 if self.seen < _DETAILED else 8))
        number = hash(key)
        is_new = self._unlisted[number % _UNLISTED] != number
        self.seen += is_new
        if len(self.links) >= _MOST_LINKS:
            self.folded += is_new
            if not self._ended:
                self._unlisted[number % _UNLISTED] = number  # counted, but not stored
                return link
            self._forget(next(iter(self._ended)))
        self.links[key] = link
        return link

    def _forget(self, key: tuple[str, str]) -> None:
        """Remove an ended link to make room: it stays in the counts, and is no longer drawn."""
        del self._ended[key]
        del self.links[key]
        if self._last_of.get(key[0]) == key:
            del self._last_of[key[0]]

    def _measure(self, link: Link, at: float, fields: Fields) -> None:
        if "queued" not in fields:
            return
        since = at if self._measured_at is None else min(self._measured_at, at)
        if at > since:
            self._pass()
        self._measured_at = at
        depth = (
            count_in(fields, "queued"),
            count_in(fields, "unconfirmed"),
            count_in(fields, "unread"),
        )
        for index, name in enumerate(DEPTHS):
            self.depth[name].hold(since, at, self._depths[index])
            self._depths[index] += depth[index] - link.depth[index]
            self.depth[name].hold(at, at, self._depths[index])
            if self._depths[index] > self.peak[name][0]:
                self.peak[name] = (self._depths[index], at)
        link.depth = depth
        if link.state == "READY":
            self._passing.append(link)

    def _pass(self) -> None:
        """Take off what links that were READY had: it is sent and confirmed soon, and no event says when."""
        for link in self._passing:
            for index, waiting in enumerate(link.depth):
                self._depths[index] -= waiting
            link.depth = (0, 0, 0)
        self._passing.clear()

    def _spread(self, span: Span) -> None:
        self.in_group.get(span.state, self.in_group[CONNECTING]).spread(span.start, span.end)
