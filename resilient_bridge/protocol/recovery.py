"""Compare what arrived during a rejoin with our positions: verdicts, and what to deliver.

Pure functions on values. For each channel: is its log still the one we read, does what arrived
continue where we stopped, and what proves that? Rule: an event is delivered once, in the server's
order, and after the gap in which events may be missing.

The first question comes first. What a server states about its log, a window without a hole and
numbers that go on say nothing about which log it is: a restarted server says the same of its new
one. Only an anchor does, an event that we have and that another log would not repeat (`matching`),
or a name: of the session, of the log (`epoch`, `Positions.names_log`), or the user's word
(`Positions.distinct`, a backfill).
"""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from ..telemetry.events import Verdict
from .matching import PROVES, SAME, Match, is_counter
from .messages import parse_timestamp


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from .facts import Channel, Frame, Position, Received, Replayed
    from .policies.positions import Positions


Proof: TypeAlias = Literal[
    "", "stated", "window", "anchor", "contiguity", "session", "barrier", "backfill"
]
"""How a verdict of RECOVERED is known; "" for the others."""


Over: TypeAlias = Literal[
    "stated", "anchor", "barrier", "quiet", "timeout", "overflow", "backfill", "nothing"
]
"""How a replay ended: as its dialect says, or in time."""


class Incoming(NamedTuple):
    """An event received during the join; `is_marker`: a position without one (`Moved`)."""

    event: Received
    text: Frame
    is_marker: bool = False


class Hole(NamedTuple):
    """Events of a channel, or of all, are or may be missing here; `missing`: first and last."""

    verdict: Verdict
    reason: str
    channel: Channel = None
    missing: tuple[int, int] | None = None


class Delivery(NamedTuple):
    """An event to deliver; `may_repeat`: it cannot be known whether it was delivered before."""

    heard: Incoming
    may_repeat: bool = False


class Finding(NamedTuple):
    """The verdict on one channel; `is_other`: another log, its position must be forgotten."""

    verdict: Verdict
    reason: str
    proof: Proof = ""
    is_other: bool = False
    missing: tuple[int, int] | None = None


class Recovery(NamedTuple):
    """Verdicts by channel, and deliveries with holes; `repeats`: events that were known.

    `unshown`: how often events without a name that we have may still come, where the replay may go
    on behind the verdict: the live side counts them down, and delivers what comes more often.
    `goes_on`: it does go on, because the verdict came with the first event that we had.
    """

    findings: Mapping[Channel, Finding]
    deliveries: Sequence[Delivery | Hole]
    repeats: int = 0
    unshown: Mapping[Channel, Counter[str]] = {}
    goes_on: bool = False


class Evidence(NamedTuple):
    """The evidence of a join.

    `match` compares an event, and its frame, with the one that was delivered under its name.
    `unnamed`: how often each event without a name was, from the position on, by what `content`
    returns. `same_logs`: channels whose log the server names as the one that we read. `fetched`:
    how many of `heard`, the first ones, the user's function brought. `has_forgotten`: more was
    delivered than is remembered. `has_unreadable`: a part of what came could not be read.
    `has_asked`: the dialect had something to ask with. `moved`: channels whose position was reached
    without an event. `others`: channels
    whose server has named another session or epoch. `over`: how the replay ended.
    """

    positions: Mapping[Channel, Position]
    heard: Sequence[Incoming]
    statements: Mapping[Channel, Replayed]
    match: Callable[[Received, Frame], Match]
    over: Over
    unnamed: Mapping[Channel, Counter[str]] = {}
    content: Callable[[Received], str] = repr
    same_logs: AbstractSet[Channel] = frozenset()
    others: Mapping[Channel, str] = {}
    same_session: bool = False
    lost_backfill: str = ""
    moved: AbstractSet[Channel] = frozenset()
    has_asked: bool = False
    fetched: int = 0
    has_forgotten: bool = False
    has_unreadable: bool = False

    def is_named(self, channel: Channel, policy: Positions) -> bool:
        """Return whether something besides its events says that the log is the one that we read."""
        names = self.same_session or (policy.names_log and channel is not None)
        return policy.distinct or names or channel in self.same_logs or None in self.same_logs


