"""The families of home-made bridges.

Their events have a number, an id or a time, and there is a way to request what came after one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import attrs

from ...failure import config_error
from ...failure.teaching import taught
from ..facts import Hello, Ping, Pong, Replayed, Resume, Send
from ..frames import decode_json
from ..policies.dialect import Dialect
from ..policies.positions import VOLATILE, Positions
from ._json import filled, own, part, table, text, write


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..facts import Fact, Intent, Record
    from ._json import Body

    Ask: TypeAlias = str | Mapping[str, Any]
    """How missed events are asked for: a field of the URL's query, or a frame with the text
    "{position}".
    """


@taught
def sequence(
    *,
    field: str,
    ask: Ask,
    contiguous: bool = True,
    inclusive: bool = False,
    start: int | None = None,
    reset: str | None = None,
    end: str | None = None,
    hello: str | None = None,
    epoch: str | None = None,
    id: str | None = "id",
    timestamp: str | None = "timestamp",
    distinct: bool = False,
    volatile: Sequence[str] = VOLATILE,
    type: str | None = "type",
    payload: str | None = None,
    ping: Mapping[str, Any] | None = None,
    pong: str | None = None,
    id_field: str | None = None,
    ack: str | None = None,
    dedupes: bool = False,
) -> Dialect:
    """A server that numbers its events, and sends again what comes after a number.

    `field` is the dotted path of the number. `ask`: the name of a field of the URL's query, or a
    frame in which the text "{position}" stands for the number; `start` is what the first connection
    asks after (with `inclusive`: from; None: it does not ask). The client asks one event early, so that the answer starts
    with a known event: that proves the replay, and reveals a server whose numbers restarted.
    `inclusive`: the server does that itself. `contiguous=False`: other clients' events lie between,
    so a hole is no loss.

    A server that restarts may begin a new log at the same numbers, and its first events may look
    like the old ones. So RECOVERED needs something that says which log it is: an `id` in the
    events that is no counter, or the time of the event at `timestamp` (dotted paths; None: they
    have none), or an `epoch`. `distinct=True` is your own word for it: no two logs of this server
    hold equal events at one number. Without any of these each reconnection ends UNKNOWN, and
    nothing is repeated. `volatile` are fields that a replay adds or changes, such as a flag
    `replayed`; they are left out when events are compared. The field of `timestamp` may be among
    them only where there is an `id`.

    `reset` is the type of the frame that says "not held any more", `end` that of the frame after a
    replay, `hello` that of the first frame, with the name of the server's log at `epoch`. `ping` is
    a frame that a frame of the type `pong` answers.

    Where the server acknowledges what you send: `id_field` is the field of your frames into which
    the idempotency key is written (unless the frame has a name of yours there), and `ack` the dotted
    path at which a frame without a number gives that name back. `dedupes=True` is your word that the
    server runs a name only once, also after a restart of its own; then a send in doubt is repeated.
    """
    _check_paths(
        "rb.dialects.sequence",
        field=field,
        type=type,
        payload=payload,
        epoch=epoch,
        id=id,
        timestamp=timestamp,
    )
    if id is None and timestamp is not None and timestamp in volatile:
        raise config_error(
            "rb.dialects.sequence.volatile", "no timestamp where events have no id", timestamp
        )
    if epoch is not None and hello is None:
        raise config_error(
            "rb.dialects.sequence.epoch", "hello, the type of the frame that has it", epoch
        )
    if start is not None and (not isinstance(cast("Any", start), int) or isinstance(start, bool)):
        raise config_error("rb.dialects.sequence.start", "a number, or None", start)
    if end is not None and end == reset:
        raise config_error("rb.dialects.sequence.end", "another type than that of reset", end)
    policy = Positions(
        contiguous=contiguous,
        inclusive=inclusive,
        overlap=0 if inclusive else 1,
        ends="stated" if end is not None else "anchor",
        distinct=distinct,
        volatile=_names("rb.dialects.sequence", volatile),
    )
    decode = table(
        type=type,
        payload=payload,
        id=id,
        timestamp=timestamp,
        position=field,
        ack=ack,
        others=_others(reset, end, hello, epoch, pong),
    )
    sends = _Sends(type, ping, pong, id_field, ack, dedupes)
    return _family("sequence", policy, decode, sends, ask=ask, start=start, hello=hello)


@taught
def last_event_id(
    *,
    field: str = "id",
    ask: Ask = "last_event_id",
    reset: str | None = None,
    end: str | None = None,
    inclusive: bool = False,
    distinct: bool = False,
    volatile: Sequence[str] = VOLATILE,
    type: str | None = "type",
    payload: str | None = None,
    ping: Mapping[str, Any] | None = None,
    pong: str | None = None,
    id_field: str | None = None,
    ack: str | None = None,
    dedupes: bool = False,
) -> Dialect:
    """Return the dialect of a server that sends again what came after an id.

    Its ids have no order that a client can read.

    The arguments are those of `sequence`. RECOVERED needs a proof: with both `reset` and `end`, the
    end of a replay without a reset; with `inclusive`, the id that we had. Without either each
    reconnection ends UNKNOWN, and nothing comes twice. Ids that count, such as "7" or "ev-7", are
    those of a restarted server too, and prove nothing without `distinct=True`.
    """
    _check_paths("rb.dialects.last_event_id", field=field, type=type, payload=payload)
    policy = Positions(
        order="opaque",
        inclusive=inclusive,
        ends="stated" if end is not None else "quiet",
        distinct=distinct,
        volatile=_names("rb.dialects.last_event_id", volatile),
    )
    if end is None and inclusive:
        policy = policy.evolve(ends="anchor")
    decode = table(
        type=type,
        payload=payload,
        id=field,
        position=field,
        ack=ack,
        others=_others(reset, end, None, None, pong),
    )
    sends = _Sends(type, ping, pong, id_field, ack, dedupes)
    return _family("last_event_id", policy, decode, sends, ask=ask)


@taught
def since(
    *,
    field: str = "timestamp",
    ask: Ask = "since",
    id: str | None = "id",
    end: str | None = None,
    volatile: Sequence[str] = VOLATILE,
    type: str | None = "type",
    payload: str | None = None,
    ping: Mapping[str, Any] | None = None,
    pong: str | None = None,
    id_field: str | None = None,
    ack: str | None = None,
    dedupes: bool = False,
) -> Dialect:
    """A server whose events have a time, and that sends again what came at that time or after it.

    The arguments are those of `sequence`; `id` is the dotted path by which one of several events of
    one time is known. Events of one time without an id are counted: each is delivered as often as
    the server's log holds it. RECOVERED where the replay holds the last event that we had. A server that
    leaves out the events of the very time that was asked for loses some, and that shows here as
    UNKNOWN.
    """
    _check_paths("rb.dialects.since", field=field, id=id, type=type, payload=payload)
    if field in volatile:
        raise config_error(
            "rb.dialects.since.volatile", "fields that are not the time of an event", field
        )
    policy = Positions(
        order="time",
        repeats=True,
        ends="stated" if end is not None else "anchor",
        volatile=_names("rb.dialects.since", volatile),
    )
    decode = table(
        type=type,
        payload=payload,
        id=id,
        timestamp=field,
        position=field,
        ack=ack,
        others=_others(None, end, None, None, pong),
    )
    sends = _Sends(type, ping, pong, id_field, ack, dedupes)
    return _family("since", policy, decode, sends, ask=ask)


def _names(path: str, volatile: Sequence[str]) -> tuple[str, ...]:
    if isinstance(volatile, str):
        raise config_error(f"{path}.volatile", "a list of the names of fields", volatile)
    return tuple(volatile)


def _others(
    reset: str | None, end: str | None, hello: str | None, epoch: str | None, pong: str | None
) -> dict[str, Callable[[Body], tuple[Fact, ...]]]:
    """Read the frames that are about the log and are not events."""
    found: dict[str | None, Callable[[Body], tuple[Fact, ...]]] = {
        reset: _Always((Replayed(complete=False),)),
        # A server that would report it if it could not send everything, and does not, has sent
        # everything.
        end: _Always((Replayed(complete=True if reset is not None else None),)),
        hello: _Greeted(epoch),
        pong: _Always((Pong(),)),
    }
    return {name: read for name, read in found.items() if name is not None}


@attrs.frozen
class _Always:
    facts: tuple[Fact, ...]

    def __call__(self, body: Body) -> tuple[Fact, ...]:
        del body
        return self.facts


@attrs.frozen
class _Greeted:
    epoch: str | None

    def __call__(self, body: Body) -> tuple[Fact, ...]:
        return (Hello(epoch=text(part(body, self.epoch))),)


@attrs.frozen
class _Ask:
    """Ask for what came after a position: in the URL's query, or by a frame."""

    ask: Ask = attrs.field(hash=False)
    start: int | None

    def __call__(self, record: Record) -> Resume:
        position = record.after()
        if position is None:
            position = self.start
        if position is None:
            return Resume()
        if isinstance(self.ask, str):
            return Resume(query={self.ask: position})
        return Resume(frames=(write(filled(dict(self.ask), position)),))


