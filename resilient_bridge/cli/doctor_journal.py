"""The recorded entries of `doctor`, in order, and the connections they describe.

Pure: frames are read here, nothing is sent.

Rule: an entry is added at the moment when it happens, so the entries are in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import attrs

from .. import events
from ..failure import Failure
from ..protocol.border import facts_of
from ..protocol.facts import (
    Acked,
    Fact,
    Hello,
    Pong,
    Received,
    Record,
    Refused,
    Replayed,
    Reply,
    Resume,
    Unreadable,
)
from ..protocol.frames import InvalidFrameError, decode, envelope, fields_of
from ..protocol.policies import Dialect, Positions


Kind: TypeAlias = Literal[
    "dialled", "opened", "came", "went", "meant", "asked", "happened", "ponged", "cut", "probed"
]
_BURST: Final = 0.1  # seconds between two frames of one answer
_ANSWER: Final = 2.0  # seconds in which the answer to a question for everything begins
_REPEATED: Final = ("already_processed", "duplicate")  # statuses of an acknowledgement


class Entry(NamedTuple):
    """One thing that happened on a connection, `at` seconds after the start.

    `value` by kind: the frame that "came" or "went", the name of the intent that was "meant", the
    record and request that were "asked", the event that "happened", the seconds of "ponged", or the
    `Probe` of "probed".
    """

    at: float
    connection: int
    kind: Kind
    value: Any = None


class Probe(NamedTuple):
    """The message that was sent twice: its type, and the names by which an answer refers to it."""

    type: str
    id: str
    key: str
    number: int


@attrs.frozen(kw_only=True)
class JoinAnswered:
    """The server answered the join of a session; for envelopes only."""


@attrs.frozen(kw_only=True)
class Dedupes:
    """The server states whether it runs a repeated message only once; for envelopes only."""

    holds: bool


Sign: TypeAlias = Fact | JoinAnswered | Dedupes


class Seen(NamedTuple):
    """One fact that a received frame contains. `is_replay`: it belongs to a replay."""

    at: float
    sign: Sign
    is_replay: bool = False


@attrs.define(kw_only=True)
class Connection:
    """One connection, or the attempt to make one.

    Moments are seconds since the start; None: that did not happen.
    """

    number: int
    dialled: float
    opened: float | None = None
    accepted: float | None = None
    cut: float | None = None
    record: Record | None = None
    resume: Resume | None = None
    since: Any = None  # the position from which a replay of envelopes was requested last
    asks: set[str] = attrs.field(factory=set[str])  # the ids of those requests
    # the events of each replay of envelopes
    answers: list[list[Received]] = attrs.field(factory=list[list[Received]])
    is_pushed: bool = False  # whether a replay of envelopes came without a request
    has_asked: bool = False
    resumed: events.Resumed | None = None
    loss: Failure | None = None
    seen: list[Seen] = attrs.field(factory=list[Seen])
    meant: list[tuple[float, str]] = attrs.field(factory=list[tuple[float, str]])
    pongs: list[float] = attrs.field(factory=list[float])  # seconds that a WebSocket ping took
    refused_features: list[str] = attrs.field(factory=list[str])
    probes: list[tuple[float, Probe]] = attrs.field(factory=list[tuple[float, Probe]])
    unreadable: int = 0
    has_event: bool = False
    has_position: bool = False
    has_pong: bool = False
    is_joining: bool = True
    last_replay: float = -inf

    @property
    def asks_for_all(self) -> bool:
        """Whether the start of the log was requested, in a dialect with its own `encode`."""
        return self.has_asked and (self.record is None or not self.record.positions)

    def is_replaying(self, now: float) -> bool:
        """Whether a part of a replay came in the last 0.1 s, in a dialect with its own `decode`."""
        return now - self.last_replay <= _BURST

    def of(self, kind: type[Any]) -> list[Any]:
        return [each.sign for each in self.seen if isinstance(each.sign, kind)]

    def first(self, kind: type[Any], after: float = 0.0) -> float | None:
        """Return when the first sign of this class came, at or after this moment; None if never."""
        return next(
            (each.at for each in self.seen if isinstance(each.sign, kind) and each.at >= after),
            None,
        )

    def events(self, *, replayed: bool | None = None) -> list[Received]:
        """Return the received events; `replayed`: only those of a replay, or only the others."""
        wanted = [each for each in self.seen if replayed is None or each.is_replay is replayed]
        return [each.sign for each in wanted if isinstance(each.sign, Received)]


class Reading:
    """The connections that the entries describe, by number; `add` takes the entries in order."""

    def __init__(self, dialect: Dialect) -> None:
        self.connections: dict[int, Connection] = {}
        self._dialect = dialect

    def add(self, entry: Entry) -> None:
        if entry.kind == "dialled":
            self.connections[entry.connection] = Connection(
                number=entry.connection, dialled=entry.at
            )
        connection = self.connections.get(entry.connection)
        if connection is not None:
            _add(connection, entry, self._dialect)


def _add(connection: Connection, entry: Entry, dialect: Dialect) -> None:
    match entry.kind:
        case "came":
            _came(connection, entry, dialect)
        case "went":
            _went(connection, entry, dialect)
        case "happened":
            _happened(connection, entry)
        case "asked":
            connection.record, connection.resume = entry.value
            connection.has_asked = _asks(*entry.value)
        case _:
            _did(connection, entry)


def _did(connection: Connection, entry: Entry) -> None:
    match entry.kind:
        case "opened":
            connection.opened = entry.at
        case "cut":
            connection.cut = entry.at
        case "meant":
            connection.meant.append((entry.at, entry.value))
        case "ponged":
            connection.pongs.append(entry.value)
            connection.has_pong = True
        case "probed":
            connection.probes.append((entry.at, entry.value))
        case _:
            pass


def _asks(record: Record, resume: Resume | None) -> bool:
    """Return whether a replay is requested.

    Without a `Resume`, the greeting requests one if a position is known.
    """
    if resume is None:
        return bool(record.positions)
    return bool(resume.frames or resume.query or resume.headers or resume.url)


def _happened(connection: Connection, entry: Entry) -> None:
    event = entry.value
    match event:
        case events.Connected():
            connection.accepted = entry.at
        case events.Resumed() | events.Joined():
            connection.is_joining = False
            if isinstance(event, events.Resumed):
                connection.resumed = event
        case events.Disconnected() | events.ReconnectScheduled() | events.GaveUp():
            connection.loss = connection.loss or event.failure
        case events.FeatureRefused():
            connection.refused_features.append(event.type)
        case _:
            pass


# ---- frames ---------------------------------------------------------------------------------------------------------


def _came(connection: Connection, entry: Entry, dialect: Dialect) -> None:
    known = len(connection.seen)
    if dialect.decode is None:
        _envelope_came(connection, entry, dialect)
    else:
        _own_came(connection, entry, dialect.decode, dialect.positions)
    for seen in connection.seen[known:]:
        sign = seen.sign
        connection.has_pong |= isinstance(sign, Pong)
        connection.has_event |= isinstance(sign, Received)
        connection.has_position |= isinstance(sign, Received) and sign.position is not None


def _own_came(
    connection: Connection,
    entry: Entry,
    decode_frame: Callable[[str | bytes], Iterable[Fact]],
    positions: Positions | None,
) -> None:
    facts = facts_of(decode_frame, entry.value, positions)
    connection.unreadable += any(isinstance(fact, Unreadable) for fact in facts)
    if not facts or isinstance(facts[0], Unreadable):
        return
    # An event that comes while the request is open, or shortly after, belongs to the answer, or
    # cannot be distinguished from it.
    is_close = entry.at - connection.last_replay <= _BURST
    is_first = connection.asks_for_all and connection.last_replay == -inf
    is_soon = connection.opened is not None and entry.at - connection.opened <= _ANSWER
    is_replay = connection.has_asked and (
        connection.is_joining or is_close or (is_first and is_soon)
    )
    if is_replay:
        connection.last_replay = entry.at
    connection.seen += [Seen(entry.at, fact, is_replay) for fact in facts]


def _envelope_came(connection: Connection, entry: Entry, dialect: Dialect) -> None:
    try:
        body = decode(entry.value)
    except InvalidFrameError:
        connection.unreadable += 1
        return
    payload = fields_of(body)
    if body["type"] == dialect.replay:
        answer = _replayed(payload.get("messages"))
        connection.seen.append(Seen(entry.at, Replayed(), is_replay=True))
        connection.seen += [Seen(entry.at, event, is_replay=True) for event in answer]
        connection.answers.append(answer)
        connection.is_pushed |= body.get("id") not in connection.asks
        return
    connection.seen.append(Seen(entry.at, _sign(body, payload, dialect)))
    stated = payload.get("dedupes")
    if body["type"] in {dialect.auth_ack, dialect.joined} and isinstance(stated, bool):
        connection.seen.append(Seen(entry.at, Dedupes(holds=stated)))


def _sign(body: Mapping[str, Any], payload: Mapping[str, Any], dialect: Dialect) -> Sign:
    match body["type"]:
        case dialect.auth_ack:
            epoch = payload.get(dialect.epoch or "")
            return Hello(epoch=epoch if isinstance(epoch, str) else None)
        case dialect.joined:
            return JoinAnswered()
        case dialect.pong:
            return Pong(id=body.get("id"))
        case dialect.ack:
            return _acknowledged(payload)
        case dialect.auth_error | dialect.error:
            return _refusal(body, payload)
        case _:
            return _event(body)


def _event(body: Mapping[str, Any]) -> Received:
    identity = body.get("id")
    return Received(
        raw=body,
        type=body["type"],
        payload=body.get("payload") or {},
        id=identity,
        timestamp=body.get("timestamp"),
    )


def _replayed(items: Any) -> list[Received]:
    found: list[Received] = []
    for item in items if isinstance(items, list) else []:  # pyright: ignore[reportUnknownVariableType] -- what a server has sent
        try:
            found.append(_event(decode(item) if isinstance(item, str) else envelope(item)))
        except InvalidFrameError:
            continue
    return found


def _acknowledged(payload: Mapping[str, Any]) -> Reply | Acked:
    name = payload.get("message_id") or payload.get("idempotency_key")
    if isinstance(name, str):
        return Reply(
            to=name, type="ack", payload=payload, duplicate=payload.get("status") in _REPEATED
        )
    names: Any = payload.get("message_ids")
    return Acked(ids=cast("list[str]", names) if isinstance(names, list) else ())


def _refusal(body: Mapping[str, Any], payload: Mapping[str, Any]) -> Refused:
    about = payload.get("request_type")
    return Refused(
        raw=body,
        to=body.get("id"),
        type=about if isinstance(about, str) else None,
        code=str(payload.get("code", "")),
        text=str(payload.get("message", "")),
    )


def _went(connection: Connection, entry: Entry, dialect: Dialect) -> None:
    """Record the intent of a sent envelope; a dialect with its own `encode` records its intents."""
    if dialect.decode is not None:
        return
    try:
        body = decode(entry.value)
    except InvalidFrameError:
        return
    names = {
        dialect.auth: "Auth", dialect.join: "Join", dialect.ping: "Ping", dialect.request_replay: "Ask",
    }  # fmt: skip
    meant = names.get(body["type"])
    if meant is None:
        return
    connection.meant.append((entry.at, meant))
    if meant == "Ask":
        connection.has_asked = True
        connection.asks.add(str(body.get("id")))
        connection.since = fields_of(body).get("since")