def judge(evidence: Evidence, policy: Positions) -> Recovery:
    """Judge each channel with a position or a server statement; without channels, the session."""
    heard = _by_channel(evidence.heard)
    named = dict.fromkeys((*evidence.positions, *evidence.statements))
    asked: list[Channel] = (
        [name for name in named if name is not None] if policy.per_channel else []
    )
    findings: dict[Channel, Finding] = {}
    plans: dict[Channel, _Plan] = {}
    for channel in asked or [None]:
        finding, plans[channel] = _channel(channel, heard.get(channel, ()), evidence, policy)
        if evidence.has_unreadable and finding.verdict is Verdict.RECOVERED:
            # it may have been an event of this log
            finding = Finding(Verdict.UNKNOWN, "unreadable")
        findings[channel] = finding
    for channel, of_it in heard.items():
        if channel not in plans:  # a log that was never read, so nothing of it can be missing
            plans[channel] = _all_new(of_it, policy)
    deliveries, repeats = _in_order(evidence.heard, findings, plans)
    is_over = evidence.over in {"stated", "barrier", "backfill"}
    unshown = {} if is_over else _unshown(heard, evidence)
    return Recovery(findings, deliveries, repeats, unshown, evidence.over == "anchor")


def _unshown(
    heard: Mapping[Channel, Sequence[Incoming]], evidence: Evidence
) -> dict[Channel, Counter[str]]:
    remaining: dict[Channel, Counter[str]] = {}
    for channel, delivered in evidence.unnamed.items():
        counts = Counter(delivered)
        counts.subtract(
            evidence.content(each.event) for each in heard.get(channel, ()) if each.event.id is None
        )
        remaining[channel] = +counts
    return remaining


def in_order(heard: Sequence[Incoming], policy: Positions) -> list[Incoming]:
    """Return events of logs never read before: each once, in order even if a live one overtook."""
    plans = {channel: _all_new(of_it, policy) for channel, of_it in _by_channel(heard).items()}
    deliveries, _ = _in_order(heard, {}, plans)
    return [each.heard for each in deliveries if isinstance(each, Delivery)]


def _by_channel(heard: Sequence[Incoming]) -> dict[Channel, list[Incoming]]:
    found: dict[Channel, list[Incoming]] = {}
    for each in heard:
        if each.event.position is not None:
            found.setdefault(each.event.channel, []).append(each)
    return found


class _Plan(NamedTuple):
    """Of one channel: what to deliver in which order, and the holes before events."""

    events: Sequence[Delivery]
    holes: Mapping[int, Hole]  # before the event with this index, or behind the last
    repeats: int = 0


def _in_order(
    heard: Sequence[Incoming], findings: Mapping[Channel, Finding], plans: Mapping[Channel, _Plan]
) -> tuple[list[Delivery | Hole], int]:
    """Merge the channels again: each event at a position where one of its channel was received."""
    out: list[Delivery | Hole] = []
    # What is missing belongs before everything received, unless its position is known.
    out.extend(
        Hole(finding.verdict, finding.reason, channel, finding.missing)
        for channel, finding in findings.items()
        if finding.verdict is not Verdict.RECOVERED and not plans[channel].holes
    )
    wanted = {channel: {id(each.heard) for each in plan.events} for channel, plan in plans.items()}
    at = dict.fromkeys(plans, 0)
    for each in heard:
        channel = each.event.channel
        if each.event.position is None:
            out.append(Delivery(each))
            continue
        if id(each) not in wanted[channel]:
            continue
        plan, index = plans[channel], at[channel]
        at[channel] = index + 1
        if index in plan.holes:
            out.append(plan.holes[index])
        out.append(plan.events[index])
    out.extend(
        plan.holes[len(plan.events)] for plan in plans.values() if len(plan.events) in plan.holes
    )
    return out, sum(plan.repeats for plan in plans.values())


def _channel(
    channel: Channel, heard: Sequence[Incoming], evidence: Evidence, policy: Positions
) -> tuple[Finding, _Plan]:
    position = evidence.positions.get(channel)
    stated = evidence.statements.get(channel) or evidence.statements.get(None)
    other = evidence.others.get(channel) or evidence.others.get(None)
    if other:
        finding = Finding(Verdict.GAP, other, is_other=True)
        may_repeat = position is not None and policy.repeats and policy.order != "number"
        return finding, _all_new(heard, policy, may_repeat=may_repeat)
    if position is None:
        return _without_position(heard, stated, evidence, policy)
    if policy.shows_anchor and channel in evidence.moved:
        # where there was no event, none comes again
        policy = policy.evolve(overlap=0, inclusive=False, ends="quiet")
    if policy.order == "number" and isinstance(position, int):
        return _numbers(channel, position, heard, stated, evidence=evidence, policy=policy)
    return _unordered(channel, position, heard, stated, evidence=evidence, policy=policy)