class _Sends(NamedTuple):
    """What the server does with what we send, as the arguments of a family say it."""

    type: str | None
    ping: Mapping[str, Any] | None
    pong: str | None
    id_field: str | None
    ack: str | None
    dedupes: bool


@attrs.frozen
class _Encode:
    type_field: str | None
    ping: Mapping[str, Any] | None = attrs.field(hash=False)
    id_field: str | None

    def __call__(self, intent: Intent) -> str | bytes | None:
        if not isinstance(intent, Send):
            return write(self.ping) if self.ping is not None and isinstance(intent, Ping) else None
        if intent.body is not None:
            return intent.body
        if self.id_field is not None and intent.payload.get(self.id_field) is None:
            intent = attrs.evolve(intent, payload={**intent.payload, self.id_field: intent.key})
        return own(intent, self.type_field)


@attrs.frozen
class _Named:
    """Return the name of a frame of ours, by which the server acknowledges it."""

    id_field: str

    def __call__(self, frame: str | bytes) -> str | None:
        return text(part(decode_json(frame), self.id_field)) if isinstance(frame, str) else None


def _check_ask(path: str, ask: Any) -> None:
    wanted = 'the name of a field of the query, or a JSON frame with "{position}" in it'
    is_frame = isinstance(ask, dict)
    try:
        names_it = is_frame and '"{position}"' in write(ask)
    except (TypeError, ValueError):
        names_it = False
    if not (isinstance(ask, str) and ask) and not names_it:
        raise config_error(f"{path}.ask", wanted, cast("object", ask))


