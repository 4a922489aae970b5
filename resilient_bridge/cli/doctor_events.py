"""What the events before and after a cut say about a server's log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, cast

import attrs

from ..protocol.facts import Channel, Hello, Position, Received, Replayed
from ..protocol.messages import parse_timestamp
from ..protocol.policies import Dialect
from .doctor_journal import Connection
from .doctor_values import After, Before, Numbering, Order, Retained


# fields in which servers commonly write the time of an event
_STAMPS: Final = ("timestamp", "ts", "time", "created_at")


def before_of(connections: Iterable[Connection]) -> Before:
    """Return the summary of the events before the cut."""
    found = [event for each in connections for event in each.events()]
    placed = [event for event in found if event.position is not None]
    channels = list(dict.fromkeys(event.channel for event in placed))
    positions = [event.position for event in placed]
    is_one = len(channels) == 1
    return Before(
        events=len(found),
        with_position=len(placed),
        channels=len(channels),
        first=positions[0] if is_one else None,
        last=positions[-1] if is_one else None,
        numbering=_numbering(placed, channels),
        acks_wanted=sum(event.ack is not None for event in found),
    )


def _numbering(events: Sequence[Received], channels: Iterable[Channel]) -> Numbering | None:
    found: list[Numbering] = []
    for channel in channels:
        numbers = [event.position for event in events if event.channel == channel]
        steps = [
            after - before
            for before, after in pairwise(numbers)
            if isinstance(before, int) and isinstance(after, int)
        ]
        if steps:
            found.append(
                "not rising"
                if min(steps) < 1
                else "without holes"
                if max(steps) == 1
                else "with holes"
            )
    worst: tuple[Numbering, ...] = ("not rising", "with holes", "without holes")
    return next((each for each in worst if each in found), None)


def after_of(
    cut: Connection, earlier: Iterable[Connection], back: Connection, dialect: Dialect
) -> After:
    """Return what came on the connection after the cut, compared with the events before."""
    answer = _answer(back, dialect)
    known = [event for each in earlier for event in each.events()]
    resumed = back.resumed
    started = cut.cut or 0.0
    return attrs.evolve(
        _asked(back, dialect, After(seconds=(back.accepted or started) - started)),
        is_answered=bool(answer or back.of(Replayed)),
        is_pushed=back.is_pushed,
        repeated=0 if back.has_asked else _repeated(back.events(), known),
        events=len(answer),
        new=_new(answer, known),
        order=_order(answer),
        includes_asked=_includes_asked(back, answer, known),
        includes_last=_includes_last(back, answer, known, dialect),
        oldest=_oldest(answer),
        same_session=_same(cut, back, "session"),
        same_log=_same(cut, back, "epoch"),
        verdict=None if resumed is None else resumed.verdict.value,
        reason="" if resumed is None else resumed.reason,
        proof="" if resumed is None else resumed.proof,
        verdicts={}
        if resumed is None
        else {name: each.value for name, each in resumed.channels.items()},
    )


def _new(answer: Iterable[Received], known: Iterable[Received]) -> int:
    """Return how many of these events had not come before the cut."""
    had = {_name(event) for event in known}
    return len({name for event in answer if (name := _name(event)) not in had})


def _repeated(events: Iterable[Received], known: Iterable[Received]) -> int:
    """Return how many of these events had come before, by their types and ids."""
    had = {_name(event) for event in known if event.id is not None}
    return sum(_name(event) in had for event in events)


def _name(event: Received) -> tuple[object, ...]:
    if event.id is not None:
        return (event.type, event.id)
    return (event.channel, event.position, str(event.raw) if event.position is None else "")


def _asked(back: Connection, dialect: Dialect, after: After) -> After:
    """Return `after` with the request: its position and form; for several logs, no position."""
    if not back.has_asked:
        return after
    if dialect.encode is None:
        asked: Any = "everything" if back.since is None else back.since
        return attrs.evolve(after, asked=asked, by="in a message", channels=1)
    record, resume = back.record, back.resume
    positions: Mapping[Channel, Position] = {} if record is None else record.positions
    single = next(iter(positions), None)
    value: Any = "everything" if record is None or not positions else record.after(single)
    how = "in the greeting"
    if resume is not None:
        places = (
            ("in a frame", resume.frames),
            ("in the URL", resume.query or resume.url),
            ("in a header", resume.headers),
        )
        how = next((name for name, used in places if used), how)
    return attrs.evolve(
        after, asked=value if len(positions) < 2 else None, by=how, channels=max(1, len(positions))
    )


def _includes_asked(
    back: Connection, answer: Iterable[Received], known: Iterable[Received]
) -> bool | None:
    """Return whether the event at the requested position came again; None if it is not known."""
    if back.record is None or not back.record.positions:
        return None
    asked = {(channel, back.record.after(channel)) for channel in back.record.positions}
    had = {(event.channel, event.position) for event in known} & asked
    came = {(event.channel, event.position) for event in answer} & asked
    return bool(came) if had or came else None


def _includes_last(
    back: Connection, answer: Iterable[Received], known: Sequence[Received], dialect: Dialect
) -> bool | None:
    """Return whether the last known event came again; None without a request, or an event."""
    if not back.has_asked:
        return None
    if dialect.encode is None:
        last = next((event for event in reversed(known) if event.id is not None), None)
        return (
            None
            if last is None
            else any((one.type, one.id) == (last.type, last.id) for one in answer)
        )
    if back.record is None or not back.record.positions:
        return None
    wanted = set(back.record.positions.items())
    return bool(wanted & {(event.channel, event.position) for event in answer})


def _order(answer: Sequence[Received]) -> Order | None:
    found: set[Order] = set()
    for channel in {event.channel for event in answer}:
        keys = [_rank(event) for event in answer if event.channel == channel]
        ranks = [key for key in keys if key is not None]
        if len(ranks) < 2:
            continue
        pairs = list(pairwise(ranks))
        is_rising, is_falling = all(a <= b for a, b in pairs), all(a >= b for a, b in pairs)
        found.add("rising" if is_rising else "falling" if is_falling else "mixed")
    return None if not found else found.pop() if len(found) == 1 else "mixed"


def _rank(event: Received) -> float | None:
    """Return the sort key of an event, its number or its time; None if its position is neither."""
    if isinstance(event.position, int):
        return event.position
    moment = parse_timestamp(event.position or event.timestamp)
    return None if moment is None else moment.timestamp()


def _oldest(answer: Sequence[Received]) -> Position | None:
    ranked = [(rank, event) for event in answer if (rank := _rank(event)) is not None]
    if not ranked:
        return None
    oldest = min(ranked, key=lambda each: each[0])[1]
    return oldest.timestamp or oldest.position


def from_start_of(connections: Iterable[Connection], dialect: Dialect) -> Position | None:
    """Return the time or position of the oldest event in a replay from the start of the log."""
    for each in connections:
        oldest = _oldest(each.events(replayed=True)) if _is_from_start(each, dialect) else None
        if oldest is not None:
            return oldest
    return None


def _is_from_start(connection: Connection, dialect: Dialect) -> bool:
    if dialect.encode is None:
        return connection.has_asked and connection.since is None
    return connection.asks_for_all


def retained_of(
    connections: Sequence[Connection], dialect: Dialect, began: float
) -> Retained | None:
    """Return how much the server sent in a replay from the start, or else in the longest replay.

    None without a replay. `began` is our wall clock at the start, in seconds since 1970.
    """
    found = [
        (each, _answer(each, dialect)) for each in connections if each.has_asked or each.is_pushed
    ]
    found = [(each, answer) for each, answer in found if answer]
    from_start = [pair for pair in found if _is_from_start(pair[0], dialect)]
    if not found:
        return None
    connection, answer = max(from_start or found, key=lambda pair: len(pair[1]))
    # an event that is both pushed and requested comes twice
    names = {_name(event): event for event in answer}
    is_time = dialect.positions is not None and dialect.positions.order == "time"
    stamps = [
        stamp for event in names.values() if (stamp := _stamp(event, is_time=is_time)) is not None
    ]
    retained = Retained(events=len(names), is_all=bool(from_start))
    if not stamps:
        return retained
    moment, field = min(stamps)
    came = next(each.at for each in connection.seen if each.is_replay)
    return attrs.evolve(retained, age=began + came - moment, stamped_by=field)


def _answer(connection: Connection, dialect: Dialect) -> list[Received]:
    """Return the events that were replayed on this connection."""
    # A replay that is both pushed and requested comes twice: only the longest one counts.
    answer = (
        max(connection.answers, key=len) if connection.answers else connection.events(replayed=True)
    )
    if dialect.positions is not None:
        answer = [event for event in answer if event.position is not None]
    return answer


def _stamp(event: Received, *, is_time: bool) -> tuple[float, str] | None:
    """Return the time of an event, in seconds since 1970, and the name of the field that holds it.

    The name is "" if the dialect defines the field. None if no time is found.
    """
    own = event.timestamp or (
        event.position if is_time and isinstance(event.position, str) else None
    )
    moment = parse_timestamp(own)
    if moment is not None:
        return moment.timestamp(), ""
    raw: Any = event.raw
    fields = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    for field in _STAMPS:
        value = fields.get(field)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        moment = parse_timestamp(str(value)) if is_number or isinstance(value, str) else None
        if moment is not None:
            return moment.timestamp(), field
    return None


def _same(cut: Connection, back: Connection, field: Literal["session", "epoch"]) -> bool | None:
    before = [name for hello in cut.of(Hello) if (name := getattr(hello, field)) is not None]
    after = [name for hello in back.of(Hello) if (name := getattr(hello, field)) is not None]
    return before[-1] == after[-1] if before and after else None