def _all_new(heard: Sequence[Incoming], policy: Positions, *, may_repeat: bool = False) -> _Plan:
    return _Plan([Delivery(each, may_repeat) for each in _sorted(heard, policy)], {})


def _once(heard: Sequence[Incoming], policy: Positions) -> list[Incoming]:
    """Return each event once, by position, or by id where several share a position.

    What has neither is kept: the log may hold it several times.
    """
    seen: set[object] = set()
    out: list[Incoming] = []
    for each in heard:
        event = each.event
        name: object = event.position
        if policy.order == "time":
            name = (event.type, event.id, each.text)
        if name not in seen or (policy.order == "time" and event.id is None):
            seen.add(name)
            out.append(each)
    return out


def _without_position(
    heard: Sequence[Incoming], stated: Replayed | None, evidence: Evidence, policy: Positions
) -> tuple[Finding, _Plan]:
    plan = _all_new(heard, policy)
    proof = _vouched(stated, evidence, policy)
    if stated is not None and stated.complete is False:
        return Finding(Verdict.GAP, "position_gone"), plan
    # Without a request, no statement counts as an answer. One for everything can be complete.
    if proof == "session" or (proof == "stated" and evidence.has_asked):
        return Finding(Verdict.RECOVERED, proof, proof), plan
    return Finding(Verdict.UNKNOWN, "no_position"), plan


def _vouched(stated: Replayed | None, evidence: Evidence, policy: Positions) -> Proof:
    """Return the proof if the server itself states that nothing is missing, else an empty one."""
    if evidence.lost_backfill:
        return ""
    if stated is not None and stated.complete:
        return "stated"
    if policy.proof == "session" and evidence.same_session:
        return "session"
    if policy.proof == "barrier" and evidence.over == "barrier":
        return "barrier"
    return "backfill" if evidence.over == "backfill" else ""


_IDENTIFIES: Final = frozenset({"session", "barrier", "backfill"})
"""Proofs that say which log it is: the server names the session, or would contradict its name; the
user's own function was asked."""

_WHY: Final = {
    "timeout": "timeout", "overflow": "side_buffer_full", "quiet": "quiet", "barrier": "empty", "stated": "empty", "anchor": "no_anchor",
    "backfill": "empty", "nothing": "no_replay",
}  # fmt: skip


def _numbers(
    channel: Channel,
    position: int,
    heard: Sequence[Incoming],
    stated: Replayed | None,
    *,
    evidence: Evidence,
    policy: Positions,
) -> tuple[Finding, _Plan]:
    numbered = _sorted(heard, policy)
    # For a position that was reached without an event, the event may still come.
    above = position - 1 if channel in evidence.moved else position
    old = [each for each in numbered if _number(each) <= above and not each.is_marker]
    new = [
        each
        for each in numbered
        if _number(each) > above and not (each.is_marker and _number(each) <= position)
    ]
    matches = [evidence.match(each.event, each.text) for each in old]
    is_known = not SAME.isdisjoint(matches)
    is_named = evidence.is_named(channel, policy)
    is_anchored = not PROVES.isdisjoint(matches) or (is_known and is_named)
    through = stated.through if stated is not None and isinstance(stated.through, int) else None
    has_all = stated is not None and stated.complete and through is None
    if (
        Match.OTHER in matches  # the same number, another event
        or (through is not None and through < position)  # the log ends before what we have read
        # It has sent all that came after the event before our last one, and that was not among it.
        or (policy.shows_anchor and has_all and not is_known and Match.ALTERED not in matches)
        or (old and not is_known and not policy.repeats and not policy.shows_anchor)
    ):
        return Finding(Verdict.GAP, "restarted", is_other=True), _all_new(numbered, policy)
    doubtful = [
        Delivery(each, may_repeat=True)
        for each, found in zip(old, matches, strict=True)
        if not is_anchored
        and (found is Match.ALTERED or (found is Match.FORGOTTEN and not is_known))
    ]
    news = [*doubtful, *(Delivery(each) for each in new)]
    holes = _holes(position, news[len(doubtful) :], len(doubtful)) if policy.contiguous else {}
    reached = max((_number(each) for each in new), default=position)
    if evidence.lost_backfill and not holes:
        fetched = {id(each) for each in evidence.heard[: evidence.fetched]}
        behind = next(
            (at for at, each in enumerate(news) if id(each.heard) not in fetched), len(news)
        )
        holes = {behind: Hole(Verdict.GAP, evidence.lost_backfill, channel)}
    plan = _Plan(news, holes, len(old) - len(doubtful))
    is_sure = is_anchored or is_named
    finding = _finding(
        position, reached, stated, evidence, policy, is_known=is_known, is_sure=is_sure, plan=plan
    )
    return finding, plan