def _check_paths(path: str, **paths: object) -> None:
    for name, value in paths.items():
        if value is not None and not (isinstance(value, str) and value):
            raise config_error(f"{path}.{name}", "a field of a frame, or a dotted path", value)


def _check_sends(path: str, sends: _Sends) -> None:
    if (sends.ping is None) != (sends.pong is None):
        raise config_error(path, "ping and pong, or neither", "one of them")
    _check_paths(path, ack=sends.ack, id_field=sends.id_field)
    if (sends.ack is None) != (sends.id_field is None):
        raise config_error(path, "id_field and ack, or neither", "one of them")
    if sends.id_field is not None and "." in sends.id_field:
        raise config_error(
            f"{path}.id_field", "a field of the frame itself, without dots", sends.id_field
        )
    is_flag = isinstance(cast("Any", sends.dedupes), bool)
    if not is_flag or (sends.dedupes and sends.id_field is None):
        wanted = "True or False, and id_field and ack beside True"
        raise config_error(f"{path}.dedupes", wanted, sends.dedupes)


def _family(
    name: str,
    positions: Positions,
    decode: Callable[[str | bytes], tuple[Fact, ...]],
    sends: _Sends,
    *,
    ask: Ask,
    start: int | None = None,
    hello: str | None = None,
) -> Dialect:
    path = f"rb.dialects.{name}"
    _check_sends(path, sends)
    _check_ask(path, ask)
    return Dialect.envelopes(
        decode=decode,
        encode=_Encode(sends.type, sends.ping, sends.id_field),
        error=None,
        positions=positions,
        resume=_Ask(ask, start),
        waits_for_hello=hello is not None,
        pings=sends.ping is not None,
        confirms=sends.ack is not None,
        echo=None if sends.id_field is None else _Named(sends.id_field),
        dedupes=sends.dedupes or "stated",
    )