def _holes(position: int, news: Sequence[Delivery], offset: int) -> dict[int, Hole]:
    """Return where numbers are missing; before a moved position nothing is missing."""
    holes: dict[int, Hole] = {}
    last = position
    for index, each in enumerate(news):
        number = _number(each.heard)
        if number > last + 1 and not each.heard.is_marker:
            missing = (last + 1, number - 1)
            holes[index + offset] = Hole(Verdict.GAP, "hole", each.heard.event.channel, missing)
        last = number
    return holes


def _finding(
    position: int,
    reached: int,
    stated: Replayed | None,
    evidence: Evidence,
    policy: Positions,
    *,
    is_known: bool,
    is_sure: bool,
    plan: _Plan,
) -> Finding:
    """Judge a log with numbers.

    `is_known`: an event that we have came again. `is_sure`: the log is the one that we read.
    """
    if plan.holes:
        hole = next(iter(plan.holes.values()))
        return Finding(Verdict.GAP, hole.reason, missing=hole.missing)
    if stated is not None and stated.complete is False:
        first = stated.first  # the first event that the server still has
        is_exact = policy.contiguous and isinstance(first, int) and first > position + 1
        missing = (position + 1, first - 1) if is_exact and isinstance(first, int) else None
        return Finding(Verdict.GAP, "position_gone", missing=missing)
    if evidence.lost_backfill:
        return Finding(Verdict.GAP, evidence.lost_backfill)
    if any(delivery.may_repeat for delivery in plan.events):
        return Finding(Verdict.UNKNOWN, "unverified")
    proof = _vouched(stated, evidence, policy) or _shown(
        reached, stated, evidence, policy, is_known=is_known, goes_on=bool(plan.events)
    )
    if proof and (is_sure or proof in _IDENTIFIES):
        return Finding(Verdict.RECOVERED, proof, proof)
    lacks_anchor = bool(proof) or (policy.shows_anchor and bool(plan.events) and not is_known)
    return Finding(Verdict.UNKNOWN, "no_anchor" if lacks_anchor else _WHY[evidence.over])


def _shown(
    reached: int,
    stated: Replayed | None,
    evidence: Evidence,
    policy: Positions,
    *,
    is_known: bool,
    goes_on: bool,
) -> Proof:
    """Return what the numbers show, if the log is the one that we read."""
    through = stated.through if stated is not None else None
    is_over = evidence.over in {"stated", "barrier"}
    begins_with_ours = is_known or not policy.shows_anchor
    if isinstance(through, int) and policy.contiguous and reached >= through and begins_with_ours:
        return "window"
    if is_known and (policy.contiguous or policy.ends == "anchor" or is_over):
        return "anchor"
    if policy.contiguous and not policy.shows_anchor and (goes_on or is_over) and through is None:
        return "contiguity"
    return ""


def _unordered(
    channel: Channel,
    position: Position,
    heard: Sequence[Incoming],
    stated: Replayed | None,
    *,
    evidence: Evidence,
    policy: Positions,
) -> tuple[Finding, _Plan]:
    """Judge unordered positions: an event is recognised by its id, and counted where it has none."""
    matches, surplus = _compared(heard, evidence, policy)
    known = [found in SAME for found in matches]
    is_named = evidence.is_named(channel, policy)
    is_anchored = any(
        (found in PROVES or (is_named and found in SAME)) and each.event.position == position
        for found, each in zip(matches, heard, strict=True)
    )
    if any(
        found is Match.OTHER and (policy.order == "opaque" or is_counter(each.event.id))
        for found, each in zip(matches, heard, strict=True)
    ):
        return Finding(Verdict.GAP, "restarted", is_other=True), _all_new(heard, policy)
    # An event before a known one may have been delivered longer ago than we remember.
    last_known = max(
        (at for at, is_known in enumerate(known) if is_known),
        default=len(heard) if policy.repeats else 0,
    )
    doubtful = {
        id(each)
        for at, each in enumerate(heard)
        if matches[at] in {Match.ALTERED, Match.OTHER}
        or (evidence.has_forgotten and policy.repeats and at < last_known and not known[at])
    } | surplus
    new = _sorted(
        [each for is_known, each in zip(known, heard, strict=True) if not is_known], policy
    )
    vouched = _vouched(stated, evidence, policy)
    # That the server knows a name which it made itself says which log it has; a number says nothing.
    is_own_name = policy.order == "opaque" and not is_counter(str(position))
    is_sure = is_anchored or is_named or is_own_name or vouched in _IDENTIFIES
    is_certain = is_anchored or not policy.repeats or (bool(vouched) and is_sure)
    news = [Delivery(each, id(each) in doubtful or not is_certain) for each in new]
    plan = _Plan(news, {}, len(heard) - len(new))
    if stated is not None and stated.complete is False:
        return Finding(Verdict.GAP, "position_gone"), plan
    if evidence.lost_backfill:
        return Finding(Verdict.GAP, evidence.lost_backfill), plan
    if vouched and is_sure:
        return Finding(Verdict.RECOVERED, vouched, vouched), plan
    # A replay that was to be ended by the server, and was ended by us, may have left out what was older than what came.
    is_cut_short = policy.ends in {"stated", "barrier"} and evidence.over in {"timeout", "overflow"}
    if is_anchored and not is_cut_short:
        return Finding(Verdict.RECOVERED, "anchor", "anchor"), plan
    reason = "no_anchor" if (heard or vouched) and not is_anchored else _WHY[evidence.over]
    return Finding(Verdict.UNKNOWN, reason), plan


def _compared(
    heard: Sequence[Incoming], evidence: Evidence, policy: Positions
) -> tuple[list[Match], set[int]]:
    """Compare each event with what was delivered; also return those without a name that came more
    often than they were delivered: they are new, or have come twice.
    """
    remaining = {channel: Counter(counts) for channel, counts in evidence.unnamed.items()}
    matches: list[Match] = []
    surplus: set[int] = set()
    for each in heard:
        event = each.event
        if each.is_marker:
            matches.append(Match.FORGOTTEN)
        elif policy.order != "time" or event.id is not None:
            matches.append(evidence.match(each.event, each.text))
        else:
            counts, content = (
                remaining.get(event.channel, Counter[str]()),
                evidence.content(each.event),
            )
            is_had = counts[content] > 0
            if is_had:
                counts[content] -= 1
            elif content in counts:
                surplus.add(id(each))
            # Its position is a time that the server gave it, and part of its content.
            matches.append(Match.TIME if is_had else Match.FORGOTTEN)
    return matches, surplus


def _number(heard: Incoming) -> int:
    position = heard.event.position
    return position if isinstance(position, int) else 0


def _sorted(heard: Sequence[Incoming], policy: Positions) -> list[Incoming]:
    """Return them in the order of their numbers, each once: of repeated ones the first is kept."""
    if policy.interleaves:
        return _by_time(_once(heard, policy))
    if policy.order != "number":
        return _once(heard, policy)  # times do not order: a server's clock may have gone back
    found: dict[int, Incoming] = {}
    for each in heard:
        known = found.setdefault(_number(each), each)
        if known.is_marker and not each.is_marker:  # the event at this position has come after all
            found[_number(each)] = each
    return [found[number] for number in sorted(found)]


def _by_time(events: list[Incoming]) -> list[Incoming]:
    """Return them oldest first, or in the order of arrival if any position is not a time."""
    times = [parse_timestamp(str(each.event.position)) for each in events]
    timed = [(time, each) for time, each in zip(times, events, strict=True) if time is not None]
    if len(timed) < len(events):
        return events
    return [each for _, each in sorted(timed, key=itemgetter(0))]
